//! Decides the one next step of taking over a Helm release, from what is live and nothing else: after a crash anywhere the
//! same step follows. Pure. Its pods go only when the Service leads to ours, and nothing begins that could not be ended.

use crate::controller::children::helm::Whose;

/// What is seen of a release, and of what takes its place.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The Deployment.
    pub(super) deployment: Whose,
    /// Whether that Deployment is being deleted.
    pub(super) is_going: bool,
    /// Service, Ingress or HTTPRoute: what leads users to the pods.
    pub(super) fronts: Vec<Whose>,
    /// What nobody is led by: the account, a disruption budget, a monitor.
    pub(super) others: Vec<Whose>,
    /// Whether the Service is ours and leads to our pods, and to no other.
    pub(super) leads_to_ours: bool,
    /// Whether all replicas of our Deployment are available, and there are some.
    pub(super) is_available: bool,
    /// Whether ReplicaSets of the release are left that no Deployment has.
    pub(super) has_pods: bool,
    /// Why ours could not take its place.
    pub(super) obstacle: Option<String>,
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing of the release; whether ours is in its place for good.
    Nothing {
        /// Our Deployment and our Service are there.
        is_in_place: bool,
    },
    /// Nothing is touched; why, for a person.
    Refuse(String),
    /// Its Deployment goes and leaves its pods running.
    LetGo,
    /// Its Deployment is about to be gone.
    AwaitGone,
    /// Ours starts beside its pods, which users are still led to.
    Start,
    /// Users are led to ours.
    Lead,
    /// Its pods go.
    RemovePods,
}

impl Step {
    /// Whether the Deployment of the release still has the name of ours.
    pub(super) fn holds_deployment(&self) -> bool {
        matches!(self, Self::LetGo | Self::AwaitGone)
    }

    /// Whether what leads users to pods stays as it is.
    pub(super) fn holds_fronts(&self) -> bool {
        matches!(self, Self::LetGo | Self::AwaitGone | Self::Start)
    }
}

const NO_DEPLOYMENT: &str = "the release has objects with these names, but no Deployment of the name of this object's, and no pods that \
    one left behind: give the object the name of the release's Deployment, and spec.serviceAccount another name";

/// The next step.
pub(super) fn next(seen: &Seen) -> Step {
    let mut names = [&seen.deployment].into_iter().chain(&seen.fronts).chain(&seen.others);
    let of_others = names.find_map(|whose| match whose {
        Whose::Others(why) => Some(why.clone()),
        _ => None,
    });
    let is_theirs = |whose: &Whose| *whose == Whose::OfRelease;
    match (&seen.deployment, of_others) {
        (Whose::OfRelease, _) if seen.is_going => return Step::AwaitGone,
        (Whose::OfRelease, None) => return seen.obstacle.clone().map_or(Step::LetGo, Step::Refuse),
        (Whose::OfRelease | Whose::Others(_), Some(why)) => return Step::Refuse(why),
        // What was begun is ended, whatever is in the way of the rest.
        _ => {}
    }
    let is_led_by_theirs = seen.fronts.iter().any(is_theirs);
    if !seen.has_pods && (is_led_by_theirs || seen.others.iter().any(is_theirs)) {
        // It was never begun here: what it has belongs to pods of another name, or to something that is not coderd.
        return Step::Refuse(NO_DEPLOYMENT.to_owned());
    }
    if !seen.has_pods {
        return Step::Nothing { is_in_place: seen.deployment == Whose::Ours && seen.leads_to_ours };
    }
    match (seen.is_available, seen.leads_to_ours && !is_led_by_theirs) {
        (false, false) => Step::Start,
        (true, true) if seen.has_pods => Step::RemovePods,
        _ => Step::Lead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Whose::{Nobodys, OfRelease, Ours};

    fn others() -> Whose {
        Whose::Others("Service coder belongs to no Helm release".to_owned())
    }

    /// A release that runs.
    fn running() -> Seen {
        Seen {
            deployment: OfRelease,
            is_going: false,
            fronts: vec![OfRelease, Nobodys],
            others: vec![OfRelease],
            leads_to_ours: false,
            is_available: false,
            has_pods: false,
            obstacle: None,
        }
    }

    #[test]
    fn each_step_follows_from_what_is_there_and_the_pods_go_last() {
        let mut seen = running();
        assert_eq!(next(&seen), Step::LetGo);
        seen.is_going = true;
        assert_eq!(next(&seen), Step::AwaitGone);
        seen = Seen { deployment: Nobodys, is_going: false, has_pods: true, ..seen };
        assert_eq!(next(&seen), Step::Start);
        seen = Seen { deployment: Ours, others: vec![Ours], ..seen };
        assert_eq!(next(&seen), Step::Start, "it is not available yet");
        seen.is_available = true;
        assert_eq!(next(&seen), Step::Lead);
        seen.fronts = vec![Ours, Nobodys];
        assert_eq!(next(&seen), Step::Lead, "it is ours and leads to their pods: a crash between two writes");
        seen.leads_to_ours = true;
        assert_eq!(next(&seen), Step::RemovePods);
        seen.has_pods = false;
        assert_eq!(next(&seen), Step::Nothing { is_in_place: true });
    }

    #[test]
    fn nothing_is_begun_that_could_not_be_ended() {
        let refused = |seen: &Seen| matches!(next(seen), Step::Refuse(_));
        assert!(refused(&Seen { fronts: vec![others()], ..running() }));
        assert!(refused(&Seen { others: vec![others()], ..running() }));
        assert!(refused(&Seen { deployment: others(), ..running() }));
        assert!(refused(&Seen { obstacle: Some("no replicas".to_owned()), ..running() }));
        // The attack: an object that is named like the account or the Service of a release whose pods have another name.
        for deployment in [Nobodys, Ours] {
            for leads_to_ours in [false, true] {
                let unrelated = Seen { deployment: deployment.clone(), leads_to_ours, ..running() };
                assert!(refused(&unrelated), "{unrelated:?}");
            }
        }
        let begun = Seen { deployment: Nobodys, has_pods: true, others: vec![others()], ..running() };
        assert_eq!(next(&begun), Step::Start, "ours still takes their place");
    }

    /// Whatever is seen: their pods go only while ours are available and led to, and users are led to ours only then.
    #[test]
    fn there_is_never_a_gap() {
        let each = [Nobodys, Ours, OfRelease, others()];
        for case in 0..64 * 32_usize {
            let of = |place: usize| each[(case / place) % 4].clone();
            let [deployment, front, other] = [of(1), of(4), of(16)];
            let [going, leading, ready, has_pods, blocked] =
                [0, 1, 2, 3, 4].map(|bit| (case >> (6 + bit)) & 1 == 1);
            let (is_available, leads_to_ours) = (ready && deployment == Ours, leading && front == Ours);
            let seen = Seen {
                is_going: going && deployment == OfRelease,
                fronts: vec![front],
                others: vec![other],
                leads_to_ours,
                is_available,
                has_pods,
                obstacle: blocked.then(|| "why".to_owned()),
                deployment,
            };
            let step = next(&seen);
            if step == Step::RemovePods {
                assert!(is_available && leads_to_ours, "{seen:?}");
            }
            if step == Step::LetGo {
                assert!(seen.deployment == OfRelease && !blocked, "{seen:?}");
            }
            let is_there = seen.deployment == OfRelease || has_pods;
            if is_there && !leads_to_ours && !is_available && !matches!(step, Step::Refuse(_)) {
                assert!(step.holds_fronts(), "{seen:?}: {step:?}");
            }
        }
    }
}
