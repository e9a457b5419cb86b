//! The operator's access to coderd: given as a Secret, made in coderd's database, or none. `plan` and `steps` decide,
//! the rest reads and acts; no token and no URL ever reaches a log, a status or an error.

mod generated;
mod need;
mod reasons;
mod record;
mod retire;
mod source;
mod steps;
mod token_event;
mod token_secret;

use super::observed::{ExternalPhase, ExternalState};
use crate::coderd::{Client, Egress, Error, Retry};
use crate::control_plane_access::plan::{self, Place, Plan};
use crate::controller::control_plane::reasons::Reason;
use crate::controller::identity::Owner;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::{CallError, Kube};
use crds::shared::NamespacedSecretKeySelector;
use crds::well_known::condition::OPERATOR_ACCESS_READY;
use crds::{CoderControlPlaneSpec, CoderControlPlaneStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use need::Need;
use reasons::{pending, refused, state, unproven};

use record::Found;

pub(crate) use need::Needs;
pub(crate) use record::WRITTEN_OVER;
use retire::Retired;
pub(crate) use token_event::TokenEvent;

/// What access is applied for, and with what.
#[derive(Clone, Copy)]
pub(crate) struct AccessContext<'a> {
    /// The API server.
    pub kube: &'a Kube,
    /// How connections are opened.
    pub egress: &'a Egress,
    /// Which control plane.
    pub owner: Owner<'a>,
    /// What it says.
    pub spec: &'a CoderControlPlaneSpec,
    /// What was said of it before.
    pub before: &'a CoderControlPlaneStatus,
    /// Whether our finalizer is on it.
    pub has_finalizer: bool,
    /// What needs the access.
    pub needs: Needs,
    /// Whether admission is disabled in its namespace: then nothing is made, and no Secret that it names is sent anywhere.
    pub admission_disabled: bool,
    /// coderd, if it answered.
    pub client: Option<&'a Client>,
    /// The time.
    pub now: Timestamp,
    /// When no further step may begin.
    pub deadline: &'a Deadline,
}

/// The access there is.
#[derive(Debug)]
pub(crate) struct Accessed {
    /// For the condition.
    pub state: ExternalState,
    /// Whether something the spec asks for cannot be done without it.
    pub needed: bool,
    /// coderd with the token; absent without access, or when coderd did not answer.
    pub client: Option<Client>,
    /// Where the token is kept.
    pub token: Option<NamespacedSecretKeySelector>,
    /// When to try again, if something failed.
    pub retry: Option<Retry>,
    /// Whether there is, or is about to be, something that our finalizer must undo.
    pub needs_finalizer: bool,
    /// What was done about a token of our own.
    pub token_events: Vec<TokenEvent>,
}

impl Accessed {
    fn without(state: ExternalState) -> Self {
        Self {
            state,
            needed: false,
            client: None,
            token: None,
            retry: None,
            needs_finalizer: false,
            token_events: Vec::new(),
        }
    }

    /// Whether the operator can act in coderd.
    pub(crate) fn is_granted(&self) -> bool {
        self.state.phase == ExternalPhase::Granted
    }

    /// Writes what it means into a status.
    pub(crate) fn describe(&self, status: &mut CoderControlPlaneStatus) {
        status.operator_access_ready = Some(self.is_granted());
        status.operator_token_secret_ref.clone_from(&self.token);
    }
}

const NO_URL: &str =
    "no CODER_PG_CONNECTION_URL in spec.extraEnv or spec.envFrom, so the operator makes no user of its own";
const NO_URL_NEEDED: &str = "spec.licenseSecretRef needs the operator's access to coderd; set \
     spec.operatorAccess.tokenSecretRef, or CODER_PG_CONNECTION_URL in spec.extraEnv";
const NOT_NEEDED: &str = "no license is asked for, no CoderProvisioner refers to this control plane, and there is no \
     aggregated API: the operator has no token of its own";
const NOT_MADE: &str = "no token is made while admission is disabled; remove the label coder.com/admission from the \
     namespace";

const LOST_WHILE_SUSPENDED: &str = "the Secret with the operator's own token is gone, and none is made while \
     spec.suspend is true; set spec.suspend to false to have one made";
const DISABLED_WHILE_SUSPENDED: &str = "spec.operatorAccess.disabled is true; an existing token is revoked \
     once spec.suspend is false, and is not renewed until then";
/// Why nothing is said of the access to a control plane whose object cannot be read.
pub(crate) const NOT_RENEWED: Reason = Reason::NotRenewed;
const NOT_RENEWED_MESSAGE: &str = "the object cannot be read, so that its token is neither used nor renewed and one of \
     the operator's own ends within a day; correct the object as SpecAccepted says";

/// Whether a token may be used, made or taken back: one that was given, or one of our own while something needs it or may
/// need it.
pub(crate) fn uses_token(spec: &CoderControlPlaneSpec, needs: Needs) -> bool {
    match plan::plan(spec) {
        Plan::Given { .. } => true,
        Plan::Disabled => false,
        Plan::NoUrl | Plan::Unresolvable(_) | Plan::Generated(_) => needs.need() != Need::Nothing,
    }
}

/// Whether a token or a license may be sent to coderd.
pub(crate) fn sends_token(spec: &CoderControlPlaneSpec, needs: Needs) -> bool {
    needs.license || uses_token(spec, needs)
}

/// Brings the access to what the spec asks for, as far as it goes now.
pub(crate) async fn apply(context: &AccessContext<'_>) -> Accessed {
    let (needed, need) = (context.needs.gate_ready(), context.needs.need());
    let accessed = match plan::plan(context.spec) {
        Plan::Disabled => {
            let disabled =
                state(ExternalPhase::NotRequested, Reason::Disabled, "spec.operatorAccess.disabled is true");
            retired(context, Accessed::without(disabled)).await
        }
        Plan::Given { secret, key } => match token_secret::apply(context, &secret, &key).await {
            (accessed, true) => retired(context, accessed).await,
            // One of our own, if there is one, is the way back as long as this one is not known to work.
            (accessed, false) => Accessed { needs_finalizer: context.has_finalizer, ..accessed },
        },
        _ if need == Need::Nothing => {
            retired(
                context,
                Accessed::without(state(ExternalPhase::NotRequested, Reason::NotNeeded, NOT_NEEDED)),
            )
            .await
        }
        _ if matches!(need, Need::Unknown | Need::Kept) || context.admission_disabled => kept(context).await,
        Plan::NoUrl => without_url(context, needed).await,
        Plan::Unresolvable(why) => generated::apply(context, Err(refused_url(why))).await,
        Plan::Generated(places) => match generated::url(context, &places).await {
            Some(url) => generated::apply(context, url).await,
            None => without_url(context, needed).await,
        },
    };
    Accessed { needed, ..accessed }
}

/// Renews a token of our own if there is one, and makes none: it is not known whether something needs one, only a status says
/// so, or nobody was asked whether its author may have it.
async fn kept(context: &AccessContext<'_>) -> Accessed {
    let without = |state| Accessed { needs_finalizer: context.has_finalizer, ..Accessed::without(state) };
    match is_kept(context).await {
        Ok(true) => renew(context).await,
        Ok(false) if context.needs.need() == Need::Kept => {
            without(state(ExternalPhase::NotRequested, Reason::NotNeeded, NOT_NEEDED))
        }
        Ok(false) if context.admission_disabled => without(refused(Reason::AdmissionDisabled, NOT_MADE)),
        Ok(false) => {
            without(pending(Reason::Preparing, "what needs the operator's access is being looked for"))
        }
        Err(error) => Accessed {
            retry: Some(Retry::Backoff),
            ..without(pending(Reason::RecordFailed, error.to_string()))
        },
    }
}

/// Whether a suspended control plane has a token to be kept: one that was given, or a record of our own.
pub(crate) async fn is_kept(context: &AccessContext<'_>) -> Result<bool, CallError> {
    Ok(match plan::plan(context.spec) {
        Plan::Given { .. } => true,
        Plan::Generated(_) | Plan::Unresolvable(_) => {
            // What an earlier object of this name left is not kept, and not made anew either.
            let secret = context.kube.ours::<Secret>().get(&context.owner.secret()).await?;
            let found = record::read(secret.as_ref());
            context.has_finalizer && matches!(found, Found::Ours { owner, .. } if owner == context.owner.uid)
        }
        Plan::Disabled | Plan::NoUrl => false,
    })
}

/// What there is to say of a suspended control plane that has no token to be kept; nothing where nobody believes that it
/// has one.
pub(crate) fn not_kept(spec: &CoderControlPlaneSpec, before: &CoderControlPlaneStatus) -> Option<Accessed> {
    let said = before.conditions.iter().find(|one| one.type_ == OPERATOR_ACCESS_READY)?;
    let state = match plan::plan(spec) {
        Plan::Disabled => state(ExternalPhase::NotRequested, Reason::Disabled, DISABLED_WHILE_SUSPENDED),
        Plan::NoUrl => state(ExternalPhase::NotRequested, Reason::NoDatabaseURL, NO_URL),
        Plan::Given { .. } | Plan::Generated(_) | Plan::Unresolvable(_) => {
            // One that was never there is not lost.
            if said.status != "True" && said.reason != Reason::RecordLost.as_str() {
                return None;
            }
            refused(Reason::RecordLost, LOST_WHILE_SUSPENDED)
        }
    };
    Some(Accessed::without(state))
}

/// What there is to say of the access to a control plane whose object cannot be read; nothing where it was not ready.
pub(crate) fn not_renewed(before: &CoderControlPlaneStatus) -> Option<ExternalState> {
    let said = before.conditions.iter().find(|one| one.type_ == OPERATOR_ACCESS_READY)?;
    let believed = said.status == "True" || said.reason == NOT_RENEWED.as_str();
    believed.then(|| state(ExternalPhase::NotRequested, NOT_RENEWED, NOT_RENEWED_MESSAGE))
}

/// Renews the token of a suspended control plane; no role is changed and nothing is taken back.
pub(crate) async fn renew(context: &AccessContext<'_>) -> Accessed {
    match plan::plan(context.spec) {
        Plan::Given { secret, key } => token_secret::apply(context, &secret, &key).await.0,
        Plan::Generated(places) => {
            let url = generated::url(context, &places).await;
            generated::renew(context, url.unwrap_or_else(|| Err(refused_url(NO_URL)))).await
        }
        Plan::Unresolvable(why) => generated::renew(context, Err(refused_url(why))).await,
        Plan::Disabled | Plan::NoUrl => {
            Accessed::without(state(ExternalPhase::NotRequested, Reason::NoDatabaseURL, NO_URL))
        }
    }
}

fn refused_url(why: &str) -> reasons::Trouble {
    reasons::Trouble::lasting(Reason::DatabaseUrlUnresolved, why)
}

async fn without_url(context: &AccessContext<'_>, needed: bool) -> Accessed {
    let state = if needed {
        refused(Reason::NoDatabaseURL, NO_URL_NEEDED)
    } else {
        state(ExternalPhase::NotRequested, Reason::NoDatabaseURL, NO_URL)
    };
    retired(context, Accessed::without(state)).await
}

/// Takes back a token of our own that is no longer asked for. An object we do not hold has none.
async fn retired(context: &AccessContext<'_>, accessed: Accessed) -> Accessed {
    if !context.has_finalizer {
        return accessed;
    }
    let places = plan::places(context.spec).unwrap_or_default();
    match retire::retire(context.kube, context.egress, context.owner, context.spec, Some(&places)).await {
        Ok(Retired { token_events, former_left: None }) => Accessed { token_events, ..accessed },
        Ok(Retired { token_events, former_left: Some(why) }) => {
            let state = with_former(accessed.state, &why);
            Accessed { state, token_events, needs_finalizer: true, retry: Some(Retry::Backoff), ..accessed }
        }
        Err(error) => {
            tracing::warn!(%error,
                "the operator's own token could not be taken back; it is tried again");
            Accessed { needs_finalizer: true, retry: Some(Retry::Backoff), ..accessed }
        }
    }
}

/// What there is to say where a token of the older operator could not be revoked: that one lives for a year.
fn with_former(state: ExternalState, why: &str) -> ExternalState {
    let message = format!(
        "a token of the older operator is still valid, delete it in coderd ({why}); {}",
        state.message
    );
    ExternalState { message, ..state }
}

/// Takes back what was made for a control plane that is going. A database that is gone delays it by seconds only; with
/// `release` it is not asked at all.
pub(crate) async fn end(
    kube: &Kube,
    egress: &Egress,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
    release: bool,
) -> Result<Vec<TokenEvent>, CallError> {
    let places: Vec<Place> = plan::places(spec).unwrap_or_default();
    let Retired { mut token_events, former_left } =
        retire::retire(kube, egress, owner, spec, (!release).then_some(&places[..])).await?;
    token_events.extend(former_left.map(TokenEvent::FormerLeft));
    Ok(token_events)
}

/// Which Secret, and where, for the status.
fn reference(namespace: &str, name: &str, key: &str) -> NamespacedSecretKeySelector {
    NamespacedSecretKeySelector {
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        key: Some(key.to_owned()),
    }
}

/// What to say of a token that worked and that coderd would not judge now, and when to ask again: no answer takes
/// nothing away.
fn worked_before(error: &Error) -> (String, Option<Retry>) {
    (format!("the token worked before; now {error}"), Some(unproven(error).retry))
}

/// Access that cannot be had before coderd answers.
fn waiting_for_coderd() -> ExternalState {
    pending(Reason::WaitingForCoderd, "the token is there; coderd has to answer before it is used")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn said(status: &str, reason: Reason) -> CoderControlPlaneStatus {
        let condition = json!({ "type": "OperatorAccessReady", "status": status, "reason": reason.as_str(), "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        from_value(json!({ "operatorAccessReady": status == "True", "conditions": [condition] })).unwrap()
    }

    #[test]
    fn nobody_believes_in_a_token_that_a_suspended_object_has_no_more() {
        let told = |spec: Value, before: &CoderControlPlaneStatus| {
            let spec: CoderControlPlaneSpec = from_value(spec).unwrap();
            not_kept(&spec, before).map(|lost| {
                let mut after = before.clone();
                lost.describe(&mut after);
                assert_eq!(after.operator_access_ready, Some(false));
                assert!(lost.state.message.len() <= 300);
                (lost.state.phase, lost.state.reason)
            })
        };
        let url = || json!({ "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": "postgres://a" }] });
        let disabled = || json!({ "operatorAccess": { "disabled": true } });
        let lost = Some((ExternalPhase::Refused, Reason::RecordLost));
        assert_eq!(told(url(), &said("True", Reason::TokenProven)), lost);
        assert_eq!(told(url(), &said("False", Reason::RecordLost)), lost, "it stays so");
        assert_eq!(told(url(), &said("False", Reason::DatabaseUnreachable)), None, "it never had one");
        assert_eq!(
            told(disabled(), &said("True", Reason::TokenProven)),
            Some((ExternalPhase::NotRequested, Reason::Disabled))
        );
        let no_url = Some((ExternalPhase::NotRequested, Reason::NoDatabaseURL));
        assert_eq!(told(json!({}), &said("True", Reason::TokenProven)), no_url);
        assert_eq!(told(disabled(), &CoderControlPlaneStatus::default()), None, "suspended from the start");
    }

    #[test]
    fn a_token_of_the_older_operator_that_is_still_valid_is_told_whatever_else_is() {
        let without = state(ExternalPhase::NotRequested, Reason::NotNeeded, NOT_NEEDED);
        let told = with_former(without, "the database does not answer");
        assert_eq!((told.phase, told.reason), (ExternalPhase::NotRequested, Reason::NotNeeded));
        assert!(
            told.message
                .contains("still valid, delete it in coderd (the database does not answer); no license")
        );
        assert!(told.message.len() <= 300, "{}", told.message.len());
    }

    #[test]
    fn access_to_an_object_that_cannot_be_read_is_not_known() {
        let told =
            |status, reason| not_renewed(&said(status, reason)).map(|state| (state.phase, state.reason));
        let unknown = Some((ExternalPhase::NotRequested, Reason::NotRenewed));
        assert_eq!(told("True", Reason::TokenProven), unknown);
        assert_eq!(told("Unknown", Reason::NotRenewed), unknown, "it stays so");
        assert_eq!(told("False", Reason::DatabaseUnreachable), None);
        assert_eq!(not_renewed(&CoderControlPlaneStatus::default()), None);
        assert!(NOT_RENEWED_MESSAGE.len() <= 300);
    }
}
