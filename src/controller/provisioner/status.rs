//! Decides what the status of a provisioner says about what was observed, in the words of kstatus. Pure.
//! It never says that something is ready because nothing was heard of it.

use super::observed::{Observed, Outside, State};
use super::reasons::Reason;
use crate::controller::status::conditions::{ConditionStatus, Finding};
use crate::controller::workload::rollout::Rollout;
use crds::well_known::condition::{
    AUTHORITY_APPLIED, BOOTSTRAP_SECRET_READY, CONTROL_PLANE_READY, DEPLOYMENT_READY,
    EXTERNAL_PROVISIONERS_ENTITLED, OPERATOR_ACCESS_READY, PROVISIONER_KEY_READY,
    PROVISIONER_KEY_SECRET_READY, READY, RECONCILING, SPEC_ACCEPTED, STALLED,
};
use webhooks::Cause;

/// Every condition of a provisioner, the three of kstatus first.
pub(super) fn findings(observed: &Observed) -> Vec<Finding> {
    let Outside { control_plane, access, bootstrap, entitled, key, secret, wait: _, daemons: _ } =
        &observed.outside;
    let mut findings = summary(observed).to_vec();
    findings.extend([
        outside(CONTROL_PLANE_READY, control_plane),
        outside(OPERATOR_ACCESS_READY, access),
        outside(EXTERNAL_PROVISIONERS_ENTITLED, entitled),
        outside(PROVISIONER_KEY_READY, key),
        outside(PROVISIONER_KEY_SECRET_READY, secret),
        deployment(observed),
        accepted(observed),
    ]);
    findings.extend(bootstrap.iter().map(|state| outside(BOOTSTRAP_SECRET_READY, state)));
    findings.extend(
        observed
            .withheld
            .iter()
            .map(|told| Finding::no(AUTHORITY_APPLIED, Reason::AdmissionDisabled, told.as_str())),
    );
    findings
}

fn outside(type_: &'static str, state: &State) -> Finding {
    match state {
        State::Unknown(reason, message) => Finding::unknown(type_, *reason, &**message),
        State::Yes(reason, message) => Finding::yes(type_, *reason, &**message),
        State::Pending(reason, message) | State::Refused(reason, message) => {
            Finding::no(type_, *reason, &**message)
        }
    }
}

/// A reason and what it means here.
type Because = (Reason, String);

/// Ready, Reconciling and Stalled. Never are the last two both true, and Ready is true only when neither is.
fn summary(observed: &Observed) -> [Finding; 3] {
    if let Some((reason, message)) = stalled(observed) {
        return [
            Finding::no(READY, reason, &*message),
            Finding::no(
                RECONCILING,
                reason,
                "nothing more is done until the problem named in Stalled is fixed",
            ),
            Finding::yes(STALLED, reason, message),
        ];
    }
    if let Some((reason, message)) = unfinished(observed) {
        let (reason, message) = match &observed.late {
            Some(late) => (Reason::DeadlineExceeded, format!("{late}; pending: {message}")),
            None => (reason, message),
        };
        return [
            Finding::no(READY, reason, &*message),
            Finding::yes(RECONCILING, reason, message),
            Finding::no(STALLED, Reason::Progressing, "reconciliation is in progress"),
        ];
    }
    let (reason, mut message) = match (&observed.rollout, observed.outside.daemons) {
        (Rollout::ScaledToZero, _) => (Reason::ScaledToZero, "no replicas are requested".to_owned()),
        (_, Some(1)) => (Reason::DaemonsConnected, "coderd sees 1 daemon with the key".to_owned()),
        (_, Some(daemons)) => {
            (Reason::DaemonsConnected, format!("coderd sees {daemons} daemons with the key"))
        }
        (_, None) => (
            Reason::DaemonsConnected,
            "the Deployment is rolled out; coderd did not return its list of daemons, so connections were not checked"
                .to_owned(),
        ),
    };
    if let Some(besides) = all(&observed.unimportant) {
        message += &format!(", but {besides}");
    }
    [
        Finding::yes(READY, reason, message),
        Finding::no(RECONCILING, reason, "reconciliation is complete"),
        Finding::no(STALLED, reason, "no problem needs your attention"),
    ]
}

fn all(what: &[String]) -> Option<String> {
    (!what.is_empty()).then(|| what.join("; "))
}

fn refused(state: &State) -> Option<Because> {
    match state {
        State::Refused(reason, message) => Some((*reason, message.clone())),
        State::Unknown(..) | State::Yes(..) | State::Pending(..) => None,
    }
}

fn pending(state: &State) -> Option<Because> {
    match state {
        State::Pending(reason, message) => Some((*reason, message.clone())),
        State::Unknown(..) | State::Yes(..) | State::Refused(..) => None,
    }
}

/// Why nothing will move before somebody acts.
fn stalled(observed: &Observed) -> Option<Because> {
    let Outside { control_plane, access, bootstrap, entitled, key, secret, wait: _, daemons: _ } =
        &observed.outside;
    let stuck = || match &observed.rollout {
        Rollout::Stuck(message) => Some((Reason::RolloutStuck, message.clone())),
        _ => None,
    };
    None.or_else(|| Some((Reason::InvalidSpec, observed.unreadable.clone()?)))
        .or_else(|| Some((Reason::AdmissionDisabled, observed.withheld.clone()?)))
        .or_else(|| Some((Reason::AccountNotOurs, observed.account.clone()?)))
        .or_else(|| Some((Reason::ChildConflict, all(&observed.conflicts)?)))
        .or_else(|| Some((Reason::ChildRefused, all(&observed.refused)?)))
        .or_else(|| Some((Reason::FinalizerRefused, observed.finalizer.clone()?)))
        .or_else(|| refused(control_plane))
        .or_else(|| refused(access))
        .or_else(|| bootstrap.as_ref().and_then(refused))
        .or_else(|| refused(entitled))
        .or_else(|| refused(key))
        .or_else(|| refused(secret))
        .or_else(stuck)
}

/// What is still to come, the first thing first.
fn unfinished(observed: &Observed) -> Option<Because> {
    let outside = &observed.outside;
    let rollout = || match &observed.rollout {
        Rollout::Absent | Rollout::Unseen => {
            Some((Reason::Creating, "the Deployment is created when its key is there".to_owned()))
        }
        Rollout::UnderWay(how_far) => Some((Reason::RollingOut, how_far.clone())),
        Rollout::Unavailable(message) => Some((Reason::ReplicasUnavailable, message.clone())),
        Rollout::Slow(message) => Some((Reason::RolloutSlow, message.clone())),
        Rollout::Complete(_) | Rollout::ScaledToZero | Rollout::Stuck(_) => None,
    };
    let daemons = || {
        let none = outside.daemons == Some(0) && observed.rollout != Rollout::ScaledToZero;
        none.then(|| {
            let message = "pods are running but coderd sees no daemon with the key yet; if this lasts, check the pod logs";
            (Reason::WaitingForDaemons, message.to_owned())
        })
    };
    None.or_else(|| Some((Reason::ApplyFailed, all(&observed.failed)?)))
        .or_else(|| pending(&outside.control_plane))
        .or_else(|| pending(&outside.access))
        .or_else(|| outside.bootstrap.as_ref().and_then(pending))
        .or_else(|| pending(&outside.entitled))
        .or_else(|| pending(&outside.key))
        .or_else(|| pending(&outside.secret))
        .or_else(rollout)
        .or_else(daemons)
}

fn deployment(observed: &Observed) -> Finding {
    let about = DEPLOYMENT_READY;
    match &observed.rollout {
        Rollout::ScaledToZero => {
            Finding::yes(about, Reason::ScaledToZero, "no replicas are requested and none run")
        }
        Rollout::Unseen | Rollout::Absent => {
            Finding::no(about, Reason::NoReplicasReady, "there is no Deployment yet; Ready says why")
        }
        _ if observed.ready_replicas > 0 => {
            let ready = observed.ready_replicas;
            let pods = if ready == 1 { "pod is" } else { "pods are" };
            Finding::yes(about, Reason::MinimumReplicasReady, format!("{ready} {pods} ready"))
        }
        Rollout::Stuck(message)
        | Rollout::Slow(message)
        | Rollout::UnderWay(message)
        | Rollout::Unavailable(message) => Finding::no(about, Reason::NoReplicasReady, &**message),
        Rollout::Complete(_) => Finding::no(about, Reason::NoReplicasReady, "no pod is ready"),
    }
}

/// Whether the spec is as the rules want it. Codes come first, so that a message that is cut still names every rule.
fn accepted(observed: &Observed) -> Finding {
    if let Some(why) = &observed.unreadable {
        return Finding::no(SPEC_ACCEPTED, Reason::InvalidSpec, &**why);
    }
    let lines: Vec<String> = observed.broken.iter().map(Cause::to_string).collect();
    let Some(lines) = all(&lines) else {
        return Finding::yes(SPEC_ACCEPTED, Reason::Accepted, "the spec breaks no rule");
    };
    let mut codes: Vec<&str> = observed.broken.iter().map(|cause| cause.code).collect();
    codes.dedup();
    Finding::no(SPEC_ACCEPTED, Reason::RulesBroken, format!("the spec breaks {}: {lines}", codes.join(", ")))
}

/// Whether a finding says that the object is ready.
pub(super) fn is_ready(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.type_ == READY && finding.status == ConditionStatus::True)
}
