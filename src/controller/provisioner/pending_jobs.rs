//! How many builds wait for the daemons of a provisioner, for autoscalers: asked of coderd, unless it has just said that it does
//! not show them, and kept for the metric. Nothing else depends on it.

use super::key::record::Home;
use super::reconciler::Reconciler;
use crate::coderd::client::{PendingJobs, Tags};
use crate::coderd::{Client, Error, Uuid};
use crate::controller::identity::ObjectKey;
use crate::serving::metrics::{JobCount, MOST_JOB_COUNTS};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// What is known of the builds that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jobs {
    /// So many.
    Counted(usize),
    /// As many as were counted: one question had no answer, or no time.
    AsBefore,
    /// Nobody tells.
    Unknown,
}

/// Whose jobs: of which control plane and organization, asked with the token of which Secret, if the spec names one.
type Whose = (String, Uuid, Option<String>);

/// What is remembered of jobs, as long as this replica leads.
#[derive(Debug, Default)]
pub(super) struct JobMemory {
    /// Until when coderd is not asked again because it does not show jobs to the token's user.
    hidden: Mutex<BTreeMap<Whose, Instant>>,
    /// What was counted last, for the metric.
    counted: Mutex<BTreeMap<ObjectKey, Counted>>,
}

/// What was counted.
#[derive(Debug)]
struct Counted {
    jobs: usize,
    /// For whom, with which tags.
    of: (Whose, Tags),
    /// Whether the next question had no answer.
    is_old: bool,
}

impl JobMemory {
    /// Forgets everything.
    pub(super) fn clear(&self) {
        lock(&self.hidden).clear();
        lock(&self.counted).clear();
    }

    /// Forgets an object.
    pub(super) fn forget(&self, key: &ObjectKey) {
        lock(&self.counted).remove(key);
    }

    fn is_hidden(&self, whose: &Whose, now: Instant) -> bool {
        lock(&self.hidden).get(whose).is_some_and(|until| now < *until)
    }

    /// Notes that coderd does not show them. What is over is forgotten, so that there are never more than are asked for.
    fn hide(&self, whose: Whose, now: Instant, pause: Duration) {
        let mut hidden = lock(&self.hidden);
        hidden.retain(|_, until| now < *until);
        hidden.insert(whose, now + pause);
    }

    /// Notes what coderd told.
    fn told(&self, key: &ObjectKey, of: (Whose, Tags), jobs: usize) -> Jobs {
        lock(&self.counted).insert(key.clone(), Counted { jobs, of, is_old: false });
        Jobs::Counted(jobs)
    }

    /// Notes that coderd does not tell.
    fn untold(&self, key: &ObjectKey) -> Jobs {
        self.forget(key);
        Jobs::Unknown
    }

    /// Notes that nobody answered: what was counted before counts once more, if it was counted for the same. `of` is not known
    /// where coderd was not reached.
    pub(super) fn unanswered(&self, key: &ObjectKey, of: Option<&(Whose, Tags)>) -> Jobs {
        let mut counted = lock(&self.counted);
        match counted.get_mut(key).filter(|known| !known.is_old && of.is_none_or(|of| *of == known.of)) {
            Some(known) => {
                known.is_old = true;
                Jobs::AsBefore
            }
            None => {
                counted.remove(key);
                Jobs::Unknown
            }
        }
    }

    /// What was counted last, of as many objects as the metric may have.
    pub(super) fn counts(&self) -> Vec<JobCount> {
        let count = |(key, counted): (&ObjectKey, &Counted)| JobCount {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            jobs: i64::try_from(counted.jobs).unwrap_or(i64::MAX),
        };
        lock(&self.counted).iter().take(MOST_JOB_COUNTS).map(count).collect()
    }
}

impl Reconciler {
    /// The builds that wait for the daemons of a provisioner, asked for as long as there is time.
    pub(super) async fn pending_jobs(
        &self,
        key: &ObjectKey,
        (client, home, credentials): (&Client, &Home, Option<&str>),
        tags: &Tags,
        limit: Duration,
    ) -> Jobs {
        let whose = (home.control_plane.clone(), home.organization, credentials.map(str::to_owned));
        if self.jobs.is_hidden(&whose, Instant::now()) {
            return self.jobs.untold(key);
        }
        let of = (whose, tags.clone());
        match timeout(limit, client.pending_jobs(home.organization, tags)).await {
            Ok(Ok(PendingJobs { count, .. })) => self.jobs.told(key, of, count),
            Ok(Err(error)) if is_hidden(&error) => {
                self.jobs.hide(of.0, Instant::now(), self.verify_interval);
                self.jobs.untold(key)
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "coderd did not tell which builds wait");
                self.jobs.unanswered(key, Some(&of))
            }
            Err(_) => self.jobs.unanswered(key, Some(&of)),
        }
    }
}

/// Whether coderd will say the same until somebody changes a role, or coderd itself.
fn is_hidden(error: &Error) -> bool {
    matches!(error, Error::NotFoundOrForbidden { .. } | Error::Forbidden { .. } | Error::RouteMissing { .. })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::Operation;

    #[test]
    fn who_may_not_see_jobs_is_asked_about_again_after_a_while() {
        let memory = JobMemory::default();
        let organization = Uuid::random().unwrap();
        let whose =
            |credentials: Option<&str>| ("uid".to_owned(), organization, credentials.map(str::to_owned));
        let (now, pause) = (Instant::now(), Duration::from_secs(300));
        memory.hide(whose(None), now, pause);
        assert!(memory.is_hidden(&whose(None), now) && !memory.is_hidden(&whose(Some("mine")), now));
        assert!(!memory.is_hidden(&whose(None), now + pause), "a role may have been given meanwhile");
        memory.hide(whose(Some("mine")), now + pause, pause);
        assert_eq!(lock(&memory.hidden).len(), 1, "what is over is forgotten");
        let operation = Operation::PendingJobs;
        assert!(is_hidden(&Error::NotFoundOrForbidden { operation }));
        assert!(!is_hidden(&Error::TimedOut { operation }), "that says nothing of a role");
    }

    #[test]
    fn a_count_is_shown_until_coderd_no_longer_tells_or_the_object_goes() {
        let memory = JobMemory::default();
        let key = |name: &str| ObjectKey { namespace: "team".to_owned(), name: name.to_owned() };
        let whose = ("uid".to_owned(), Uuid::random().unwrap(), None);
        let of = |tag: &str| (whose.clone(), Tags::from([("a".to_owned(), tag.to_owned())]));
        let jobs = || -> Vec<i64> { memory.counts().into_iter().map(|one| one.jobs).collect() };
        assert_eq!(memory.told(&key("a"), of("x"), 3), Jobs::Counted(3));
        memory.told(&key("b"), of("x"), 0);
        assert_eq!(jobs(), [3, 0]);
        assert_eq!((memory.untold(&key("a")), jobs()), (Jobs::Unknown, vec![0]));
        memory.forget(&key("b"));
        assert_eq!(jobs(), Vec::<i64>::new());
        for number in 0..MOST_JOB_COUNTS + 5 {
            memory.told(&key(&format!("{number}")), of("x"), 1);
        }
        assert_eq!(jobs().len(), MOST_JOB_COUNTS, "the number of series has a bound");
    }

    #[test]
    fn a_count_outlives_one_answer_that_did_not_come_and_no_other_question() {
        let memory = JobMemory::default();
        let key = ObjectKey { namespace: "team".to_owned(), name: "a".to_owned() };
        let whose = ("uid".to_owned(), Uuid::random().unwrap(), None);
        let of = |tag: &str| (whose.clone(), Tags::from([("a".to_owned(), tag.to_owned())]));
        for unknown in [None, Some(of("x"))] {
            memory.told(&key, of("x"), 37);
            assert_eq!(memory.unanswered(&key, unknown.as_ref()), Jobs::AsBefore);
            assert_eq!(memory.counts().len(), 1);
            assert_eq!(
                memory.unanswered(&key, unknown.as_ref()),
                Jobs::Unknown,
                "an autoscaler would stay at it"
            );
            assert_eq!(memory.counts().len(), 0);
        }
        memory.told(&key, of("x"), 37);
        assert_eq!(
            memory.unanswered(&key, Some(&of("y"))),
            Jobs::Unknown,
            "of other tags nothing was counted"
        );
    }
}
