//! The PodDisruptionBudget of a control plane.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn budget(spec: Value) -> Option<Value> {
    let children = ControlPlane::test().with("podDisruptionBudget", spec).children();
    let mut spec = children.serving.disruption_budget?.manifest["spec"].clone();
    let selector = spec.as_object_mut()?.remove("selector");
    assert_eq!(selector, Some(children.deployment.manifest["spec"]["selector"].clone()));
    Some(spec)
}

#[test]
fn there_is_one_where_the_spec_gives_one() {
    let several = ControlPlane::test().with("replicas", json!(3)).children();
    assert_eq!(several.serving.disruption_budget, None);
    assert_eq!(budget(json!({"enabled": false, "minAvailable": 1})), None);
    assert_eq!(budget(json!({})), Some(json!({"maxUnavailable": 1})));
    assert_eq!(budget(json!({"maxUnavailable": "25%"})), Some(json!({"maxUnavailable": "25%"})));
    assert_eq!(budget(json!({"minAvailable": 2})), Some(json!({"minAvailable": 2})));
    assert_eq!(budget(json!({"minAvailable": 2, "maxUnavailable": 1})), Some(json!({"minAvailable": 2})));
}
