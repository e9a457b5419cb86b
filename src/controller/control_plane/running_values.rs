//! Decides what stays as it runs where the spec is silent: the image of coderd and the number of its replicas, as the
//! live Deployment has them. It never looks at a status, and overrides what the spec says only by an image that is
//! lower than the one that runs.

use serde_json::{Map, Value, json};
use webhooks::Cause;

/// The container of coderd in a Deployment.
pub(super) fn container(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| container["name"] == "coder")
}

/// The object with image and replicas of the Deployment that runs where it names none. An upgrade of the operator, a
/// `kubectl replace` or an edit of something else is no upgrade of coderd, which migrates its database and has no way
/// back; and what an autoscaler decided stays.
pub(super) fn with_running_values(object: &Value, deployment: Option<&Value>) -> Value {
    let mut given = object.clone();
    let Some(deployment) = deployment else { return given };
    if !given["spec"].is_object() {
        given["spec"] = Value::Object(Map::new());
    }
    if (names_no_image(object) || downgrade(object, Some(deployment)).is_some())
        && let Some(image) = image(deployment)
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

/// A manifest that is about to be applied with the replicas that run now, if the spec leaves them open and they are others:
/// an autoscaler may have decided since the reconcile began.
pub(super) fn with_replicas(object: &Value, manifest: &Value, deployment: &Value) -> Option<Value> {
    let open = object.pointer("/spec/replicas").is_none_or(Value::is_null);
    let replicas = deployment.pointer("/spec/replicas").filter(|_| open)?;
    (manifest["spec"]["replicas"] != *replicas).then(|| {
        let mut manifest = manifest.clone();
        manifest["spec"]["replicas"] = replicas.clone();
        manifest
    })
}

fn image(deployment: &Value) -> Option<&str> {
    container(deployment)?["image"].as_str()
}

/// What is told of a spec that asks for a lower version than the one that runs, which has changed its database. Admission
/// cannot see it where the spec before named no image, or one that says nothing of its version.
pub(super) fn downgrade(object: &Value, deployment: Option<&Value>) -> Option<Cause> {
    webhooks::downgrade(image(deployment?)?, object)
}

/// Whether the spec leaves the image open; an empty text always has.
pub(super) fn names_no_image(object: &Value) -> bool {
    object.pointer("/spec/image").is_none_or(|image| image.is_null() || image == "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_version_than_runs_is_not_rolled_out_unless_it_is_named() {
        let runs = "coder:v2.30.0";
        let deployment =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "coder", "image": runs}]}}}});
        let asked = |image: &str, allowed: &str| {
            let annotations = json!({"coder.com/allow-downgrade": allowed});
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"image": image}});
            let given = with_running_values(&object, Some(&deployment));
            (given["spec"]["image"].clone(), downgrade(&object, Some(&deployment)))
        };
        for lower in ["coder:v2.29.0", "mirror/coder:2.29.0"] {
            let (image, told) = asked(lower, "");
            assert_eq!(image, runs);
            let told = told.unwrap().to_string();
            assert!(told.contains("annotate coder.com/allow-downgrade: v2.29.0"), "{told}");
            assert!(told.ends_with("(CODER0221)"), "{told}");
            assert_eq!(asked(lower, "v2.29.0"), (json!(lower), None));
        }
        for other in ["coder:v2.31.0", "coder:main", runs] {
            assert_eq!(asked(other, ""), (json!(other), None));
        }
    }

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
    fn what_runs_stays_only_where_the_spec_is_silent() {
        let deployment = json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "sidecar", "image": "proxy"}, {"name": "coder", "image": "coder:v1"}]}}}});
        let spec =
            |spec: Value| with_running_values(&json!({ "spec": spec }), Some(&deployment))["spec"].clone();
        let runs = json!({"image": "coder:v1", "replicas": 3});
        assert_eq!(spec(json!({})), runs);
        assert_eq!(spec(Value::Null), runs);
        assert_eq!(spec(json!({"image": "", "replicas": null})), runs);
        let named = json!({"image": "coder:v2", "replicas": 0});
        assert_eq!(spec(named.clone()), named);
        let object = json!({"spec": {}});
        assert_eq!(with_running_values(&object, None), object);
        let other = json!({"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "y"}]}}}});
        assert_eq!(with_running_values(&object, Some(&other)), object);
    }
}
