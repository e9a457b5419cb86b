//! What stands in the way of a key or of its end: a Secret that nobody can change, an organization that was deleted.

use crate::one_double::OneDouble;
use serde_json::json;
use support::coderd::Role;
use support::objects::{condition, is_ready, text};

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_made_for_a_secret_that_is_immutable() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("immutable").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    let patch = r#"patch secret builders-provisioner-key --type=merge -p {"immutable":true}"#;
    env.cluster.kubectl(&format!("{patch} -n {ns}")).await.expect_ok();
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "zone": "eu" } })).await;
    let stalled = env.until_provisioner_reason(&ns, "builders", "Stalled", "SecretImmutable").await;
    let message = text(condition(&stalled, "Stalled"), "/message");
    assert!(
        message.contains("builders-provisioner-key") && message.contains("spec.key.secretName"),
        "{message}"
    );
    assert_eq!(condition(&stalled, "ProvisionerKeyReady")["status"], "False", "its tags are those of before");
    let made = || {
        let calls = env.coderd().calls().into_iter().filter(|call| call.method == "POST");
        calls
            .filter(|call| call.body.as_ref().is_some_and(|body| text(body, "/name").starts_with(&ns)))
            .count()
    };
    assert_eq!((made(), env.keys(&ns).len()), (1, 1), "nothing is made that cannot be kept");

    env.cluster.kubectl(&format!("delete secret builders-provisioner-key -n {ns}")).await.expect_ok();
    env.until_keys(&ns, &["-2"]).await;
    env.provisioner_ready(&ns, "builders").await;
    assert_eq!(made(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_under_our_names_are_in_nobodys_way_whatever_is_in_them() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("series").await;
    // More than are read of a key of ours, and of more keys than are read.
    let names: Vec<String> = (0..300).map(|number| format!("tag-{number}")).collect();
    let tags: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    env.coderd().add_provisioner_key("default", &format!("{ns}-2"), &tags);
    for number in 3..300 {
        env.coderd().add_provisioner_key("default", &format!("{ns}-{number}"), &[]);
    }
    let named = |name: String| {
        move |object: &serde_json::Value| is_ready(object) && text(object, "/status/key/current/name") == name
    };
    env.apply_provisioner(&ns, "builders", &json!({ "replicas": 0 })).await;
    env.until_provisioner(&ns, "builders", "ready", named(ns.clone())).await;
    env.apply_provisioner(&ns, "builders", &json!({ "replicas": 0, "tags": { "zone": "eu" } })).await;
    env.until_provisioner(&ns, "builders", "ready with the next free number", named(format!("{ns}-300")))
        .await;
    let events = env.events_about(&ns, "builders").await;
    assert!(events.iter().any(|event| event.1 == "KeyNameTaken"), "{events:?}");
}

/// The keys of an organization of its own, which is then deleted in coderd.
async fn without_organization(env: &OneDouble, ns: &str) {
    env.coderd().remove_provisioner_key(ns, ns);
    env.coderd().remove_organization(ns);
    env.cluster.kubectl(&format!("delete coderprovisioner builders -n {ns} --wait=false")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organization_holds_nobody_once_coderd_proves_it() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("organization").await;
    env.coderd().add_organization(&ns);
    env.apply_provisioner(&ns, "builders", &json!({ "organizationName": ns })).await;
    let daemons = env.daemons(&ns).await;
    env.until_provisioner(&ns, "builders", "ready", is_ready).await;
    without_organization(&env, &ns).await;
    env.until_gone("coderprovisioner", &ns, "builders").await;
    let events = env.events_about(&ns, "builders").await;
    assert!(events.iter().any(|event| event.1 == "KeyDeleted"), "{events:?}");
    drop(daemons);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_that_may_only_be_hidden_holds_the_object() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("hidden").await;
    env.coderd().add_organization(&ns);
    // Whoever administers one organization is shown no other: to him a deleted one looks like a hidden one.
    let token = env.coderd().token_for(&[Role::OrganizationAdmin(ns.clone())]);
    env.apply_secret(&ns, "operator-token", &json!({ "token": token })).await;
    env.apply_provisioner(&ns, "builders", &json!({ "organizationName": ns })).await;
    let daemons = env.daemons(&ns).await;
    env.until_provisioner(&ns, "builders", "ready", is_ready).await;
    without_organization(&env, &ns).await;
    env.until_provisioner(&ns, "builders", "held", |object| {
        condition(object, "CleanedUp")["reason"] == "CleanupFailed"
    })
    .await;
    let released = format!("annotate coderprovisioner builders -n {ns} coder.com/release-external=true");
    env.cluster.kubectl(&released).await.expect_ok();
    env.until_gone("coderprovisioner", &ns, "builders").await;
    drop(daemons);
}
