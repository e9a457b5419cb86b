//! Decides what of a running Deployment stays where nothing better is known: what its daemons run, whom they serve and which
//! key they use. Pure, and it never looks at a status.

use super::address::{self, Address, Alias};
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
/// authority. Where they find their control plane is left open if it is not written there.
pub(super) fn daemons(deployment: &Value) -> Option<Daemons> {
    let container = running::container(deployment, CONTAINER)?;
    let template = &deployment["spec"]["template"];
    Some(Daemons {
        image: text(&container["image"])?,
        address: address(container, &template["spec"]),
        trusted: trusted(&template["spec"]),
        certificates: text(&template["metadata"]["annotations"][annotation::CHECKSUM]),
        key: key(deployment)?,
    })
}

/// The key that the pods of a Deployment are started with, and where it is. Nothing else of them matters: what the spec
/// overrides is no reason to doubt it.
pub(super) fn key(deployment: &Value) -> Option<KeySource> {
    let container = running::container(deployment, CONTAINER)?;
    let reference = &variable(container, KEY)?["valueFrom"]["secretKeyRef"];
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    Some(KeySource {
        secret: text(&reference["name"])?,
        key: text(&reference["key"])?,
        checksum: text(&annotations[annotation::KEY_CHECKSUM])?,
    })
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container["env"].as_array()?.iter().find(|variable| variable["name"] == name)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Where the daemons of a pod find their control plane, and what leads its name there.
fn address(container: &Value, pod: &Value) -> Option<Address> {
    let url = text(&variable(container, URL)?["value"])?;
    let host = address::host(&url).unwrap_or_default().to_ascii_lowercase();
    let leads = |entry: &&Value| {
        entry["hostnames"].as_array().into_iter().flatten().any(|name| name.as_str() == Some(host.as_str()))
    };
    let entry = pod["hostAliases"].as_array().into_iter().flatten().find(leads);
    let alias = entry.and_then(|entry| Some(Alias { host: host.clone(), ip: text(&entry["ip"])? }));
    Some(Address { url, alias })
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
            image: "coder:v1".to_owned(),
            address: Some(Address { url: "http://coder.ns.svc.cluster.local:80".to_owned(), alias: None }),
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
