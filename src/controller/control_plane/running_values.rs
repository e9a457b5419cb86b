//! Decides what stays as it runs where the spec is silent: the image of coderd and the number of its replicas, as the
//! live Deployment has them. It never looks at a status, and overrides what the spec says only by an image that is
//! lower than the one that runs.

use crate::control_plane_access::in_force::container;
use crate::controller::workload::running;
use serde_json::{Value, json};
use webhooks::Cause;

/// The object with image and replicas of the Deployment that runs where it names none. An upgrade of the operator, a
/// `kubectl replace` or an edit of something else is no upgrade of coderd, which migrates its database and has no way
/// back; and what an autoscaler decided stays.
pub(super) fn with_running_values(object: &Value, deployment: Option<&Value>) -> Value {
    let Some(deployment) = deployment else { return object.clone() };
    let mut given = running::with_running_replicas(object, deployment);
    if (names_no_image(object) || downgrade(object, Some(deployment)).is_some())
        && let Some(image) = image(deployment)
    {
        given["spec"]["image"] = json!(image);
    }
    given
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
