//! Follows a kind that a cluster may lack, such as HTTPRoute, while the cluster knows it.
//! Nothing is asked about a kind that nobody has defined: a watch on its one CustomResourceDefinition tells when it comes.

use super::{Changed, Followers};
use crate::controller::children::ChildKind;
use crate::kubernetes::{KindName, Kube, Selection, Sight, is_unknown};
use futures::{Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::watcher;
use std::time::Duration;

/// How soon a kind is tried again that is defined but not served: its definition is a moment old, or has other versions.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Follows the objects selected until it is dropped.
pub(super) async fn follow(kube: Kube, kind: ChildKind, selection: Selection, followers: Followers) {
    let definitions = kube.changes::<CustomResourceDefinition>(&Selection::Named(definition(kind.names())));
    let mut definitions = std::pin::pin!(definitions);
    let (mut defined, mut pause) = (false, FIRST_PAUSE);
    loop {
        if !defined {
            (defined, pause) = (is_defined(&mut definitions).await, FIRST_PAUSE);
            continue;
        }
        let changes = kube.changes_of(kind.names(), &selection);
        tokio::select! {
            served = listen(changes, kind, &followers) => {
                pause = if served { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                let next = tokio::time::timeout(pause, is_defined(&mut definitions)).await;
                defined = next.unwrap_or(true);
            }
            () = gone(&mut definitions) => defined = false,
        }
    }
}

/// The name of what defines a kind.
fn definition([api_version, _, plural]: KindName) -> String {
    let group = api_version.split('/').next().unwrap_or_default();
    format!("{plural}.{group}")
}

type Sights = watcher::Result<Sight>;

/// The next word on whether the kind is defined.
async fn is_defined(definitions: &mut (impl Stream<Item = Sights> + Unpin)) -> bool {
    loop {
        match definitions.next().await {
            Some(Ok(Sight::Changed(change))) => return !change.gone,
            Some(Ok(Sight::Listed)) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "watch on a CustomResourceDefinition failed; it is tried again")
            }
            None => std::future::pending().await,
        }
    }
}

async fn gone(definitions: &mut (impl Stream<Item = Sights> + Unpin)) {
    while is_defined(definitions).await {}
}

/// Listens while the kind is served; returns whether it ever was.
async fn listen(changes: impl Stream<Item = Sights>, kind: ChildKind, followers: &Followers) -> bool {
    let mut changes = std::pin::pin!(changes);
    let mut served = false;
    while let Some(sight) = changes.next().await {
        match sight {
            Ok(Sight::Changed(change)) => {
                followers.iter().for_each(|one| one.changed(Changed::Child(kind), &change));
            }
            Ok(Sight::Listed) => {
                served = true;
                followers.iter().for_each(|one| one.served(kind));
            }
            Err(error) if is_unknown(&error) => return served,
            Err(error) => tracing::warn!(kind = kind.as_str(), %error, "watch failed; it is tried again"),
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_named_after_plural_and_group() {
        assert_eq!(definition(ChildKind::HttpRoute.names()), "httproutes.gateway.networking.k8s.io");
        assert_eq!(definition(ChildKind::ServiceMonitor.names()), "servicemonitors.monitoring.coreos.com");
    }
}
