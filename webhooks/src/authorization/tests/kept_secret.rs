//! Tests of when an author chooses the Secret of a provisioner key or of a proxy token.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

fn keyed(key: Value) -> Value {
    json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": "coder"}, "key": key,
        "rbac": {"workspacePerms": false}}})
}

fn chosen(old: Option<&Value>, new: &Value) -> Vec<String> {
    let required = required("CODER0512", Kind::Provisioner, old, new);
    for access in &required {
        assert_eq!(access.alternatives[0].in_words(), "create secrets in namespace coder");
    }
    required.into_iter().map(|access| access.field).collect()
}

/// The attack: a coderd of the author's own answers with what a Secret of others is to hold.
#[test]
fn whoever_may_run_pods_does_not_choose_where_the_operator_writes() {
    let attack = keyed(json!({"secretName": "shop-db", "secretKey": "url"}));
    let pods = |check: &AccessCheck| check.resource != "secrets";
    assert_eq!(denied(Kind::Provisioner, None, &attack, pods), ["CODER0512"]);
    let reads = |check: &AccessCheck| check.resource != "secrets" || check.verb != "create";
    assert_eq!(denied(Kind::Provisioner, None, &attack, reads), ["CODER0512"], "reading is not writing");
    assert_eq!(denied(Kind::Provisioner, None, &attack, |_| true), [""; 0]);
    assert_eq!(denied(Kind::Provisioner, None, &keyed(json!({"name": "eu"})), pods), [""; 0]);
}

#[test]
fn the_default_asks_for_nothing_and_every_new_place_does() {
    let plain = keyed(json!({}));
    let default = keyed(json!({"secretName": "b-provisioner-key", "secretKey": "key"}));
    let empty = keyed(json!({"secretName": "", "secretKey": ""}));
    for same in [&plain, &default, &empty] {
        assert_eq!((chosen(None, same), chosen(Some(&plain), same)), (Vec::new(), Vec::new()), "{same}");
    }
    let secret = keyed(json!({"secretName": "mine"}));
    let key = keyed(json!({"secretKey": "url"}));
    assert_eq!(
        (chosen(None, &secret), chosen(None, &key)),
        (vec!["spec.key.secretName".to_owned()], vec!["spec.key.secretKey".to_owned()])
    );
    assert_eq!(chosen(Some(&secret), &secret), [""; 0], "it was there before");
    assert_eq!(chosen(Some(&secret), &key), ["spec.key.secretKey"]);
    assert_eq!(chosen(Some(&key), &plain), [""; 0], "back to the default");
    let both = keyed(json!({"secretName": "mine", "secretKey": "url"}));
    assert_eq!(chosen(Some(&secret), &both), ["spec.key.secretName"]);
    assert_eq!(required("CODER0512", Kind::ControlPlane, None, &both), []);
}

fn chosen_for_proxy(old: Option<&Value>, new: &Value) -> Vec<String> {
    let required = required("CODER0512", Kind::WorkspaceProxy, old, new);
    for access in &required {
        assert_eq!(access.alternatives[0].in_words(), "create secrets in namespace coder");
    }
    required.into_iter().map(|access| access.field).collect()
}

fn registered(registration: Value) -> Value {
    proxy(json!({"controlPlaneRef": {"name": "coder"}, "registration": registration}))
}

fn bootstrapped(secret: Value) -> Value {
    let credentials = json!({"name": "s"});
    proxy(
        json!({"bootstrap": {"coderURL": "https://a", "credentialsSecretRef": credentials, "generatedTokenSecretName": secret}}),
    )
}

#[test]
fn the_secret_of_a_token_is_chosen_in_the_same_way() {
    let nothing = [""; 0];
    for same in [registered(json!({})), registered(json!({"tokenSecretName": "p-proxy-token"}))] {
        assert_eq!(chosen_for_proxy(None, &same), nothing, "{same}");
    }
    let (ours, theirs) = (registered(json!({"tokenSecretName": "mine"})), bootstrapped(json!("mine")));
    assert_eq!(chosen_for_proxy(None, &ours), ["spec.registration.tokenSecretName"]);
    assert_eq!(chosen_for_proxy(None, &theirs), ["spec.bootstrap.generatedTokenSecretName"]);
    assert_eq!(chosen_for_proxy(Some(&theirs), &ours), nothing, "the operator wrote it before");
    assert_eq!(chosen_for_proxy(Some(&ours), &bootstrapped(Value::Null)), nothing, "back to the default");
    let other = registered(json!({"tokenSecretName": "other"}));
    assert_eq!(chosen_for_proxy(Some(&ours), &other), ["spec.registration.tokenSecretName"]);
    let given =
        proxy(json!({"primaryAccessURL": "https://a", "proxySessionTokenSecretRef": {"name": "mine"}}));
    assert_eq!(chosen_for_proxy(None, &given), nothing, "what is only read is not written");
    assert_eq!(chosen_for_proxy(Some(&given), &ours), ["spec.registration.tokenSecretName"]);
    let pods = |check: &AccessCheck| check.resource != "secrets";
    assert_eq!(denied(Kind::WorkspaceProxy, None, &registered(json!({})), pods), nothing);
    let reads = |check: &AccessCheck| check.resource != "secrets" || check.verb == "get";
    assert_eq!(denied(Kind::WorkspaceProxy, None, &ours, reads), ["CODER0512"], "reading is not writing");
}
