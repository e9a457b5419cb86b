//! How a kind is listed and watched: one object after the other from the first on, so that a list never takes more memory
//! than its largest object, whoever wrote the others. It keeps nothing; what an event means is not known here.
//!
//! What each list and watch of the process is bounded by; the API server takes no object above 1.5 MiB, and no more than
//! 256 KiB of annotations on one:
//!
//! | what | objects | read of each | kept |
//! |---|---|---|---|
//! | Secrets, ConfigMaps, Namespaces (all of the cluster) | one at a time | trimmed metadata | nothing; names of a few |
//! | children by label: Deployments, Services, ServiceAccounts, Roles, RoleBindings, Ingresses, budgets, routes, monitors | one at a time | trimmed metadata | hashes of 50,000 at most |
//! | CustomResourceDefinitions (by name) | one | trimmed metadata | nothing |
//! | CoderControlPlanes | one at a time | trimmed metadata, the texts of spec and status | all of it; admission bounds the spec, a status above 64 KiB is not kept |
//! | our other kinds | one at a time | trimmed metadata, a part of the spec | names, and that part |
//! | webhook configurations, APIServices (by label; administrators write them) | one at a time | everything | everything |
//! | the CA's Secret, the front proxy's ConfigMap (by name) | one | everything | everything |
//! | orphans, sweeps (Roles, RoleBindings, ServiceAccounts, our own Secrets, by label) | a page of 50, 4 MiB at most | trimmed metadata | names, by label |
//! | pods of a late rollout (by label) | a page of 50, 4 MiB at most | trimmed metadata, status | 50 at most |
//!
//! A watch holds the line of one object, which takes 3 MiB at the worst (JSON writes some letters of annotations with six
//! bytes), in a buffer of 4 MiB. Of the 22 watches of a process a tenant can fill fourteen: 56 MiB, if he has an object of
//! 1.5 MiB of each kind; a usual object of 250 kB makes half a megabyte for each. No more lines are parsed at once than there
//! are threads.

use super::lists::PAGE;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Events of a kind, beginning with all there is. Failures are passed on and tried again, later each time.
pub(super) fn events<K>(
    objects: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Send + Sync,
{
    let streamed = watch_objects(objects.clone(), config.clone().streaming_lists()).boxed();
    let paged = watch_objects(objects, config.page_size(PAGE)).boxed();
    or_else(streamed, paged).backoff(Pauses::new())
}

/// The pauses between failures. The first are short: a kind that was defined a moment ago is not served at once, and
/// whoever has just installed us waits for it. A list that begins is no success yet, so that only time forgives: the pause
/// grows until a watch has gone well for a while.
struct Pauses {
    next: Duration,
    /// When the last pause began.
    since: Option<Instant>,
}

impl Pauses {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(30);
    /// How long a watch must go well until the next failure counts as the first.
    const FORGIVEN: Duration = Duration::from_secs(120);

    fn new() -> Self {
        Self { next: Self::FIRST, since: None }
    }

    /// The pause after a failure at this time.
    fn after(&mut self, now: Instant) -> Duration {
        if self.since.is_some_and(|since| now.saturating_duration_since(since) > self.next + Self::FORGIVEN) {
            self.next = Self::FIRST;
        }
        let pause = self.next;
        (self.next, self.since) = ((pause * 2).min(Self::LONGEST), Some(now));
        pause
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.after(Instant::now()))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// The first stream, unless the API server does not send lists as a stream: then the second. What it did not send was not
/// begun either, so that nothing is told twice.
fn or_else<K: Send + 'static>(
    streamed: Events<K>,
    paged: Events<K>,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K> {
    futures::stream::unfold((streamed, Some(paged)), |(mut events, mut paged)| async move {
        loop {
            match events.next().await? {
                Err(error) if is_not_streamed(&error) && paged.is_some() => {
                    tracing::debug!(%error, "the API server does not stream lists; they come in pages");
                    events = paged.take()?;
                }
                event => return Some((event, (events, paged))),
            }
        }
    })
}

/// Whether the API server refuses to send a list as a stream: it does not take the parameters that ask for it.
fn is_not_streamed(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    matches!(status.code, 400 | 422)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use kube::core::Status;

    fn refused(code: u16, message: &str) -> watcher::Error {
        let status = Status::failure(message, "Invalid").with_code(code);
        watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    const FORBIDDEN: &str = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch";

    #[test]
    fn pauses_grow_until_a_watch_has_gone_well_for_a_while() {
        let (mut pauses, mut now, mut all) = (Pauses::new(), Instant::now(), Vec::new());
        for _ in 0..12 {
            let pause = pauses.after(now);
            // A list that begins and fails again is no success.
            pauses.reset();
            all.push(pause.as_millis());
            now += pause;
        }
        assert_eq!(all[..5], [50, 100, 200, 400, 800]);
        assert_eq!(all[10..], [30_000, 30_000]);
        now += Pauses::FORGIVEN + Pauses::LONGEST * 2;
        assert_eq!(pauses.after(now), Pauses::FIRST);
    }

    #[tokio::test]
    async fn a_list_that_is_not_streamed_comes_in_pages() {
        let told = async |first: watcher::Error| {
            let streamed = stream::iter([Err(first), Ok(Event::Apply("streamed"))]).boxed();
            let paged = stream::iter([Ok(Event::Apply("paged"))]).boxed();
            let events = or_else(streamed, paged).collect::<Vec<_>>().await;
            events
                .into_iter()
                .map(|event| {
                    event.map_or("failed", |event| match event {
                        Event::Apply(what) => what,
                        _ => "else",
                    })
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(told(refused(422, FORBIDDEN)).await, ["paged"]);
        for other in [refused(404, "404 page not found"), refused(403, "no"), refused(500, "later")] {
            assert_eq!(told(other).await, ["failed", "streamed"], "another failure is told and tried again");
        }
    }
}
