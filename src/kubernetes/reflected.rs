//! A kind kept in memory by one list and watch: what every reader in the process shares.
//! It follows the API server and says when something changed; it never acts on what it sees, and never takes a namespace that
//! has not been listed for an empty one.

use super::changes::refusal;
use super::objects::Objects;
use super::watches;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// Which objects of a kind are kept.
#[derive(Debug, Clone, Default)]
pub enum Selection {
    /// Every one.
    #[default]
    All,
    /// Those that match a label selector.
    Labelled(String),
    /// The one of this name.
    Named(String),
}

impl Selection {
    pub(super) fn config(&self) -> watcher::Config {
        match self {
            Self::All => watcher::Config::default(),
            Self::Labelled(selector) => watcher::Config::default().labels(selector),
            Self::Named(name) => watcher::Config::default().fields(&format!("metadata.name={name}")),
        }
    }
}

/// A handle on the kept objects. Cloning is cheap.
pub(crate) struct Reflected<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// One for each list and watch: what one namespace lists says nothing of another.
    stores: Vec<Store<K>>,
    /// How far the first lists are; notified with every change as well.
    /// The store's own `wait_until_ready` wakes only one of several waiters, so it is not used.
    first_lists: watch::Receiver<FirstLists>,
    relist: Vec<Arc<Notify>>,
}

/// The first list of each place: of a namespace, or, by the empty name, of the whole cluster.
#[derive(Debug, Default)]
struct FirstLists {
    /// Those that are not complete.
    unlisted: BTreeSet<String>,
    /// Those of which it is not known yet whether they can be: neither complete nor refused.
    awaited: BTreeSet<String>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Reflected<K> {
    fn clone(&self) -> Self {
        let Self { stores, first_lists, relist } = self;
        Self { stores: stores.clone(), first_lists: first_lists.clone(), relist: relist.clone() }
    }
}

impl<K> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// The handle, and the future that keeps it up to date until `stop`; `on_error` hears of every failed list or watch.
    pub(crate) fn follow(
        objects: Vec<Objects<K>>,
        selection: &Selection,
        stop: CancellationToken,
        on_error: impl Fn(&watcher::Error) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let start = |objects: Objects<K>| -> (String, Start<K>) {
            let (place, objects, config) = (objects.place, objects.watches, selection.config());
            (place, Box::new(move || watches::events(objects.clone(), config.clone()).boxed()))
        };
        Self::reflect(objects.into_iter().map(start).collect(), stop, on_error)
    }

    /// The same of events that each of `starts` begins with a list of its place, each time it is asked. Without any there is
    /// nothing, and that is known at once.
    pub(crate) fn reflect(
        starts: Vec<(String, Start<K>)>,
        stop: CancellationToken,
        on_error: impl Fn(&watcher::Error) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let places: BTreeSet<String> = starts.iter().map(|(place, _)| place.clone()).collect();
        let (changed, first_lists) = watch::channel(FirstLists { unlisted: places.clone(), awaited: places });
        let (changed, on_error) = (Arc::new(changed), Arc::new(on_error));
        let (mut stores, mut relist, mut following) = (Vec::new(), Vec::new(), Vec::new());
        for (place, start) in starts {
            let restart = Arc::new(Notify::new());
            let events = restarted(start, restart.clone()).modify(forget_unread);
            let (store, writer) = reflector::store();
            let stream = reflector::reflector(writer, events);
            following.push(drive(place, stream, changed.clone(), stop.clone(), on_error.clone()));
            stores.push(store);
            relist.push(restart);
        }
        let following = async move {
            futures::future::join_all(following).await;
            stop.cancelled().await;
            // Whoever waits for a change is told only now that there will be none.
            drop(changed);
        };
        (Self { stores, first_lists, relist }, following)
    }

    /// Has everything listed anew, because the watch is known to have missed something. What is kept stays until the list
    /// is complete.
    pub(crate) fn relist(&self) {
        self.relist.iter().for_each(|one| one.notify_one());
    }

    /// Returns when every first list is complete; `false` when we stopped before.
    pub(crate) async fn synced(&self) -> bool {
        self.first_lists.clone().wait_for(|lists| lists.unlisted.is_empty()).await.is_ok()
    }

    /// Returns when every first list is complete or was refused: whoever refuses one stops nobody else. `false` when we
    /// stopped before.
    pub(crate) async fn settled(&self) -> bool {
        self.first_lists.clone().wait_for(|lists| lists.awaited.is_empty()).await.is_ok()
    }

    /// Whether every first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.first_lists.borrow().unlisted.is_empty()
    }

    /// Whether what is not kept of a namespace is not there: its first list is complete, or that of the whole cluster.
    pub(crate) fn is_listed(&self, namespace: &str) -> bool {
        let lists = self.first_lists.borrow();
        ["", namespace].into_iter().all(|place| !lists.unlisted.contains(place))
    }

    /// The places whose first list is not complete.
    pub(crate) fn unlisted(&self) -> BTreeSet<String> {
        self.first_lists.borrow().unlisted.clone()
    }

    /// Every object kept.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.stores.iter().flat_map(Store::state).collect()
    }

    /// The object of this name.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let object = ObjectRef::new(name).within(namespace);
        self.stores.iter().find_map(|store| store.get(&object))
    }

    /// Some object, for a selection that has at most one.
    pub(crate) fn one(&self) -> Option<Arc<K>> {
        self.stores.iter().find_map(|store| store.find(|_| true))
    }

    /// Returns after the next change (or at once, for one not yet seen by this handle); never, once we stopped.
    pub(crate) async fn changed(&mut self) {
        if self.first_lists.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The list and watch of a kind.
type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// Begins them.
type Start<K> = Box<dyn Fn() -> Events<K> + Send>;

/// Events that begin again whenever they are asked to.
fn restarted<K: Send + 'static>(
    start: Start<K>,
    restart: Arc<Notify>,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static {
    let events = start();
    futures::stream::unfold((events, start, restart), |(mut events, start, restart)| async move {
        loop {
            tokio::select! {
                biased;
                () = restart.notified() => events = start(),
                event = events.next() => return Some((event?, (events, start, restart))),
            }
        }
    })
}

/// Nobody reads who wrote what, nor `kubectl`'s copy of the whole, and they are most of an object.
fn forget_unread<K: Resource>(object: &mut K) {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

async fn drive<K>(
    place: String,
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    changed: Arc<watch::Sender<FirstLists>>,
    stop: CancellationToken,
    on_error: Arc<impl Fn(&watcher::Error) + Send + Sync>,
) {
    let stream = stream.inspect_err(|error| on_error(error)).take_until(stop.cancelled_owned());
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        // Objects of a list become visible together, at its end.
        match event {
            Ok(Event::InitDone) => changed.send_modify(|lists| {
                lists.unlisted.remove(&place);
                lists.awaited.remove(&place);
            }),
            Ok(Event::Apply(_) | Event::Delete(_)) => changed.send_modify(|_| ()),
            Err(error) if refusal(&error).is_some() => {
                changed.send_if_modified(|lists| lists.awaited.remove(&place));
            }
            Ok(Event::Init | Event::InitApply(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;
    use std::sync::Mutex;

    fn object(name: &str, version: &str) -> ConfigMap {
        let [name, version] = [name, version].map(|text| Some(text.to_owned()));
        let namespace = Some("team".to_owned());
        ConfigMap {
            metadata: ObjectMeta { name, namespace, resource_version: version, ..ObjectMeta::default() },
            ..ConfigMap::default()
        }
    }

    /// A list, and a watch that tells nothing more.
    fn listed(objects: Vec<ConfigMap>) -> Events<ConfigMap> {
        let all = objects.into_iter().map(Event::InitApply);
        let events = std::iter::once(Event::Init).chain(all).chain([Event::InitDone]).map(Ok);
        stream::iter(events.collect::<Vec<_>>()).chain(stream::pending()).boxed()
    }

    #[tokio::test]
    async fn a_relist_replaces_what_a_silent_watch_has_left_behind() {
        let lists = vec![vec![object("kept", "7")], vec![object("kept", "5000"), object("ghost", "4000")]];
        let lists = Mutex::new(lists);
        let start = move || listed(lists.lock().unwrap().pop().expect("one list for each start"));
        let stop = CancellationToken::new();
        let (mut reflected, following) =
            Reflected::reflect(vec![(String::new(), Box::new(start))], stop.clone(), |_| ());
        let following = tokio::spawn(following);
        assert!(reflected.synced().await);
        assert_eq!(reflected.all().len(), 2);
        reflected.first_lists.mark_unchanged();
        reflected.relist();
        reflected.changed().await;
        let versions =
            reflected.all().iter().map(|one| one.metadata.resource_version.clone()).collect::<Vec<_>>();
        assert_eq!(versions, [Some("7".to_owned())], "older ones count as well, and what is gone is gone");
        stop.cancel();
        following.await.unwrap();
    }

    fn refused() -> watcher::Error {
        let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
        watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    #[tokio::test]
    async fn a_namespace_that_is_refused_is_not_known_and_keeps_nobody_waiting() {
        let stop = CancellationToken::new();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let released = Mutex::new(Some(released));
        let late = move || {
            let released = released.lock().unwrap().take().expect("it is listed once");
            let refused = stream::iter([Err(refused())]);
            let later = stream::once(released).flat_map(|_| listed(vec![object("late", "2")]));
            refused.chain(later).boxed()
        };
        let early = || listed(vec![object("early", "1")]);
        let starts: Vec<(String, Start<ConfigMap>)> =
            vec![("a".to_owned(), Box::new(early)), ("b".to_owned(), Box::new(late))];
        let (reflected, following) = Reflected::reflect(starts, stop.clone(), |_| ());
        assert!(!reflected.is_listed("a") && reflected.unlisted().len() == 2);
        let following = tokio::spawn(following);
        assert!(reflected.settled().await);
        assert!(reflected.is_listed("a") && !reflected.is_listed("b") && !reflected.is_synced());
        assert_eq!(reflected.all().len(), 1, "what can be listed is there");
        release.send(()).unwrap();
        assert!(reflected.synced().await && reflected.is_listed("b"));
        assert!(reflected.named("team", "early").is_some() && reflected.named("team", "late").is_some());
        assert_eq!(reflected.all().len(), 2);
        stop.cancel();
        following.await.unwrap();
    }

    #[tokio::test]
    async fn where_nothing_is_followed_there_is_nothing_to_wait_for() {
        let (nothing, _) = Reflected::<ConfigMap>::reflect(Vec::new(), CancellationToken::new(), |_| ());
        assert!(nothing.settled().await && nothing.is_synced() && nothing.one().is_none());
        let start = || stream::pending().boxed();
        let starts: Vec<(String, Start<ConfigMap>)> = vec![(String::new(), Box::new(start))];
        let (cluster, _) = Reflected::reflect(starts, CancellationToken::new(), |_| ());
        assert!(!cluster.is_listed("team"), "it is a part of the cluster");
    }
}
