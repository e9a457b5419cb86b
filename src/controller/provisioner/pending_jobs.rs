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

/// Whose jobs: of which control plane and organization, asked with the token of which Secret, if the spec names one.
type Whose = (String, Uuid, Option<String>);

/// What is remembered of jobs, as long as this replica leads.
#[derive(Debug, Default)]
pub(super) struct JobMemory {
    /// Until when coderd is not asked again because it does not show jobs to the token's user.
    hidden: Mutex<BTreeMap<Whose, Instant>>,
    /// What was counted last, for the metric.
    counted: Mutex<BTreeMap<ObjectKey, usize>>,
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

    fn last(&self, key: &ObjectKey) -> Option<usize> {
        lock(&self.counted).get(key).copied()
    }

    fn count(&self, key: &ObjectKey, count: Option<usize>) {
        let mut counted = lock(&self.counted);
        match count {
            Some(count) => _ = counted.insert(key.clone(), count),
            None => _ = counted.remove(key),
        }
    }

    /// What was counted last, of as many objects as the metric may have.
    pub(super) fn counts(&self) -> Vec<JobCount> {
        let count = |(key, count): (&ObjectKey, &usize)| JobCount {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            jobs: i64::try_from(*count).unwrap_or(i64::MAX),
        };
        lock(&self.counted).iter().take(MOST_JOB_COUNTS).map(count).collect()
    }
}

impl Reconciler {
    /// The builds that wait for the daemons of a provisioner; none if coderd does not tell, and what it told last if there is no
    /// time to ask.
    pub(super) async fn pending_jobs(
        &self,
        key: &ObjectKey,
        (client, home, credentials): (&Client, &Home, Option<&str>),
        tags: &Tags,
        limit: Duration,
    ) -> Option<usize> {
        let whose = (home.control_plane.clone(), home.organization, credentials.map(str::to_owned));
        if self.jobs.is_hidden(&whose, Instant::now()) {
            return None;
        }
        let Ok(told) = timeout(limit, client.pending_jobs(home.organization, tags)).await else {
            return self.jobs.last(key);
        };
        let counted = match told {
            Ok(PendingJobs { count, .. }) => Some(count),
            Err(error) => {
                tracing::debug!(%error, "coderd did not tell which builds wait");
                if is_hidden(&error) {
                    self.jobs.hide(whose, Instant::now(), self.verify_interval);
                }
                None
            }
        };
        self.jobs.count(key, counted);
        counted
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
        let jobs = || -> Vec<i64> { memory.counts().into_iter().map(|one| one.jobs).collect() };
        memory.count(&key("a"), Some(3));
        memory.count(&key("b"), Some(0));
        assert_eq!(jobs(), [3, 0]);
        assert_eq!(memory.last(&key("a")), Some(3), "for want of time to ask again");
        memory.count(&key("a"), None);
        assert_eq!((jobs(), memory.last(&key("a"))), (vec![0], None));
        memory.forget(&key("b"));
        assert_eq!(jobs(), Vec::<i64>::new());
        (0..MOST_JOB_COUNTS + 5).for_each(|number| memory.count(&key(&format!("{number}")), Some(1)));
        assert_eq!(jobs().len(), MOST_JOB_COUNTS, "the number of series has a bound");
    }
}
