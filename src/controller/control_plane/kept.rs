//! Decides what stays as it runs where the spec is silent: the image of coderd and the number of its replicas, as the
//! live Deployment has them. It never looks at a status, and never overrides what the spec says.

use serde_json::{Map, Value, json};

/// The container of coderd in a Deployment.
pub fn container(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| container["name"] == "coder")
}

/// The object with image and replicas of the Deployment that runs where it names none. An upgrade of the operator, a
/// `kubectl replace` or an edit of something else is no upgrade of coderd, which migrates its database and has no way
/// back; and what an autoscaler decided stays.
pub fn with_what_runs(object: &Value, deployment: Option<&Value>) -> Value {
    let mut given = object.clone();
    let Some(deployment) = deployment else { return given };
    if !given["spec"].is_object() {
        given["spec"] = Value::Object(Map::new());
    }
    if names_no_image(object)
        && let Some(image) = container(deployment).and_then(|container| container["image"].as_str())
    {
        given["spec"]["image"] = json!(image);
    }
    if given["spec"]["replicas"].is_null()
        && let Some(replicas) = deployment.pointer("/spec/replicas").and_then(Value::as_i64)
    {
        given["spec"]["replicas"] = json!(replicas);
    }
    given
}

/// Whether the spec leaves the image open; an empty text always has.
pub fn names_no_image(object: &Value) -> bool {
    object.pointer("/spec/image").is_none_or(|image| image.is_null() || image == "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_stays_only_where_the_spec_is_silent() {
        let deployment = json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "sidecar", "image": "proxy"}, {"name": "coder", "image": "coder:v1"}]}}}});
        let spec = |spec: Value| with_what_runs(&json!({ "spec": spec }), Some(&deployment))["spec"].clone();
        let runs = json!({"image": "coder:v1", "replicas": 3});
        assert_eq!(spec(json!({})), runs);
        assert_eq!(spec(Value::Null), runs);
        assert_eq!(spec(json!({"image": "", "replicas": null})), runs);
        let named = json!({"image": "coder:v2", "replicas": 0});
        assert_eq!(spec(named.clone()), named);
        let object = json!({"spec": {}});
        assert_eq!(with_what_runs(&object, None), object);
        let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "y"}]}}}});
        assert_eq!(with_what_runs(&object, Some(&other)), object);
    }
}
