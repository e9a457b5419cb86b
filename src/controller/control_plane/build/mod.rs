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
use crate::controller::workload::{account, deployment, disruption, exposure, monitoring, service};
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
    /// Service.
    pub service: Child,
    /// Ingress.
    pub ingress: Option<Child>,
    /// HTTPRoute.
    pub http_route: Option<Child>,
    /// PodDisruptionBudget.
    pub disruption_budget: Option<Child>,
    /// ServiceMonitor.
    pub service_monitor: Option<Child>,
}

impl Children {
    /// All of them, in the order in which they are best made. Taken apart without `..`: a new one is shown, too.
    pub fn all(&self) -> impl Iterator<Item = &Child> {
        let Self {
            service_account,
            workspace_access,
            deployment,
            service,
            ingress,
            http_route,
            disruption_budget,
            service_monitor,
        } = self;
        let access = workspace_access.iter().flat_map(|access| [&access.role, &access.binding]);
        service_account
            .iter()
            .chain(access)
            .chain([deployment, service])
            .chain([ingress, http_route, disruption_budget, service_monitor].into_iter().flatten())
    }

    /// The kinds of which there is at most one, called like the Deployment, and now none: what an earlier spec asked for is
    /// to be pruned. Taken apart without `..`: a new child says how it goes.
    pub fn absent(&self) -> Vec<ChildKind> {
        let Self {
            // Accounts and permissions are not called like the Deployment: they have a prune of their own.
            service_account: _,
            workspace_access: _,
            deployment: _,
            service: _,
            ingress,
            http_route,
            disruption_budget,
            service_monitor,
        } = self;
        let optional = [
            (ChildKind::Ingress, ingress),
            (ChildKind::HttpRoute, http_route),
            (ChildKind::PodDisruptionBudget, disruption_budget),
            (ChildKind::ServiceMonitor, service_monitor),
        ];
        optional.into_iter().filter(|(_, child)| child.is_none()).map(|(kind, _)| kind).collect()
    }

    /// Whether any of them is outside of its own namespace.
    pub fn reach_beyond(&self, namespace: &str) -> bool {
        self.workspace_access.iter().any(|access| access.namespace != namespace)
    }
}

/// The objects a control plane consists of.
pub fn build(plane: &ResolvedControlPlane) -> Children {
    let (owner, port) = (&plane.owner, plane.service.plain_port());
    let (ingress, http_route) = exposure::children(owner, plane.expose.as_ref(), port);
    let settings = &plane.pods;
    let monitor = settings.metrics.as_ref().and_then(|metrics| metrics.monitor.as_ref());
    Children {
        service_account: account::child(owner, &settings.account),
        workspace_access: rbac::workspace_access(plane),
        deployment: deployment::child(owner, plane.replicas, None, pod::template(plane)),
        service: service::child(owner, &plane.service),
        ingress,
        http_route,
        disruption_budget: settings.budget.as_ref().map(|budget| disruption::child(owner, budget)),
        service_monitor: monitor.map(|monitor| monitoring::service_monitor(owner, monitor)),
    }
}

/// Everything the pods of a control plane read. What is referred to does not depend on any value.
pub(crate) fn consumed(complete: &CoderControlPlane) -> Vec<Consumed> {
    consumed::consumed(&pod::spec(&resolve(complete, Facts::NONE)))
}
