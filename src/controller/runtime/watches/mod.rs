//! The one set of watches for all kinds: children by our label, Secrets, ConfigMaps and Namespaces of the cluster. What
//! changes is handed to each kind, which decides whom it concerns; nothing is kept here, and no object is looked into.

mod optional;

use crate::controller::children::{ChildKind, Presence};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kube, MetadataEvent, Selection};
use crds::well_known::{MANAGER, label};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::runtime::watcher;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// A child of ours.
    Child(ChildKind),
    /// A Secret or ConfigMap of anybody.
    Consumed(Source),
    /// A namespace.
    Namespace,
}

impl Changed {
    /// The kind of what changed.
    fn kind(self) -> &'static str {
        match self {
            Self::Child(kind) => kind.as_str(),
            Self::Consumed(Source::Secret) => "Secret",
            Self::Consumed(Source::ConfigMap) => "ConfigMap",
            Self::Namespace => "Namespace",
        }
    }
}

/// A kind of ours that is told of changes.
pub(crate) trait WatchHandler: Send + Sync + 'static {
    /// Enqueues the objects that a change concerns.
    fn changed(&self, changed: Changed, change: &Change);
    /// The same for a child that a list shows and a watch has not.
    fn found(&self, kind: ChildKind, change: &Change);
    /// Everything that there is of a child's kind is about to be told, from nothing.
    fn listing(&self, kind: ChildKind);
    /// Everything that there is of a child's kind has been told.
    fn listed(&self, kind: ChildKind);
    /// Enqueues every object: nobody tells what went while a watch was broken and had to list again.
    fn relisted(&self);
    /// The watch of a child's kind fails.
    fn doubted(&self, kind: ChildKind);
    /// Enqueues the objects that ask for a kind that the cluster lacked and serves now.
    fn served(&self, kind: ChildKind);
    /// The same for a kind that the cluster does not serve, or no longer does.
    fn unserved(&self, kind: ChildKind);
}

/// The kinds of ours that are told.
pub(crate) type WatchHandlers = Arc<[Arc<dyn WatchHandler>]>;

/// Hears of every list or watch that failed, by the name of its kind.
pub(crate) type OnWatchError = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Follows until it is dropped.
pub(crate) async fn follow(kube: &Kube, handlers: WatchHandlers, on_error: OnWatchError) {
    let ours = Selection::Labelled(format!("{}={MANAGER}", label::MANAGED_BY));
    let everything = Selection::All;
    let mut followed = JoinSet::new();
    let mut hear = |changes: Changes, changed| {
        followed.spawn(listen(changes, changed, handlers.clone(), on_error.clone()));
    };
    let (always, optional): (Vec<ChildKind>, Vec<ChildKind>) =
        ChildKind::ALL.iter().partition(|kind| kind.presence() == Presence::Always);
    for kind in always {
        hear(kube.changes_of(kind.names(), &ours).boxed(), Changed::Child(kind));
    }
    hear(kube.changes::<Secret>(&everything).boxed(), Changed::Consumed(Source::Secret));
    hear(kube.changes::<ConfigMap>(&everything).boxed(), Changed::Consumed(Source::ConfigMap));
    hear(kube.changes::<Namespace>(&everything).boxed(), Changed::Namespace);
    for kind in optional {
        let (handlers, on_error) = (handlers.clone(), on_error.clone());
        followed.spawn(optional::follow(kube.clone(), kind, ours.clone(), handlers, on_error));
    }
    // None of them ends by itself: if one does, the leader's task starts anew with all of them. Dropping this ends them all.
    if let Some(Err(error)) = followed.join_next().await {
        tracing::error!(%error, "a watch of the reconcilers failed");
    }
}

type Changes = BoxStream<'static, watcher::Result<MetadataEvent>>;

async fn listen(mut changes: Changes, changed: Changed, handlers: WatchHandlers, on_error: OnWatchError) {
    let mut listed = false;
    while let Some(event) = changes.next().await {
        dispatch(&handlers, changed, &event);
        match event {
            Ok(MetadataEvent::Listed) if std::mem::replace(&mut listed, true) => {
                handlers.iter().for_each(|one| one.relisted());
            }
            Ok(_) => {}
            Err(error) => {
                on_error(changed.kind());
                tracing::warn!(?changed, %error, "watch failed; it is tried again");
            }
        }
    }
}

/// Tells every kind what a watch shows.
fn dispatch(handlers: &WatchHandlers, changed: Changed, event: &watcher::Result<MetadataEvent>) {
    for handler in handlers.iter() {
        match (event, changed) {
            (Ok(MetadataEvent::Changed(change)), _) => handler.changed(changed, change),
            (Ok(MetadataEvent::Listing), Changed::Child(kind)) => handler.listing(kind),
            (Ok(MetadataEvent::Listed), Changed::Child(kind)) => handler.listed(kind),
            (Err(_), Changed::Child(kind)) => handler.doubted(kind),
            (_, Changed::Consumed(_) | Changed::Namespace) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::sync::Mutex;

    #[tokio::test]
    async fn every_failed_watch_is_counted_by_its_kind() {
        let counted: Arc<Mutex<Vec<&str>>> = Arc::default();
        let counts = counted.clone();
        let on_error: OnWatchError = Arc::new(move |kind| counts.lock().unwrap().push(kind));
        let (handlers, failed): (WatchHandlers, _) =
            (Arc::new([]), || Err(watcher::Error::NoResourceVersion));
        for changed in [
            Changed::Child(ChildKind::Service),
            Changed::Consumed(Source::Secret),
            Changed::Consumed(Source::ConfigMap),
            Changed::Namespace,
        ] {
            let changes = stream::iter([failed(), Ok(MetadataEvent::Listing)]).boxed();
            listen(changes, changed, handlers.clone(), on_error.clone()).await;
        }
        optional::listen(stream::iter([failed()]), ChildKind::HttpRoute, &handlers, &on_error).await;
        assert_eq!(*counted.lock().unwrap(), ["Service", "Secret", "ConfigMap", "Namespace", "HTTPRoute"]);
    }
}
