//! Decides what of a running Deployment stays where nothing better is known: what its daemons run, whom they serve and which
//! key they use. Pure, and it never looks at a status.

use super::build::{CONTAINER, KEY, TRUST_VOLUME, URL};
use super::resolve::{Daemons, KeySource};
use crate::controller::workload::running;
use crds::well_known::annotation;
use jiff::Timestamp;
use serde_json::Value;

/// The object with the replicas of the Deployment that runs where it names none. Its image is never kept so: it follows the
/// control plane.
pub(super) fn with_running_values(object: &Value, deployment: Option<&Value>) -> Value {
    let Some(deployment) = deployment else { return object.clone() };
    running::with_running_replicas(object, deployment)
}

/// What the daemons of a Deployment run with, as far as it is all there: one that somebody changed beyond that is no
/// authority.
pub(super) fn daemons(deployment: &Value) -> Option<Daemons> {
    let container = running::container(deployment, CONTAINER)?;
    let template = &deployment["spec"]["template"];
    let variable = |name: &str| container["env"].as_array()?.iter().find(|variable| variable["name"] == name);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let key = &variable(KEY)?["valueFrom"]["secretKeyRef"];
    Some(Daemons {
        image: text(&container["image"])?,
        url: text(&variable(URL)?["value"])?,
        trusted: trusted(&template["spec"]),
        certificates: text(&template["metadata"]["annotations"][annotation::CHECKSUM]),
        key: KeySource {
            secret: text(&key["name"])?,
            key: text(&key["key"])?,
            checksum: text(&template["metadata"]["annotations"][annotation::KEY_CHECKSUM])?,
        },
    })
}

/// Since when the rollout of a Deployment's template is complete: every pod of another was told to stop by then.
pub(super) fn complete_since(deployment: &Value) -> Option<Timestamp> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    let is_complete =
        |one: &&Value| one["type"] == "Progressing" && one["reason"] == "NewReplicaSetAvailable";
    conditions.iter().find(is_complete)?["lastUpdateTime"].as_str()?.parse().ok()
}

/// The Secrets whose certificates the daemons trust for their control plane.
fn trusted(pod: &Value) -> Vec<String> {
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    let volume = volumes.filter(|volume| volume["name"] == TRUST_VOLUME);
    let sources = volume.filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
    sources.filter_map(|source| source.pointer("/secret/name")?.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Provisioner;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_built_is_read_back() {
        for given in [Provisioner::test(), Provisioner::test().of_tls_control_plane(&["a", "b"])] {
            let resolved = given.resolved();
            assert_eq!(daemons(&given.deployment()), resolved.daemons);
            assert!(resolved.daemons.is_some());
        }
    }

    #[test]
    fn a_deployment_of_the_go_operator_is_read() {
        let env = json!([{"name": "CODER_URL", "value": "http://coder.ns.svc.cluster.local:80"},
            {"name": "CODER_PROVISIONER_DAEMON_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
        let mut deployment = json!({"spec": {"template": {
            "metadata": {"annotations": {"checksum/provisioner-key": "abc"}},
            "spec": {"containers": [{"name": "provisioner", "image": "coder:v1", "env": env}]}}}});
        let expected = Daemons {
            image: "coder:v1".to_owned(),
            url: "http://coder.ns.svc.cluster.local:80".to_owned(),
            trusted: Vec::new(),
            certificates: None,
            key: KeySource { secret: "s".to_owned(), key: "k".to_owned(), checksum: "abc".to_owned() },
        };
        assert_eq!(daemons(&deployment), Some(expected));
        deployment["spec"]["template"]["metadata"] = json!({});
        assert_eq!(daemons(&deployment), None, "which key they use is not known");
        assert_eq!(daemons(&json!({})), None);
    }

    #[test]
    fn a_rollout_is_complete_since_the_deployment_controller_said_so() {
        let said = |reason: &str| {
            json!({"status": {"conditions": [{"type": "Available"}, {"type": "Progressing", "reason": reason,
                "lastUpdateTime": "2026-01-01T00:10:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
        };
        let complete = complete_since(&said("NewReplicaSetAvailable"));
        assert_eq!(
            complete,
            Some("2026-01-01T00:10:00Z".parse().unwrap()),
            "not since the first rollout began"
        );
        assert_eq!((complete_since(&said("ReplicaSetUpdated")), complete_since(&json!({}))), (None, None));
    }

    #[test]
    fn replicas_that_run_stay_and_the_image_is_not_written_down() {
        let mut deployment = Provisioner::test().deployment();
        deployment["spec"]["replicas"] = json!(4);
        let spec =
            |spec: Value| with_running_values(&json!({ "spec": spec }), Some(&deployment))["spec"].clone();
        assert_eq!(spec(json!({})), json!({"replicas": 4}));
        assert_eq!(spec(Value::Null), json!({"replicas": 4}));
        assert_eq!(spec(json!({"replicas": 0})), json!({"replicas": 0}));
        assert_eq!(with_running_values(&json!({}), None), json!({}));
    }
}
