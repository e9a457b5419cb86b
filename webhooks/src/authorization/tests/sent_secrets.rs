//! Tests of when a Secret counts as sent to an address or a control plane that its author chose.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

fn sent(old: Option<&Value>, new: &Value) -> Vec<(String, String)> {
    let required = required("CODER0506", Kind::WorkspaceProxy, old, new);
    required.into_iter().map(|access| (access.field, access.alternatives[0].in_words())).collect()
}

fn told(field: &str, secret: &str) -> Vec<(String, String)> {
    vec![(field.to_owned(), format!("get secrets \"{secret}\" in namespace coder"))]
}

fn session(url: &str, reference: Value) -> Value {
    proxy(json!({"primaryAccessURL": url, "proxySessionTokenSecretRef": reference}))
}

fn bootstrap(url: &str) -> Value {
    proxy(json!({"bootstrap": {"coderURL": url, "credentialsSecretRef": {"name": "s"}}}))
}

#[test]
fn a_secret_that_is_sent_away_needs_get_whoever_may_run_pods() {
    let runs = |check: &AccessCheck| check.verb == "create";
    let object = bootstrap("https://a");
    assert_eq!(sent(None, &object), told("spec.bootstrap.credentialsSecretRef.name", "s"));
    assert_eq!(denied(Kind::WorkspaceProxy, None, &object, runs), ["CODER0506"]);
    let object = session("https://a", json!({"name": "s"}));
    assert_eq!(sent(None, &object), told("spec.proxySessionTokenSecretRef.name", "s"));
    assert_eq!(denied(Kind::WorkspaceProxy, None, &object, runs), ["CODER0506"]);
    assert_eq!(denied(Kind::WorkspaceProxy, None, &object, |_| true), [""; 0]);
    // What a control plane is given stays with it.
    let token = control_plane(json!({"operatorAccess": {"tokenSecretRef": {"name": "s"}}}));
    assert_eq!(required("CODER0506", Kind::ControlPlane, None, &token), []);
}

#[test]
fn credentials_of_a_provisioner_need_get_for_every_control_plane_they_are_sent_to() {
    let of = |control_plane: &str, reference: Value| {
        json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": control_plane},
            "bootstrap": {"credentialsSecretRef": reference}, "rbac": {"workspacePerms": false}}})
    };
    let sent = |old: Option<&Value>, new: &Value| -> Vec<(String, String)> {
        let required = required("CODER0506", Kind::Provisioner, old, new);
        required.into_iter().map(|access| (access.field, access.alternatives[0].in_words())).collect()
    };
    let asked = told("spec.bootstrap.credentialsSecretRef.name", "s");
    let (a, b) = (of("a", json!({"name": "s"})), of("b", json!({"name": "s"})));
    assert_eq!(sent(None, &a), asked);
    assert_eq!(denied(Kind::Provisioner, None, &a, |check| check.verb == "create"), ["CODER0506"]);
    assert_eq!(sent(Some(&a), &b), asked, "another control plane");
    assert_eq!(sent(Some(&a), &of("a", json!({"name": "s", "key": "other"}))), asked, "another key");
    assert_eq!(sent(Some(&a), &of("a", json!({"name": "s", "key": "token"}))), [], "the same key");
    let silent = of("a", Value::Null);
    assert_eq!((sent(None, &silent), sent(Some(&a), &silent)), (Vec::new(), Vec::new()));
}

#[test]
fn a_new_address_asks_again_and_the_same_key_does_not() {
    let [a, b] = ["https://a", "https://b"].map(|url| session(url, json!({"name": "s"})));
    assert_eq!(sent(Some(&a), &a), []);
    assert_eq!(sent(Some(&a), &b), told("spec.proxySessionTokenSecretRef.name", "s"));
    let named = session("https://a", json!({"name": "s", "key": "token"}));
    assert_eq!((sent(Some(&a), &named), sent(Some(&named), &a)), (Vec::new(), Vec::new()));
    let other = session("https://a", json!({"name": "s", "key": "other"}));
    assert_eq!(sent(Some(&a), &other).len(), 1);
    let shown = proxy(
        json!({"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]}),
    );
    assert_eq!(sent(Some(&shown), &a).len(), 1, "what pods see is not sent yet");
}

#[test]
fn the_token_of_a_registration_goes_where_the_proxy_is_told_to_go() {
    let (a, b) = (bootstrap("https://a"), bootstrap("https://b"));
    let fields: Vec<String> = sent(Some(&a), &b).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["spec.bootstrap.credentialsSecretRef.name", "spec.bootstrap.coderURL"]);
    let mut elsewhere = a.clone();
    elsewhere["spec"]["primaryAccessURL"] = json!("https://mine");
    assert_eq!(sent(Some(&a), &elsewhere), told("spec.primaryAccessURL", "p-proxy-token"));
    elsewhere["spec"]["primaryAccessURL"] = json!("https://a");
    assert_eq!(sent(Some(&a), &elsewhere), [], "it went there before");
    let mut named = a.clone();
    named["spec"]["bootstrap"]["generatedTokenSecretName"] = json!("of-others");
    let asked = told("spec.bootstrap.generatedTokenSecretName", "of-others");
    assert_eq!(sent(Some(&a), &named), asked);
    assert_eq!(sent(None, &named)[1..], asked, "something may be there already");
}

#[test]
fn the_token_of_a_registration_goes_to_the_control_plane_and_to_the_address_that_is_dialled() {
    let of = |control_plane: &str, more: Value| {
        let mut object = proxy(json!({"controlPlaneRef": {"name": control_plane}}));
        for (key, value) in more.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    };
    let (a, b) = (of("a", json!({})), of("b", json!({})));
    assert_eq!((sent(None, &a), sent(Some(&a), &a)), (Vec::new(), Vec::new()), "nobody's so far");
    assert_eq!(sent(Some(&a), &b), told("spec.controlPlaneRef.name", "p-proxy-token"));
    let dials = of("a", json!({"primaryAccessURL": "https://mine"}));
    assert_eq!(sent(Some(&a), &dials), told("spec.primaryAccessURL", "p-proxy-token"));
    assert_eq!(sent(Some(&dials), &a), [], "it went there before");
    assert_eq!(
        sent(Some(&dials), &of("b", json!({"primaryAccessURL": "https://mine"}))),
        told("spec.controlPlaneRef.name", "p-proxy-token"),
        "the operator shows it to another control plane"
    );
    let named = of("a", json!({"registration": {"tokenSecretName": "of-others"}}));
    let asked = told("spec.registration.tokenSecretName", "of-others");
    assert_eq!((sent(None, &named), sent(Some(&a), &named)), (asked.clone(), asked));
    let url = bootstrap("https://a");
    assert_eq!(sent(Some(&url), &a), told("spec.controlPlaneRef.name", "p-proxy-token"), "another coderd");
    let brought = session("https://a", json!({"name": "s"}));
    let back = told("spec.primaryAccessURL", "p-proxy-token");
    assert!(sent(Some(&brought), &dials).ends_with(&back), "what was made before may still be there");
    let deceptive = bootstrap("a");
    assert_eq!(sent(Some(&deceptive), &a).len(), 1, "an address is no control plane");
}
