//! Decides what the status of a control plane says about what was observed, in the words of kstatus. Pure.
//! It never says that something is ready because nothing was heard of it.

use super::apply::Applied;
use super::dereference::Dereferenced;
use super::observe::External;
use super::observed::{Coderd, ExternalPhase, ExternalState, Grants, Observed};
use super::reasons::Reason;
use super::resolve::owner;
use super::running_values;
use super::subject::Subject;
use crate::controller::children::exposure::{Exposure, NO_GATEWAY_API};
use crate::controller::status::conditions::{ConditionStatus, Finding};
use crate::controller::status::observed::ObservedObject;
use crate::controller::status::summary::{self, ROOM, Standing};
use crate::controller::workload::rollout::{self, Rollout};
use crds::CoderControlPlaneStatus;
use crds::well_known::condition::{
    CODERD_REACHABLE, DEPLOYMENT_AVAILABLE, EXPOSED, LICENSE_APPLIED, OPERATOR_ACCESS_READY,
    WORKSPACE_RBAC_READY,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::from_value;
use webhooks::{Config, Kind, problem_list};

/// The status of a control plane that was reconciled.
pub(super) fn status(
    subject: &Subject,
    read: &Dereferenced,
    applied: &Applied,
    external: &External,
    observed: &Observed,
    config: &Config,
    now: &Time,
) -> CoderControlPlaneStatus {
    let object = &subject.object;
    let mut status = object.status.clone();
    external.describe(&mut status, now);
    let mut status = summary::whole(object, status, &findings(observed), now);
    let deployment = applied.deployment.as_ref();
    if deployment.is_some() {
        status.replicas = Some(rollout::replicas(deployment));
        status.ready_replicas = Some(rollout::ready_replicas(deployment));
    }
    if let Some(release) = &applied.adoption.finished {
        status.adopted_helm_release = Some(release.clone());
    }
    status.selector = Some(owner(&subject.complete).selector_text());
    status.url = Some(external.url.clone());
    identity(&mut status, &observed.coderd);
    let resolved = webhooks::status_resolved(Kind::ControlPlane, &read.given, config);
    status.resolved = from_value(resolved).ok();
    if let Some(resolved) = &mut status.resolved {
        resolved.image_defaulted = running_values::names_no_image(&object.value).then_some(true);
        if read.has_access_url {
            resolved.access_url = None;
        }
    }
    status
}

/// Who coderd is, as it said now. One that says nothing stays who it was.
fn identity(status: &mut CoderControlPlaneStatus, coderd: &Coderd) {
    if let Coderd::Answered { version, deployment_id, .. } = coderd {
        status.version = version.clone().or(status.version.take());
        status.deployment_id = deployment_id.clone().or(status.deployment_id.take());
    }
}

/// Every condition of a control plane, the three of kstatus first.
pub(crate) fn findings(observed: &Observed) -> Vec<Finding> {
    let mut findings = summary(observed).to_vec();
    findings.extend([
        deployment(&observed.object.rollout),
        exposure(&observed.exposure),
        external(OPERATOR_ACCESS_READY, &observed.access),
        external(LICENSE_APPLIED, &observed.license),
        workspaces(observed.workspaces.as_ref()),
        coderd(&observed.coderd),
        summary::accepted::<Reason>(&observed.object),
    ]);
    findings.extend(summary::authority::<Reason>(&observed.object));
    findings
}

/// A reason and what it means here.
type Because = summary::Because<Reason>;

/// Ready, Reconciling and Stalled.
fn summary(observed: &Observed) -> [Finding; 3] {
    let ready = match &observed.object.rollout {
        Rollout::ScaledToZero if observed.license.phase == ExternalPhase::Pending => (
            Reason::ScaledToZero,
            "no replicas are requested; the license is uploaded once there are some".to_owned(),
        ),
        Rollout::ScaledToZero => (Reason::ScaledToZero, "no replicas are requested".to_owned()),
        _ => (Reason::Available, "coderd is rolled out and answers".to_owned()),
    };
    let ObservedObject { problems, late, .. } = &observed.object;
    let standing = Standing {
        stalled: stalled(observed),
        unfinished: unfinished(observed),
        ready,
        besides: problems.unimportant.iter().chain(late).cloned().collect(),
        waited_for: &WAITED_FOR,
    };
    standing.summary(late.as_deref())
}

/// What others have yet to make.
const WAITED_FOR: [Reason; 5] = [
    Reason::ReferenceMissing,
    Reason::NoGatewayAPI,
    Reason::DatabaseUrlMissing,
    Reason::TokenSecretMissing,
    Reason::LicenseSecretMissing,
];

fn if_in(phase: ExternalPhase, state: &ExternalState) -> Option<Because> {
    (state.phase == phase).then(|| (state.reason, state.message.clone()))
}

/// The same of the license. Its own reasons are the contract's and say nothing without the name of their condition.
fn license(phase: ExternalPhase, observed: &Observed) -> Option<Because> {
    let (reason, message) = if_in(phase, &observed.license)?;
    let reason = match reason {
        Reason::Invalid => Reason::LicenseInvalid,
        Reason::SecretMissing => Reason::LicenseSecretMissing,
        Reason::Forbidden => Reason::LicenseForbidden,
        Reason::Error => Reason::LicenseError,
        Reason::NotSupported => Reason::LicenseNotSupported,
        Reason::Expired => Reason::LicenseExpired,
        plain => plain,
    };
    Some((reason, message))
}

/// Why nothing will move before somebody acts.
fn stalled(observed: &Observed) -> Option<Because> {
    let object = &observed.object;
    let access = || observed.access_needed.then(|| if_in(ExternalPhase::Refused, &observed.access)).flatten();
    let grant =
        |reason, as_reason| Some((as_reason, ungranted_in_own_namespace(observed, reason)?.to_owned()));
    None.or_else(|| summary::blocked(object))
        .or_else(|| grant(Reason::ChildConflict, Reason::WorkspaceGrantConflict))
        .or_else(|| grant(Reason::Refused, Reason::WorkspaceGrantRefused))
        .or_else(|| summary::finalizer_refused(object))
        .or_else(|| summary::stuck(object))
        .or_else(access)
        .or_else(|| license(ExternalPhase::Refused, observed))
}

/// What is wrong for this reason with the rights in the own namespace. Those elsewhere are up to others.
fn ungranted_in_own_namespace(observed: &Observed, reason: Reason) -> Option<&str> {
    let troubles = observed.workspaces.iter().flat_map(|grants| &grants.troubles);
    let mut in_own_namespace = troubles.filter(|one| one.own_namespace && one.reason == reason);
    in_own_namespace.next().map(|one| one.message.as_str())
}

/// What is still to come, the first thing first.
fn unfinished(observed: &Observed) -> Option<Because> {
    let rollout = || match &observed.object.rollout {
        Rollout::Absent => Some((Reason::Creating, "the Deployment is being created".to_owned())),
        rollout => summary::rolling_out(rollout),
    };
    let exposure = || match &observed.exposure {
        Exposure::NoGatewayApi => Some((Reason::NoGatewayAPI, NO_GATEWAY_API.to_owned())),
        Exposure::Failed(message) => Some((Reason::ExposureFailed, message.clone())),
        Exposure::Withheld(message) => Some((Reason::AdmissionDisabled, message.clone())),
        _ => None,
    };
    let coderd = || match &observed.coderd {
        Coderd::Unreachable(_, message) => Some((Reason::CoderdUnreachable, message.clone())),
        _ => None,
    };
    let access = || observed.access_needed.then(|| if_in(ExternalPhase::Pending, &observed.access)).flatten();
    let grant = || {
        Some((Reason::WorkspaceGrantFailed, ungranted_in_own_namespace(observed, Reason::Failed)?.to_owned()))
    };
    // Without replicas it cannot come, and nobody waits for it: Ready and its own condition speak of it.
    let waits_for_license = || {
        let stopped = observed.object.rollout == Rollout::ScaledToZero;
        license(ExternalPhase::Pending, observed).filter(|_| !stopped)
    };
    None.or_else(|| summary::failed(&observed.object))
        .or_else(grant)
        .or_else(|| summary::missing(&observed.object))
        .or_else(|| observed.adoption.clone().map(|told| (Reason::AdoptingHelmRelease, told)))
        .or_else(rollout)
        .or_else(exposure)
        .or_else(coderd)
        .or_else(access)
        .or_else(waits_for_license)
}

fn deployment(rollout: &Rollout) -> Finding {
    let about = DEPLOYMENT_AVAILABLE;
    match rollout {
        Rollout::Absent => Finding::no(about, Reason::Creating, "there is no Deployment yet"),
        Rollout::Unseen => {
            Finding::unknown(about, Reason::NotApplied, "the Deployment could not be applied; Ready says why")
        }
        Rollout::ScaledToZero => {
            Finding::yes(about, Reason::ScaledToZero, "no replicas are requested and none run")
        }
        Rollout::UnderWay(how_far) => Finding::no(about, Reason::RollingOut, &**how_far),
        Rollout::Unavailable(message) => Finding::no(about, Reason::ReplicasUnavailable, &**message),
        Rollout::Slow(message) => Finding::no(about, Reason::RolloutSlow, &**message),
        Rollout::Stuck(message) => Finding::no(about, Reason::RolloutStuck, &**message),
        Rollout::Complete(replicas) => Finding::yes(
            about,
            Reason::RolloutComplete,
            format!("{replicas} of {replicas} replicas are available"),
        ),
    }
}

fn exposure(exposure: &Exposure) -> Finding {
    match exposure {
        Exposure::NotRequested => Finding::unknown(EXPOSED, Reason::NotRequested, "spec.expose is not set"),
        Exposure::InPlace(kind) => Finding::yes(EXPOSED, Reason::Applied, format!("the {kind} is in place")),
        Exposure::NoGatewayApi => Finding::no(EXPOSED, Reason::NoGatewayAPI, NO_GATEWAY_API),
        Exposure::Failed(message) => Finding::no(EXPOSED, Reason::ExposureFailed, &**message),
        Exposure::Withheld(message) => Finding::no(EXPOSED, Reason::AdmissionDisabled, &**message),
        Exposure::Later(message) => Finding::no(EXPOSED, Reason::AdoptingHelmRelease, &**message),
    }
}

fn workspaces(grants: Option<&Grants>) -> Finding {
    let about = WORKSPACE_RBAC_READY;
    let Some(grants) = grants else {
        return Finding::unknown(about, Reason::NotRequested, "spec.rbac.workspacePerms is false");
    };
    if let Some(first) = grants.troubles.first() {
        let messages: Vec<String> = grants.troubles.iter().map(|one| one.message.clone()).collect();
        return Finding::no(about, first.reason, problem_list(&messages, "; ", ROOM, 0));
    }
    let granted = "coderd has its permissions in every workspace namespace".to_owned();
    let notes = grants.notes.iter().fold(granted, |all, note| format!("{all}; {note}"));
    Finding::yes(about, Reason::Granted, notes)
}

/// The condition that says what coderd said.
pub(crate) fn coderd(coderd: &Coderd) -> Finding {
    match coderd {
        Coderd::NotProbed(Reason::ServiceNotOurs) => {
            let message = "coderd was not contacted: the Service with its name does not belong to this control plane; delete that Service, or give the control plane another name";
            Finding::unknown(CODERD_REACHABLE, Reason::ServiceNotOurs, message)
        }
        Coderd::NotProbed(why) => Finding::unknown(CODERD_REACHABLE, *why, "coderd was not contacted"),
        Coderd::Answered { version, trouble, .. } => {
            let trouble = trouble.as_ref().map(|trouble| format!(", but {trouble}")).unwrap_or_default();
            Finding::yes(
                CODERD_REACHABLE,
                Reason::Answered,
                format!("coderd{} answers{trouble}", named(version)),
            )
        }
        Coderd::Degraded { version, message } => {
            let said = format!("{message}; coderd{} answered before and is asked again", named(version));
            Finding::yes(CODERD_REACHABLE, Reason::Answered, said)
        }
        Coderd::Unreachable(reason, message) => Finding::no(CODERD_REACHABLE, *reason, &**message),
    }
}

fn named(version: &Option<String>) -> String {
    version.as_ref().map(|version| format!(" {version}")).unwrap_or_default()
}

/// The condition that says where something outside stands.
pub(crate) fn external(about: &'static str, state: &ExternalState) -> Finding {
    let status = match state.phase {
        ExternalPhase::NotRequested => ConditionStatus::Unknown,
        ExternalPhase::Granted => ConditionStatus::True,
        ExternalPhase::Pending | ExternalPhase::Refused => ConditionStatus::False,
    };
    Finding { type_: about, status, reason: state.reason.as_str(), message: state.message.clone() }
}

#[cfg(test)]
mod tests;
