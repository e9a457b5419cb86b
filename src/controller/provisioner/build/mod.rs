//! Decides which objects a CoderProvisioner consists of, each exactly as it is applied under the field manager `coder-k8s`:
//! only fields we mean to own. Never reads anything and knows no default: `resolve` gives every value. The Secret of the key
//! is none of them: it is never applied.

mod daemon;
mod environment;

#[cfg(test)]
pub(super) mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use super::resolve::{Facts, ResolvedProvisioner, resolve};
use crate::controller::children::{Child, ChildKind};
use crate::controller::workload::consumed::{self, Consumed};
use crate::controller::workload::serving::absent;
use crate::controller::workload::{account, deployment, disruption, monitoring, rights};

use crds::CoderProvisioner;
use crds::names::provisioner::{key_secret, key_secret_key};

pub(super) use daemon::CONTAINER;
pub(super) use environment::{KEY, NAME as DAEMON_NAME, URL};

/// Seconds that a daemon has to stay up before an older one is replaced by it. Nobody can be asked whether it works: it serves
/// no health endpoint, and its metrics, which are there only if the spec wants them, answer whether it is connected or not. But
/// one that is refused for its key, its settings or a certificate ends at once and waits ten seconds and more before the next
/// try, so that it never stays up for so long. One that nothing answers to may dial for longer; it is told by coderd, which
/// does not see it. This is no part of the pods: setting it restarts nobody.
const STEADY: i32 = 30;

/// Every object a provisioner consists of. What is `None` should not exist, but for the Deployment: one that runs stays.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Children {
    /// ServiceAccount, unless somebody else makes it.
    pub(crate) service_account: Option<Child>,
    /// What the daemons may do.
    pub(crate) role: Option<Child>,
    /// What gives it to their account.
    pub(crate) role_binding: Option<Child>,
    /// Deployment; none while it is not known what daemons would run with.
    pub(crate) deployment: Option<Child>,
    /// PodDisruptionBudget.
    pub(crate) disruption_budget: Option<Child>,
    /// PodMonitor: there is no Service in front of daemons through which a ServiceMonitor could find them.
    pub(crate) pod_monitor: Option<Child>,
}

impl Children {
    /// All of them, in the order in which they are best made. Taken apart without `..`: a new one is shown, too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Child> {
        let Self { service_account, role, role_binding, deployment, disruption_budget, pod_monitor } = self;
        let all = [service_account, role, role_binding, deployment, disruption_budget, pod_monitor];
        all.into_iter().flatten()
    }

    /// The kinds of which there is at most one, called like the Deployment, and now none: what an earlier spec asked for is
    /// to be pruned, in this order. Taken apart without `..`: a new child says how it goes.
    pub(crate) fn absent(&self) -> Vec<ChildKind> {
        let Self {
            // Its name is its own: accounts have a prune of their own.
            service_account: _,
            role,
            role_binding,
            // Daemons that run are never taken away because something about them is not known.
            deployment: _,
            disruption_budget,
            pod_monitor,
        } = self;
        let optional = [
            (ChildKind::RoleBinding, role_binding),
            (ChildKind::Role, role),
            (ChildKind::PodDisruptionBudget, disruption_budget),
            (ChildKind::PodMonitor, pod_monitor),
        ];
        absent(optional)
    }
}

/// The objects a provisioner consists of.
pub(crate) fn build(provisioner: &ResolvedProvisioner) -> Children {
    let ResolvedProvisioner { owner, replicas, pods, permissions, daemons, consumed_checksum: _, spec: _ } =
        provisioner;
    let role = permissions.as_ref().map(|permissions| {
        rights::role(owner.workload_metadata(), permissions.deployments, &permissions.extra_rules)
    });
    let role_binding = role.as_ref().map(|role| {
        rights::binding(owner.workload_metadata(), &role.name, &pods.account.name, &owner.namespace)
    });
    let template = daemons.as_ref().map(|daemons| daemon::template(provisioner, daemons));
    let monitor = pods.metrics.as_ref().and_then(|metrics| metrics.monitor.as_ref());
    Children {
        service_account: account::child(owner, &pods.account),
        role,
        role_binding,
        deployment: template.map(|template| deployment::child(owner, *replicas, Some(STEADY), template)),
        disruption_budget: pods.budget.as_ref().map(|budget| disruption::child(owner, budget)),
        pod_monitor: monitor.map(|monitor| monitoring::pod_monitor(owner, monitor)),
    }
}

/// Everything that daemons read because the spec says so. Their key and what they trust of their control plane have checksums of
/// their own. What is referred to does not depend on any value.
pub(super) fn consumed(complete: &CoderProvisioner) -> Vec<Consumed> {
    let provisioner = resolve(complete, Facts::NONE);
    let secret = key_secret(&provisioner.owner.name, &complete.spec);
    let own = (secret.as_str(), key_secret_key(&complete.spec));
    consumed::of_spec(&daemon::pods(&provisioner), &complete.spec.extra_env, own)
}
