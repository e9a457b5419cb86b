//! Secrets and ConfigMaps that pods read: each is read once a reconcile, and one that vanishes rolls nothing.

use crate::shared::shared;
use serde_json::{Value, json};
use support::TestEnv;
use support::objects::{condition, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_vanishes_and_comes_back_rolls_nothing_meanwhile() {
    let env = shared().await;
    let ns = env.cluster.namespace("vanishing").await;
    let make = async || {
        let words = format!(
            "create secret generic settings -n {ns} --from-literal=CODER_ACCESS_URL=https://coder.example.com"
        );
        env.cluster.kubectl(&words).await.expect_ok();
    };
    make().await;
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] }))
        .await;
    env.ready(&ns, "coder").await;
    let deployment = async || env.get("deployment", &ns, "coder").await.unwrap();
    let before = deployment().await;
    assert!(!before["spec"].to_string().contains("CODER_ACCESS_URL"), "the Secret gives it");
    env.cluster.kubectl(&format!("delete secret settings -n {ns}")).await.expect_ok();
    let told = |plane: &Value| condition(plane, "Ready")["reason"] == "ReferenceMissing";
    env.until(&ns, "coder", "the loss to be told", told).await;
    let meanwhile = deployment().await;
    assert_eq!(meanwhile["spec"], before["spec"], "nothing rolls while it is missing");
    assert_eq!(meanwhile["metadata"]["generation"], before["metadata"]["generation"]);
    make().await;
    env.ready(&ns, "coder").await;
    assert!(
        !deployment().await["spec"].to_string().contains("CODER_ACCESS_URL"),
        "still given by the Secret"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_read_once_a_pass_however_many_keys_are_used() {
    let env = shared().await;
    let ns = env.cluster.namespace("keys").await;
    let words = format!(
        "create secret generic settings -n {ns} --from-literal=a=1 --from-literal=b=2 --from-literal=c=3"
    );
    env.cluster.kubectl(&words).await.expect_ok();
    let variable = |key: &str| json!({ "name": key.to_uppercase(), "valueFrom": { "secretKeyRef": { "name": "settings", "key": key } } });
    let variables = ["a", "b", "c"].map(variable);
    let spec = json!({ "extraEnv": variables,
        "envFrom": [{ "secretRef": { "name": "settings" }, "prefix": "ALL_" }] });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.ready(&ns, "coder").await;
    let gets = |resource: &str| {
        let log = env.cluster.audit_log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let wanted = |event: &Value| {
            event["user"]["username"] == env.installation.user().as_str()
                && text(event, "/verb") == "get"
                && text(event, "/objectRef/namespace") == ns
                && text(event, "/objectRef/resource") == resource
        };
        events.filter(wanted).count()
    };
    // Each reconcile reads the object once, so that the two counts are equal, whoever asked for reconciles meanwhile.
    let (reconciles, reads) = (gets("codercontrolplanes"), gets("secrets"));
    env.reconcile(&ns, "coder", "counted").await;
    let (reconciles, reads) = (gets("codercontrolplanes") - reconciles, gets("secrets") - reads);
    assert!(reconciles >= 1);
    assert_eq!(reads, reconciles, "one read of the Secret a reconcile");
}

/// Generation of the Deployment, checksum on its pods, versions beside them.
async fn marks(env: &TestEnv, ns: &str) -> (Value, Value, Value) {
    let deployment = env.get("deployment", ns, "coder").await.unwrap();
    let on_pods = &deployment["spec"]["template"]["metadata"]["annotations"]["coder.com/checksum"];
    let beside = &deployment["metadata"]["labels"]["coder.com/consumed-versions"];
    assert!(on_pods.is_string() && beside.is_string(), "{deployment}");
    (deployment["metadata"]["generation"].clone(), on_pods.clone(), beside.clone())
}

/// A control plane named `coder` whose pods read a Secret named `settings`.
async fn reading(env: &TestEnv, purpose: &str) -> String {
    let ns = env.cluster.namespace(purpose).await;
    let words = format!("create secret generic settings -n {ns} --from-literal=PIN=1234");
    env.cluster.kubectl(&words).await.expect_ok();
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] }))
        .await;
    env.ready(&ns, "coder").await;
    ns
}

async fn kubectl(env: &TestEnv, words: &str) {
    env.cluster.kubectl(words).await.expect_ok();
}

/// Gives the Secret another value and waits until the pods have been rolled for it, once.
async fn a_new_value_rolls_once(env: &TestEnv, ns: &str, pin: &str) {
    let (generation, checksum, _) = marks(env, ns).await;
    let value = json!({ "stringData": { "PIN": pin } });
    kubectl(env, &format!("patch secret settings -n {ns} --type=merge -p {value}")).await;
    let rolled = |object: &Value| {
        object["spec"]["template"]["metadata"]["annotations"]["coder.com/checksum"] != checksum
    };
    env.until_object("deployment", ns, "coder", "to roll", rolled).await;
    env.reconcile(ns, "coder", &format!("rolled-{pin}")).await;
    assert_eq!(marks(env, ns).await.0, json!(generation.as_i64().unwrap() + 1), "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_value_rolls_once_and_the_same_contents_roll_nothing() {
    let env = shared().await;
    let ns = reading(env, "same").await;
    a_new_value_rolls_once(env, &ns, "1235").await;
    let (generation, checksum, versions) = marks(env, &ns).await;
    for words in [
        format!("label secret settings -n {ns} team=a"),
        format!("delete secret settings -n {ns}"),
        format!("create secret generic settings -n {ns} --from-literal=PIN=1235"),
    ] {
        kubectl(env, &words).await;
        env.reconcile(&ns, "coder", words.split(' ').next().unwrap()).await;
        let now = marks(env, &ns).await;
        assert_eq!((&now.0, &now.1), (&generation, &checksum), "{words}");
    }
    let now = marks(env, &ns).await;
    assert_ne!(now.2, versions, "it is known which objects the checksum is of");
}

/// The value of the key's Secret in the operator's namespace.
async fn key(env: &TestEnv) -> Value {
    let namespace = &env.installation.namespace;
    let secret = env.get("secret", namespace, "coder-k8s-checksum-key").await.unwrap_or_default();
    secret["data"]["key"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_key_is_made_anew_and_rolls_nothing() {
    let env = shared().await;
    let ns = reading(env, "key").await;
    let (before, first) = (marks(env, &ns).await, key(env).await);
    assert!(first.is_string(), "there is a key");
    let namespace = &env.installation.namespace;
    kubectl(env, &format!("delete secret coder-k8s-checksum-key -n {namespace}")).await;
    env.restart(&[]).await;
    env.reconcile(&ns, "coder", "lost").await;
    let second = key(env).await;
    assert!(second.is_string() && second != first, "another key");
    assert_eq!(marks(env, &ns).await, before, "the pods run on");
    a_new_value_rolls_once(env, &ns, "1236").await;
    env.restart(&[]).await;
    let after = marks(env, &ns).await;
    env.reconcile(&ns, "coder", "again").await;
    assert_eq!((key(env).await, marks(env, &ns).await), (second, after), "a key that is there stays");
}

/// As releases before there was a key made it.
fn salted(secret: &Value) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for part in ["Secret", "settings", text(secret, "/metadata/uid")] {
        hash.update(part.as_bytes());
    }
    for part in ["PIN", text(secret, "/data/PIN")] {
        hash.update(&part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.finish().as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_of_an_earlier_release_stays_until_the_contents_change() {
    let env = shared().await;
    let ns = reading(env, "upgrade").await;
    let secret = env.get("secret", &ns, "settings").await.unwrap();
    let earlier = salted(&secret);
    // What an earlier release left: its checksum on the pods, and nothing beside them.
    let patch = json!({ "metadata": { "labels": { "coder.com/consumed-versions": null } },
        "spec": { "template": { "metadata": { "annotations": { "coder.com/checksum": earlier } } } } });
    let words = format!("patch deployment coder -n {ns} --type=merge -o json -p {patch}");
    let left: Value = serde_json::from_str(&env.cluster.kubectl(&words).await.expect_ok()).unwrap();
    env.reconcile(&ns, "coder", "upgraded").await;
    let known = |object: &Value| object["metadata"]["labels"]["coder.com/consumed-versions"].is_string();
    let now = env.until_object("deployment", &ns, "coder", "its versions", known).await;
    assert_eq!(now["spec"], left["spec"], "the pods run on");
    a_new_value_rolls_once(env, &ns, "1237").await;
    assert_ne!(marks(env, &ns).await.1, json!(salted(&env.get("secret", &ns, "settings").await.unwrap())));
}
