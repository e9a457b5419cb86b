//! What coderd is licensed for, feature by feature, and the kind of license that makes it so.
//! It reads what coderd says; whether that is enough for anything is decided elsewhere.

use serde::Deserialize;
use std::collections::BTreeMap;

/// External provisioners, as coderd calls the feature.
pub const EXTERNAL_PROVISIONERS: &str = "external_provisioner_daemons";
/// Workspace proxies, as coderd calls the feature.
pub const WORKSPACE_PROXIES: &str = "workspace_proxy";

/// How far a license covers a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entitlement {
    /// Covered.
    Entitled,
    /// Expired, still working.
    GracePeriod,
    /// Not covered.
    NotEntitled,
    /// A word we do not know.
    #[serde(other)]
    Unknown,
}

/// One feature of coderd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Feature {
    /// Whether a license covers it.
    pub entitlement: Entitlement,
    /// Whether it works now.
    #[serde(default)]
    pub enabled: bool,
}

/// What coderd is licensed for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entitlements {
    /// Whether there is any license.
    pub has_license: bool,
    /// Whether it is a trial.
    #[serde(default)]
    pub trial: bool,
    /// By feature name.
    #[serde(default)]
    pub features: BTreeMap<String, Feature>,
}

/// The kind of license, as status shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// No license.
    None,
    /// A trial.
    Trial,
    /// A license without what Premium adds.
    Enterprise,
    /// A license with custom roles or several organisations.
    Premium,
}

impl Entitlements {
    /// The kind of license.
    pub fn tier(&self) -> Tier {
        let covered = |name: &str| {
            let entitlement = self.features.get(name).map(|feature| feature.entitlement);
            matches!(entitlement, Some(Entitlement::Entitled | Entitlement::GracePeriod))
        };
        match (self.has_license, self.trial) {
            (false, _) => Tier::None,
            (true, true) => Tier::Trial,
            (true, false) if covered("custom_roles") || covered("multiple_organizations") => Tier::Premium,
            (true, false) => Tier::Enterprise,
        }
    }

    /// Whether external provisioners are covered.
    pub fn external_provisioner_daemons(&self) -> Entitlement {
        self.feature(EXTERNAL_PROVISIONERS).entitlement
    }

    /// A feature: whether a license covers it, and whether it works now, which is what coderd itself looks at. A server that
    /// does not name the feature does not have it.
    pub fn feature(&self, name: &str) -> Feature {
        let none = Feature { entitlement: Entitlement::NotEntitled, enabled: false };
        self.features.get(name).copied().unwrap_or(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entitlements(body: Value) -> Entitlements {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn the_tier_follows_license_trial_and_premium_features() {
        let feature = |word: &str| json!({ "custom_roles": { "entitlement": word, "enabled": false } });
        let licensed = |features: Value| {
            entitlements(json!({ "has_license": true, "trial": false, "features": features }))
        };
        assert_eq!(entitlements(json!({ "has_license": false, "trial": true })).tier(), Tier::None);
        assert_eq!(entitlements(json!({ "has_license": true, "trial": true })).tier(), Tier::Trial);
        assert_eq!(licensed(feature("grace_period")).tier(), Tier::Premium);
        assert_eq!(licensed(feature("not_entitled")).tier(), Tier::Enterprise);
        assert_eq!(licensed(feature("a new word")).tier(), Tier::Enterprise);
        assert_eq!(licensed(json!({})).external_provisioner_daemons(), Entitlement::NotEntitled);
    }
}
