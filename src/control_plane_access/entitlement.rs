//! Decides whether coderd lets something work that needs a license, by what it says now. It never decides what follows.

use super::reach::Reached;
use crate::coderd::Error;
use crate::coderd::client::{Entitlement, Entitlements, Feature};

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
            Self::ExternalProvisioners => "external_provisioner_daemons",
            Self::WorkspaceProxies => "workspace_proxy",
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

/// Whether coderd lets it work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FeatureState {
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

impl FeatureState {
    /// Whether it works now.
    pub(crate) fn is_entitled(&self) -> bool {
        matches!(self, Self::Entitled | Self::Grace)
    }
}

impl Reached {
    /// Asks coderd. No token is sent.
    pub(crate) async fn licensed(&self, feature: LicensedFeature) -> FeatureState {
        judged(feature, self.client.entitlements().await)
    }
}

fn judged(feature: LicensedFeature, answer: Result<Entitlements, Error>) -> FeatureState {
    match answer {
        Ok(entitlements) => of_feature(entitlements.features.get(feature.name())),
        Err(Error::RouteMissing { .. } | Error::NotFoundOrForbidden { .. }) => FeatureState::NotSupported,
        Err(error @ (Error::Unauthorized { .. } | Error::Forbidden { .. } | Error::NotLicensed { .. })) => {
            FeatureState::Forbidden(error)
        }
        Err(error) => FeatureState::Failed(error),
    }
}

/// coderd itself goes by whether the feature is enabled; the other word only tells until when.
fn of_feature(feature: Option<&Feature>) -> FeatureState {
    match feature {
        Some(Feature { enabled: true, entitlement: Entitlement::GracePeriod }) => FeatureState::Grace,
        Some(Feature { enabled: true, entitlement: Entitlement::Entitled | Entitlement::Unknown }) => {
            FeatureState::Entitled
        }
        Some(Feature { enabled: false, .. } | Feature { entitlement: Entitlement::NotEntitled, .. })
        | None => FeatureState::NotEntitled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::Operation;
    use serde_json::{Value, from_value, json};

    fn told(features: Value) -> FeatureState {
        judged(LicensedFeature::WorkspaceProxies, Ok(from_value(json!({ "has_license": true, "features": features })).unwrap()))
    }

    #[test]
    fn what_coderd_says_of_the_feature_counts() {
        let feature = |entitlement: &str, enabled: bool| {
            told(json!({ "workspace_proxy": { "entitlement": entitlement, "enabled": enabled } }))
        };
        assert_eq!(feature("entitled", true), FeatureState::Entitled);
        assert_eq!(feature("grace_period", true), FeatureState::Grace);
        assert_eq!(feature("not_entitled", false), FeatureState::NotEntitled);
        assert_eq!(feature("not_entitled", true), FeatureState::NotEntitled);
        assert_eq!(feature("entitled", false), FeatureState::NotEntitled, "it is switched off");
        assert_eq!(feature("a word to come", true), FeatureState::Entitled);
        assert_eq!(told(json!({})), FeatureState::NotEntitled, "this coderd does not have it");
    }

    #[test]
    fn a_question_that_is_not_answered_is_told_by_why() {
        let operation = Operation::Entitlements;
        for missing in [Error::RouteMissing { operation }, Error::NotFoundOrForbidden { operation }] {
            assert_eq!(judged(LicensedFeature::ExternalProvisioners, Err(missing)), FeatureState::NotSupported);
        }
        for refused in [Error::Unauthorized { operation }, Error::Forbidden { operation }] {
            assert_eq!(judged(LicensedFeature::ExternalProvisioners, Err(refused.clone())), FeatureState::Forbidden(refused));
        }
        for failed in [Error::TimedOut { operation }, Error::Server { operation, status: 502 }] {
            assert_eq!(judged(LicensedFeature::ExternalProvisioners, Err(failed.clone())), FeatureState::Failed(failed));
        }
    }
}
