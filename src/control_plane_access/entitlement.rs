//! Decides whether coderd lets external provisioners work, by what it says now. It never decides what follows.

use super::reach::{Reached, within};
use crate::coderd::client::{Entitlement, Entitlements, Feature};
use crate::coderd::{Error, Operation};
use std::time::Duration;

/// The feature as coderd calls it.
const EXTERNAL_PROVISIONERS: &str = "external_provisioner_daemons";

/// Whether coderd lets external provisioners work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExternalProvisioners {
    /// A license covers them.
    Entitled,
    /// The license has expired, and they work for a while still.
    Grace,
    /// No license covers them.
    NotEntitled,
    /// This build of coderd does not have the question (404): it has no licenses.
    NotSupported,
    /// Something in between refuses the question, which is open to everybody (401, 403).
    Forbidden(Error),
    /// coderd did not say.
    Failed(Error),
}

impl Reached {
    /// Asks coderd, for as long as there is time. No token is sent.
    pub(crate) async fn external_provisioners(&self, limit: Duration) -> ExternalProvisioners {
        judged(within(limit, Operation::Entitlements, self.client.entitlements()).await)
    }
}

fn judged(answer: Result<Entitlements, Error>) -> ExternalProvisioners {
    match answer {
        Ok(entitlements) => of_feature(entitlements.features.get(EXTERNAL_PROVISIONERS)),
        Err(Error::RouteMissing { .. } | Error::NotFoundOrForbidden { .. }) => {
            ExternalProvisioners::NotSupported
        }
        Err(error @ (Error::Unauthorized { .. } | Error::Forbidden { .. } | Error::NotLicensed { .. })) => {
            ExternalProvisioners::Forbidden(error)
        }
        Err(error) => ExternalProvisioners::Failed(error),
    }
}

/// coderd itself goes by whether the feature is enabled; the other word only tells until when.
fn of_feature(feature: Option<&Feature>) -> ExternalProvisioners {
    match feature {
        Some(Feature { enabled: true, entitlement: Entitlement::GracePeriod }) => ExternalProvisioners::Grace,
        Some(Feature { enabled: true, entitlement: Entitlement::Entitled | Entitlement::Unknown }) => {
            ExternalProvisioners::Entitled
        }
        Some(Feature { enabled: false, .. } | Feature { entitlement: Entitlement::NotEntitled, .. })
        | None => ExternalProvisioners::NotEntitled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::Operation;
    use serde_json::{Value, from_value, json};

    fn told(features: Value) -> ExternalProvisioners {
        judged(Ok(from_value(json!({ "has_license": true, "features": features })).unwrap()))
    }

    #[test]
    fn what_coderd_says_of_the_feature_counts() {
        let feature = |entitlement: &str, enabled: bool| {
            told(json!({ EXTERNAL_PROVISIONERS: { "entitlement": entitlement, "enabled": enabled } }))
        };
        assert_eq!(feature("entitled", true), ExternalProvisioners::Entitled);
        assert_eq!(feature("grace_period", true), ExternalProvisioners::Grace);
        assert_eq!(feature("not_entitled", false), ExternalProvisioners::NotEntitled);
        assert_eq!(feature("not_entitled", true), ExternalProvisioners::NotEntitled);
        assert_eq!(feature("entitled", false), ExternalProvisioners::NotEntitled, "it is switched off");
        assert_eq!(feature("a word to come", true), ExternalProvisioners::Entitled);
        assert_eq!(told(json!({})), ExternalProvisioners::NotEntitled, "this coderd does not have it");
    }

    #[test]
    fn a_question_that_is_not_answered_is_told_by_why() {
        let operation = Operation::Entitlements;
        for missing in [Error::RouteMissing { operation }, Error::NotFoundOrForbidden { operation }] {
            assert_eq!(judged(Err(missing)), ExternalProvisioners::NotSupported);
        }
        for refused in [Error::Unauthorized { operation }, Error::Forbidden { operation }] {
            assert_eq!(judged(Err(refused.clone())), ExternalProvisioners::Forbidden(refused));
        }
        for failed in [Error::TimedOut { operation }, Error::Server { operation, status: 502 }] {
            assert_eq!(judged(Err(failed.clone())), ExternalProvisioners::Failed(failed));
        }
    }
}
