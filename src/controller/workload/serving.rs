//! Decides which objects stand around pods that serve users: the Service, the one way in from outside, a disruption budget and what
//! Prometheus finds them by. It knows no kind of ours, and never reads anything.

use super::exposure::{self, Expose};
use super::pods::PodSettings;
use super::service::{self, Front};
use super::{disruption, monitoring};
use crate::controller::children::{Child, ChildKind, ChildOwner};

/// Those objects. What is `None` should not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct ServingChildren {
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

impl ServingChildren {
    /// All of them, in the order in which they are best made. Taken apart without `..`: a new one is shown, too.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Child> {
        let Self { service, ingress, http_route, disruption_budget, service_monitor } = self;
        let optional = [ingress, http_route, disruption_budget, service_monitor];
        [service].into_iter().chain(optional.into_iter().flatten())
    }

    /// The kinds of which there is none now: what an earlier spec asked for is to be pruned. Taken apart without `..`: a new child
    /// says how it goes.
    pub(crate) fn absent(&self) -> Vec<ChildKind> {
        let Self { service: _, ingress, http_route, disruption_budget, service_monitor } = self;
        let optional = [
            (ChildKind::Ingress, ingress),
            (ChildKind::HttpRoute, http_route),
            (ChildKind::PodDisruptionBudget, disruption_budget),
            (ChildKind::ServiceMonitor, service_monitor),
        ];
        absent(optional)
    }
}

/// The kinds of which there is no child.
pub(crate) fn absent<const N: usize>(optional: [(ChildKind, &Option<Child>); N]) -> Vec<ChildKind> {
    optional.into_iter().filter(|(_, child)| child.is_none()).map(|(kind, _)| kind).collect()
}

/// The objects around these pods.
pub(crate) fn children(
    owner: &ChildOwner,
    front: &Front,
    expose: Option<&Expose>,
    pods: &PodSettings,
) -> ServingChildren {
    let (ingress, http_route) = exposure::children(owner, expose, front.plain_port());
    let monitor = pods.metrics.as_ref().and_then(|metrics| metrics.monitor.as_ref());
    ServingChildren {
        service: service::child(owner, front),
        ingress,
        http_route,
        disruption_budget: pods.budget.as_ref().map(|budget| disruption::child(owner, budget)),
        service_monitor: monitor.map(|monitor| monitoring::service_monitor(owner, monitor)),
    }
}
