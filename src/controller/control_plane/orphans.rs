//! Finds rights and token Secrets whose control plane is gone, whatever became of its finalizer, and removes them.
//! It never removes what an object of that name may still want: only one that is named as missing twice, with time
//! between, is gone. Of a namespace that cannot be read nobody is gone.

use super::KIND;
use super::reasons::Reason;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::events::{EventDraft, Events, Severity};
use crate::kubernetes::{Kube, Target};
use crds::well_known::{MANAGER, label};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::ObjectMeta;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};
use webhooks::text::{LABEL, SUBDOMAIN};

/// What may be left: apiVersion, kind, plural. Secrets are looked for in our own namespace only.
const KINDS: [(&str, &str, &str); 3] = [
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    ("rbac.authorization.k8s.io/v1", "Role", "roles"),
    ("v1", "Secret", "secrets"),
];
/// Control planes that are asked about in one round; the others have their turn in the next.
const MOST: usize = 500;
/// A label of this length may be the beginning of a longer name, which nobody can ask for.
const SHORTENED: usize = 63;

/// When it is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From one round to the next.
    pub interval: Duration,
    /// From the first time that a control plane is missing to the second.
    pub grace: Duration,
}

/// What the API server says of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// There is none of this name.
    Gone,
    /// There is one, of whatever uid, or nobody can tell.
    Kept,
}

/// Which control planes are missing, and since when.
#[derive(Debug, Default)]
struct Missing {
    since: BTreeMap<ObjectKey, Instant>,
    /// The last one that was asked about.
    last: Option<ObjectKey>,
}

impl Missing {
    /// Whether what is left of a control plane is to be removed now.
    fn judge(&mut self, key: &ObjectKey, answer: Answer, grace: Duration, now: Instant) -> bool {
        if answer == Answer::Kept {
            self.since.remove(key);
            return false;
        }
        let since = *self.since.entry(key.clone()).or_insert(now);
        now.saturating_duration_since(since) >= grace
    }

    /// Forgets those of which nothing is left.
    fn retain(&mut self, left: &Left) {
        self.since.retain(|key, _| left.contains_key(key));
    }

    /// How long to wait for the next round.
    fn pause(&self, times: Times, now: Instant) -> Duration {
        let due = self.since.values().map(|since| (*since + times.grace).saturating_duration_since(now));
        // What is due and could not be removed has its turn in the next round.
        due.filter(|pause| !pause.is_zero()).fold(times.interval, Duration::min)
    }
}

/// What there is of each.
type Left = BTreeMap<ObjectKey, Vec<Leftover>>;

/// Something that a control plane made outside its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Leftover {
    kind: (&'static str, &'static str, &'static str),
    namespace: String,
    name: String,
    uid: String,
    version: Option<String>,
}

/// Whose it is, by its labels. Anybody can write those: what is no name of a control plane names none.
fn owner(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let labels = metadata.labels.as_ref()?;
    let namespace = labels.get(label::CONTROL_PLANE_NAMESPACE).filter(|name| LABEL.matches(name))?;
    let is_whole = |name: &&String| name.len() < SHORTENED && SUBDOMAIN.matches(name);
    let name = labels.get(label::CONTROL_PLANE).filter(is_whole)?;
    Some(ObjectKey { namespace: namespace.clone(), name: name.clone() })
}

/// Those that are asked about in this round: at most so many, beginning after the last one of the round before.
fn turn<'a>(
    left: &'a Left,
    after: Option<&ObjectKey>,
    most: usize,
) -> Vec<(&'a ObjectKey, &'a Vec<Leftover>)> {
    let Some(after) = after else { return left.iter().take(most).collect() };
    let next = left.range((Bound::Excluded(after), Bound::Unbounded));
    next.chain(left.range(..=after)).take(most).collect()
}

/// Looks for it at once and then again and again, until it is dropped.
pub(crate) async fn remove(kube: &Kube, events: &Events, control_planes: &ControlPlanes, times: Times) {
    if !control_planes.settled().await {
        return std::future::pending().await;
    }
    let mut missing = Missing::default();
    loop {
        let looked_everywhere = round(kube, events, control_planes, &mut missing, times.grace).await;
        let soon = if looked_everywhere { times.interval } else { times.grace };
        tokio::time::sleep(missing.pause(times, Instant::now()).min(soon)).await;
    }
}

/// Returns whether every list could be had.
async fn round(
    kube: &Kube,
    events: &Events,
    control_planes: &ControlPlanes,
    missing: &mut Missing,
    grace: Duration,
) -> bool {
    let (left, looked_everywhere) = left(kube, control_planes).await;
    missing.retain(&left);
    let turn = turn(&left, missing.last.as_ref(), MOST);
    missing.last = turn.last().map(|(key, _)| (*key).clone());
    for (key, leftovers) in turn {
        let answer = match kube.is_gone(key.target(KIND)).await {
            Ok(true) => Answer::Gone,
            Ok(false) => Answer::Kept,
            Err(error) => {
                tracing::debug!(namespace = key.namespace, name = key.name, %error, "nobody can tell whether it is gone");
                Answer::Kept
            }
        };
        if missing.judge(key, answer, grace, Instant::now()) {
            for one in leftovers {
                remove_one(kube, events, key, one).await;
            }
        }
    }
    looked_everywhere
}

/// What there is of control planes that we do not see, and whether every list could be had: one that cannot keeps nothing
/// elsewhere from being found. Those that we see are not asked for: there may be many.
async fn left(kube: &Kube, control_planes: &ControlPlanes) -> (Left, bool) {
    let selector = format!(
        "{}={MANAGER},{},{}",
        label::MANAGED_BY,
        label::CONTROL_PLANE,
        label::CONTROL_PLANE_NAMESPACE
    );
    let (mut left, mut looked_everywhere) = (Left::new(), true);
    for kind in KINDS {
        let (api_version, kind_name, plural) = kind;
        let places = if plural == "secrets" { vec![kube.namespace()] } else { kube.scope().places() };
        // A control plane that we do not look at may well be there: whoever looks at it answers for what it has.
        let unseen = |key: &ObjectKey| {
            kube.scope().contains(&key.namespace)
                && control_planes.is_listed(&key.namespace)
                && control_planes.named(&key.namespace, &key.name).is_none()
        };
        let text = |text: Option<String>| text.unwrap_or_default();
        let mut look = |metadata: ObjectMeta| {
            let Some(key) = owner(&metadata).filter(unseen) else { return };
            left.entry(key).or_default().push(Leftover {
                kind,
                namespace: text(metadata.namespace),
                name: text(metadata.name),
                uid: text(metadata.uid),
                version: metadata.resource_version,
            });
        };
        for namespace in places {
            let target = Target { api_version, kind: kind_name, plural, namespace, name: "" };
            if let Err(error) = kube.labelled_metadata(target, &selector, &mut look).await {
                tracing::warn!(%error, "what control planes that are gone have left could not be looked for");
                looked_everywhere = false;
            }
        }
    }
    (left, looked_everywhere)
}

/// Removes it, unless somebody changed it since it was seen: then somebody still wants it.
async fn remove_one(kube: &Kube, events: &Events, key: &ObjectKey, one: &Leftover) {
    let (api_version, kind, plural) = one.kind;
    let target = Target { api_version, kind, plural, namespace: &one.namespace, name: &one.name };
    let (namespace, name, owner) = (&one.namespace, &one.name, format!("{}/{}", key.namespace, key.name));
    match kube.remove_version(target, &one.uid, one.version.clone()).await {
        Ok(true) => {}
        // There is nothing to tell: somebody was faster, or it is looked at again in the next round.
        Ok(false) => return,
        Err(error) => {
            tracing::warn!(kind, namespace, name, owner, %error, "what is left of a control plane could not be removed");
            return;
        }
    }
    let note = note(kind, &owner);
    tracing::info!(kind, namespace, name, owner, "{note}");
    let about = ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(name.clone()),
        uid: Some(one.uid.clone()),
        ..ObjectReference::default()
    };
    let (reason, action) = (Reason::OrphanRemoved.to_string(), "Remove".to_owned());
    events.publish(&EventDraft { severity: Severity::Normal, reason, action, note }, &about).await;
}

fn note(kind: &str, owner: &str) -> String {
    if kind == "Secret" {
        return format!(
            "CoderControlPlane {owner} is gone: the Secret with the operator's token for it was removed, and the token \
             ends by itself within a day"
        );
    }
    format!("CoderControlPlane {owner} is gone: the permissions of its coderd here were removed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    const GRACE: Duration = Duration::from_secs(600);
    const TIMES: Times = Times { interval: Duration::from_secs(3600), grace: GRACE };

    fn key(name: &str) -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn only_who_is_missing_twice_with_time_between_is_gone() {
        let (mut missing, start, key) = (Missing::default(), Instant::now(), key("a"));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut judge = |answer, seconds| missing.judge(&key, answer, GRACE, at(seconds));
        assert!(!judge(Answer::Gone, 0) && !judge(Answer::Gone, 599));
        assert!(judge(Answer::Gone, 600));
        // There again, or nobody could tell: it counts from the beginning.
        assert!(!judge(Answer::Kept, 700) && !judge(Answer::Gone, 800) && !judge(Answer::Gone, 1399));
        assert!(judge(Answer::Gone, 1400));
    }

    #[test]
    fn the_second_look_comes_when_it_is_due_and_else_after_the_interval() {
        let (mut missing, start) = (Missing::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(missing.pause(TIMES, start), TIMES.interval);
        missing.judge(&key("a"), Answer::Gone, GRACE, start);
        missing.judge(&key("b"), Answer::Gone, GRACE, after(100));
        assert_eq!(missing.pause(TIMES, after(100)), Duration::from_secs(500));
        assert_eq!(
            missing.pause(TIMES, after(650)),
            Duration::from_secs(50),
            "the other one failed just now"
        );
        missing.retain(&BTreeMap::from([(key("a"), Vec::new())]));
        assert_eq!(missing.pause(TIMES, after(650)), TIMES.interval, "nothing is left of the other");
    }

    #[test]
    fn everybody_has_a_turn_however_many_there_are() {
        let left: Left = ["a", "b", "c", "d", "e"].map(|name| (key(name), Vec::new())).into();
        let names = |after: Option<&str>, most| -> Vec<String> {
            let turn = turn(&left, after.map(key).as_ref(), most);
            turn.into_iter().map(|(key, _)| key.name.clone()).collect()
        };
        assert_eq!(names(None, 2), ["a", "b"]);
        assert_eq!(names(Some("b"), 2), ["c", "d"]);
        assert_eq!(names(Some("d"), 2), ["e", "a"]);
        assert_eq!(
            names(Some("bb"), 9),
            ["c", "d", "e", "a", "b"],
            "each once, also if the last one is gone"
        );
    }

    #[test]
    fn what_is_left_names_its_owner_by_labels_unless_they_are_cut() {
        let of = |name: &str| {
            let labels =
                json!({"coder.com/control-plane": name, "coder.com/control-plane-namespace": "team"});
            owner(&from_value(json!({ "labels": labels })).unwrap())
        };
        assert_eq!(of("coder"), Some(key("coder")));
        assert_eq!(of(&"x".repeat(63)), None, "a longer name may begin like this");
        for forged in ["", "A", "a_b", "a..b", "-a"] {
            assert_eq!(of(forged), None, "{forged:?} is no name of a control plane");
        }
        assert_eq!(owner(&ObjectMeta::default()), None);
    }
}
