//! The licence of a control plane: uploaded once, seen to be there on every pass, and what it covers.
//! It never deletes a licence, and shows of it only the hash.

use super::access::Accessed;
use super::references;
use super::status::{Wish, WishState};
use crate::coderd::client::{Applied, ApplyError, Entitlement, Tier};
use crate::coderd::error::Operation;
use crate::coderd::{Client, Error, Retry, license};
use crate::confidential::Confidential;
use crate::kubernetes::Kube;
use crate::kubernetes::events::{News, Severity};
use crds::shared::SecretKeySelector;
use crds::well_known::condition::LICENSE_APPLIED;
use crds::well_known::secret_key;
use crds::{CoderControlPlaneSpec, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How it stands with the licence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Licensed {
    /// For the condition.
    pub wish: Wish,
    /// When to try again, if something failed.
    pub retry: Option<Retry>,
    /// The hash of a licence that was applied now, for the status.
    pub applied: Option<String>,
}

impl Licensed {
    fn new(state: WishState, reason: &'static str, message: impl Into<String>) -> Self {
        Self { wish: Wish { state, reason, message: message.into() }, retry: None, applied: None }
    }

    fn refused(reason: &'static str, message: impl Into<String>) -> Self {
        Self { retry: Some(Retry::WhenChanged), ..Self::new(WishState::Refused, reason, message) }
    }

    /// Writes what it means into a status.
    pub fn describe(&self, status: &mut CoderControlPlaneStatus, now: &Time) {
        if let Some(hash) = &self.applied {
            status.license_last_applied = Some(now.clone());
            status.license_last_applied_hash = Some(hash.clone());
        }
    }
}

/// Brings the licence to coderd, if one is asked for and there is access.
pub async fn settle(
    kube: &Kube,
    namespace: &str,
    spec: &CoderControlPlaneSpec,
    before: &CoderControlPlaneStatus,
    access: &Accessed,
) -> Licensed {
    let Some(reference) = &spec.license_secret_ref else {
        return Licensed::new(WishState::NotAsked, "NotRequested", "spec.licenseSecretRef is not set");
    };
    if let Some(waiting) = without_access(access) {
        return waiting;
    }
    let (secret, key) = place(reference);
    let jwt = match references::secret_value(kube, namespace, secret, key).await {
        Ok(Some(jwt)) => jwt,
        Ok(None) => {
            let message =
                format!("Secret {secret} with a licence under the key {key} does not exist, or it is empty");
            return Licensed::new(WishState::Pending, "SecretMissing", message);
        }
        Err(error) => {
            let failed = Licensed::new(WishState::Pending, "Error", error.to_string());
            return Licensed { retry: Some(Retry::Backoff), ..failed };
        }
    };
    let (hash, hash_before) = (license::sha256(&jwt), before.license_last_applied_hash.as_deref());
    judge(apply(access.client.as_ref(), &jwt).await, hash, hash_before)
}

fn place(reference: &SecretKeySelector) -> (&str, &str) {
    let key = reference.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
    (reference.name.trim(), key.unwrap_or(secret_key::LICENSE))
}

fn without_access(access: &Accessed) -> Option<Licensed> {
    match access.wish.state {
        WishState::Granted => None,
        WishState::NotAsked => Some(Licensed::refused(
            "AccessDisabled",
            "spec.licenseSecretRef needs the operator's access to coderd, which spec.operatorAccess.disabled denies",
        )),
        WishState::Pending | WishState::Refused => Some(Licensed::new(
            WishState::Pending,
            "WaitingForAccess",
            format!("the licence is uploaded once the operator has access: {}", access.wish.message),
        )),
    }
}

async fn apply(client: Option<&Client>, jwt: &Confidential<String>) -> Option<Result<Applied, ApplyError>> {
    Some(client?.apply_license(jwt).await)
}

/// What to say of the answer; none if coderd was not asked.
fn judge(answer: Option<Result<Applied, ApplyError>>, hash: String, hash_before: Option<&str>) -> Licensed {
    let same = hash_before == Some(hash.as_str());
    let granted = |message: &str| Licensed::new(WishState::Granted, "Applied", message);
    match answer {
        None if same => granted("coderd had the licence when it answered last"),
        None => Licensed::new(
            WishState::Pending,
            "WaitingForCoderd",
            "the licence is uploaded once coderd answers",
        ),
        Some(Ok(applied)) => {
            let is_news = !same || matches!(applied, Applied::Uploaded { .. });
            Licensed { applied: is_news.then_some(hash), ..granted("coderd has the licence") }
        }
        Some(Err(error)) => {
            let failed = failed(&error);
            if same && failed.wish.reason == "Error" && is_of_the_list(&error) {
                // An answer that does not come takes nothing away. An upload is tried only after it is known to be gone.
                let kept = granted(&format!(
                    "coderd had the licence when it answered last; {}",
                    failed.wish.message
                ));
                return Licensed { retry: failed.retry, ..kept };
            }
            failed
        }
    }
}

fn is_of_the_list(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Call(error) if error.operation() == Operation::Licenses)
}

fn failed(error: &ApplyError) -> Licensed {
    let text = error.to_string();
    match error {
        ApplyError::License(_) => {
            Licensed::refused("Invalid", format!("{text}; correct the Secret of spec.licenseSecretRef"))
        }
        ApplyError::Call(Error::Invalid { .. }) => {
            Licensed::refused("Invalid", format!("{text}; correct the Secret of spec.licenseSecretRef"))
        }
        ApplyError::Call(Error::RouteMissing { .. }) => {
            let fix = "use an image of coderd that takes licences, or remove spec.licenseSecretRef";
            Licensed::refused("NotSupported", format!("{text}; {fix}"))
        }
        ApplyError::Call(
            Error::Forbidden { .. } | Error::NotFoundOrForbidden { .. } | Error::NotLicensed { .. },
        ) => {
            let fix = "the token of spec.operatorAccess.tokenSecretRef must belong to an owner";
            Licensed::refused("Forbidden", format!("{text}; {fix}"))
        }
        ApplyError::Call(call) => {
            let retry =
                Some(call.retry()).filter(|retry| *retry != Retry::WhenChanged).or(Some(Retry::Backoff));
            // A token that is refused is renewed, or was just replaced: it passes.
            let reason = if matches!(call, Error::Unauthorized { .. }) { "Forbidden" } else { "Error" };
            Licensed { retry, ..Licensed::new(WishState::Pending, reason, text) }
        }
    }
}

/// What there is to tell of another licence; that there is one at all is told by the condition.
pub fn news(before: &CoderControlPlaneStatus, after: &CoderControlPlaneStatus) -> Option<News> {
    let (old, new) = (before.license_last_applied_hash.as_ref()?, after.license_last_applied_hash.as_ref()?);
    let held = before.conditions.iter().any(|one| one.type_ == LICENSE_APPLIED && one.status == "True");
    (held && old != new).then(|| News {
        severity: Severity::Normal,
        reason: "LicenseReplaced".to_owned(),
        action: LICENSE_APPLIED.to_owned(),
        note: "coderd has another licence than before".to_owned(),
    })
}

/// What coderd is licensed for, in the words of the status; nothing if it was not asked.
pub async fn entitlements(client: Option<&Client>) -> Option<Result<(&'static str, &'static str), Error>> {
    Some(match client?.entitlements().await {
        Ok(seen) => Ok((tier(seen.tier()), entitlement(seen.external_provisioner_daemons()))),
        // A build without the call cannot have a licence.
        Err(Error::RouteMissing { .. }) => Ok((tier(Tier::None), entitlement(Entitlement::NotEntitled))),
        Err(error) => Err(error),
    })
}

/// Writes entitlements into a status; their time changes only when one of them does.
pub fn describe_entitlements(status: &mut CoderControlPlaneStatus, seen: Option<(&str, &str)>, now: &Time) {
    let Some((tier, provisioners)) = seen else { return };
    let shown = (status.license_tier.as_deref(), status.external_provisioner_daemons_entitlement.as_deref());
    if shown == (Some(tier), Some(provisioners)) {
        return;
    }
    status.license_tier = Some(tier.to_owned());
    status.external_provisioner_daemons_entitlement = Some(provisioners.to_owned());
    status.entitlements_last_checked = Some(now.clone());
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::None => "none",
        Tier::Trial => "trial",
        Tier::Enterprise => "enterprise",
        Tier::Premium => "premium",
    }
}

fn entitlement(entitlement: Entitlement) -> &'static str {
    match entitlement {
        Entitlement::Entitled => "entitled",
        Entitlement::GracePeriod => "grace_period",
        Entitlement::NotEntitled => "not_entitled",
        Entitlement::Unknown => "unknown",
    }
}

#[cfg(test)]
#[path = "license_tests.rs"]
mod tests;
