//! Decides what the status of a provisioner says about what was observed, in the words of kstatus. Pure.
//! It never says that something is ready because nothing was heard of it.

use super::observed::{Observed, Outside, State};
use super::reasons::Reason;
use crate::controller::attached::outside::deployment;
use crate::controller::status::conditions::Finding;
use crate::controller::status::summary::{self, Standing};
use crate::controller::workload::rollout::Rollout;
use crds::well_known::condition::{
    BOOTSTRAP_SECRET_READY, CONTROL_PLANE_READY, EXTERNAL_PROVISIONERS_ENTITLED, OPERATOR_ACCESS_READY,
    PROVISIONER_KEY_READY, PROVISIONER_KEY_SECRET_READY,
};

/// The rule that daemons have the key that the operator made for them.
const OTHER_KEY: &str = "CODER0224";

/// Every condition of a provisioner, the three of kstatus first.
pub(super) fn findings(observed: &Observed) -> Vec<Finding> {
    let Outside { control_plane, access, bootstrap, entitled, key, secret, .. } = &observed.outside;
    let mut findings = summary(observed).to_vec();
    findings.extend([
        control_plane.finding(CONTROL_PLANE_READY),
        access.finding(OPERATOR_ACCESS_READY),
        entitled.finding(EXTERNAL_PROVISIONERS_ENTITLED),
        key.finding(PROVISIONER_KEY_READY),
        secret.finding(PROVISIONER_KEY_SECRET_READY),
        deployment::<Reason>(&observed.object.rollout, observed.ready_replicas),
        summary::accepted::<Reason>(&observed.object),
    ]);
    findings.extend(bootstrap.iter().map(|state| state.finding(BOOTSTRAP_SECRET_READY)));
    findings.extend(summary::authority::<Reason>(&observed.object));
    findings
}

/// A reason and what it means here.
type Because = summary::Because<Reason>;

/// Ready, Reconciling and Stalled.
fn summary(observed: &Observed) -> [Finding; 3] {
    let ready = match (&observed.object.rollout, observed.outside.daemons) {
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
    let standing = Standing {
        stalled: stalled(observed),
        unfinished: unfinished(observed),
        ready,
        besides: observed.object.problems.unimportant.clone(),
        waited_for: &WAITED_FOR,
    };
    standing.summary(observed.object.late.as_deref())
}

/// What others have yet to make.
const WAITED_FOR: [Reason; 6] = [
    Reason::ReferenceMissing,
    Reason::ControlPlaneUnavailable,
    Reason::BootstrapSecretUnavailable,
    Reason::OperatorTokenSecretUnavailable,
    Reason::OrganizationMissing,
    Reason::NotEntitled,
];

/// Why nothing will move before somebody acts.
fn stalled(observed: &Observed) -> Option<Because> {
    let Outside { control_plane, access, bootstrap, entitled, key, secret, .. } = &observed.outside;
    let object = &observed.object;
    None.or_else(|| summary::blocked(object))
        .or_else(|| summary::finalizer_refused(object))
        .or_else(|| control_plane.is_refused())
        .or_else(|| access.is_refused())
        .or_else(|| bootstrap.as_ref().and_then(State::is_refused))
        .or_else(|| entitled.is_refused())
        .or_else(|| key.is_refused())
        .or_else(|| secret.is_refused())
        .or_else(|| Some((Reason::CertificateNameMissing, observed.unaddressed.clone()?)))
        .or_else(|| key_of_others(observed))
        .or_else(|| summary::stuck(object))
}

/// That daemons have another key than ours, where none came with ours.
fn key_of_others(observed: &Observed) -> Option<Because> {
    let is_given = observed.object.broken.causes.iter().any(|cause| cause.code == OTHER_KEY);
    let has_none = observed.outside.daemons == Some(0) && observed.object.rollout != Rollout::ScaledToZero;
    let why = format!(
        "spec.extraEnv or spec.extraArgs gives daemons another key than the one the operator made, with which coderd sees none; \
         remove it, see {OTHER_KEY} in SpecAccepted"
    );
    (is_given && has_none).then_some((Reason::KeyGivenBySpec, why))
}

/// What is still to come, the first thing first.
fn unfinished(observed: &Observed) -> Option<Because> {
    let outside = &observed.outside;
    let rollout = || match &observed.object.rollout {
        Rollout::Absent | Rollout::Unseen => {
            Some((Reason::Creating, "the Deployment is created when its key is there".to_owned()))
        }
        rollout => summary::rolling_out(rollout),
    };
    let daemons = || {
        let none = outside.daemons == Some(0) && observed.object.rollout != Rollout::ScaledToZero;
        none.then(|| {
            let message = "pods are running but coderd sees no daemon with the key yet; if this lasts, check the pod logs";
            let besides = summary::joined(&observed.object.problems.unimportant).map_or_else(String::new, |besides| format!("; {besides}"));
            (Reason::WaitingForDaemons, format!("{message}{besides}"))
        })
    };
    let unasked = || {
        let why = "coderd is too slow to be asked about the key".to_owned();
        outside.is_unasked.then_some((Reason::Progressing, why))
    };
    None.or_else(|| summary::failed(&observed.object))
        .or_else(|| summary::missing(&observed.object))
        .or_else(|| outside.control_plane.is_pending())
        .or_else(|| outside.access.is_pending())
        .or_else(|| outside.bootstrap.as_ref().and_then(State::is_pending))
        .or_else(|| outside.entitled.is_pending())
        .or_else(|| outside.key.is_pending())
        .or_else(|| outside.secret.is_pending())
        .or_else(unasked)
        .or_else(rollout)
        .or_else(daemons)
}

#[cfg(test)]
mod tests;
