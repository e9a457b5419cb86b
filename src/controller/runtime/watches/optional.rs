//! Follows a kind that a cluster may lack, such as HTTPRoute, while the cluster knows it.
//! Nothing is asked about a kind that nobody has defined: a watch on its one CustomResourceDefinition tells when it comes, where
//! we look at the whole cluster.

use super::{Changed, OnWatchError, Router, dispatch};
use crate::controller::children::ChildKind;
use crate::kubernetes::{Change, Changes, KindName, Kube, MetadataEvent, Selection, is_unknown};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use std::sync::Arc;
use std::time::Duration;

/// How soon a kind is tried again that is defined but not served: its definition is a moment old, or has other versions.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the objects selected of a place until it is dropped.
pub(super) async fn follow(
    kube: Kube,
    place: String,
    kind: ChildKind,
    selection: Selection,
    router: Arc<Router>,
    on_error: OnWatchError,
) {
    let definitions = definitions(&kube, kind).inspect_err(|_| on_error("CustomResourceDefinition"));
    let mut definition = Definition { changes: std::pin::pin!(definitions), shown: false };
    let mut pause = FIRST_PAUSE;
    let mut defined = definition.is_there().await;
    loop {
        if !defined {
            router.unserved(&place, kind);
            (defined, pause) = (definition.is_there().await, FIRST_PAUSE);
            continue;
        }
        let changes = kube.changes_of(&place, kind.names(), &selection);
        tokio::select! {
            served = listen(changes, kind, &router, &on_error) => {
                router.unserved(&place, kind);
                pause = if served { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                let next = tokio::time::timeout(pause, definition.is_there()).await;
                defined = next.unwrap_or(true);
            }
            () = definition.is_gone() => defined = false,
        }
    }
}

/// What is told of the definition of a kind. It belongs to no namespace: where we look at a few namespaces only, it is taken to be
/// there, and the kind itself is asked for now and then.
fn definitions(kube: &Kube, kind: ChildKind) -> BoxStream<'static, EventResult> {
    if kube.scope().is_cluster() {
        let named = Selection::Named(definition(kind.names()));
        return kube.changes::<CustomResourceDefinition>(&named).boxed();
    }
    let assumed = Change { metadata: ObjectMeta::default(), gone: false };
    stream::iter([Ok(MetadataEvent::Changed(Box::new(assumed)))]).chain(stream::pending()).boxed()
}

/// The name of what defines a kind.
fn definition([api_version, _, plural]: KindName) -> String {
    let group = api_version.split('/').next().unwrap_or_default();
    format!("{plural}.{group}")
}

type EventResult = watcher::Result<MetadataEvent>;

/// The one CustomResourceDefinition of a kind.
struct Definition<S> {
    changes: S,
    /// Whether the list that is under way has shown it.
    shown: bool,
}

impl<S: Stream<Item = EventResult> + Unpin> Definition<S> {
    /// The next word on whether there is one.
    async fn is_there(&mut self) -> bool {
        loop {
            match self.changes.next().await {
                Some(Ok(MetadataEvent::Changed(change))) => {
                    self.shown = !change.gone;
                    return self.shown;
                }
                Some(Ok(MetadataEvent::Listing)) => self.shown = false,
                Some(Ok(MetadataEvent::Listed)) if !self.shown => return false,
                Some(Ok(MetadataEvent::Listed)) => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "watch on a CustomResourceDefinition failed; it is tried again")
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn is_gone(&mut self) {
        while self.is_there().await {}
    }
}

/// Listens while the kind is served; returns whether it ever was.
pub(super) async fn listen(
    changes: Changes,
    kind: ChildKind,
    router: &Router,
    on_error: &OnWatchError,
) -> bool {
    let (mut served, Changes { place, mut events }) = (false, changes);
    while let Some(event) = events.next().await {
        if event.as_ref().is_err_and(is_unknown) {
            break;
        }
        dispatch(router, &place, Changed::Child(kind), &event);
        match event {
            Ok(MetadataEvent::Listed) => {
                served = true;
                router.served(kind);
            }
            Ok(_) => {}
            Err(error) => {
                on_error(kind.as_str());
                tracing::warn!(kind = kind.as_str(), place, %error, "watch failed; it is tried again");
            }
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_definition_that_a_list_does_not_show_is_not_there() {
        let changed =
            |gone| Ok(MetadataEvent::Changed(Box::new(Change { metadata: ObjectMeta::default(), gone })));
        let events = [
            vec![Ok(MetadataEvent::Listing), Ok(MetadataEvent::Listed)],
            vec![changed(false), changed(true)],
            vec![Ok(MetadataEvent::Listing), changed(false), Ok(MetadataEvent::Listed)],
            vec![Ok(MetadataEvent::Listing), Ok(MetadataEvent::Listed)],
        ];
        let changes = stream::iter(events.into_iter().flatten());
        let mut definition = Definition { changes, shown: false };
        let mut told = Vec::new();
        for _ in 0..5 {
            told.push(definition.is_there().await);
        }
        assert_eq!(told, [false, true, false, true, false], "it went while the watch was broken");
    }

    #[test]
    fn a_definition_is_named_after_plural_and_group() {
        assert_eq!(definition(ChildKind::HttpRoute.names()), "httproutes.gateway.networking.k8s.io");
        assert_eq!(definition(ChildKind::ServiceMonitor.names()), "servicemonitors.monitoring.coreos.com");
    }
}
