//! Decides what of a running Deployment stays where the spec is silent: how many replicas there are. Pure, and it never
//! looks at a status.

use serde_json::{Map, Value, json};

/// A container of a Deployment by its name.
pub(crate) fn container<'a>(deployment: &'a Value, name: &str) -> Option<&'a Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| container["name"] == name)
}

/// The object with the replicas that run where its spec leaves them open: what an autoscaler decided stays.
pub(crate) fn with_running_replicas(object: &Value, deployment: &Value) -> Value {
    let mut given = object.clone();
    if !given["spec"].is_object() {
        given["spec"] = Value::Object(Map::new());
    }
    if given["spec"]["replicas"].is_null()
        && let Some(replicas) = deployment.pointer("/spec/replicas").and_then(Value::as_i64)
    {
        given["spec"]["replicas"] = json!(replicas);
    }
    given
}

/// A manifest that is about to be applied with the replicas that run now, if the spec leaves them open and they are others:
/// an autoscaler may have decided since the reconcile began.
pub(crate) fn with_replicas(object: &Value, manifest: &Value, deployment: &Value) -> Option<Value> {
    let open = object.pointer("/spec/replicas").is_none_or(Value::is_null);
    let replicas = deployment.pointer("/spec/replicas").filter(|_| open)?;
    (manifest["spec"]["replicas"] != *replicas).then(|| {
        let mut manifest = manifest.clone();
        manifest["spec"]["replicas"] = replicas.clone();
        manifest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_autoscaler_decided_meanwhile_stays_unless_the_spec_says_how_many() {
        let scaled = json!({"spec": {"replicas": 5}});
        let manifest = json!({"spec": {"replicas": 2, "template": {}}});
        let kept = |spec: Value| with_replicas(&json!({ "spec": spec }), &manifest, &scaled);
        let five = Some(json!({"spec": {"replicas": 5, "template": {}}}));
        assert_eq!((kept(json!({})), kept(json!({"replicas": null}))), (five.clone(), five));
        assert_eq!(kept(json!({"replicas": 2})), None, "the spec says how many");
        assert_eq!(with_replicas(&json!({}), &manifest, &manifest), None, "they are the same");
    }

    #[test]
    fn replicas_that_run_stay_only_where_the_spec_is_silent() {
        let deployment = json!({"spec": {"replicas": 3}});
        let spec = |spec: Value| with_running_replicas(&json!({ "spec": spec }), &deployment)["spec"].clone();
        for silent in [json!({}), json!({"replicas": null}), Value::Null] {
            assert_eq!(spec(silent), json!({"replicas": 3}));
        }
        assert_eq!(spec(json!({"replicas": 0})), json!({"replicas": 0}));
    }
}
