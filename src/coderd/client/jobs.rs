//! Which waiting jobs the daemons of a provisioner key would take, by coderd's own rule for tags, and the call that lists
//! them. It decides from tags alone and never looks at a daemon.

use super::elements::{Unlisted, read};
use super::requests::Request;
use super::short_text;
use super::{Client, Error};
use crate::coderd::uuid::Uuid;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Names with values: of a key, a daemon, a job.
pub type Tags = BTreeMap<String, String>;

const SCOPE: &str = "scope";
const OWNER: &str = "owner";
const ORGANIZATION: &str = "organization";
const USER: &str = "user";
/// The owner of a daemon that claims to be a user's and has none.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
/// How many jobs are asked for. Each names all daemons that could take it, so that a longer list would soon be more than
/// is read of an answer.
pub(super) const ASKED_FOR: usize = 50;
/// A longer tag is not worth the room that it takes in a URL.
const LONGEST_IN_FILTER: usize = 512;

/// The jobs that wait for the daemons of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingJobs {
    /// How many there are at least.
    pub count: usize,
    /// Whether there may be more: coderd had more jobs to show than it was asked for.
    pub more: bool,
}

/// A job, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Job {
    #[serde(default, deserialize_with = "short_text::tags")]
    tags: Tags,
}

impl Client {
    /// How many jobs of an organisation wait for daemons that have a key with these tags. coderd shows this to owners and
    /// to administrators of the organisation (or of its templates) alone; others get [`Error::NotFoundOrForbidden`].
    /// [`Error::TooLarge`] if it shows more than it was asked for. No job is kept.
    pub async fn pending_jobs(&self, organization: Uuid, tags: &Tags) -> Result<PendingJobs, Error> {
        let request = Request::pending_jobs(organization, &filter(tags));
        let mut count = Count::of(tags);
        let mut reader = |object: &[u8]| match count.add(&read(object)?) {
            true => Ok(()),
            false => Err(Unlisted::TooLarge(ASKED_FOR)),
        };
        self.list(request, &mut reader).await?;
        Ok(count.pending())
    }
}

/// Counts the jobs that daemons with a key of some tags would take, one after the other.
#[derive(Debug)]
struct Count {
    daemon: Tags,
    taken: usize,
    listed: usize,
}

impl Count {
    /// For daemons with a key of these tags.
    fn of(key: &Tags) -> Self {
        Self { daemon: of_daemon(key), taken: 0, listed: 0 }
    }

    /// Counts a job; no more are counted than were asked for.
    fn add(&mut self, job: &Job) -> bool {
        self.listed += 1;
        self.taken += usize::from(takes(&self.daemon, &job.tags));
        self.listed <= ASKED_FOR
    }

    /// What was counted.
    fn pending(&self) -> PendingJobs {
        PendingJobs { count: self.taken, more: self.listed >= ASKED_FOR }
    }
}

/// The tags by which coderd is asked to narrow its list. It shows jobs that have at least these, while a daemon takes
/// jobs that have at most its own; so only what every job that it takes must have can be asked for. Two exceptions are
/// exact: the tags of an untagged daemon, which coderd compares as a whole, and a single tag of its own, without which a
/// job would be an untagged one.
pub(super) fn filter(key: &Tags) -> Tags {
    let daemon = of_daemon(key);
    if daemon == untagged() {
        return daemon;
    }
    let mut own = daemon.iter().filter(|(name, _)| ![SCOPE, OWNER].contains(&name.as_str()));
    let single = own.next().filter(|_| own.next().is_none());
    let short = |(name, value): &(&String, &String)| name.len() + value.len() <= LONGEST_IN_FILTER;
    daemon.get_key_value(SCOPE).into_iter().chain(single.filter(short)).map(owned).collect()
}

fn owned((name, value): (&String, &String)) -> (String, String) {
    (name.clone(), value.clone())
}

/// The tags of a daemon that dials with a key: coderd drops empty values and settles scope and owner.
fn of_daemon(key: &Tags) -> Tags {
    let mut tags: Tags = key.iter().filter(|(_, value)| !value.is_empty()).map(owned).collect();
    let users = tags.get(SCOPE).is_some_and(|scope| scope == USER);
    let (scope, owner) = if users { (USER, NOBODY) } else { (ORGANIZATION, "") };
    tags.insert(SCOPE.to_owned(), scope.to_owned());
    tags.insert(OWNER.to_owned(), owner.to_owned());
    tags
}

/// coderd's rule: an untagged job runs only on an untagged daemon, any other where all its tags are.
fn takes(daemon: &Tags, job: &Tags) -> bool {
    if *job == untagged() {
        *daemon == *job
    } else {
        job.iter().all(|(name, value)| daemon.get(name) == Some(value))
    }
}

fn untagged() -> Tags {
    [(SCOPE, ORGANIZATION), (OWNER, "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn waiting_for(key: &Tags, listed: &[Job]) -> PendingJobs {
        let mut count = Count::of(key);
        assert!(listed.iter().all(|job| count.add(job)));
        count.pending()
    }

    /// A job as coderd stores it.
    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut tags = tags(pairs);
        tags.entry(SCOPE.to_owned()).or_insert(ORGANIZATION.to_owned());
        tags.entry(OWNER.to_owned()).or_default();
        Job { tags }
    }

    #[test]
    fn a_daemon_takes_jobs_with_its_tags_or_fewer_but_untagged_ones_only_when_untagged() {
        let jobs = || {
            vec![
                job(&[]),
                job(&[("zone", "eu")]),
                job(&[("zone", "us")]),
                job(&[("zone", "eu"), ("gpu", "yes")]),
                job(&[("zone", "eu"), ("gpu", "yes"), ("big", "yes")]),
                job(&[(SCOPE, USER), (OWNER, "6f1f6a3e-0000-4000-8000-000000000001")]),
            ]
        };
        for (key, count) in [
            (tags(&[]), 1),
            (tags(&[("empty", "")]), 1),
            (tags(&[("zone", "eu")]), 1),
            (tags(&[("zone", "eu"), ("gpu", "yes")]), 2),
            (tags(&[("zone", "eu"), ("gpu", "yes"), ("big", "yes")]), 3),
            (tags(&[(SCOPE, USER), (OWNER, "6f1f6a3e-0000-4000-8000-000000000001")]), 0),
            (tags(&[(SCOPE, "nonsense")]), 1),
        ] {
            assert_eq!(waiting_for(&key, &jobs()), PendingJobs { count, more: false }, "{key:?}");
        }
    }

    #[test]
    fn a_full_list_may_not_be_all() {
        let jobs: Vec<Job> = (0..ASKED_FOR).map(|_| job(&[("zone", "us")])).collect();
        assert_eq!(waiting_for(&tags(&[("zone", "eu")]), &jobs), PendingJobs { count: 0, more: true });
        let mut count = Count::of(&tags(&[]));
        assert!(jobs.iter().all(|job| count.add(job)) && !count.add(&jobs[0]), "it was not asked for more");
        let nameless: Job = serde_json::from_str(r#"{"tags":null}"#).unwrap();
        assert_eq!(waiting_for(&tags(&[]), &[nameless]).count, 1, "no tags at all are everybody's");
    }

    #[test]
    fn coderd_is_asked_as_narrowly_as_misses_nothing() {
        for (key, asked) in [
            (tags(&[]), untagged()),
            (tags(&[("zone", "eu")]), tags(&[(SCOPE, ORGANIZATION), ("zone", "eu")])),
            (tags(&[("zone", "eu"), ("gpu", "yes")]), tags(&[(SCOPE, ORGANIZATION)])),
            (tags(&[("zone", &"x".repeat(600))]), tags(&[(SCOPE, ORGANIZATION)])),
            (tags(&[(SCOPE, USER)]), tags(&[(SCOPE, USER)])),
        ] {
            assert_eq!(filter(&key), asked, "{key:?}");
        }
    }
}
