//! Decides which workspace proxies to look at when something else changed: a child, their token's Secret, a Secret or ConfigMap they name, their
//! control plane, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::build;
use super::reconciler::{KIND, WorkspaceProxies};
use super::way::Way;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::attached::address;
use crate::controller::attached::triggers::{Reference, controller_of, follow, read, refers, serving_with};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept};
use crds::{CoderControlPlane, CoderWorkspaceProxy};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize;
use std::collections::BTreeSet;

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
        let serving = serving_with(&self.control_planes, secret);
        if !serving.is_empty() {
            self.enqueue(|proxy| refers_to(proxy, &serving));
        }
    }

    /// Enqueues the proxies of the control plane that a Service belongs to: their pods may have its address.
    fn enqueue_led_to(&self, service: &ObjectMeta) {
        if let Some(key) = controller_of::<CoderControlPlane>(service) {
            let control_plane = BTreeSet::from([key]);
            self.enqueue(|proxy| refers_to(proxy, &control_plane));
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

/// Whether a proxy is of one of these control planes: by its name, or by the address of its Service. It is read once, however
/// many there are: all watches wait meanwhile.
fn refers_to(proxy: &Kept<CoderWorkspaceProxy>, control_planes: &BTreeSet<ObjectKey>) -> bool {
    let Some(namespace) = &proxy.meta().namespace else { return false };
    if !control_planes.iter().any(|one| one.namespace == *namespace) {
        return false;
    }
    let Some(spec) = read::<_, References>(proxy) else { return false };
    let key = |name: &str| ObjectKey { namespace: namespace.clone(), name: name.to_owned() };
    let named = spec.control_plane_ref.and_then(|one| one.name).map(|name| key(name.trim()));
    // Whatever follows the name of a Service: who is told too much looks once too often.
    let url = spec.bootstrap.and_then(|one| one.url);
    let host = url.as_deref().and_then(address::host).unwrap_or_default();
    let led_to = host.split_once('.').filter(|(_, rest)| rest.split('.').next() == Some(namespace));
    let led_to = led_to.map(|(name, _)| key(name));
    named.into_iter().chain(led_to).any(|key| control_planes.contains(&key))
}

/// What a proxy refers to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct References {
    control_plane_ref: Option<Reference>,
    bootstrap: Option<Bootstrap>,
}

#[derive(Deserialize)]
struct Bootstrap {
    #[serde(rename = "coderURL")]
    url: Option<String>,
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
            Changed::Child(kind) => {
                self.enqueue_controller(metadata);
                if kind == ChildKind::Service {
                    self.enqueue_led_to(metadata);
                }
            }
            Changed::Consumed(source) => {
                self.enqueue(|one| refers(one, source, metadata, names_secret, build::consumed));
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
        let plane = |namespace: &str| {
            BTreeSet::from([ObjectKey { namespace: namespace.to_owned(), name: "coder".to_owned() }])
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
