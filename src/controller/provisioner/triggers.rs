//! Decides which provisioners to look at when something else changed: a child, their key's Secret, a Secret they name, their
//! control plane, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::reconciler::Provisioners;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::children::{ChildCache, ChildKind};
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::replaced::{Difference, Replaced};
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept};
use crds::CoderProvisioner;
use kube::Resource;
use kube::core::ObjectMeta;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Enqueues provisioners when something changed that concerns them.
pub(crate) struct Triggers {
    provisioners: Provisioners,
    child_cache: Arc<ChildCache>,
    queue: Queue<ObjectKey>,
}

impl Triggers {
    /// Triggers of one term of leadership.
    pub(crate) fn new(
        provisioners: Provisioners,
        child_cache: Arc<ChildCache>,
        queue: Queue<ObjectKey>,
    ) -> Self {
        Self { provisioners, child_cache, queue }
    }

    fn enqueue(&self, concerns: impl Fn(&Kept<CoderProvisioner>) -> bool) {
        let all = self.provisioners.all();
        let concerned = all.iter().filter(|one| concerns(one));
        concerned.for_each(|one| self.queue.enqueue(ObjectKey::of(one.meta())));
    }

    /// Enqueues the owner of an object, by the controller it names.
    fn enqueue_owner(&self, metadata: &ObjectMeta) {
        if let Some(key) = owner(metadata)
            && self.provisioners.named(&key.namespace, &key.name).is_some()
        {
            self.queue.enqueue(key);
        }
    }

    fn enqueue_asking_for(&self, kind: ChildKind) {
        if kind == ChildKind::PodMonitor {
            self.enqueue(|one| one.mentions("podMonitor"));
        }
    }
}

/// The provisioner that controls an object.
fn owner(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner =
        owners.find(|owner| owner.controller == Some(true) && owner.kind == CoderProvisioner::kind(&()))?;
    Some(ObjectKey { namespace: metadata.namespace.clone()?, name: owner.name.clone() })
}

/// Whether a provisioner refers to a Secret of this name in its namespace.
fn names_secret(provisioner: &Kept<CoderProvisioner>, metadata: &ObjectMeta) -> bool {
    let here = provisioner.meta().namespace == metadata.namespace;
    let name = metadata.name.as_deref().unwrap_or_default();
    let is_named = |spec: &CoderProvisioner| {
        let bootstrap = spec.spec.bootstrap.as_ref();
        bootstrap
            .and_then(|one| one.credentials_secret_ref.as_ref())
            .is_some_and(|one| one.name.trim() == name)
    };
    here && provisioner.mentions(name) && provisioner.read().is_ok_and(|spec| is_named(&spec))
}

impl WatchHandler for Triggers {
    fn changed(&self, changed: Changed, change: &Change) {
        let metadata = &change.metadata;
        match changed {
            Changed::Child(kind) => {
                // Whoever changed it may have taken off what says whose it is.
                self.child_cache.seen(kind, change).into_iter().for_each(|owner| self.queue.enqueue(owner));
                self.enqueue_owner(metadata);
            }
            Changed::Consumed(Source::Secret) => {
                self.enqueue_owner(metadata);
                self.enqueue(|one| names_secret(one, metadata));
            }
            Changed::Consumed(Source::ConfigMap) => {}
            Changed::Namespace => self.enqueue(|one| one.meta().namespace == metadata.name),
        }
    }

    fn found(&self, _: ChildKind, change: &Change) {
        self.enqueue_owner(&change.metadata);
    }

    fn listing(&self, kind: ChildKind) {
        self.child_cache.begin_list(kind);
    }

    fn listed(&self, kind: ChildKind) {
        self.child_cache.end_list(kind).into_iter().for_each(|owner| self.queue.enqueue(owner));
    }

    fn relisted(&self) {
        self.enqueue(|_| true);
    }

    fn doubted(&self, kind: ChildKind) {
        self.child_cache.doubt(kind);
    }

    fn served(&self, kind: ChildKind) {
        self.enqueue_asking_for(kind);
    }

    fn unserved(&self, kind: ChildKind) {
        if self.child_cache.unserved(kind) {
            self.enqueue_asking_for(kind);
        }
    }
}

/// Enqueues the provisioners of every control plane that changed, its status included: a token that is ready now, a coderd that
/// answers. Until it is dropped.
pub(crate) async fn follow_control_planes(
    mut control_planes: ControlPlanes,
    provisioners: Provisioners,
    queue: Queue<ObjectKey>,
) {
    let mut seen = Replaced::default();
    loop {
        control_planes.changed().await;
        let all = provisioners.all();
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

/// Whether a provisioner refers to one of these control planes. Only one that mentions a name is read.
fn refers_to(provisioner: &Kept<CoderProvisioner>, control_planes: &BTreeSet<ObjectKey>) -> bool {
    let here = |key: &&ObjectKey| provisioner.meta().namespace.as_ref() == Some(&key.namespace);
    control_planes.iter().filter(here).any(|key| {
        provisioner.mentions(&key.name)
            && provisioner.read().is_ok_and(|one| one.spec.control_plane_ref.name.trim() == key.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, from_value, json};

    #[test]
    fn a_child_or_secret_leads_to_the_provisioner_that_controls_it() {
        let of = |kind: &str, controller: bool| {
            let owners = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": kind, "name": "builders", "uid": "u",
                "controller": controller }]);
            let metadata: ObjectMeta =
                from_value(json!({ "name": "x", "namespace": "team", "ownerReferences": owners })).unwrap();
            owner(&metadata)
        };
        let builders = ObjectKey { namespace: "team".to_owned(), name: "builders".to_owned() };
        assert_eq!(of("CoderProvisioner", true), Some(builders));
        assert_eq!((of("CoderProvisioner", false), of("CoderControlPlane", true)), (None, None));
    }

    #[test]
    fn a_control_plane_concerns_whoever_refers_to_it_in_its_namespace() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" },
            "spec": { "controlPlaneRef": { "name": " coder " }, "organizationName": "other" } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let changed = |namespace: &str, name: &str| {
            BTreeSet::from([ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() }])
        };
        assert!(refers_to(&provisioner, &changed("team", "coder")));
        assert!(!refers_to(&provisioner, &changed("elsewhere", "coder")));
        assert!(!refers_to(&provisioner, &changed("team", "other")), "it is mentioned, and not referred to");
    }

    #[test]
    fn a_secret_concerns_whoever_names_it_in_its_namespace() {
        let text = json!({ "metadata": { "name": "b", "namespace": "team" },
            "spec": { "controlPlaneRef": { "name": "coder" }, "bootstrap": { "credentialsSecretRef": { "name": "token" } } } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let secret = |namespace: &str, name: &str| -> ObjectMeta {
            from_value(json!({ "name": name, "namespace": namespace })).unwrap()
        };
        assert!(names_secret(&provisioner, &secret("team", "token")));
        assert!(!names_secret(&provisioner, &secret("other", "token")));
        assert!(!names_secret(&provisioner, &secret("team", "else")));
    }
}
