//! Decides what is said of what a provisioner has outside of Kubernetes: the control plane, the access to it, the license, the
//! key and its Secret. Pure: it words what was seen.

use super::key::record::SecretPlace;
use super::key::steps::Wait;
use super::key::work::{self, Keyed};
use super::observed::{Outside, State};
use super::reasons::Reason;
use crate::coderd::Error;
use crate::controller::attached::outside::AccessStates;
use crate::controller::checksum_key::KeyError;
use crds::CoderProvisionerStatus;
use crds::well_known::condition;
use std::collections::BTreeSet;

impl Outside {
    /// What is known of the way to coderd, and nothing of the keys.
    pub(super) fn of(states: AccessStates<Reason>) -> Self {
        let key = states.behind(condition::EXTERNAL_PROVISIONERS_ENTITLED);
        let secret = states.behind(condition::PROVISIONER_KEY_READY);
        let AccessStates { control_plane, access, bootstrap, entitled, rate_limited } = states;
        let limited = rate_limited.map(|why| State::Pending(Reason::RateLimited, why));
        Self {
            control_plane,
            access,
            bootstrap,
            entitled,
            key: limited.unwrap_or(key),
            secret,
            wait: None,
            daemons: None,
            is_unasked: false,
        }
    }

    /// With what became of the keys; with what a status has told of them where there was no time to ask.
    pub(super) fn keyed(
        self,
        keyed: &Keyed,
        place: &SecretPlace,
        rival: Option<&str>,
        status: &CoderProvisionerStatus,
    ) -> Self {
        if keyed.is_unasked() {
            let Self { key, secret, .. } = Self::as_told(status);
            return Self { key, secret, is_unasked: true, ..self };
        }
        let (key, secret) = key(keyed, place, rival);
        Self { key, secret, wait: keyed.wait, daemons: keyed.daemons.as_ref().map(BTreeSet::len), ..self }
    }

    /// As a status has told it, for a coderd that asked to be left alone: nothing is known better.
    pub(super) fn as_told(status: &CoderProvisionerStatus) -> Self {
        let told = |about: &str| State::as_told(&status.conditions, about);
        let state = |about: &str| told(about).unwrap_or_else(State::waiting);
        Self {
            control_plane: state(condition::CONTROL_PLANE_READY),
            access: state(condition::OPERATOR_ACCESS_READY),
            bootstrap: told(condition::BOOTSTRAP_SECRET_READY),
            entitled: state(condition::EXTERNAL_PROVISIONERS_ENTITLED),
            key: state(condition::PROVISIONER_KEY_READY),
            secret: state(condition::PROVISIONER_KEY_SECRET_READY),
            wait: None,
            daemons: status.daemons.and_then(|daemons| usize::try_from(daemons).ok()),
            is_unasked: false,
        }
    }

    /// Without a key for another control plane, where nobody was asked whether pods may be led there.
    pub(super) fn held_if(self, is_held: bool) -> Self {
        if !is_held {
            return self;
        }
        let why = "no key is made for another control plane while the namespace has the label \
                   coder.com/admission=disabled; remove the label to have it made";
        Self { key: State::Refused(Reason::AdmissionDisabled, why.to_owned()), ..self }
    }

    /// Without the operator's own key, by which it knows what it has recorded.
    pub(super) fn unsealed(self, error: &KeyError) -> Self {
        Self { key: State::Pending(Reason::ProvisionerKeyFailed, error.to_string()), ..self }
    }

    /// With an organization that coderd does not show.
    pub(super) fn unorganized(self, name: &str, error: &Error) -> Self {
        let key = match error {
            Error::NotFoundOrForbidden { .. } => State::Pending(
                Reason::OrganizationMissing,
                format!(
                    "coderd has no organization {name}, or does not show it; create it, or correct spec.organizationName"
                ),
            ),
            error => failed(error),
        };
        Self { key, ..self }
    }
}

/// What is said of the key, and of its Secret.
fn key(keyed: &Keyed, place: &SecretPlace, rival: Option<&str>) -> (State, State) {
    let in_place = keyed.proven.is_some();
    let secret = if in_place {
        State::Yes(Reason::SecretReady, format!("Secret {} holds the key", place.secret))
    } else {
        State::Pending(
            Reason::Progressing,
            "the Secret does not hold a key that coderd accepts yet".to_owned(),
        )
    };
    if let Some(error) = &keyed.error {
        return (error_of(error), secret);
    }
    let works = in_place && keyed.is_asked_for && !keyed.is_cut;
    let key = match keyed.wait {
        Some(Wait::SecretNotOurs) => {
            let why = format!(
                "Secret {} exists and was not created for this object; it is left alone. Set spec.key.secretName to another name",
                place.secret
            );
            return (waiting_for_secret(works), State::Refused(Reason::SecretNotOurs, why));
        }
        Some(Wait::SecretImmutable) => {
            let why = format!(
                "Secret {} is immutable, so no other key can be written to it; delete it, which gives daemons a new key, or \
                 set spec.key.secretName to another name",
                place.secret
            );
            return (waiting_for_secret(works), State::Refused(Reason::SecretImmutable, why));
        }
        _ => key_of(keyed, in_place, rival),
    };
    (key, secret)
}

/// What is said of the key where nothing is wrong with its Secret.
fn key_of(keyed: &Keyed, in_place: bool, rival: Option<&str>) -> State {
    let works = in_place && keyed.is_asked_for && !keyed.is_cut;
    match keyed.wait {
        Some(Wait::SecretNotOurs | Wait::SecretImmutable) => waiting_for_secret(works),
        Some(Wait::Claimed) => {
            let why = format!(
                "CoderProvisioner {} is older and has this key name in this organization; set spec.key.name to another",
                rival.unwrap_or_default()
            );
            State::Refused(Reason::KeyNameConflict, why)
        }
        Some(Wait::TooMany) => {
            let why = "too many earlier keys cannot be deleted because their control planes are unreachable, or too many \
                       earlier Secrets are still used by pods; restore access to those control planes and let the rollout \
                       finish, see status.key";
            State::Refused(Reason::TooManyRetiring, with_elsewhere(why, keyed))
        }
        Some(Wait::Coderd) => {
            let why = "coderd did not return its provisioner keys; retrying";
            State::Pending(Reason::ProvisionerKeyFailed, why.to_owned())
        }
        Some(Wait::Pause) => {
            let why = "a key could not be made, or coderd did not know it right after; another is made after a while";
            State::Pending(Reason::ProvisionerKeyFailed, why.to_owned())
        }
        Some(Wait::Elsewhere) if works => {
            let why = keyed.elsewhere.as_deref().unwrap_or("its control plane cannot be asked");
            State::Yes(
                Reason::KeyRotating,
                format!(
                    "the new key is in use; an earlier key (see status.key.retiring) cannot be deleted yet: {why}"
                ),
            )
        }
        Some(Wait::Rollout) if works => {
            let why = "the key is in coderd; the one it replaces is deleted when no daemon uses it any more";
            State::Yes(Reason::KeyRotating, with_elsewhere(why, keyed))
        }
        Some(Wait::Entitlement) | None if works => {
            let why = "the key is in coderd, as the spec asks for it";
            State::Yes(Reason::ProvisionerKeyReady, with_unadopted(why, keyed))
        }
        Some(Wait::Elsewhere | Wait::Rollout | Wait::Entitlement) | None
            if in_place && keyed.is_asked_for && keyed.is_cut =>
        {
            let why = "the key is in coderd; what is left of earlier ones follows in the next reconcile";
            State::Pending(Reason::KeyRotating, with_elsewhere(why, keyed))
        }
        Some(Wait::Elsewhere | Wait::Rollout | Wait::Entitlement) | None if in_place => {
            let why = "the key in use is not the one that the spec asks for; that is made when the one before has gone";
            State::Pending(Reason::KeyRotating, with_elsewhere(why, keyed))
        }
        Some(Wait::Entitlement) => State::Pending(
            Reason::Progressing,
            "waiting for a license that includes external provisioners".to_owned(),
        ),
        Some(Wait::Elsewhere | Wait::Rollout) | None => {
            State::Pending(Reason::Progressing, with_elsewhere("the key is being made", keyed))
        }
    }
}

/// With what failed in coderds that earlier keys are in.
fn with_elsewhere(why: &str, keyed: &Keyed) -> String {
    match &keyed.elsewhere {
        Some(elsewhere) => format!("{why}; an earlier key cannot be deleted yet: {elsewhere}"),
        None => why.to_owned(),
    }
}

/// With why an annotation does nothing: whoever set it waits for something to happen.
fn with_unadopted(why: &str, keyed: &Keyed) -> String {
    match &keyed.unadopted {
        Some(unadopted) => {
            format!("{why}; the annotation coder.com/adopt-key takes nothing over: {unadopted}")
        }
        None => why.to_owned(),
    }
}

fn waiting_for_secret(works: bool) -> State {
    if works {
        return State::Yes(Reason::ProvisionerKeyReady, "the key is in coderd".to_owned());
    }
    State::Pending(Reason::Progressing, "waiting for the Secret, see ProvisionerKeySecretReady".to_owned())
}

fn error_of(error: &work::KeyError) -> State {
    match error {
        work::KeyError::Coderd(error) => failed(error),
        work::KeyError::Kubernetes(error) => State::Pending(Reason::ProvisionerKeyFailed, error.to_string()),
        work::KeyError::Late | work::KeyError::Unlisted => {
            State::Pending(Reason::ProvisionerKeyFailed, error.to_string())
        }
        work::KeyError::Filtered => State::Refused(Reason::ProvisionerKeyFailed, error.to_string()),
    }
}

fn failed(error: &Error) -> State {
    match error {
        Error::RateLimited { .. } => State::Pending(Reason::RateLimited, error.to_string()),
        error => State::Pending(Reason::ProvisionerKeyFailed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane_access::unreached::{COMING, Holder, Said, Unreached};
    use crate::controller::attached::secret::Proven;
    use serde_json::{from_value, json};

    fn keyed(wait: Option<Wait>) -> Keyed {
        let place = place();
        let proven = Some(Proven { checksum: "c".to_owned(), place });
        Keyed { proven, is_asked_for: true, wait, ..Keyed::default() }
    }

    fn place() -> SecretPlace {
        SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() }
    }

    fn said(keyed: &Keyed) -> State {
        key(keyed, &place(), None).0
    }

    #[test]
    fn a_key_of_an_earlier_spec_is_never_what_is_asked_for() {
        for wait in [None, Some(Wait::Rollout), Some(Wait::Entitlement), Some(Wait::Elsewhere)] {
            assert!(matches!(said(&keyed(wait)), State::Yes(..)), "{wait:?}");
            let former = Keyed { is_asked_for: false, ..keyed(wait) };
            assert!(matches!(said(&former), State::Pending(Reason::KeyRotating, _)), "{wait:?}");
            let cut = Keyed { is_cut: true, ..keyed(wait) };
            assert!(matches!(said(&cut), State::Pending(Reason::KeyRotating, _)), "{wait:?}");
        }
        let immutable = Keyed { is_asked_for: false, ..keyed(Some(Wait::SecretImmutable)) };
        assert!(matches!(said(&immutable), State::Pending(..)));
    }

    #[test]
    fn of_a_key_that_there_was_no_time_to_ask_about_the_status_says_what_it_said() {
        let (type_, reason) = (condition::PROVISIONER_KEY_READY, "ProvisionerKeyReady");
        let told = json!({ "type": type_, "status": "True", "reason": reason, "message": "as it was",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status: CoderProvisionerStatus = from_value(json!({ "conditions": [told] })).unwrap();
        let cut = Keyed { is_cut: true, ..Keyed::default() };
        let outside = Outside::of(AccessStates::reached(false)).keyed(&cut, &place(), None, &status);
        assert_eq!(outside.key, State::Yes(Reason::ProvisionerKeyReady, "as it was".to_owned()));
        assert_eq!(outside.secret, State::waiting(), "nothing was ever said of it");
        assert!(outside.is_unasked && matches!(outside.access, State::Yes(..)), "that was asked");
        let cut_later = Keyed { is_cut: true, ..keyed(None) };
        let State::Pending(_, message) = said(&cut_later) else { panic!("{cut_later:?}") };
        assert!(!message.contains("not the one"), "{message}");
    }

    #[test]
    fn what_waits_for_a_token_says_so_and_not_that_the_control_plane_is_away() {
        let unreached = Unreached::AccessDisabled { control_plane: "coder".to_owned() };
        let outside = Outside::of(AccessStates::unreached(false, &unreached));
        let waits = State::Unknown(Reason::WaitingForAccess, "waiting for OperatorAccessReady".to_owned());
        assert_eq!((&outside.entitled, &outside.key, &outside.secret), (&waits, &waits, &waits));
        assert!(matches!(outside.control_plane, State::Yes(..)));
        let holder = Holder::Bootstrap;
        let lacking = Unreached::TokenSecretUnavailable { holder, lacking: "Secret x".to_owned() };
        let outside = Outside::of(AccessStates::unreached(true, &lacking));
        let waits = State::Unknown(Reason::WaitingForAccess, "waiting for BootstrapSecretReady".to_owned());
        assert_eq!((&outside.entitled, &outside.key, &outside.secret), (&waits, &waits, &waits));
        let away = Outside::of(AccessStates::unasked(false));
        assert_eq!((&away.key, &away.secret), (&State::waiting(), &State::waiting()));
        let reached = Outside::of(AccessStates::reached(false));
        let after = State::Unknown(Reason::Progressing, "waiting for ProvisionerKeyReady".to_owned());
        assert_eq!(reached.secret, after);
    }

    #[test]
    fn a_token_that_is_on_its_way_is_no_fault() {
        let access = |word: &str| {
            let condition = json!({ "type": "OperatorAccessReady", "status": "Unknown", "reason": word, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            let plane = json!({ "metadata": { "name": "coder" }, "spec": {}, "status": { "conditions": [condition] } });
            let said = Said::of(&from_value(plane).unwrap(), condition::OPERATOR_ACCESS_READY);
            let unreached = Unreached::AccessNotReady { control_plane: "coder".to_owned(), said };
            Outside::of(AccessStates::unreached(false, &unreached)).access
        };
        for word in COMING {
            assert!(matches!(access(word), State::Pending(Reason::WaitingForAccess, _)), "{word}");
        }
        assert!(matches!(access("DatabaseError"), State::Pending(Reason::OperatorAccessNotReady, _)));
    }

    #[test]
    fn what_fails_in_a_former_control_plane_is_told_with_its_name_and_holds_nothing() {
        let why = Some("control plane old: deleting a provisioner key failed".to_owned());
        let elsewhere = Keyed { elsewhere: why, ..keyed(Some(Wait::Elsewhere)) };
        let State::Yes(Reason::KeyRotating, message) = said(&elsewhere) else { panic!("{elsewhere:?}") };
        assert!(
            message.contains("status.key.retiring") && message.contains("control plane old"),
            "{message}"
        );
    }
}
