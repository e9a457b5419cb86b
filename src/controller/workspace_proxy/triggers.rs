//! Decides which workspace proxies to look at when something else changed: a child, their token's Secret, a Secret or ConfigMap they name, their
//! control plane, their namespace. It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::build;
use super::way::Way;
use crate::controller::attached::address;
use crate::controller::attached::triggers::{Concerned, References, read};
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::workload::consumed::Consumed;
use crate::kubernetes::Kept;
use crds::CoderWorkspaceProxy;
use kube::Resource;
use kube::core::ObjectMeta;
use std::collections::BTreeSet;

impl Concerned for CoderWorkspaceProxy {
    fn names_secret(proxy: &Kept<Self>, secret: &ObjectMeta) -> bool {
        let here = proxy.meta().namespace == secret.namespace;
        let name = secret.name.as_deref().unwrap_or_default();
        let is_named = |spec: &Self| match Way::of(&spec.spec) {
            Way::Bootstrap(bootstrap) => bootstrap.credentials_secret_ref.name.trim() == name,
            Way::Given(given) => given.name.trim() == name,
            Way::ControlPlane(_) | Way::Nowhere => false,
        };
        here && proxy.mentions(name) && proxy.read().is_ok_and(|spec| is_named(&spec))
    }

    /// By its name, or by the address of its Service.
    fn refers_to(proxy: &Kept<Self>, control_planes: &BTreeSet<ObjectKey>) -> bool {
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
        let host = host.to_ascii_lowercase();
        let led_to = match host.split_once('.') {
            Some((name, rest)) => (rest.split('.').next() == Some(namespace)).then(|| key(name)),
            None => Some(key(&host)),
        };
        named.into_iter().chain(led_to).any(|key| control_planes.contains(&key))
    }

    fn consumed(complete: &Self) -> Vec<Consumed> {
        build::consumed(complete)
    }

    fn field_asking_for(kind: ChildKind) -> Option<&'static str> {
        match kind {
            ChildKind::HttpRoute => Some("gateway"),
            ChildKind::ServiceMonitor => Some("serviceMonitor"),
            _ => None,
        }
    }
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
        assert!(
            CoderWorkspaceProxy::refers_to(&named, &plane("team"))
                && !CoderWorkspaceProxy::refers_to(&named, &plane("other"))
        );
        assert!(CoderWorkspaceProxy::refers_to(
            &bootstrap("http://coder.team.svc.corp.example:80"),
            &plane("team")
        ));
        assert!(!CoderWorkspaceProxy::refers_to(&bootstrap("https://coder.example.com"), &plane("team")));
    }

    #[test]
    fn a_secret_concerns_whoever_names_it_in_its_namespace() {
        let secret = |namespace: &str, name: &str| -> ObjectMeta {
            from_value(json!({ "name": name, "namespace": namespace })).unwrap()
        };
        let given = proxy(json!({ "proxySessionTokenSecretRef": { "name": "token" } }));
        assert!(CoderWorkspaceProxy::names_secret(&given, &secret("team", "token")));
        assert!(
            !CoderWorkspaceProxy::names_secret(&given, &secret("other", "token"))
                && !CoderWorkspaceProxy::names_secret(&given, &secret("team", "x"))
        );
    }
}
