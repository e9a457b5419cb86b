//! Decides which objects a CoderWorkspaceProxy consists of, each exactly as it is applied under the field manager `coder-k8s`: only
//! fields we mean to own. Never reads anything and knows no default: `resolve` gives every value. The Secret of the token is none
//! of them: it is never applied.

mod environment;
mod pod;

#[cfg(test)]
pub(super) mod fixtures;
#[cfg(test)]
mod tests;

use super::resolve::{Facts, ResolvedProxy, resolve};
use super::way::place;
use crate::controller::children::{Child, ChildKind};
use crate::controller::workload::consumed::{self, Consumed};
use crate::controller::workload::serving::{self, ServingChildren};
use crate::controller::workload::{account, deployment};

use crds::CoderWorkspaceProxy;

pub(super) use environment::{PRIMARY_URL, TOKEN};
pub(super) use pod::CONTAINER;
pub(super) use webhooks::defaults::ACCESS_URL;

/// Every object a workspace proxy consists of. What is `None` should not exist, but for the Deployment: one that runs stays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Children {
    /// ServiceAccount, unless somebody else makes it. It has no rights.
    pub(crate) service_account: Option<Child>,
    /// Deployment; none while it is not known what pods would run with.
    pub(crate) deployment: Option<Child>,
    /// Service, Ingress or HTTPRoute, PodDisruptionBudget and ServiceMonitor.
    pub(crate) serving: ServingChildren,
}

impl Children {
    /// All of them, in the order in which they are best made. Taken apart without `..`: a new one is shown, too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Child> {
        let Self { service_account, deployment, serving } = self;
        service_account.iter().chain(deployment).chain(serving.all())
    }

    /// The kinds of which there is at most one, called like the Deployment, and now none: what an earlier spec asked for is
    /// to be pruned. Taken apart without `..`: a new child says how it goes.
    pub(crate) fn absent(&self) -> Vec<ChildKind> {
        let Self {
            // Its name is its own: accounts have a prune of their own.
            service_account: _,
            // A proxy that runs is never taken away because something about it is not known.
            deployment: _,
            serving,
        } = self;
        serving.absent()
    }
}

/// The objects a workspace proxy consists of.
pub(crate) fn build(resolved: &ResolvedProxy) -> Children {
    let ResolvedProxy { owner, replicas, service: front, pods, expose, proxy, .. } = resolved;
    let template = proxy.as_ref().map(|proxy| pod::template(resolved, proxy));
    Children {
        service_account: account::child(owner, &pods.account),
        deployment: template.map(|template| deployment::child(owner, *replicas, None, template)),
        serving: serving::children(owner, front, expose.as_ref(), pods),
    }
}

/// Everything that pods read because the spec says so. Their token and what they trust of their control plane have checksums of
/// their own. What is referred to does not depend on any value.
pub(super) fn consumed(complete: &CoderWorkspaceProxy) -> Vec<Consumed> {
    let (resolved, place) = (resolve(complete, Facts::NONE), place(complete));
    consumed::of_spec(&pod::pods(&resolved), &complete.spec.extra_env, (&place.secret, &place.data_key))
}
