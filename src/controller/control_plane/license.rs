//! The license of a control plane: uploaded once, seen to be there on every reconcile, told before it ends, and what it
//! covers. It never deletes a license, and shows of it only the hash and the end.

use super::access::Accessed;
use super::observed::{ExternalPhase, ExternalState};
use crate::coderd::client::{Applied, ApplyError, Entitlement, Tier};
use crate::coderd::error::Operation;
use crate::coderd::license::{Claims, sha256};
use crate::coderd::{Client, Error, Retry};
use crate::confidential::Confidential;
use crate::control_plane_access::secret_value::{Found, secret_value};
use crate::controller::control_plane::reasons::Reason;
use crate::kubernetes::Kube;
use crate::kubernetes::events::{EventDraft, Severity};
use crds::shared::SecretKeySelector;
use crds::well_known::condition::LICENSE_APPLIED;
use crds::well_known::secret_key;
use crds::{CoderControlPlaneSpec, CoderControlPlaneStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// How it stands with the license.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Licensed {
    /// For the condition.
    pub state: ExternalState,
    /// When to try again, if something failed.
    pub retry: Option<Retry>,
    /// The hash of a license that was applied now, for the status.
    pub applied: Option<String>,
    /// When it expires, as far as the license was read; the inner none if it does not say, or if none is asked for.
    pub expires_at: Option<Option<Timestamp>>,
}

/// How much of a license's time is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// More than is worth a word, or it does not say.
    Enough,
    /// It expires within 30 days.
    Month,
    /// It expires within 7 days.
    Week,
    /// It has expired and still works, until then.
    Grace(Timestamp),
    /// It has ended, at that time.
    Nothing(Timestamp),
}

/// How much of a license's time is left. Between its expiry and its hard end there is a grace period.
fn left(claims: &Claims, now: Timestamp) -> Left {
    let time = |seconds: Option<i64>| Timestamp::from_second(seconds?).ok();
    let (expiry, end) = (time(claims.expires()), time(claims.hard_end()));
    let (Some(expiry), Some(end)) = (expiry.or(end), end.or(expiry)) else { return Left::Enough };
    let within = |days: i64| expiry.duration_since(now) <= SignedDuration::from_hours(24 * days);
    match () {
        () if end <= now => Left::Nothing(end),
        () if expiry <= now => Left::Grace(end),
        () if within(7) => Left::Week,
        () if within(30) => Left::Month,
        () => Left::Enough,
    }
}

fn expiry(claims: &Claims) -> Option<Timestamp> {
    Timestamp::from_second(claims.expires().or(claims.hard_end())?).ok()
}

impl Licensed {
    fn new(phase: ExternalPhase, reason: Reason, message: impl Into<String>) -> Self {
        let state = ExternalState { phase, reason, message: message.into() };
        Self { state, retry: None, applied: None, expires_at: None }
    }

    fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self { retry: Some(Retry::WhenChanged), ..Self::new(ExternalPhase::Refused, reason, message) }
    }

    /// Writes what it means into a status.
    pub(crate) fn describe(&self, status: &mut CoderControlPlaneStatus, now: &Time) {
        if let Some(hash) = &self.applied {
            status.license_last_applied = Some(now.clone());
            status.license_last_applied_hash = Some(hash.clone());
        }
        if let Some(expires_at) = self.expires_at {
            status.license_expires_at = expires_at.map(Time);
        }
    }

    /// The same of a license that is there, with what is left of its time.
    fn with_time_left(mut self, left: Left, expires_at: Option<Timestamp>) -> Self {
        let on = expires_at.map(|end| format!(" on {end}")).unwrap_or_default();
        let renew = "put a new one into the Secret of spec.licenseSecretRef";
        let (reason, word) = match left {
            Left::Month => (Reason::ExpiresWithin30Days, format!("it expires{on}, within 30 days; {renew}")),
            Left::Week => (Reason::ExpiresWithin7Days, format!("it expires{on}, within 7 days; {renew}")),
            Left::Grace(end) => {
                (Reason::InGracePeriod, format!("it expired{on} and works until {end}; {renew}"))
            }
            Left::Enough | Left::Nothing(_) => return self,
        };
        if self.state.phase == ExternalPhase::Granted {
            self.state =
                ExternalState { reason, message: format!("{word}; {}", self.state.message), ..self.state };
        }
        self
    }
}

/// Brings the license to coderd, if one is asked for and there is access.
pub(crate) async fn apply(
    kube: &Kube,
    namespace: &str,
    spec: &CoderControlPlaneSpec,
    before: &CoderControlPlaneStatus,
    access: &Accessed,
    now: Timestamp,
) -> Licensed {
    let Some(reference) = &spec.license_secret_ref else {
        let not_requested = Licensed::new(
            ExternalPhase::NotRequested,
            Reason::NotRequested,
            "spec.licenseSecretRef is not set",
        );
        return Licensed { expires_at: Some(None), ..not_requested };
    };
    if let Some(waiting) = without_access(access) {
        return waiting;
    }
    let (secret, key) = place(reference);
    let jwt = match secret_value(kube, namespace, secret, key).await {
        Ok(Found::Text(jwt)) => jwt,
        Ok(Found::Lacking(message)) => {
            return Licensed::new(ExternalPhase::Pending, Reason::SecretMissing, message);
        }
        Err(error) => {
            let failed = Licensed::new(ExternalPhase::Pending, Reason::Error, error.to_string());
            return Licensed { retry: Some(Retry::Backoff), ..failed };
        }
    };
    let (hash, hash_before) = (sha256(&jwt), before.license_last_applied_hash.as_deref());
    // What cannot be read is refused where it is applied.
    let Ok(claims) = Claims::of(&jwt) else {
        return judge(upload(access.client.as_ref(), &jwt).await, hash, hash_before);
    };
    let (left, expires_at) = (left(&claims, now), expiry(&claims));
    let licensed = match left {
        Left::Nothing(end) => Licensed::refused(
            Reason::Expired,
            format!("the license expired on {end}; put a new one under the key {key} into Secret {secret}"),
        ),
        _ => judge(upload(access.client.as_ref(), &jwt).await, hash, hash_before),
    };
    Licensed { expires_at: Some(expires_at), ..licensed.with_time_left(left, expires_at) }
}

/// What to say of the license while admission is disabled: it is not sent, since nobody was asked whether its author may
/// read it. One that coderd has stays there.
pub(crate) fn unsent(spec: &CoderControlPlaneSpec, before: &CoderControlPlaneStatus) -> Licensed {
    if spec.license_secret_ref.is_none() {
        return Licensed::new(
            ExternalPhase::NotRequested,
            Reason::NotRequested,
            "spec.licenseSecretRef is not set",
        );
    }
    let message = "no license is sent to coderd while admission is disabled; remove the label coder.com/admission from \
                   the namespace";
    if before.license_last_applied_hash.is_some() {
        return Licensed::new(
            ExternalPhase::Granted,
            Reason::Applied,
            format!("coderd has a license; {message}"),
        );
    }
    Licensed::refused(Reason::AdmissionDisabled, message)
}

fn place(reference: &SecretKeySelector) -> (&str, &str) {
    let key = reference.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
    (reference.name.trim(), key.unwrap_or(secret_key::LICENSE))
}

fn without_access(access: &Accessed) -> Option<Licensed> {
    match access.state.phase {
        ExternalPhase::Granted => None,
        ExternalPhase::NotRequested => Some(Licensed::refused(
            Reason::AccessDisabled,
            "spec.licenseSecretRef needs the operator's access to coderd, which spec.operatorAccess.disabled denies",
        )),
        ExternalPhase::Pending | ExternalPhase::Refused => Some(Licensed::new(
            ExternalPhase::Pending,
            Reason::WaitingForAccess,
            format!("the license is uploaded once the operator has access: {}", access.state.message),
        )),
    }
}

async fn upload(client: Option<&Client>, jwt: &Confidential<String>) -> Option<Result<Applied, ApplyError>> {
    Some(client?.apply_license(jwt).await)
}

/// What to say of the answer; none if coderd was not asked.
fn judge(answer: Option<Result<Applied, ApplyError>>, hash: String, hash_before: Option<&str>) -> Licensed {
    let same = hash_before == Some(hash.as_str());
    let granted = |message: &str| Licensed::new(ExternalPhase::Granted, Reason::Applied, message);
    match answer {
        None if same => granted("coderd had the license when it answered last"),
        None => Licensed::new(
            ExternalPhase::Pending,
            Reason::WaitingForCoderd,
            "the license is uploaded once coderd answers",
        ),
        Some(Ok(applied)) => {
            let is_news = !same || matches!(applied, Applied::Uploaded { .. });
            Licensed { applied: is_news.then_some(hash), ..granted("coderd has the license") }
        }
        Some(Err(error)) => {
            let failed = failed(&error);
            if same && failed.state.reason == Reason::Error && is_of_the_list(&error) {
                // An answer that does not come takes nothing away. An upload is tried only after it is known to be gone.
                let kept = granted(&format!(
                    "coderd had the license when it answered last; {}",
                    failed.state.message
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
            Licensed::refused(Reason::Invalid, format!("{text}; correct the Secret of spec.licenseSecretRef"))
        }
        ApplyError::Call(Error::Invalid { .. }) => {
            Licensed::refused(Reason::Invalid, format!("{text}; correct the Secret of spec.licenseSecretRef"))
        }
        ApplyError::Call(Error::RouteMissing { .. }) => {
            let fix = "use a coderd image that supports licenses, or remove spec.licenseSecretRef";
            Licensed::refused(Reason::NotSupported, format!("{text}; {fix}"))
        }
        ApplyError::Call(
            Error::Forbidden { .. } | Error::NotFoundOrForbidden { .. } | Error::NotLicensed { .. },
        ) => {
            let fix = "the token of spec.operatorAccess.tokenSecretRef must belong to an owner";
            Licensed::refused(Reason::Forbidden, format!("{text}; {fix}"))
        }
        ApplyError::Call(call) => {
            let retry =
                Some(call.retry()).filter(|retry| *retry != Retry::WhenChanged).or(Some(Retry::Backoff));
            // A token that is refused is renewed, or was just replaced: it passes.
            let reason =
                if matches!(call, Error::Unauthorized { .. }) { Reason::Forbidden } else { Reason::Error };
            Licensed { retry, ..Licensed::new(ExternalPhase::Pending, reason, text) }
        }
    }
}

/// What there is to tell of another license, and of one that ends soon; that there is one at all, or none any more, is
/// told by the condition.
pub(crate) fn event_drafts(
    before: &CoderControlPlaneStatus,
    after: &CoderControlPlaneStatus,
) -> Vec<EventDraft> {
    let applied = |status: &CoderControlPlaneStatus| -> Option<Condition> {
        let condition = status.conditions.iter().find(|one| one.type_ == LICENSE_APPLIED);
        condition.filter(|condition| condition.status == "True").cloned()
    };
    let Some(old) = applied(before) else { return Vec::new() };
    let told = |severity, reason: &str, note: &str| EventDraft {
        severity,
        reason: reason.to_owned(),
        action: LICENSE_APPLIED.to_owned(),
        note: note.to_owned(),
    };
    let mut drafts = Vec::new();
    let hashes = (&before.license_last_applied_hash, &after.license_last_applied_hash);
    if let (Some(one), Some(other)) = hashes
        && one != other
    {
        drafts.push(told(
            Severity::Normal,
            Reason::LicenseReplaced.as_str(),
            "the license in coderd was replaced",
        ));
    }
    if let Some(new) =
        applied(after).filter(|new| new.reason != old.reason && new.reason != Reason::Applied.as_str())
    {
        drafts.push(told(Severity::Warning, &new.reason, &new.message));
    }
    drafts
}

/// What coderd is licensed for, in the words of the status; nothing if it was not asked.
pub(crate) async fn entitlements(
    client: Option<&Client>,
) -> Option<Result<(&'static str, &'static str), Error>> {
    Some(match client?.entitlements().await {
        Ok(seen) => Ok((tier(seen.tier()), entitlement(seen.external_provisioner_daemons()))),
        // A build without the call cannot have a license.
        Err(Error::RouteMissing { .. }) => Ok((tier(Tier::None), entitlement(Entitlement::NotEntitled))),
        Err(error) => Err(error),
    })
}

/// Writes entitlements into a status; their time changes only when one of them does.
pub(crate) fn describe_entitlements(
    status: &mut CoderControlPlaneStatus,
    seen: Option<(&str, &str)>,
    now: &Time,
) {
    let Some((tier, provisioners)) = seen else {
        let unknown = || Some("unknown".to_owned());
        status.license_tier = status.license_tier.take().or_else(unknown);
        let entitlement = &mut status.external_provisioner_daemons_entitlement;
        *entitlement = entitlement.take().or_else(unknown);
        return;
    };
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
mod tests;
