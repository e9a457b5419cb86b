//! Decides whether coderd lets what needs a license work, by what it says now. It never decides what follows.

use super::reach::{Reached, within};
use crate::coderd::client::{EXTERNAL_PROVISIONERS, Entitlement, Entitlements, Feature, WORKSPACE_PROXIES};
use crate::coderd::{Error, Operation};
use std::time::Duration;

/// What needs a license.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LicensedFeature {
    /// Daemons outside of coderd.
    ExternalProvisioners,
    /// Workspace proxies.
    WorkspaceProxies,
}

impl LicensedFeature {
    /// As coderd calls it.
    fn name(self) -> &'static str {
        match self {
            Self::ExternalProvisioners => EXTERNAL_PROVISIONERS,
            Self::WorkspaceProxies => WORKSPACE_PROXIES,
        }
    }

    /// As a person calls several of them.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::ExternalProvisioners => "external provisioners",
            Self::WorkspaceProxies => "workspace proxies",
        }
    }

    /// What is left alone without a license.
    pub(crate) fn left_alone(self) -> &'static str {
        match self {
            Self::ExternalProvisioners => {
                "Running daemons are left alone; no key is created or deleted until then"
            }
            Self::WorkspaceProxies => {
                "Running proxies are left alone; no registration is made or removed until then"
            }
        }
    }
}

/// Whether coderd lets a feature work that needs a license.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FeatureEntitlement {
    /// A license covers it.
    Entitled,
    /// The license has expired, and it works for a while still.
    Grace,
    /// No license covers it.
    NotEntitled,
    /// This build of coderd does not have the question (404): it has no licenses.
    NotSupported,
    /// Something in between refuses the question, which is open to everybody (401, 403).
    Forbidden(Error),
    /// coderd did not say.
    Failed(Error),
}

impl FeatureEntitlement {
    /// Whether it works now.
    pub(crate) fn is_entitled(&self) -> bool {
        matches!(self, Self::Entitled | Self::Grace)
    }

    /// For how long coderd wants to be left alone, if that is what it said.
    pub(crate) fn rate_limited_for(&self) -> Option<Duration> {
        match self {
            Self::Failed(Error::RateLimited { retry_after, .. }) => Some(*retry_after),
            _ => None,
        }
    }
}

impl Reached {
    /// Asks coderd, for as long as there is time. No token is sent.
    pub(crate) async fn licensed(&self, feature: LicensedFeature, limit: Duration) -> FeatureEntitlement {
        judged(within(limit, Operation::Entitlements, self.client.entitlements()).await, feature.name())
    }
}

fn judged(answer: Result<Entitlements, Error>, feature: &str) -> FeatureEntitlement {
    match answer {
        Ok(entitlements) => of_feature(entitlements.feature(feature)),
        Err(Error::RouteMissing { .. } | Error::NotFoundOrForbidden { .. }) => {
            FeatureEntitlement::NotSupported
        }
        Err(error @ (Error::Unauthorized { .. } | Error::Forbidden { .. } | Error::NotLicensed { .. })) => {
            FeatureEntitlement::Forbidden(error)
        }
        Err(error) => FeatureEntitlement::Failed(error),
    }
}

/// coderd itself goes by whether the feature is enabled; the other word only tells until when.
fn of_feature(Feature { enabled, entitlement }: Feature) -> FeatureEntitlement {
    match (enabled, entitlement) {
        (true, Entitlement::GracePeriod) => FeatureEntitlement::Grace,
        (true, Entitlement::Entitled | Entitlement::Unknown) => FeatureEntitlement::Entitled,
        (false, _) | (true, Entitlement::NotEntitled) => FeatureEntitlement::NotEntitled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn told(features: Value, feature: &str) -> FeatureEntitlement {
        judged(Ok(from_value(json!({ "has_license": true, "features": features })).unwrap()), feature)
    }

    #[test]
    fn what_coderd_says_of_the_feature_counts() {
        for name in [EXTERNAL_PROVISIONERS, WORKSPACE_PROXIES] {
            let feature = |entitlement: &str, enabled: bool| {
                told(json!({ name: { "entitlement": entitlement, "enabled": enabled } }), name)
            };
            assert_eq!(feature("entitled", true), FeatureEntitlement::Entitled);
            assert_eq!(feature("grace_period", true), FeatureEntitlement::Grace);
            assert_eq!(feature("not_entitled", false), FeatureEntitlement::NotEntitled);
            assert_eq!(feature("not_entitled", true), FeatureEntitlement::NotEntitled);
            assert_eq!(feature("entitled", false), FeatureEntitlement::NotEntitled, "it is switched off");
            assert_eq!(feature("a word to come", true), FeatureEntitlement::Entitled);
            let other = json!({ "audit_log": { "entitlement": "entitled", "enabled": true } });
            assert_eq!(told(other, name), FeatureEntitlement::NotEntitled, "this coderd does not have it");
        }
    }

    #[test]
    fn a_question_that_is_not_answered_is_told_by_why() {
        let operation = Operation::Entitlements;
        let judged = |error: Error| judged(Err(error), WORKSPACE_PROXIES);
        for missing in [Error::RouteMissing { operation }, Error::NotFoundOrForbidden { operation }] {
            assert_eq!(judged(missing), FeatureEntitlement::NotSupported);
        }
        for refused in [Error::Unauthorized { operation }, Error::Forbidden { operation }] {
            assert_eq!(judged(refused.clone()), FeatureEntitlement::Forbidden(refused));
        }
        for failed in [Error::TimedOut { operation }, Error::Server { operation, status: 502 }] {
            assert_eq!(judged(failed.clone()), FeatureEntitlement::Failed(failed));
        }
    }
}
