//! How little the pods of daemons may do.

use super::super::fixtures::Provisioner;
use serde_json::{Value, json};

#[test]
fn a_silent_spec_gives_a_pod_that_passes_the_restricted_standard() {
    let profile = json!({"type": "RuntimeDefault"});
    let pod = json!({"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": profile});
    assert_eq!(Provisioner::test().pod()["securityContext"], pod);
    let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(Provisioner::test().container()["securityContext"], container);
    assert!(Provisioner::test().pod().get("volumes").is_none());
}

#[test]
fn a_daemon_whose_root_is_read_only_has_a_place_to_write() {
    let given = Provisioner::test().with("securityContext", json!({"readOnlyRootFilesystem": true}));
    assert_eq!(given.pod()["volumes"], json!([{"name": "coder-scratch", "emptyDir": {}}]));
    let container = given.container();
    assert_eq!(container["volumeMounts"], json!([{"name": "coder-scratch", "mountPath": "/tmp"}]));
    let cache = json!({"name": "CODER_CACHE_DIRECTORY", "value": "/tmp/coder-cache"});
    assert!(container["env"].as_array().unwrap().contains(&cache));
    let own = json!([{"name": "big", "mountPath": "/tmp"}]);
    let given = given.with("volumeMounts", own.clone());
    assert_eq!(given.container()["volumeMounts"], own, "the spec knows a better one");
    let writable = Provisioner::test().with("securityContext", json!({"readOnlyRootFilesystem": false}));
    assert!(!writable.container()["env"].as_array().unwrap().contains(&cache));
}

/// An image that was made for root, or another user than that of coder's image, may have no home that can be written.
#[test]
fn a_daemon_whose_home_may_not_be_its_own_has_a_place_for_its_cache() {
    let mount = json!([{"name": "coder-scratch", "mountPath": "/tmp/coder-cache"}]);
    let cache = json!({"name": "CODER_CACHE_DIRECTORY", "value": "/tmp/coder-cache"});
    let mounts = |given: &Provisioner| given.container()["volumeMounts"].clone();
    for given in [
        Provisioner::test().with("image", json!("mine:v1")),
        Provisioner::test().with("podSecurityContext", json!({"runAsUser": 65534})),
        Provisioner::test().with("securityContext", json!({"runAsUser": 65534})),
    ] {
        assert_eq!(mounts(&given), mount);
        assert!(given.container()["env"].as_array().unwrap().contains(&cache));
    }
    let root = Provisioner::test().with("image", json!("mine:v1"));
    let root = root.with("podSecurityContext", json!({"runAsUser": 0}));
    assert_eq!(mounts(&root), Value::Null, "root may write anywhere");
    let own = json!([{"name": "CODER_CACHE_DIRECTORY", "value": "/cache"}]);
    let given = Provisioner::test().with("image", json!("mine:v1")).with("extraEnv", own.clone());
    assert!(given.container()["env"].as_array().unwrap().contains(&own[0]), "the spec knows a better one");
}

#[test]
fn containers_that_run_before_get_the_same_defaults() {
    let containers = json!([{"name": "root", "image": "b", "securityContext": {"runAsUser": 0}}]);
    let pod = Provisioner::test().with("initContainers", containers).pod();
    let context: &Value = &pod["initContainers"][0]["securityContext"];
    assert_eq!((&context["runAsNonRoot"], &context["runAsUser"]), (&json!(false), &json!(0)));
}
