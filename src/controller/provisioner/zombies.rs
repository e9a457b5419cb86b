//! Decides which pod of a provisioner is a zombie: it is ready, and coderd has not heard of its daemon for longer than it lists
//! one that is gone. A daemon that was refused once, while the license had lapsed say, never dials again. Pure: it never asks
//! anybody, and it never names more than one pod to delete.

use crate::controller::workload::pods::is_of_deployment;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long coderd lists a daemon that it does not hear of any more.
pub(super) const WINDOW: SignedDuration = SignedDuration::from_mins(3);
/// The time between two deletions of pods of one provisioner.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// The time between two looks of one row.
const LONGEST_GAP: SignedDuration = SignedDuration::from_mins(6);
/// Names that are told; more would say the same.
const MOST_NAMES: usize = 3;

/// What is remembered of the pods of a provisioner from one look to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Silence {
    /// Since when each pod is not listed, in an unbroken row of looks, by its uid.
    since: BTreeMap<String, Timestamp>,
    /// When the last look of that row was.
    looked: Option<Timestamp>,
    /// When the last one was deleted.
    deleted: Option<Timestamp>,
}

impl Silence {
    /// What is left of it after a look that could not be taken: every daemon has its time from the next one on.
    pub(super) fn broken(&self) -> Self {
        Self { since: BTreeMap::new(), looked: None, deleted: self.deleted }
    }

    /// The same, unless the last look was so long ago that nobody knows what was in between.
    fn unbroken(&self, now: Timestamp) -> Self {
        let is_recent = |last: Timestamp| now.duration_since(last) <= LONGEST_GAP;
        if self.looked.is_none_or(is_recent) { self.clone() } else { self.broken() }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// By which field of its pod a daemon is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CalledBy {
    /// `metadata.name`.
    Name,
    /// `metadata.uid`.
    Uid,
}

/// What is kept of a pod of the Deployment: there may be hundreds, and whoever writes their template chooses how large they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    name: String,
    uid: String,
    is_leaving: bool,
    ready_since: Option<Timestamp>,
}

impl Pod {
    /// Of metadata and status, if it is a pod of this Deployment.
    pub(super) fn of(pod: &Value, workload: &str) -> Option<Self> {
        let metadata = &pod["metadata"];
        let (name, uid) = (metadata["name"].as_str()?, metadata["uid"].as_str()?);
        is_of_deployment(metadata, workload).then(|| Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            is_leaving: !metadata["deletionTimestamp"].is_null(),
            ready_since: ready_since(pod),
        })
    }
}

/// What a look shows: the license covers daemons, every pod was started with the key in use, and coderd told who uses it.
#[derive(Debug, Clone)]
pub(super) struct Look<'a> {
    /// The pods of the Deployment.
    pub(super) pods: &'a [Pod],
    /// By which field their daemons are called.
    pub(super) called_by: CalledBy,
    /// The names of the daemons that coderd lists with the key in use.
    pub(super) daemons: &'a BTreeSet<String>,
    /// How long one must have been missing before it counts. A coderd that was down for longer than [`WINDOW`] lists nobody
    /// at first; daemons dial again within seconds.
    pub(super) quiet: SignedDuration,
    /// The time.
    pub(super) now: Timestamp,
}

/// A pod that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zombie {
    pub(super) name: String,
    pub(super) uid: String,
}

/// What follows from a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    /// What is remembered.
    pub(super) silence: Silence,
    /// The pods that are zombies, by name.
    pub(super) zombies: Vec<String>,
    /// The one that goes now.
    pub(super) delete: Option<Zombie>,
    /// When to look again, if not everything is in order.
    pub(super) again: Option<Duration>,
}

/// Judges the pods of a provisioner.
pub(super) fn judge(before: &Silence, look: &Look<'_>) -> Judged {
    let before = before.unbroken(look.now);
    let mut missing: Vec<(Timestamp, Zombie)> = look
        .pods
        .iter()
        .filter_map(|pod| look.missing(pod))
        .map(|pod| (before.since.get(&pod.uid).copied().unwrap_or(look.now), pod))
        .collect();
    missing.sort_by(|(since, one), (other_since, other)| (since, &one.name).cmp(&(other_since, &other.name)));
    let since = missing.iter().map(|(since, pod)| (pod.uid.clone(), *since)).collect();
    let is_over = |since: Timestamp| left(since, look.quiet, look.now) == Duration::ZERO;
    let over: Vec<&Zombie> =
        missing.iter().filter(|(since, _)| is_over(*since)).map(|(_, pod)| pod).collect();
    let pause = before.deleted.map_or(Duration::ZERO, |last| left(last, PAUSE, look.now));
    let delete = over.first().filter(|_| pause == Duration::ZERO).map(|pod| (*pod).clone());
    let next = missing.first().map(|(since, _)| left(*since, look.quiet, look.now).max(pause));
    let soon = Duration::try_from(PAUSE).unwrap_or_default();
    Judged {
        zombies: over.iter().map(|pod| pod.name.clone()).collect(),
        again: if delete.is_some() { Some(soon) } else { next },
        silence: Silence {
            since,
            looked: (!missing.is_empty()).then_some(look.now),
            deleted: delete.as_ref().map(|_| look.now).or(before.deleted),
        },
        delete,
    }
}

/// How much is left of a time that began then.
fn left(since: Timestamp, span: SignedDuration, now: Timestamp) -> Duration {
    let passed = now.duration_since(since);
    Duration::try_from(span.saturating_sub(passed)).unwrap_or_default()
}

impl Look<'_> {
    /// The pod, if it has been ready for long and coderd does not list its daemon.
    fn missing(&self, pod: &Pod) -> Option<Zombie> {
        let daemon = match self.called_by {
            CalledBy::Name => &pod.name,
            CalledBy::Uid => &pod.uid,
        };
        let is_long_ready = pod.ready_since.is_some_and(|since| self.now.duration_since(since) > WINDOW);
        let is_missing = !pod.is_leaving && is_long_ready && !self.daemons.contains(daemon);
        is_missing.then(|| Zombie { name: pod.name.clone(), uid: pod.uid.clone() })
    }
}

fn ready_since(pod: &Value) -> Option<Timestamp> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready" && one["status"] == "True")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

/// How the daemons of a Deployment are called, if its pods say so themselves: a name that an author gave fits no pod.
pub(super) fn called_by(container: &Value, variable: &str) -> Option<CalledBy> {
    let arguments = container["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut names = arguments.filter(|argument| *argument == "--name" || argument.starts_with("--name="));
    if names.next().is_some() {
        return None;
    }
    let one = container["env"].as_array()?.iter().find(|one| one["name"] == variable)?;
    match one["valueFrom"]["fieldRef"]["fieldPath"].as_str()? {
        "metadata.name" => Some(CalledBy::Name),
        "metadata.uid" => Some(CalledBy::Uid),
        _ => None,
    }
}

/// Whether a list of pods is worth a request: coderd lists fewer daemons that could be theirs than pods are ready.
pub(super) fn is_worth_a_look(ready: i32, workload: &str, by: CalledBy, daemons: &BTreeSet<String>) -> bool {
    let may_be = |name: &&String| by == CalledBy::Uid || name.starts_with(workload);
    let seen = daemons.iter().filter(may_be).count();
    usize::try_from(ready).is_ok_and(|ready| seen < ready)
}

/// What is said of zombies.
pub(super) fn told(zombies: &[String]) -> Option<String> {
    let (first, others) = zombies.split_at(zombies.len().min(MOST_NAMES));
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let (pods, are, daemons) =
        if zombies.len() == 1 { ("pod", "is", "its daemon") } else { ("pods", "are", "their daemons") };
    (!first.is_empty()).then(|| {
        format!(
            "{pods} {}{more} {are} ready, and coderd has not heard of {daemons} for more than three minutes; such pods are \
             deleted, one a minute, so that others take their place",
            first.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
