//! What the deployment is licensed for: the public list of features and the gate in front of Premium routes.
//! It never reads a license; a test says what one would have granted.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

pub(in crate::coderd) const EXTERNAL_PROVISIONER_DAEMONS: &str = "external_provisioner_daemons";
pub(in crate::coderd) const WORKSPACE_PROXY: &str = "workspace_proxy";

/// The features of coderd 2.36 a client may ask for.
const FEATURES: [&str; 27] = [
    "access_control",
    "advanced_template_scheduling",
    "ai_governance_user_limit",
    "aibridge",
    "appearance",
    "audit_log",
    "boundary",
    "browser_only",
    "connection_log",
    "control_shared_ports",
    "custom_roles",
    EXTERNAL_PROVISIONER_DAEMONS,
    "external_token_encryption",
    "high_availability",
    "managed_agent_limit",
    "multiple_external_auth",
    "multiple_organizations",
    "scim",
    "service_accounts",
    "task_batch_actions",
    "template_rbac",
    "user_limit",
    "user_role_management",
    "workspace_batch_actions",
    "workspace_external_agent",
    "workspace_prebuilds",
    WORKSPACE_PROXY,
];

/// How far a license covers a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entitlement {
    /// Covered.
    Entitled,
    /// Expired, still working.
    GracePeriod,
    /// Not covered.
    NotEntitled,
}

impl Entitlement {
    fn word(self) -> &'static str {
        match self {
            Self::Entitled => "entitled",
            Self::GracePeriod => "grace_period",
            Self::NotEntitled => "not_entitled",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Feature {
    entitlement: Entitlement,
    enabled: bool,
}

#[derive(Debug)]
pub(in crate::coderd) struct Entitlements {
    features: BTreeMap<&'static str, Feature>,
    has_license: bool,
    trial: bool,
    warnings: Vec<String>,
    refreshed_at: Timestamp,
}

impl Entitlements {
    pub(in crate::coderd) fn licensed(now: Timestamp) -> Self {
        let granted = Feature { entitlement: Entitlement::Entitled, enabled: true };
        let features = FEATURES.into_iter().map(|name| (name, granted)).collect();
        Self { features, has_license: true, trial: false, warnings: Vec::new(), refreshed_at: now }
    }

    pub(in crate::coderd) fn lapse(&mut self) {
        self.has_license = false;
        self.trial = false;
        let refused = Feature { entitlement: Entitlement::NotEntitled, enabled: false };
        self.features.values_mut().for_each(|feature| *feature = refused);
    }

    /// What the licenses grant after one was added or deleted.
    pub(in crate::coderd) fn refresh(&mut self, has_license: bool, trial: bool, now: Timestamp) {
        *self = Self { trial, ..Self::licensed(now) };
        if !has_license {
            self.lapse();
        }
    }

    pub(in crate::coderd) fn enabled(&self, feature: &str) -> bool {
        self.features.get(feature).is_some_and(|feature| feature.enabled)
    }

    /// The gate in front of a Premium route.
    pub(in crate::coderd) fn require(&self, feature: &str) -> Result<(), Reply> {
        if self.enabled(feature) {
            return Ok(());
        }
        let text = format!("{} is a Premium feature. Contact sales!", in_title_case(feature));
        Err(Reply::error(StatusCode::FORBIDDEN, &text))
    }
}

fn in_title_case(feature: &str) -> String {
    let capitalised = |word: &str| word[..1].to_uppercase() + &word[1..];
    feature.split('_').map(capitalised).collect::<Vec<String>>().join(" ")
}

pub(in crate::coderd) fn show(state: &mut ServerState, _: &Inbound) -> Answer {
    let entitlements = &state.entitlements;
    let mut features: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, feature) in &entitlements.features {
        let mut shown = json!({ "entitlement": feature.entitlement.word(), "enabled": feature.enabled });
        if *name == "user_limit" {
            // Users are counted without a license too; what is missing then is the limit.
            shown["actual"] = json!(state.users.len());
        }
        if *name == "user_limit" && feature.enabled {
            shown["limit"] = json!(100);
        }
        features.insert(name, shown);
    }
    let body = json!({
        "features": features,
        "warnings": entitlements.warnings,
        "errors": [],
        "has_license": entitlements.has_license,
        "trial": entitlements.trial,
        "require_telemetry": false,
        "refreshed_at": entitlements.refreshed_at.rfc3339(),
    });
    Ok(Reply::json(StatusCode::OK, &body))
}

impl Coderd {
    /// Takes every feature away, as when the last license is deleted or its grace period ends.
    pub fn remove_license(&self) {
        let now = self.clock().now();
        let mut state = self.state();
        state.entitlements.lapse();
        state.entitlements.refreshed_at = now;
    }

    /// Grants every feature.
    pub fn add_license(&self) {
        self.state().entitlements = Entitlements::licensed(self.clock().now());
    }

    /// Sets one feature; a grace period or an admin's switch makes `enabled` differ from the entitlement.
    ///
    /// # Panics
    /// If coderd has no such feature.
    pub fn set_feature(&self, name: &str, entitlement: Entitlement, enabled: bool) {
        let mut state = self.state();
        let feature = state.entitlements.features.get_mut(name);
        *feature.unwrap_or_else(|| panic!("coderd has no feature {name:?}")) =
            Feature { entitlement, enabled };
    }

    /// Sets the warnings shown with the entitlements.
    pub fn set_entitlement_warnings(&self, warnings: &[&str]) {
        self.state().entitlements.warnings = warnings.iter().map(ToString::to_string).collect();
    }
}
