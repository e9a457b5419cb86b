//! Decides which provisioners to look at when something else changed: a child, their key's Secret, a Secret they name, their
//! control plane, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::reconciler::{KIND, Provisioners};
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::attached::triggers::{controller_of, follow, serves_with};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept};
use crds::{CoderControlPlane, CoderProvisioner};
use kube::Resource;
use kube::core::ObjectMeta;

/// Enqueues provisioners when something changed that concerns them.
pub(crate) struct Triggers {
    provisioners: Provisioners,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
}

impl Triggers {
    /// Triggers of one term of leadership.
    pub(crate) fn new(
        provisioners: Provisioners,
        control_planes: ControlPlanes,
        queue: Queue<ObjectKey>,
    ) -> Self {
        Self { provisioners, control_planes, queue }
    }

    /// Enqueues the provisioners of every control plane that serves with this Secret: their daemons trust what is in it.
    fn enqueue_trusting(&self, secret: &ObjectMeta) {
        let all = self.control_planes.all();
        for one in all.iter().filter(|one| serves_with(one, secret)) {
            let key = ObjectKey::of(one.meta());
            self.enqueue(|provisioner| refers_to(provisioner, &key));
        }
    }

    fn enqueue(&self, concerns: impl Fn(&Kept<CoderProvisioner>) -> bool) {
        let all = self.provisioners.all();
        let concerned = all.iter().filter(|one| concerns(one));
        concerned.for_each(|one| self.queue.enqueue(ObjectKey::of(one.meta())));
    }

    /// Enqueues the owner of an object, by the controller it names.
    fn enqueue_controller(&self, metadata: &ObjectMeta) {
        if let Some(key) = controller_of::<CoderProvisioner>(metadata)
            && self.provisioners.named(&key.namespace, &key.name).is_some()
        {
            self.queue.enqueue(key);
        }
    }
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

/// Whether a provisioner is of this control plane.
fn refers_to(provisioner: &Kept<CoderProvisioner>, control_plane: &ObjectKey) -> bool {
    let here = provisioner.meta().namespace.as_ref() == Some(&control_plane.namespace);
    here && provisioner.mentions(&control_plane.name)
        && provisioner.read().is_ok_and(|one| one.spec.control_plane_ref.name.trim() == control_plane.name)
}

impl WatchHandler for Triggers {
    fn kind(&self) -> &'static str {
        KIND[1]
    }

    fn enqueue_owner(&self, key: ObjectKey) {
        self.queue.enqueue(key);
    }

    fn changed(&self, changed: Changed, change: &Change) {
        let metadata = &change.metadata;
        match changed {
            Changed::Child(_) => self.enqueue_controller(metadata),
            Changed::Consumed(Source::Secret) => {
                self.enqueue_controller(metadata);
                self.enqueue(|one| names_secret(one, metadata));
                self.enqueue_trusting(metadata);
            }
            Changed::Consumed(Source::ConfigMap) => {}
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
        if kind == ChildKind::PodMonitor {
            self.enqueue(|one| one.mentions("podMonitor"));
        }
    }
}

/// Enqueues the provisioners of every control plane that changed, its status included: a token that is ready now, a coderd that
/// answers. Until it is dropped.
pub(crate) async fn follow_control_planes(
    control_planes: ControlPlanes,
    provisioners: Provisioners,
    queue: Queue<ObjectKey>,
) {
    let refers = |one: &Kept<CoderProvisioner>, plane: &Kept<CoderControlPlane>| {
        refers_to(one, &ObjectKey::of(plane.meta()))
    };
    follow(control_planes, provisioners, queue, refers).await;
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
            controller_of::<CoderProvisioner>(&metadata)
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
        let key = |namespace: &str, name: &str| ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        assert!(refers_to(&provisioner, &key("team", "coder")));
        assert!(!refers_to(&provisioner, &key("elsewhere", "coder")));
        assert!(!refers_to(&provisioner, &key("team", "other")), "it is mentioned, and not referred to");
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

    #[test]
    fn a_certificate_concerns_the_provisioners_of_whoever_serves_with_it() {
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
        let text = json!({ "metadata": { "name": "b", "namespace": "team" }, "spec": { "controlPlaneRef": { "name": "coder" } } });
        let provisioner: Kept<CoderProvisioner> = from_str(&text.to_string()).unwrap();
        let key = |namespace: &str| ObjectKey { namespace: namespace.to_owned(), name: "coder".to_owned() };
        assert!(refers_to(&provisioner, &key("team")) && !refers_to(&provisioner, &key("other")));
    }
}
