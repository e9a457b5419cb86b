//! Decides which objects to look at when a control plane or a Secret changed, for every kind that belongs to a control plane. What
//! concerns an object besides is decided by its kind.

use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::replaced::{Difference, Replaced};
use crate::kubernetes::{Kept, Reflected};
use crds::CoderControlPlane;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// The object of a kind that controls another.
pub(crate) fn controller_of<K: Resource<DynamicType = ()>>(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true) && owner.kind == K::kind(&()))?;
    Some(ObjectKey { namespace: metadata.namespace.clone()?, name: owner.name.clone() })
}

/// Whether a control plane serves HTTPS with a Secret of this name in its namespace.
pub(crate) fn serves_with(control_plane: &Kept<CoderControlPlane>, secret: &ObjectMeta) -> bool {
    let here = control_plane.meta().namespace == secret.namespace;
    let name = secret.name.as_deref().unwrap_or_default();
    let is_named = |plane: &CoderControlPlane| {
        let mut names = plane.spec.tls.iter().flat_map(|tls| &tls.secret_names);
        names.any(|one| one.trim() == name)
    };
    here && control_plane.mentions(name) && control_plane.read().is_ok_and(|plane| is_named(&plane))
}

/// Enqueues the objects of every control plane that changed, its status included: a token that is ready now, a coderd that
/// answers. Until it is dropped.
pub(crate) async fn follow<K>(
    mut control_planes: ControlPlanes,
    objects: Reflected<Kept<K>>,
    queue: Queue<ObjectKey>,
    refers_to: impl Fn(&Kept<K>, &Kept<CoderControlPlane>) -> bool,
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
        let changed = || now.iter().chain(&before);
        for one in all.iter().filter(|one| changed().any(|plane| refers_to(one, plane))) {
            queue.enqueue(ObjectKey::of(one.meta()));
        }
    }
}
