//! Decides which objects a CoderControlPlane consists of, each exactly as it is applied under the field manager
//! `coder-k8s`: only fields we mean to own. Never reads anything and knows no default: `resolve` gives every value.

mod environment;
mod pod;
mod rbac;

#[cfg(test)]
pub(super) mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::resolve::{Facts, ResolvedControlPlane, resolve};
use crate::controller::children::{Child, ChildKind};
use crate::controller::workload::consumed::{self, Consumed};
use crate::controller::workload::serving::{self, ServingChildren};
use crate::controller::workload::{account, deployment};
use crds::CoderControlPlane;

pub(crate) use environment::provides_access_url;
pub(crate) use rbac::WorkspaceAccess;
pub(crate) use webhooks::defaults::ACCESS_URL;

/// Every object a control plane consists of. What is `None` should not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// ServiceAccount, unless somebody else makes it.
    pub service_account: Option<Child>,
    /// What coderd may do, by namespace; its own first.
    pub workspace_access: Vec<WorkspaceAccess>,
    /// Deployment.
    pub deployment: Child,
    /// Service, Ingress or HTTPRoute, PodDisruptionBudget and ServiceMonitor.
    pub serving: ServingChildren,
}

impl Children {
    /// All of them, in the order in which they are best made. Taken apart without `..`: a new one is shown, too.
    pub fn all(&self) -> impl Iterator<Item = &Child> {
        let Self { service_account, workspace_access, deployment, serving } = self;
        let access = workspace_access.iter().flat_map(|access| [&access.role, &access.binding]);
        service_account.iter().chain(access).chain([deployment]).chain(serving.all())
    }

    /// The kinds of which there is at most one, called like the Deployment, and now none: what an earlier spec asked for is
    /// to be pruned. Taken apart without `..`: a new child says how it goes.
    pub fn absent(&self) -> Vec<ChildKind> {
        let Self {
            // Accounts and permissions are not called like the Deployment: they have a prune of their own.
            service_account: _,
            workspace_access: _,
            deployment: _,
            serving,
        } = self;
        serving.absent()
    }

    /// Whether any of them is outside of its own namespace.
    pub fn reach_beyond(&self, namespace: &str) -> bool {
        self.workspace_access.iter().any(|access| access.namespace != namespace)
    }
}

/// The objects a control plane consists of.
pub fn build(plane: &ResolvedControlPlane) -> Children {
    let (owner, settings) = (&plane.owner, &plane.pods);
    Children {
        service_account: account::child(owner, &settings.account),
        workspace_access: rbac::workspace_access(plane),
        deployment: deployment::child(owner, plane.replicas, None, pod::template(plane)),
        serving: serving::children(owner, &plane.service, plane.expose.as_ref(), settings),
    }
}

/// Everything the pods of a control plane read. What is referred to does not depend on any value.
pub(crate) fn consumed(complete: &CoderControlPlane) -> Vec<Consumed> {
    consumed::consumed(&pod::spec(&resolve(complete, Facts::NONE)))
}
