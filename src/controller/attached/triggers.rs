//! Decides which objects to look at when a control plane or a Secret changed, for every kind that belongs to a control plane. What
//! concerns an object besides is decided by its kind.

use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::identity::ObjectKey;
use crate::controller::references::reads;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::replaced::{Difference, Replaced};
use crate::controller::workload::consumed::{Consumed, Source};
use crate::kubernetes::{Kept, Reflected};
use crds::CoderControlPlane;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// The object of a kind that controls another.
pub(crate) fn controller_of<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true) && owner.kind == K::kind(&()))?;
    Some(ObjectKey { namespace: metadata.namespace.clone()?, name: owner.name.clone() })
}

/// Whether a control plane serves HTTPS with a Secret of this name in its namespace.
fn serves_with(control_plane: &Kept<CoderControlPlane>, secret: &ObjectMeta) -> bool {
    let here = control_plane.meta().namespace == secret.namespace;
    let name = secret.name.as_deref().unwrap_or_default();
    let is_named = |spec: Serving| {
        let mut names = spec.tls.iter().flat_map(|tls| tls.secret_names.iter().flatten());
        names.any(|one| one.trim() == name)
    };
    here && control_plane.mentions(name) && read(control_plane).is_some_and(is_named)
}

/// The control planes that serve with this Secret: pods of theirs trust what is in it.
pub(crate) fn serving_with(control_planes: &ControlPlanes, secret: &ObjectMeta) -> BTreeSet<ObjectKey> {
    let all = control_planes.all();
    all.iter().filter(|one| serves_with(one, secret)).map(|one| ObjectKey::of(one.meta())).collect()
}

/// Whether an object has to be looked at because of a Secret or ConfigMap that changed: its pods read it, or the operator reads a
/// Secret for it.
pub(crate) fn refers<K: Resource<DynamicType = ()> + DeserializeOwned>(
    object: &Kept<K>,
    source: Source,
    changed: &ObjectMeta,
    names_secret: impl FnOnce(&Kept<K>, &ObjectMeta) -> bool,
    consumed: impl FnOnce(&K) -> Vec<Consumed>,
) -> bool {
    source == Source::Secret && names_secret(object, changed) || reads(object, source, changed, consumed)
}

/// What is looked at of a spec, and nothing else of it: it may be of any size.
pub(crate) fn read<K, S: DeserializeOwned>(object: &Kept<K>) -> Option<S> {
    object.spec().and_then(Result::ok)
}

/// What an object refers to by its name.
#[derive(Deserialize)]
pub(crate) struct Reference {
    /// The name.
    pub(crate) name: Option<String>,
}

/// What a control plane serves with.
#[derive(Deserialize)]
struct Serving {
    tls: Option<Tls>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tls {
    secret_names: Option<Vec<String>>,
}

/// Enqueues the objects of every control plane that changed, its status included: a token that is ready now, a coderd that
/// answers. Until it is dropped.
pub(crate) async fn follow<K>(
    mut control_planes: ControlPlanes,
    objects: Reflected<Kept<K>>,
    queue: Queue<ObjectKey>,
    refers_to: impl Fn(&Kept<K>, &BTreeSet<ObjectKey>) -> bool,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let mut seen = Replaced::default();
    loop {
        control_planes.changed().await;
        let all = objects.all();
        if all.is_empty() {
            // Nobody has to be told, and whoever comes later looks at its control plane itself.
            seen = Replaced::default();
            continue;
        }
        let Difference { now, before } = seen.update(control_planes.all());
        let changed: BTreeSet<ObjectKey> =
            now.iter().chain(&before).map(|one| ObjectKey::of(one.meta())).collect();
        for one in all.iter().filter(|one| refers_to(one, &changed)) {
            queue.enqueue(ObjectKey::of(one.meta()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, from_value, json};

    #[test]
    fn a_certificate_concerns_whoever_serves_with_it() {
        let text = json!({ "metadata": { "name": "coder", "namespace": "team" },
            "spec": { "tls": { "secretNames": ["coder-tls"] }, "license": { "secretRef": { "name": "other" } } } });
        let plane: Kept<CoderControlPlane> = from_str(&text.to_string()).unwrap();
        let secret = |namespace: &str, name: &str| -> ObjectMeta {
            from_value(json!({ "name": name, "namespace": namespace })).unwrap()
        };
        assert!(serves_with(&plane, &secret("team", "coder-tls")));
        assert!(
            !serves_with(&plane, &secret("other", "coder-tls"))
                && !serves_with(&plane, &secret("team", "other"))
        );
    }
}
