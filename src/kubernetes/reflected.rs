//! A kind kept in memory by one list and watch: what every reader in the process shares.
//! It follows the API server and says when something changed; it never acts on what it sees.

use super::objects::Objects;
use super::watches;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use kube::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
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
    /// First lists that are not complete yet; notified with every change as well.
    /// The store's own `wait_until_ready` wakes only one of several waiters, so it is not used.
    unlisted: watch::Receiver<usize>,
    relist: Vec<Arc<Notify>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Reflected<K> {
    fn clone(&self) -> Self {
        Self { stores: self.stores.clone(), unlisted: self.unlisted.clone(), relist: self.relist.clone() }
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
        let start = |objects: Objects<K>| -> Start<K> {
            let (objects, config) = (objects.watches, selection.config());
            Box::new(move || watches::events(objects.clone(), config.clone()).boxed())
        };
        Self::reflect(objects.into_iter().map(start).collect(), stop, on_error)
    }

    /// The same of events that each of `starts` begins with a list, each time it is asked. Without any there is nothing, and
    /// that is known at once.
    pub(crate) fn reflect(
        starts: Vec<Start<K>>,
        stop: CancellationToken,
        on_error: impl Fn(&watcher::Error) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (changed, unlisted) = watch::channel(starts.len());
        let (changed, on_error) = (Arc::new(changed), Arc::new(on_error));
        let (mut stores, mut relist, mut following) = (Vec::new(), Vec::new(), Vec::new());
        for start in starts {
            let restart = Arc::new(Notify::new());
            let events = restarted(start, restart.clone()).modify(forget_unread);
            let (store, writer) = reflector::store();
            let stream = reflector::reflector(writer, events);
            following.push(drive(stream, changed.clone(), stop.clone(), on_error.clone()));
            stores.push(store);
            relist.push(restart);
        }
        let following = async move {
            futures::future::join_all(following).await;
            stop.cancelled().await;
            // Whoever waits for a change is told only now that there will be none.
            drop(changed);
        };
        (Self { stores, unlisted, relist }, following)
    }

    /// Has everything listed anew, because the watch is known to have missed something. What is kept stays until the list
    /// is complete.
    pub(crate) fn relist(&self) {
        self.relist.iter().for_each(|one| one.notify_one());
    }

    /// Returns when the first list is complete; `false` when we stopped before.
    pub(crate) async fn synced(&self) -> bool {
        self.unlisted.clone().wait_for(|unlisted| *unlisted == 0).await.is_ok()
    }

    /// Whether the first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        *self.unlisted.borrow() == 0
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
        if self.unlisted.changed().await.is_err() {
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
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    changed: Arc<watch::Sender<usize>>,
    stop: CancellationToken,
    on_error: Arc<impl Fn(&watcher::Error) + Send + Sync>,
) {
    let mut is_listed = false;
    let stream = stream.inspect_err(|error| on_error(error)).take_until(stop.cancelled_owned());
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        // Objects of a list become visible together, at its end.
        match event {
            Ok(Event::InitDone) => {
                let first = usize::from(!std::mem::replace(&mut is_listed, true));
                changed.send_modify(|unlisted| *unlisted -= first);
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => changed.send_modify(|_| ()),
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
        let (mut reflected, following) = Reflected::reflect(vec![Box::new(start)], stop.clone(), |_| ());
        let following = tokio::spawn(following);
        assert!(reflected.synced().await);
        assert_eq!(reflected.all().len(), 2);
        reflected.unlisted.mark_unchanged();
        reflected.relist();
        reflected.changed().await;
        let versions =
            reflected.all().iter().map(|one| one.metadata.resource_version.clone()).collect::<Vec<_>>();
        assert_eq!(versions, [Some("7".to_owned())], "older ones count as well, and what is gone is gone");
        stop.cancel();
        following.await.unwrap();
    }

    #[tokio::test]
    async fn objects_of_several_namespaces_are_known_when_all_have_been_listed() {
        let stop = CancellationToken::new();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let released = Mutex::new(Some(released));
        let late = move || {
            let released = released.lock().unwrap().take().expect("it is listed once");
            stream::once(released).flat_map(|_| listed(vec![object("late", "2")])).boxed()
        };
        let early = || listed(vec![object("early", "1")]);
        let starts: Vec<Start<ConfigMap>> = vec![Box::new(early), Box::new(late)];
        let (mut reflected, following) = Reflected::reflect(starts, stop.clone(), |_| ());
        let following = tokio::spawn(following);
        reflected.changed().await;
        assert!(!reflected.is_synced(), "one of two is not all");
        release.send(()).unwrap();
        assert!(reflected.synced().await);
        assert!(reflected.named("team", "early").is_some() && reflected.named("team", "late").is_some());
        assert_eq!(reflected.all().len(), 2);
        stop.cancel();
        following.await.unwrap();
        let (nothing, _) = Reflected::<ConfigMap>::reflect(Vec::new(), CancellationToken::new(), |_| ());
        assert!(nothing.is_synced() && nothing.one().is_none(), "there is nothing to wait for");
    }
}
