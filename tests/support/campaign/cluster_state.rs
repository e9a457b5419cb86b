//! What a run made in the cluster: lists it, applies to it and removes it, as an administrator.
//! It never goes through a proxy, and never decides what counts.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use serde_json::Value;

/// A kind: group, version, kind, plural.
#[derive(Debug, Clone, Copy)]
pub struct Kind(pub &'static str, pub &'static str, pub &'static str, pub &'static str);

/// Every kind that an operator of ours may write, and our own.
const KINDS: [Kind; 15] = [
    Kind("coder.com", "v1alpha1", "CoderControlPlane", "codercontrolplanes"),
    Kind("coder.com", "v1alpha1", "CoderProvisioner", "coderprovisioners"),
    Kind("coder.com", "v1alpha1", "CoderWorkspaceProxy", "coderworkspaceproxies"),
    Kind("apps", "v1", "Deployment", "deployments"),
    Kind("", "v1", "Service", "services"),
    Kind("", "v1", "ServiceAccount", "serviceaccounts"),
    Kind("", "v1", "Secret", "secrets"),
    Kind("", "v1", "ConfigMap", "configmaps"),
    Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Kind("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
    Kind("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    Kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors"),
];

/// What the controller manager puts into every namespace.
const ALWAYS_THERE: [(&str, &str); 2] = [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

pub(super) fn api(client: &Client, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
    let Kind(group, version, kind, plural) = kind;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

async fn list(client: &Client, kind: &Kind, namespace: &str) -> Result<Vec<Value>, String> {
    let found = api(client, kind, namespace).list(&ListParams::default()).await;
    let found = found.map_err(|error| format!("{} in {namespace}: {error}", kind.3))?;
    let Kind(group, version, name, _) = *kind;
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let objects = found.items.into_iter().map(|mut object| {
        object.types = Some(TypeMeta { api_version: api_version.clone(), kind: name.to_owned() });
        serde_json::to_value(object).expect("an object is JSON")
    });
    let ordinary = |object: &Value| {
        !ALWAYS_THERE
            .iter()
            .any(|(kind, name)| object["kind"] == *kind && object["metadata"]["name"] == *name)
    };
    Ok(objects.filter(ordinary).collect())
}

/// Everything in these namespaces.
pub(super) async fn objects_in(client: &Client, namespaces: &[String]) -> Result<Vec<Value>, String> {
    let places = namespaces.iter().flat_map(|namespace| KINDS.iter().map(move |kind| (kind, namespace)));
    let lists = places.map(|(kind, namespace)| list(client, kind, namespace));
    let lists = futures::future::try_join_all(lists).await?;
    Ok(lists.into_iter().flatten().collect())
}

/// The Events of a namespace, as text.
pub(super) async fn events_in(client: &Client, namespace: &str) -> Result<String, String> {
    let events = list(client, &Kind("events.k8s.io", "v1", "Event", "events"), namespace).await?;
    Ok(events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
}

/// What the operator keeps in its own namespace.
pub(super) async fn operator_secrets(client: &Client, operator: &str) -> Result<Vec<Value>, String> {
    list(client, &Kind("", "v1", "Secret", "secrets"), operator).await
}

/// Makes an operator's namespace what it was before one ever ran: nobody leads, and nothing is kept.
///
/// # Panics
/// If the API server does not let an administrator do that.
pub(super) async fn reset_operator_namespace(client: &Client, operator: &str) {
    delete_leases(client, operator).await;
    let secrets = Api::<Secret>::namespaced(client.clone(), operator);
    let gone = secrets.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    gone.expect("an administrator may delete Secrets");
}

/// Takes the Leases from whoever held them: the next operator leads at once.
///
/// # Panics
/// If the API server does not let an administrator do that.
pub(super) async fn delete_leases(client: &Client, operator: &str) {
    let leases = Api::<Lease>::namespaced(client.clone(), operator);
    let gone = leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    gone.expect("an administrator may delete Leases");
}

/// Applies a manifest of any kind above, or a Namespace, as a GitOps tool would.
pub(super) async fn apply(client: &Client, manifest: &Value, home: &str) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&manifest["metadata"]["name"]);
    let parameters = PatchParams::apply("git").force();
    if manifest["kind"] == "Namespace" {
        let applied =
            Api::<Namespace>::all(client.clone()).patch(&name, &parameters, &Patch::Apply(manifest)).await;
        return applied.map(drop).map_err(|error| format!("Namespace {name}: {error}"));
    }
    let kind =
        KINDS.iter().find(|kind| manifest["kind"] == kind.2).ok_or(format!("unknown kind: {manifest}"))?;
    let applied = api(client, kind, home).patch(&name, &parameters, &Patch::Apply(manifest)).await;
    applied.map(drop).map_err(|error| format!("{} {name}: {error}", kind.2))
}

/// Begins to remove the namespaces of a run. What cannot be removed only makes the cluster larger.
pub(super) async fn delete_namespaces(client: &Client, namespaces: &[String]) {
    for namespace in namespaces {
        drop(Api::<Namespace>::all(client.clone()).delete(namespace, &DeleteParams::default()).await);
    }
}
