//! Decides which workspace proxies to look at when something else changed: a child, their token's Secret, a Secret they name, their
//! control plane, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::reconciler::{KIND, WorkspaceProxies};
use super::way::{Way, is_of, url};
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::attached::triggers::{controller_of, follow, serves_with};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept};
use crds::{CoderControlPlane, CoderWorkspaceProxy};
use kube::Resource;
use kube::core::ObjectMeta;

/// Enqueues workspace proxies when something changed that concerns them.
pub(crate) struct Triggers {
    proxies: WorkspaceProxies,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
}

impl Triggers {
    /// Triggers of one term of leadership.
    pub(crate) fn new(
        proxies: WorkspaceProxies,
        control_planes: ControlPlanes,
        queue: Queue<ObjectKey>,
    ) -> Self {
        Self { proxies, control_planes, queue }
    }

    fn enqueue(&self, concerns: impl Fn(&Kept<CoderWorkspaceProxy>) -> bool) {
        let all = self.proxies.all();
        let concerned = all.iter().filter(|one| concerns(one));
        concerned.for_each(|one| self.queue.enqueue(ObjectKey::of(one.meta())));
    }

    /// Enqueues the owner of an object, by the controller it names.
    fn enqueue_controller(&self, metadata: &ObjectMeta) {
        if let Some(key) = controller_of::<CoderWorkspaceProxy>(metadata)
            && self.proxies.named(&key.namespace, &key.name).is_some()
        {
            self.queue.enqueue(key);
        }
    }

    /// Enqueues the proxies of every control plane that serves with this Secret: they trust what is in it.
    fn enqueue_trusting(&self, secret: &ObjectMeta) {
        let all = self.control_planes.all();
        for plane in all.iter().filter(|one| serves_with(one, secret)) {
            self.enqueue(|proxy| refers_to(proxy, plane));
        }
    }
}

/// Whether a proxy refers to a Secret of this name in its namespace.
fn names_secret(proxy: &Kept<CoderWorkspaceProxy>, metadata: &ObjectMeta) -> bool {
    let here = proxy.meta().namespace == metadata.namespace;
    let name = metadata.name.as_deref().unwrap_or_default();
    let is_named = |spec: &CoderWorkspaceProxy| match Way::of(&spec.spec) {
        Way::Bootstrap(bootstrap) => bootstrap.credentials_secret_ref.name.trim() == name,
        Way::Given(given) => given.name.trim() == name,
        Way::ControlPlane(_) | Way::Nowhere => false,
    };
    here && proxy.mentions(name) && proxy.read().is_ok_and(|spec| is_named(&spec))
}

/// Whether a proxy is of this control plane: by its name, or by the address of its Service.
fn refers_to(proxy: &Kept<CoderWorkspaceProxy>, plane: &Kept<CoderControlPlane>) -> bool {
    let here = proxy.meta().namespace == plane.meta().namespace;
    let name = plane.meta().name.as_deref().unwrap_or_default();
    let is_it = |spec: &CoderWorkspaceProxy| match Way::of(&spec.spec) {
        Way::ControlPlane(reference) => reference == name,
        // The domain of the cluster is whatever follows: who is told too much looks once too often.
        Way::Bootstrap(bootstrap) => {
            let domain = url(bootstrap).split(".svc.").nth(1).unwrap_or_default();
            let domain = domain.split([':', '/']).next().unwrap_or_default();
            plane.read().is_ok_and(|plane| is_of(url(bootstrap), &plane, domain))
        }
        Way::Given(_) | Way::Nowhere => false,
    };
    here && proxy.mentions(name) && proxy.read().is_ok_and(|spec| is_it(&spec))
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
        match kind {
            ChildKind::HttpRoute => self.enqueue(|one| one.mentions("gateway")),
            ChildKind::ServiceMonitor => self.enqueue(|one| one.mentions("serviceMonitor")),
            _ => {}
        }
    }
}

/// Enqueues the proxies of every control plane that changed, its status included. Until it is dropped.
pub(crate) async fn follow_control_planes(
    control_planes: ControlPlanes,
    proxies: WorkspaceProxies,
    queue: Queue<ObjectKey>,
) {
    follow(control_planes, proxies, queue, refers_to).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_str, from_value, json};

    fn proxy(spec: Value) -> Kept<CoderWorkspaceProxy> {
        from_str(&json!({ "metadata": { "name": "eu", "namespace": "team" }, "spec": spec }).to_string())
            .unwrap()
    }

    #[test]
    fn a_control_plane_concerns_whoever_names_it_or_its_service() {
        let plane = |namespace: &str| -> Kept<CoderControlPlane> {
            let metadata = json!({ "name": "coder", "namespace": namespace });
            from_str(&json!({ "metadata": metadata, "spec": {} }).to_string()).unwrap()
        };
        let named = proxy(json!({ "controlPlaneRef": { "name": " coder " } }));
        let bootstrap = |url: &str| {
            proxy(json!({ "bootstrap": { "coderURL": url, "credentialsSecretRef": { "name": "c" } } }))
        };
        assert!(refers_to(&named, &plane("team")) && !refers_to(&named, &plane("other")));
        assert!(refers_to(&bootstrap("http://coder.team.svc.corp.example:80"), &plane("team")));
        assert!(!refers_to(&bootstrap("https://coder.example.com"), &plane("team")));
    }

    #[test]
    fn a_secret_concerns_whoever_names_it_in_its_namespace() {
        let secret = |namespace: &str, name: &str| -> ObjectMeta {
            from_value(json!({ "name": name, "namespace": namespace })).unwrap()
        };
        let given = proxy(json!({ "proxySessionTokenSecretRef": { "name": "token" } }));
        assert!(names_secret(&given, &secret("team", "token")));
        assert!(
            !names_secret(&given, &secret("other", "token")) && !names_secret(&given, &secret("team", "x"))
        );
    }
}
