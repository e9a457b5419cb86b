//! Decides which objects a CoderControlPlane consists of, each exactly as it is applied under the field manager
//! `coder-k8s`: only fields we mean to own. Never reads anything: what the cluster holds comes in as a value.

mod address;
mod consumed;
mod deployment;
mod disruption;
mod environment;
mod exposure;
mod monitoring;
mod origin;
mod pod;
mod probes;
mod rbac;
mod security;
mod service;
mod service_account;
mod volumes;

#[cfg(test)]
pub(super) mod given;
#[cfg(test)]
mod properties;

use crds::CoderControlPlane;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde_json::{Value, json};

pub use consumed::{Consumed, Keys, Source, consumed};
pub use environment::{provides, provides_access_url};
pub use exposure::HTTP_ROUTE;
pub use monitoring::SERVICE_MONITOR;
pub use origin::{labels, selector};
pub use rbac::WorkspaceAccess;
pub use webhooks::defaults::ACCESS_URL;

use origin::Origin;

/// One object that should exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// For example `apps/v1`.
    pub api_version: &'static str,
    /// For example `Deployment`.
    pub kind: &'static str,
    /// For example `deployments`.
    pub plural: &'static str,
    /// Where it lives.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// What is applied.
    pub manifest: Value,
}

impl Child {
    /// A child of a kind that Kubernetes always has.
    fn of<K: Metadata<Ty = ObjectMeta> + Resource + Serialize>(object: &K) -> Self {
        let metadata = object.metadata();
        Self {
            api_version: K::API_VERSION,
            kind: K::KIND,
            plural: K::URL_PATH_SEGMENT,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            // Types of the core API always have a JSON form: every key of theirs is a text.
            manifest: serde_json::to_value(object).unwrap_or_default(),
        }
    }

    /// A child of a kind that a cluster may lack.
    fn extension([api_version, kind, plural]: [&'static str; 3], metadata: ObjectMeta, spec: Value) -> Self {
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let manifest = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        Self { api_version, kind, plural, namespace, name, manifest }
    }
}

/// What children are made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object with every default in it, as `webhooks::resolved` gives it, and with namespace, name and uid.
    pub control_plane: &'a CoderControlPlane,
    /// Hash over every Secret and ConfigMap the pods read; another one rolls the Deployment.
    pub consumed_checksum: Option<&'a str>,
    /// Whether a source of `envFrom` gives [`ACCESS_URL`].
    pub access_url_from_env_from: bool,
    /// The DNS domain of the cluster.
    pub cluster_domain: &'a str,
}

/// Every object a control plane consists of. What is `None` should not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// ServiceAccount, unless somebody else makes it.
    pub service_account: Option<Child>,
    /// What coderd may do, by namespace; the own one first.
    pub workspace_access: Vec<WorkspaceAccess>,
    /// Deployment.
    pub deployment: Child,
    /// Service.
    pub service: Child,
    /// Ingress.
    pub ingress: Option<Child>,
    /// HTTPRoute; the cluster may not know the kind.
    pub http_route: Option<Child>,
    /// PodDisruptionBudget.
    pub disruption_budget: Option<Child>,
    /// ServiceMonitor; the cluster may not know the kind.
    pub service_monitor: Option<Child>,
}

impl Children {
    /// All of them, in the order in which they are best made.
    pub fn all(&self) -> impl Iterator<Item = &Child> {
        let access = self.workspace_access.iter().flat_map(|access| [&access.role, &access.binding]);
        let others = [&self.ingress, &self.http_route, &self.disruption_budget, &self.service_monitor];
        self.service_account
            .iter()
            .chain(access)
            .chain([&self.deployment, &self.service])
            .chain(others.into_iter().flatten())
    }

    /// Whether any of them is outside of its own namespace.
    pub fn reach_beyond(&self, namespace: &str) -> bool {
        self.workspace_access.iter().any(|access| access.namespace != namespace)
    }
}

/// The objects a control plane consists of.
pub fn children(inputs: &Inputs<'_>) -> Children {
    let origin = Origin::of(inputs.control_plane);
    Children {
        service_account: service_account::child(&origin),
        workspace_access: rbac::workspace_access(&origin),
        deployment: deployment::child(&origin, inputs),
        service: service::child(&origin),
        ingress: exposure::ingress(&origin),
        http_route: exposure::http_route(&origin),
        disruption_budget: disruption::child(&origin),
        service_monitor: monitoring::child(&origin),
    }
}

/// An empty collection is not a field we mean to own.
fn filled<C: IntoIterator + Clone>(collection: &C) -> Option<C>
where
    for<'a> &'a C: IntoIterator,
{
    collection.into_iter().next().is_some().then(|| collection.clone())
}

/// One entry a key, the last of them: lists that are merged by key cannot hold two, and what the spec gives comes after
/// what we give.
fn one_each<T>(entries: Vec<T>, key: impl Fn(&T) -> &str) -> Vec<T> {
    let last: Vec<bool> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| !entries.iter().skip(index + 1).any(|later| key(later) == key(entry)))
        .collect();
    entries.into_iter().zip(last).filter_map(|(entry, last)| last.then_some(entry)).collect()
}
