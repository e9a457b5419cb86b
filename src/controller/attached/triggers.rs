//! Decides which objects to look at when a control plane or a Secret changed, for every kind that belongs to a control plane. What
//! concerns an object besides is decided by its kind.

use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::controller::references::reads;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::replaced::{Difference, Replaced};
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::{Consumed, Source};
use crate::kubernetes::{Change, Kept, Reflected};
use crds::CoderControlPlane;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

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
fn serving_with(control_planes: &ControlPlanes, secret: &ObjectMeta) -> BTreeSet<ObjectKey> {
    let all = control_planes.all();
    all.iter().filter(|one| serves_with(one, secret)).map(|one| ObjectKey::of(one.meta())).collect()
}

/// Whether an object has to be looked at because of a Secret or ConfigMap that changed: its pods read it, or the operator reads a
/// Secret for it.
pub(crate) fn refers<K: Concerned>(object: &Kept<K>, source: Source, changed: &ObjectMeta) -> bool {
    source == Source::Secret && K::names_secret(object, changed)
        || reads(object, source, changed, K::consumed)
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

/// What the spec of an object refers to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct References {
    /// The control plane.
    pub(crate) control_plane_ref: Option<Reference>,
    /// Where else coderd is, and with which credentials.
    pub(crate) bootstrap: Option<BootstrapReferences>,
}

/// What `bootstrap` refers to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BootstrapReferences {
    /// The address of coderd.
    #[serde(rename = "coderURL")]
    pub(crate) url: Option<String>,
    /// The Secret with the credentials.
    pub(crate) credentials_secret_ref: Option<Reference>,
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

/// What concerns the objects of a kind.
pub(crate) trait Concerned: ReconciledKind {
    /// Whether the operator reads this Secret for an object.
    fn names_secret(object: &Kept<Self>, secret: &ObjectMeta) -> bool;

    /// Whether an object is of one of these control planes. It is read once, however many there are: all watches wait meanwhile.
    fn refers_to(object: &Kept<Self>, control_planes: &BTreeSet<ObjectKey>) -> bool;

    /// What the pods of an object read.
    fn consumed(complete: &Self) -> Vec<Consumed>;

    /// The field of a spec that asks for a child of a kind which a cluster may lack.
    fn field_asking_for(kind: ChildKind) -> Option<&'static str>;
}

/// Enqueues objects of a kind when something changed that concerns them.
pub(crate) struct Triggers<K: Concerned> {
    objects: Reflected<Kept<K>>,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
}

impl<K: Concerned> Triggers<K> {
    /// Triggers of one term of leadership.
    pub(crate) fn new(
        objects: Reflected<Kept<K>>,
        control_planes: ControlPlanes,
        queue: Queue<ObjectKey>,
    ) -> Self {
        Self { objects, control_planes, queue }
    }

    fn enqueue(&self, concerns: impl Fn(&Kept<K>) -> bool) {
        let all = self.objects.all();
        let concerned = all.iter().filter(|one| concerns(one));
        concerned.for_each(|one| self.queue.enqueue(ObjectKey::of(one.meta())));
    }

    /// Enqueues the owner of an object, by the controller it names.
    fn enqueue_controller(&self, metadata: &ObjectMeta) {
        if let Some(key) = controller_of::<K>(metadata)
            && self.objects.named(&key.namespace, &key.name).is_some()
        {
            self.queue.enqueue(key);
        }
    }

    /// Enqueues the objects of every control plane that serves with this Secret: their pods trust what is in it.
    fn enqueue_trusting(&self, secret: &ObjectMeta) {
        let serving = serving_with(&self.control_planes, secret);
        if !serving.is_empty() {
            self.enqueue(|one| K::refers_to(one, &serving));
        }
    }

    /// Enqueues the objects of the control plane that a Service belongs to: their pods may have its address.
    fn enqueue_led_to(&self, service: &ObjectMeta) {
        if let Some(key) = controller_of::<CoderControlPlane>(service) {
            let control_plane = BTreeSet::from([key]);
            self.enqueue(|one| K::refers_to(one, &control_plane));
        }
    }
}

impl<K: Concerned> WatchHandler for Triggers<K> {
    fn kind(&self) -> &'static str {
        K::NAME[1]
    }

    fn enqueue_owner(&self, key: ObjectKey) {
        self.queue.enqueue(key);
    }

    fn changed(&self, changed: Changed, change: &Change) {
        let metadata = &change.metadata;
        match changed {
            Changed::Child(kind) => {
                self.enqueue_controller(metadata);
                if kind == ChildKind::Service {
                    self.enqueue_led_to(metadata);
                }
            }
            Changed::Consumed(source) => {
                self.enqueue(|one| refers(one, source, metadata));
                if source == Source::Secret {
                    self.enqueue_controller(metadata);
                    self.enqueue_trusting(metadata);
                }
            }
            Changed::Namespace => self.enqueue(|one| one.meta().namespace == metadata.name),
        }
    }

    fn found(&self, _: ChildKind, change: &Change) {
        self.enqueue_controller(&change.metadata);
    }

    fn enqueue_all(&self) {
        self.enqueue(|_| true);
    }

    fn enqueue_asking_for(&self, kind: ChildKind) {
        if let Some(field) = K::field_asking_for(kind) {
            self.enqueue(|one| one.mentions(field));
        }
    }
}

/// Enqueues the objects of every control plane that changed, its status included: a token that is ready now, a coderd that
/// answers. Until it is dropped.
pub(crate) async fn follow_control_planes<K: Concerned>(
    mut control_planes: ControlPlanes,
    objects: Reflected<Kept<K>>,
    queue: Queue<ObjectKey>,
) {
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
        for one in all.iter().filter(|one| K::refers_to(one, &changed)) {
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
