//! Decides the PodDisruptionBudget: there is one where the spec gives one, and only there.
//! Never guesses from the number of replicas: a budget that nobody asked for would hold up the drain of a node.

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Child;
use super::origin::Origin;

/// The budget, where the spec wants one. Of two numbers the stricter promise stands: `minAvailable`.
pub(super) fn child(origin: &Origin<'_>) -> Option<Child> {
    let spec = origin.spec.pod_disruption_budget.clone().filter(|spec| spec.enabled != Some(false))?;
    let max_unavailable = match &spec.min_available {
        Some(_) => None,
        None => Some(spec.max_unavailable.unwrap_or(IntOrString::Int(1))),
    };
    Some(Child::of(&PodDisruptionBudget {
        metadata: origin.namesake(),
        spec: Some(PodDisruptionBudgetSpec {
            selector: Some(origin.selector()),
            min_available: spec.min_available,
            max_unavailable,
            ..Default::default()
        }),
        status: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use serde_json::{Value, json};

    fn budget(spec: Value) -> Option<Value> {
        let children = ControlPlane::test().with("podDisruptionBudget", spec).children();
        let mut spec = children.disruption_budget?.manifest["spec"].clone();
        let selector = spec.as_object_mut()?.remove("selector");
        assert_eq!(selector, Some(children.deployment.manifest["spec"]["selector"].clone()));
        Some(spec)
    }

    #[test]
    fn there_is_one_where_the_spec_gives_one() {
        let several = ControlPlane::test().with("replicas", json!(3)).children();
        assert_eq!(several.disruption_budget, None);
        assert_eq!(budget(json!({"enabled": false, "minAvailable": 1})), None);
        assert_eq!(budget(json!({})), Some(json!({"maxUnavailable": 1})));
        assert_eq!(budget(json!({"maxUnavailable": "25%"})), Some(json!({"maxUnavailable": "25%"})));
        assert_eq!(budget(json!({"minAvailable": 2})), Some(json!({"minAvailable": 2})));
        assert_eq!(budget(json!({"minAvailable": 2, "maxUnavailable": 1})), Some(json!({"minAvailable": 2})));
    }
}
