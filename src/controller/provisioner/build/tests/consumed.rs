//! What daemons read because their spec says so, by which they are rolled.

use super::super::consumed;
use super::super::fixtures::Provisioner;
use crate::controller::workload::consumed::Keys;
use serde_json::{Value, json};

fn read(given: &Provisioner) -> Vec<String> {
    let all = consumed(&given.complete()).into_iter();
    let key = |keys: &Keys| match keys {
        Keys::All => "*".to_owned(),
        Keys::One(key) => key.clone(),
    };
    all.map(|one| format!("{:?} {}/{}", one.kind, one.name, key(&one.keys))).collect()
}

fn variable(secret: &str, key: &str) -> Value {
    json!({"name": key.to_uppercase(), "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
}

#[test]
fn a_silent_spec_reads_nothing_and_the_key_and_the_certificates_of_the_control_plane_have_their_own_checksums()
 {
    assert_eq!(read(&Provisioner::test()), [""; 0]);
    assert_eq!(read(&Provisioner::test().of_tls_control_plane(&["coder-tls"])), [""; 0]);
    assert_eq!(read(&Provisioner::test().with("imagePullSecrets", json!([{"name": "registry"}]))), [""; 0]);
    let own =
        json!([variable("builders-provisioner-key", "key"), variable("builders-provisioner-key", "team")]);
    assert_eq!(
        read(&Provisioner::test().with("extraEnv", own)),
        ["Secret builders-provisioner-key/team"],
        "another key of that Secret counts"
    );
}

#[test]
fn everything_that_the_spec_lets_daemons_read_counts() {
    let given = Provisioner::test()
        .with("envFrom", json!([{"secretRef": {"name": "env"}}, {"configMapRef": {"name": "settings"}}]))
        .with("extraEnv", json!([variable("cloud", "token")]))
        .with("certs", json!({"secrets": [{"name": "ca", "key": "ca.crt"}]}))
        .with("volumes", json!([{"name": "v", "secret": {"secretName": "files"}}]));
    let all =
        ["Secret ca/ca.crt", "Secret cloud/token", "Secret env/*", "Secret files/*", "ConfigMap settings/*"];
    assert_eq!(read(&given), all);
}

#[test]
fn another_value_of_what_they_read_rolls_daemons_and_nothing_else_of_them_changes() {
    let (before, after) =
        (Provisioner::test().with_checksum("one"), Provisioner::test().with_checksum("two"));
    let annotations = |given: &Provisioner| given.template()["metadata"]["annotations"].clone();
    assert_eq!(annotations(&before)["coder.com/checksum"], "one");
    assert_eq!(annotations(&after)["coder.com/checksum"], "two");
    assert_eq!(before.pod(), after.pod());
    assert_eq!(annotations(&Provisioner::test())["coder.com/checksum"], Value::Null);
}
