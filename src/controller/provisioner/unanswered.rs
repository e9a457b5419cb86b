//! Decides what follows from a question about keys that had no answer: whether the access is lost, when it is asked again, and
//! whether that is a first silence. Pure.

use super::key::steps::Wait;
use super::key::work::{KeyError, Keyed};
use crate::coderd::Retry;
use crate::control_plane_access::entitlement::FeatureEntitlement;
use crate::control_plane_access::reach::Reached;
use crate::control_plane_access::unreached::Unreached;
use std::time::Duration;

/// What an error of a call means for the access itself.
pub(super) fn lost(reached: &Reached, keyed: &Keyed) -> Option<Unreached> {
    match keyed.error.as_ref()? {
        KeyError::Coderd(error) => reached.lost(error),
        KeyError::Kubernetes(_) | KeyError::Filtered | KeyError::Unlisted | KeyError::Late => None,
    }
}

/// When to ask again, if something failed.
pub(super) fn retry(keyed: &Keyed, answer: &FeatureEntitlement, pause: Duration) -> Option<Retry> {
    let of_key = keyed.error.as_ref().map(|error| match error {
        KeyError::Coderd(error) => error.retry(),
        KeyError::Kubernetes(_) | KeyError::Unlisted | KeyError::Late => Retry::Backoff,
        KeyError::Filtered => Retry::WhenChanged,
    });
    of_key.or(match answer {
        FeatureEntitlement::Failed(error) => Some(error.retry()),
        _ if keyed.wait == Some(Wait::Pause) => Some(Retry::After(pause)),
        _ => keyed.is_cut.then_some(Retry::Backoff),
    })
}

/// Whether coderd did not answer a question that it may answer the next time.
pub(super) fn is_unanswered(keyed: &Keyed, answer: &FeatureEntitlement) -> bool {
    if keyed.is_unasked() || matches!(keyed.error, Some(KeyError::Unlisted)) {
        return true;
    }
    let error = match (&keyed.error, answer) {
        (Some(KeyError::Coderd(error)), _) | (None, FeatureEntitlement::Failed(error)) => error,
        _ => return false,
    };
    error.retry() == Retry::Backoff
}

#[cfg(test)]
mod tests {
    use super::super::key::record::SecretPlace;
    use super::*;
    use crate::controller::attached::secret::Proven;

    #[test]
    fn a_look_that_was_cut_short_says_nothing_and_is_no_failure_of_the_first_time() {
        let cut = Keyed { is_cut: true, ..Keyed::default() };
        assert!(is_unanswered(&cut, &FeatureEntitlement::Entitled));
        let place = SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() };
        let proven = Some(Proven { checksum: "c".to_owned(), place });
        let later = Keyed { is_cut: true, proven, ..Keyed::default() };
        assert!(!is_unanswered(&later, &FeatureEntitlement::Entitled), "what was seen counts");
        assert!(!is_unanswered(&Keyed::default(), &FeatureEntitlement::Entitled));
    }
}
