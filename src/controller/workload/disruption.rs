//! Decides the PodDisruptionBudget: there is one where the spec asks for one, and only there.
//! Never guesses from the number of replicas: a budget that nobody asked for would hold up the drain of a node.

use crate::controller::children::{Child, ChildOwner};
use crds::workload::DisruptionBudgetSpec;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How many pods may be missing at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Budget {
    /// So many stay.
    MinAvailable(IntOrString),
    /// So many may go.
    MaxUnavailable(IntOrString),
}

/// The budget that a spec asks for. Of two numbers the stricter promise stands: `minAvailable`.
pub(crate) fn resolve(spec: Option<&DisruptionBudgetSpec>) -> Option<Budget> {
    let spec = spec.filter(|spec| spec.is_on())?;
    let min = spec.min_available.clone().map(Budget::MinAvailable);
    min.or_else(|| spec.max_unavailable_or_default().map(Budget::MaxUnavailable))
}

/// The PodDisruptionBudget.
pub(crate) fn child(owner: &ChildOwner, budget: &Budget) -> Child {
    let (min_available, max_unavailable) = match budget.clone() {
        Budget::MinAvailable(min) => (Some(min), None),
        Budget::MaxUnavailable(max) => (None, Some(max)),
    };
    Child::of(&PodDisruptionBudget {
        metadata: owner.workload_metadata(),
        spec: Some(PodDisruptionBudgetSpec {
            selector: Some(owner.selector()),
            min_available,
            max_unavailable,
            ..Default::default()
        }),
        status: None,
    })
}
