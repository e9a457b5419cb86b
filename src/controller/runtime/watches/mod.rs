//! The one set of watches for all kinds: children by our label, Secrets, ConfigMaps and Namespaces, of all that we look at. What
//! changes is handed to each kind, which decides whom it concerns; nothing is kept here, and no object is looked into.

mod optional;
mod router;

pub(crate) use router::{Router, WatchHandler};

use crate::controller::children::{ChildKind, Presence};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Changes, KindName, Kube, MetadataEvent, Selection};
use crds::well_known::{MANAGER, label};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::watcher;
use std::sync::Arc;
use tokio::task::JoinSet;

const SECRET: KindName = ["v1", "Secret", "secrets"];
const CONFIG_MAP: KindName = ["v1", "ConfigMap", "configmaps"];

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

/// Hears of every list or watch that failed, by the name of its kind.
pub(crate) type OnWatchError = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Follows until it is dropped.
pub(crate) async fn follow(kube: &Kube, router: Arc<Router>, on_error: OnWatchError) {
    let ours = Selection::Labelled(format!("{}={MANAGER}", label::MANAGED_BY));
    let everything = Selection::All;
    let mut followed = JoinSet::new();
    let mut hear = |changes: Changes, changed| {
        followed.spawn(listen(changes, changed, router.clone(), on_error.clone()));
    };
    let (always, optional): (Vec<ChildKind>, Vec<ChildKind>) =
        ChildKind::ALL.iter().partition(|kind| kind.presence() == Presence::Always);
    // A place each: where one is refused or begins anew, nothing is known of it, and no less of the others.
    for place in kube.scope().places() {
        for kind in &always {
            hear(kube.changes_of(place, kind.names(), &ours), Changed::Child(*kind));
        }
        hear(kube.changes_of(place, CONFIG_MAP, &everything), Changed::Consumed(Source::ConfigMap));
    }
    // The records of our tokens are Secrets of our own namespace.
    for place in kube.scope().places_with(kube.namespace()) {
        hear(kube.changes_of(place, SECRET, &everything), Changed::Consumed(Source::Secret));
    }
    if kube.scope().is_cluster() {
        let events = kube.changes::<Namespace>(&everything).boxed();
        hear(Changes { place: String::new(), events }, Changed::Namespace);
    }
    for place in kube.scope().places() {
        for kind in &optional {
            let (place, router, on_error) = (place.to_owned(), router.clone(), on_error.clone());
            followed.spawn(optional::follow(kube.clone(), place, *kind, ours.clone(), router, on_error));
        }
    }
    // None of them ends by itself: if one does, the leader's task starts anew with all of them. Dropping this ends them all.
    if let Some(Err(error)) = followed.join_next().await {
        tracing::error!(%error, "a watch of the reconcilers failed");
    }
}

async fn listen(changes: Changes, changed: Changed, router: Arc<Router>, on_error: OnWatchError) {
    let (mut listed, Changes { place, mut events }) = (false, changes);
    while let Some(event) = events.next().await {
        dispatch(&router, &place, changed, &event);
        match event {
            Ok(MetadataEvent::Listed) if std::mem::replace(&mut listed, true) => {
                router.relisted();
            }
            Ok(_) => {}
            Err(error) => {
                on_error(changed.kind());
                tracing::warn!(?changed, place, %error, "watch failed; it is tried again");
            }
        }
    }
}

/// Tells what a watch shows.
fn dispatch(router: &Router, place: &str, changed: Changed, event: &watcher::Result<MetadataEvent>) {
    match (event, changed) {
        (Ok(MetadataEvent::Changed(change)), _) => router.changed(changed, change),
        (Ok(MetadataEvent::Listing), Changed::Child(kind)) => router.listing(place, kind),
        (Ok(MetadataEvent::Listed), Changed::Child(kind)) => router.listed(place, kind),
        (Err(_), Changed::Child(kind)) => router.doubted(place, kind),
        (_, Changed::Consumed(_) | Changed::Namespace) => {}
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
        let router = Arc::new(Router::new(Arc::default(), Vec::new()));
        let failed = || Err(watcher::Error::NoResourceVersion);
        for changed in [
            Changed::Child(ChildKind::Service),
            Changed::Consumed(Source::Secret),
            Changed::Consumed(Source::ConfigMap),
            Changed::Namespace,
        ] {
            let events = stream::iter([failed(), Ok(MetadataEvent::Listing)]).boxed();
            let changes = Changes { place: String::new(), events };
            listen(changes, changed, router.clone(), on_error.clone()).await;
        }
        let changes = Changes { place: String::new(), events: stream::iter([failed()]).boxed() };
        optional::listen(changes, ChildKind::HttpRoute, &router, &on_error).await;
        assert_eq!(*counted.lock().unwrap(), ["Service", "Secret", "ConfigMap", "Namespace", "HTTPRoute"]);
    }
}
