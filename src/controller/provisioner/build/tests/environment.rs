//! The environment of daemons.

use super::super::fixtures::Provisioner;
use serde_json::{Value, json};

fn environment(given: &Provisioner) -> Vec<Value> {
    given.container()["env"].as_array().unwrap().clone()
}

fn names(given: &Provisioner) -> Vec<String> {
    environment(given).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_silent_spec_gives_three_variables_in_this_order() {
    let expected = json!([
        {"name": "CODER_URL", "value": "http://coder.ns.svc.cluster.local:80"},
        {"name": "CODER_PROVISIONER_DAEMON_KEY",
            "valueFrom": {"secretKeyRef": {"name": "builders-provisioner-key", "key": "key"}}},
        {"name": "CODER_PROVISIONER_DAEMON_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    assert_eq!(json!(environment(&Provisioner::test())), expected);
}

#[test]
fn everything_comes_in_its_place_and_what_the_spec_gives_last() {
    let given = Provisioner::test()
        .of_tls_control_plane(&["a"])
        .with("securityContext", json!({"readOnlyRootFilesystem": true}))
        .with("metrics", json!({}))
        .with("extraEnv", json!([{"name": "Z", "value": "1"}, {"name": "A", "value": "2"}]));
    let expected = [
        "CODER_URL",
        "CODER_PROVISIONER_DAEMON_KEY",
        "CODER_PROVISIONER_DAEMON_NAME",
        "SSL_CERT_DIR",
        "CODER_CACHE_DIRECTORY",
        "CODER_PROMETHEUS_ENABLE",
        "CODER_PROMETHEUS_ADDRESS",
        "Z",
        "A",
    ];
    assert_eq!(names(&given), expected);
}

#[test]
fn the_key_is_read_where_the_spec_keeps_it_and_never_written_down() {
    let given = Provisioner::test().with("key", json!({"secretName": "mine", "secretKey": "token"}));
    let key = json!({"secretKeyRef": {"name": "mine", "key": "token"}});
    assert_eq!(environment(&given)[1]["valueFrom"], key);
    assert!(environment(&given)[1].get("value").is_none());
}

#[test]
fn what_the_spec_gives_wins_and_no_name_is_there_twice() {
    let own = json!([{"name": "A", "value": "1"}, {"name": "SSL_CERT_DIR", "value": "/mine"}, {"name": "A", "value": "2"}]);
    let given = Provisioner::test().of_tls_control_plane(&["a"]).with("extraEnv", own);
    let value = |name: &str| environment(&given).into_iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!((&value("SSL_CERT_DIR")["value"], &value("A")["value"]), (&json!("/mine"), &json!("2")));
    let unique: std::collections::BTreeSet<String> = names(&given).into_iter().collect();
    assert_eq!(unique.len(), names(&given).len());
}

/// coder refuses a name with dots, and pods of one that has some would share what is before the first.
#[test]
fn a_daemon_of_an_object_whose_name_has_dots_is_called_by_its_uid() {
    let given = Provisioner::test().named("builders.eu");
    assert_eq!(environment(&given)[2]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.uid");
}
