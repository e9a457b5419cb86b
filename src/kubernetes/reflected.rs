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
    store: Store<K>,
    /// Whether the first list is complete; notified with every change as well.
    /// The store's own `wait_until_ready` wakes only one of several waiters, so it is not used.
    listed: watch::Receiver<bool>,
    relist: Arc<Notify>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for Reflected<K> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), listed: self.listed.clone(), relist: self.relist.clone() }
    }
}

impl<K> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// The handle, and the future that keeps it up to date until `stop`; `on_error` hears of every failed list or watch.
    pub(crate) fn follow(
        objects: Objects<K>,
        selection: &Selection,
        stop: CancellationToken,
        on_error: impl Fn(&watcher::Error) + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (objects, config) = (objects.watches, selection.config());
        Self::reflect(move || watches::events(objects.clone(), config.clone()).boxed(), stop, on_error)
    }

    /// The same of events that `start` begins with a list, each time it is asked.
    pub(crate) fn reflect(
        start: impl Fn() -> Events<K> + Send + 'static,
        stop: CancellationToken,
        on_error: impl Fn(&watcher::Error) + Send + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let relist = Arc::new(Notify::new());
        let events = restarted(start, relist.clone()).modify(forget_unread);
        let (store, writer) = reflector::store();
        let (changed, listed) = watch::channel(false);
        let stream = reflector::reflector(writer, events);
        (Self { store, listed, relist }, drive(stream, changed, stop, on_error))
    }

    /// Has everything listed anew, because the watch is known to have missed something. What is kept stays until the list
    /// is complete.
    pub(crate) fn relist(&self) {
        self.relist.notify_one();
    }

    /// Returns when the first list is complete; `false` when we stopped before.
    pub(crate) async fn synced(&self) -> bool {
        self.listed.clone().wait_for(|listed| *listed).await.is_ok()
    }

    /// Whether the first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        *self.listed.borrow()
    }

    /// Every object kept.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// The object of this name.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))
    }

    /// Some object, for a selection that has at most one.
    pub(crate) fn one(&self) -> Option<Arc<K>> {
        self.store.find(|_| true)
    }

    /// Returns after the next change (or at once, for one not yet seen by this handle); never, once we stopped.
    pub(crate) async fn changed(&mut self) {
        if self.listed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The list and watch of a kind.
type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

/// Events that begin again whenever they are asked to.
fn restarted<K: Send + 'static>(
    start: impl Fn() -> Events<K> + Send + 'static,
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
    changed: watch::Sender<bool>,
    stop: CancellationToken,
    on_error: impl Fn(&watcher::Error) + Send,
) {
    let stream = stream.inspect_err(on_error).take_until(stop.cancelled_owned());
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        // Objects of a list become visible together, at its end.
        match event {
            Ok(Event::InitDone) => changed.send_modify(|listed| *listed = true),
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
        let (mut reflected, following) = Reflected::reflect(start, stop.clone(), |_| ());
        let following = tokio::spawn(following);
        assert!(reflected.synced().await);
        assert_eq!(reflected.all().len(), 2);
        reflected.listed.mark_unchanged();
        reflected.relist();
        reflected.changed().await;
        let versions =
            reflected.all().iter().map(|one| one.metadata.resource_version.clone()).collect::<Vec<_>>();
        assert_eq!(versions, [Some("7".to_owned())], "older ones count as well, and what is gone is gone");
        stop.cancel();
        following.await.unwrap();
    }
}
