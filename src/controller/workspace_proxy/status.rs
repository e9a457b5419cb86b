//! Decides what the status of a workspace proxy says about what was observed, in the words of kstatus. Pure.
//! It never says that something is ready because nothing was heard of it.

use super::observed::{Observed, Outside, State};
use super::reasons::Reason;
use crate::controller::attached::outside::{AccessStates, deployment};
use crate::controller::children::exposure::{Exposure, NO_GATEWAY_API};
use crate::controller::status::conditions::Finding;
use crate::controller::status::summary::{self, Standing};
use crate::controller::workload::rollout::Rollout;
use crds::well_known::condition::{
    BOOTSTRAP_SECRET_READY, CONTROL_PLANE_READY, EXPOSED, OPERATOR_ACCESS_READY, PROXY_HEALTHY,
    PROXY_REGISTERED, PROXY_TOKEN_SECRET_READY, WORKSPACE_PROXIES_ENTITLED,
};

/// Every condition of a workspace proxy, the three of kstatus first.
pub(super) fn findings(observed: &Observed) -> Vec<Finding> {
    let Outside { reach, registered, secret, health, wait: _, is_given: _ } = &observed.outside;
    let AccessStates { control_plane, access, bootstrap, entitled, rate_limited: _ } = reach;
    let mut findings = summary(observed).to_vec();
    findings.extend([
        control_plane.finding(CONTROL_PLANE_READY),
        access.finding(OPERATOR_ACCESS_READY),
        entitled.finding(WORKSPACE_PROXIES_ENTITLED),
        registered.finding(PROXY_REGISTERED),
        secret.finding(PROXY_TOKEN_SECRET_READY),
        deployment::<Reason>(&observed.object.rollout, observed.ready_replicas),
        health.finding(PROXY_HEALTHY),
        summary::accepted::<Reason>(&observed.object),
    ]);
    findings.extend(bootstrap.iter().map(|state| state.finding(BOOTSTRAP_SECRET_READY)));
    findings.extend(exposure(&observed.exposure));
    findings.extend(summary::authority::<Reason>(&observed.object));
    findings
}

/// A reason and what it means here.
type Because = summary::Because<Reason>;

/// Ready, Reconciling and Stalled.
fn summary(observed: &Observed) -> [Finding; 3] {
    let ready = match &observed.object.rollout {
        Rollout::ScaledToZero => (Reason::ScaledToZero, "no replicas are requested"),
        _ if observed.outside.is_given => (Reason::Available, "the Deployment is rolled out"),
        _ => (Reason::ProxyReady, "the Deployment is rolled out, and coderd reaches the proxy"),
    };
    let standing = Standing {
        stalled: stalled(observed),
        unfinished: unfinished(observed),
        ready: (ready.0, ready.1.to_owned()),
        besides: observed.object.problems.unimportant.clone(),
        waited_for: &WAITED_FOR,
    };
    standing.summary(observed.object.late.as_deref())
}

/// What others have yet to make.
const WAITED_FOR: [Reason; 7] = [
    Reason::ReferenceMissing,
    Reason::ControlPlaneUnavailable,
    Reason::BootstrapSecretUnavailable,
    Reason::OperatorTokenSecretUnavailable,
    Reason::TokenSecretUnavailable,
    Reason::NotEntitled,
    Reason::NoGatewayAPI,
];

/// Everything outside that a proxy needs, the first thing first.
fn needed(outside: &Outside) -> impl Iterator<Item = &State> {
    let Outside { reach, registered, secret, health: _, wait: _, is_given: _ } = outside;
    let AccessStates { control_plane, access, bootstrap, entitled, rate_limited: _ } = reach;
    [control_plane, access].into_iter().chain(bootstrap).chain([entitled, registered, secret])
}

/// Why nothing will move before somebody acts. A proxy whose control plane is away restarts about once a minute: that is no
/// rollout that is stuck.
fn stalled(observed: &Observed) -> Option<Because> {
    let object = &observed.object;
    let is_away = observed.outside.reach.control_plane.is_open();
    None.or_else(|| summary::blocked(object))
        .or_else(|| summary::finalizer_refused(object))
        .or_else(|| needed(&observed.outside).find_map(State::is_refused))
        .or_else(|| Some((Reason::CertificateNameMissing, observed.unaddressed.clone()?)))
        .or_else(|| summary::stuck(object).filter(|_| !is_away))
}

/// What is still to come, the first thing first.
fn unfinished(observed: &Observed) -> Option<Because> {
    let rollout = || match &observed.object.rollout {
        Rollout::Absent | Rollout::Unseen => {
            Some((Reason::Creating, "the Deployment is created when there is a token for it".to_owned()))
        }
        rollout => summary::rolling_out(rollout),
    };
    let exposed = || match &observed.exposure {
        Exposure::NoGatewayApi => Some((Reason::NoGatewayAPI, NO_GATEWAY_API.to_owned())),
        Exposure::Failed(why) => Some((Reason::ExposureFailed, why.clone())),
        Exposure::Withheld(why) => Some((Reason::AdmissionDisabled, why.clone())),
        Exposure::Later(why) => Some((Reason::Progressing, why.clone())),
        Exposure::NotRequested | Exposure::InPlace(_) => None,
    };
    let health = || {
        let is_stopped = observed.object.rollout == Rollout::ScaledToZero;
        observed.outside.health.is_pending().filter(|_| !is_stopped)
    };
    None.or_else(|| summary::failed(&observed.object))
        .or_else(|| summary::missing(&observed.object))
        .or_else(|| needed(&observed.outside).find_map(State::is_pending))
        .or_else(rollout)
        .or_else(exposed)
        .or_else(health)
}

/// The way in from outside; nothing is said of one that is not asked for.
fn exposure(exposure: &Exposure) -> Option<Finding> {
    Some(match exposure {
        Exposure::NotRequested => return None,
        Exposure::InPlace(kind) => Finding::yes(EXPOSED, Reason::Applied, format!("the {kind} is in place")),
        Exposure::NoGatewayApi => Finding::no(EXPOSED, Reason::NoGatewayAPI, NO_GATEWAY_API),
        Exposure::Failed(why) => Finding::no(EXPOSED, Reason::ExposureFailed, &**why),
        Exposure::Withheld(why) => Finding::no(EXPOSED, Reason::AdmissionDisabled, &**why),
        Exposure::Later(why) => Finding::no(EXPOSED, Reason::Progressing, &**why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::status::conditions::ConditionStatus;
    use crate::controller::status::observed::ObservedObject;
    use crds::well_known::condition::{READY, RECONCILING, STALLED};

    fn yes() -> State {
        State::Yes(Reason::Accepted, String::new())
    }

    fn healthy() -> Observed {
        let reach = AccessStates {
            control_plane: yes(),
            access: yes(),
            bootstrap: None,
            entitled: yes(),
            rate_limited: None,
        };
        let outside = Outside { registered: yes(), secret: yes(), health: yes(), ..Outside::of(reach) };
        let object = ObservedObject { rollout: Rollout::Complete(1), ..ObservedObject::nothing() };
        Observed { ready_replicas: 1, ..Observed::only(object, outside) }
    }

    /// Which of the three holds, and why.
    fn standing(observed: &Observed) -> (&'static str, &'static str) {
        let all = findings(observed);
        let holds = |one: &&Finding| {
            [READY, RECONCILING, STALLED].contains(&one.type_) && one.status == ConditionStatus::True
        };
        let found: Vec<&Finding> = all.iter().filter(holds).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].type_, found[0].reason)
    }

    #[test]
    fn a_proxy_is_ready_when_coderd_reaches_it() {
        assert_eq!(standing(&healthy()), (READY, "ProxyReady"));
        let mut unchecked = healthy();
        unchecked.outside.health = State::Pending(Reason::WaitingForHealthCheck, String::new());
        assert_eq!(standing(&unchecked), (RECONCILING, "WaitingForHealthCheck"));
        unchecked.object.rollout = Rollout::ScaledToZero;
        assert_eq!(standing(&unchecked), (READY, "ScaledToZero"));
        let mut given = healthy();
        given.outside = Outside::given(yes());
        assert_eq!(standing(&given), (READY, "Available"));
    }

    #[test]
    fn a_control_plane_that_is_away_is_never_stalled() {
        let mut away = healthy();
        away.outside.reach.control_plane = State::Pending(Reason::ControlPlaneUnavailable, String::new());
        for rollout in
            [Rollout::Complete(1), Rollout::Stuck("x".to_owned()), Rollout::Unavailable("x".to_owned())]
        {
            away.object.rollout = rollout;
            assert_eq!(standing(&away), (RECONCILING, "ControlPlaneUnavailable"));
        }
        let mut stuck = healthy();
        stuck.object.rollout = Rollout::Stuck("x".to_owned());
        assert_eq!(standing(&stuck), (STALLED, "RolloutStuck"));
    }

    #[test]
    fn a_secret_that_is_not_there_is_waited_for_and_hides_no_rollout_that_is_late() {
        let mut missing = healthy();
        missing.object.missing = vec!["Secret ns/eu-tls does not exist".to_owned()];
        for rollout in [Rollout::Complete(1), Rollout::Stuck("x".to_owned())] {
            missing.object.rollout = rollout;
            assert_eq!(standing(&missing), (RECONCILING, "ReferenceMissing"));
        }
        let stalled = findings(&missing).remove(2).message;
        assert!(stalled.starts_with("waiting for the object named in Ready"), "{stalled}");
        missing.object.unread = Some("x".to_owned());
        assert_eq!(standing(&missing), (RECONCILING, "ReferenceUnreadable"));
    }

    #[test]
    fn a_conflict_stalls_while_what_runs_goes_on() {
        let mut taken = healthy();
        taken.outside.registered = State::Refused(Reason::ProxyNameConflict, String::new());
        assert_eq!(standing(&taken), (STALLED, "ProxyNameConflict"));
        let mut exposed = healthy();
        exposed.exposure = Exposure::NoGatewayApi;
        assert_eq!(standing(&exposed), (RECONCILING, "NoGatewayAPI"));
    }
}
