//! Decides what of a running Deployment stays where nothing better is known: what its daemons run, whom they serve and which
//! key they use. Pure, and it never looks at a status.

use super::build::{CONTAINER, KEY, URL};
use super::resolve::Daemons;
use crate::controller::attached::attachment::{Attachment, SecretSource};
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

/// What the daemons of a Deployment run with, as far as it is all there.
pub(super) fn daemons(deployment: &Value) -> Option<Daemons> {
    let attachment = Attachment::of_running(deployment, CONTAINER, URL)?;
    Some(Daemons { attachment, key: key(deployment)? })
}

/// The key that the pods of a Deployment are started with, and where it is.
pub(super) fn key(deployment: &Value) -> Option<SecretSource> {
    SecretSource::of_running(deployment, CONTAINER, KEY, annotation::KEY_CHECKSUM)
}

/// Since when the rollout of a Deployment's template is complete: every pod of another was told to stop by then.
pub(super) fn complete_since(deployment: &Value) -> Option<Timestamp> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    let is_complete =
        |one: &&Value| one["type"] == "Progressing" && one["reason"] == "NewReplicaSetAvailable";
    conditions.iter().find(is_complete)?["lastUpdateTime"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Provisioner;
    use super::*;
    use crate::controller::attached::address::Address;
    use serde_json::json;

    #[test]
    fn what_was_built_is_read_back() {
        let tls = || Provisioner::test().of_tls_control_plane(&["a", "b"]);
        let own = json!([{"ip": "10.0.0.7", "hostnames": ["git"]}]);
        for given in [
            Provisioner::test(),
            tls(),
            tls().through_alias("coder.example.com", "10.0.0.7"),
            tls().through_alias("coder.example.com", "10.0.0.7").with("hostAliases", own),
        ] {
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
            attachment: Attachment {
                image: "coder:v1".to_owned(),
                address: Some(Address {
                    url: "http://coder.ns.svc.cluster.local:80".to_owned(),
                    alias: None,
                }),
                trusted: Vec::new(),
                certificates: None,
            },
            key: SecretSource { secret: "s".to_owned(), key: "k".to_owned(), checksum: "abc".to_owned() },
        };
        assert_eq!(daemons(&deployment), Some(expected));
        deployment["spec"]["template"]["metadata"] = json!({});
        assert_eq!(daemons(&deployment), None, "which key they use is not known");
        assert_eq!(daemons(&json!({})), None);
    }

    #[test]
    fn an_address_from_elsewhere_hides_neither_the_key_nor_the_rest() {
        let source = json!({"configMapKeyRef": {"name": "settings", "key": "url"}});
        let given = Provisioner::test().with("extraEnv", json!([{"name": "CODER_URL", "valueFrom": source}]));
        let (read, resolved) = (daemons(&given.deployment()), given.resolved().daemons);
        assert_eq!(read, resolved);
        assert_eq!(key(&given.deployment()), resolved.map(|resolved| resolved.key));
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
