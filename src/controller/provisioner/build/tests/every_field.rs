//! Every field of the spec has an effect on what is built, but for those that concern the key or the reconciler alone.

use super::super::fixtures::Provisioner;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Fields that no child depends on.
const ELSEWHERE: [&str; 6] =
    ["suspend", "controlPlaneRef", "organizationName", "tags", "bootstrap", "deletionPolicy"];

/// A value for each of the others.
fn values() -> Value {
    json!({
        "key": {"secretName": "other"},
        "replicas": 3,
        "image": "mine:v1",
        "extraArgs": ["--verbose"],
        "extraEnv": [{"name": "A", "value": "1"}],
        "envFrom": [{"configMapRef": {"name": "a"}}],
        "resources": {"requests": {"cpu": "1"}},
        "imagePullSecrets": [{"name": "registry"}],
        "terminationGracePeriodSeconds": 5,
        "rbac": {"enableDeployments": true},
        "serviceAccount": {"annotations": {"role": "r"}},
        "securityContext": {"readOnlyRootFilesystem": true},
        "podSecurityContext": {"fsGroup": 7},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "certs": {"secrets": [{"name": "ca", "key": "ca.crt"}]},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "podLabels": {"team": "a"},
        "podAnnotations": {"example.com/a": "b"},
        "initContainers": [{"name": "i", "image": "x"}],
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["git"]}],
        "priorityClassName": "high",
        "podDisruptionBudget": {"maxUnavailable": 1},
        "metrics": {"podMonitor": {}},
    })
}

fn fields() -> BTreeSet<String> {
    let definitions = json!(crds::custom_resource_definitions());
    let all = definitions.as_array().unwrap();
    let ours = all.iter().find(|one| one["spec"]["names"]["kind"] == "CoderProvisioner").unwrap();
    let schema = &ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_field_of_the_spec_has_an_effect() {
    let values = values();
    let tried = values.as_object().unwrap();
    let known: BTreeSet<String> =
        tried.keys().cloned().chain(ELSEWHERE.iter().map(|name| (*name).to_owned())).collect();
    assert_eq!(known, fields(), "the fields of the spec");
    for (field, value) in tried {
        let changed = Provisioner::test().with(field, value.clone()).children();
        assert_ne!(changed, Provisioner::test().children(), "{field}");
    }
}

#[test]
fn what_the_spec_says_about_the_pod_is_passed_on() {
    let values = values();
    for field in [
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "affinity",
        "topologySpreadConstraints",
        "hostAliases",
        "priorityClassName",
        "terminationGracePeriodSeconds",
        "volumes",
    ] {
        assert_eq!(Provisioner::test().with(field, values[field].clone()).pod()[field], values[field]);
    }
    for field in ["resources", "lifecycle", "envFrom"] {
        assert_eq!(Provisioner::test().with(field, values[field].clone()).container()[field], values[field]);
    }
    let pod = Provisioner::test().with("initContainers", values["initContainers"].clone()).pod();
    assert_eq!(pod["initContainers"][0]["name"], "i");
    let mounted = Provisioner::test().with("volumeMounts", values["volumeMounts"].clone()).container();
    assert_eq!(mounted["volumeMounts"], values["volumeMounts"]);
    let trusting = Provisioner::test().with("certs", values["certs"].clone()).container();
    assert_eq!(trusting["volumeMounts"][0]["mountPath"], "/etc/ssl/certs/ca.crt");
}

#[test]
fn pods_keep_apart_unless_the_spec_says_where_they_run() {
    let given = Provisioner::test();
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let term = &given.pod()["affinity"]["podAntiAffinity"][preferred][0]["podAffinityTerm"];
    assert_eq!(term["labelSelector"], given.deployment()["spec"]["selector"]);
}

#[test]
fn there_is_a_budget_where_it_is_asked_for() {
    assert_eq!(Provisioner::test().children().disruption_budget, None);
    let off = Provisioner::test().with("podDisruptionBudget", json!({"enabled": false}));
    assert_eq!(off.children().disruption_budget, None);
    let given = Provisioner::test().with("podDisruptionBudget", json!({"minAvailable": 2}));
    let budget = given.children().disruption_budget.unwrap().manifest["spec"].clone();
    assert_eq!(budget, json!({"minAvailable": 2, "selector": given.deployment()["spec"]["selector"]}));
}
