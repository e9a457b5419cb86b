//! Lists what objects and children there are every now and then, so that a lost event of a watch is healed within that time:
//! whatever the list shows otherwise is told as if the watch had. It reads metadata; what is wrong is found by a reconcile.

use super::object_reader::ObjectReader;
use super::queue::Queue;
use super::watches::{Changed, Router};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::kubernetes::{CallError, Change, KindName, Kube, Scope, Target};
use crds::well_known::{MANAGER, label};
use kube::core::ObjectMeta;
use serde_json::from_value;
use std::collections::BTreeMap;
use std::time::Duration;

const NAMESPACE: KindName = ["v1", "Namespace", "namespaces"];

/// Verifies until it is dropped: one list a kind of child and place, whoever owns them.
pub(crate) async fn follow(kube: &Kube, router: &Router, interval: Duration) {
    let (children, mut namespaces) = (router.children(), BTreeMap::new());
    loop {
        look_at_namespaces(kube, router, &mut namespaces).await;
        tokio::time::sleep(interval).await;
        for kind in ChildKind::ALL.iter().copied() {
            // One that refuses keeps no other from being verified.
            for place in kube.scope().places().into_iter().filter(|place| children.is_followed(place, kind)) {
                match verify(kube, router, place, kind).await {
                    Ok(()) => router.enqueue(children.end_verification(place, kind)),
                    Err(error) => {
                        // Until a list or the watch has told, children of this kind are read there.
                        children.doubt(place, kind);
                        let kind = kind.as_str();
                        tracing::warn!(kind, %error, "children could not be verified; it is tried again")
                    }
                }
            }
        }
    }
}

/// Looks at the labels of namespaces where no watch tells of them: a watch is about all of them at once.
async fn look_at_namespaces(kube: &Kube, router: &Router, seen: &mut BTreeMap<String, ObjectMeta>) {
    let Scope::Namespaces(namespaces) = kube.scope() else { return };
    for name in namespaces.iter() {
        match kube.read(Target::of(NAMESPACE, "", name)).await {
            Ok(Some(namespace)) => {
                let Ok(metadata) = from_value::<ObjectMeta>(namespace["metadata"].clone()) else { continue };
                if seen.insert(name.clone(), metadata.clone()).as_ref() != Some(&metadata) {
                    router.changed(Changed::Namespace, &Change { metadata, gone: false });
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(name, %error, "a namespace could not be looked at; it is tried again")
            }
        }
    }
}

/// The same for the objects of a kind of ours.
pub(crate) async fn follow_objects<K: ReconciledKind>(
    objects: &ObjectReader<K>,
    queue: &Queue<ObjectKey>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        for place in objects.places() {
            if let Err(error) = objects.verify(place, queue).await {
                // Until a list has told, objects there are read.
                objects.forget_all_in(place);
                tracing::warn!(%error, "objects could not be verified; it is tried again");
            }
        }
    }
}

async fn verify(kube: &Kube, router: &Router, place: &str, kind: ChildKind) -> Result<(), CallError> {
    let children = router.children();
    children.begin_verification(place, kind);
    let ours = format!("{}={MANAGER}", label::MANAGED_BY);
    let all = Target::of(kind.names(), place, "");
    let look = |metadata| {
        if children.verify(kind, &metadata) {
            router.found(kind, metadata);
        }
    };
    kube.labelled_metadata(all, &ours, look).await
}
