//! While admission is disabled in a namespace, its proxies stay what they were: what would widen what they may do waits until the
//! label goes, nothing is registered or shown to coderd, and what runs goes on running.

use crate::site::{NAME, SECRET, Site, WORKLOAD, wait};
use serde_json::{Value, json};
use support::coderd::Role;
use support::objects::{condition, control_plane, is_observed, is_ready, secret, text};
use support::wait::holds;

const LABEL: &str = "coder.com/admission";
const MINE: &str = "registry.example.com/mine:v9.9.9";

/// Gives the namespace the label, or takes it away.
async fn label(site: &Site, value: Option<&str>) {
    let change = json!({ "metadata": { "labels": { LABEL: value } } });
    let request = http::Request::patch(format!("/api/v1/namespaces/{}", site.ns))
        .header("content-type", "application/merge-patch+json")
        .body(change.to_string().into_bytes())
        .unwrap();
    site.client.request::<Value>(request).await.expect("a namespace can be labelled");
}

fn is_held(proxy: &Value) -> bool {
    let stalled = condition(proxy, "Stalled");
    is_observed(proxy)
        && (&stalled["status"], &stalled["reason"]) == (&json!("True"), &json!("AdmissionDisabled"))
}

/// What another author would like the proxy to be.
fn widened() -> Value {
    json!({ "image": MINE, "extraEnv": [{ "name": "CODER_PROXY_TRUSTED_ORIGINS", "value": "0.0.0.0/0" }],
        "serviceAccount": { "name": "robot" }, "service": { "type": "NodePort" },
        "expose": { "ingress": { "host": "mine.example.com" } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_proxy_is_widened_while_admission_is_disabled_and_everything_is_once_it_is_not() {
    let site = Site::with_proxy("glass").await;
    let live = async |kind: &str| site.get(kind, WORKLOAD).await.unwrap()["spec"].clone();
    let (template, token) = (live("deployment").await["template"].clone(), site.token(SECRET).await);
    label(&site, Some("disabled")).await;
    site.apply(&widened()).await;
    let held = site.until("held", is_held).await;
    let told = condition(&held, "AuthorityApplied");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("AdmissionDisabled")));
    let message = text(condition(&held, "Ready"), "/message");
    assert!(message.contains(&format!("kubectl label namespace {} {LABEL}-", site.ns)), "{message}");
    assert_eq!(live("deployment").await["template"], template);
    assert_eq!(live("service").await["type"], "ClusterIP");
    assert!(site.get("ingress", WORKLOAD).await.is_none());
    assert!(site.get("serviceaccount", "robot").await.is_none());
    assert_eq!(condition(&held, "DeploymentReady")["status"], "True", "what runs goes on running");

    // One that is made now neither runs nor is registered.
    site.apply_spec("late", &json!({ "controlPlaneRef": { "name": "coder" }, "image": MINE })).await;
    site.until_named("late", "held", |object| {
        is_observed(object) && condition(object, "Stalled")["status"] == "True"
    })
    .await;
    for (kind, name) in [("deployment", "wsproxy-late"), ("secret", "late-proxy-token")] {
        assert!(site.get(kind, name).await.is_none(), "{kind} {name}");
    }
    assert_eq!(site.names(), [NAME]);

    // What narrows is in force.
    site.apply(&json!({ "replicas": 0 })).await;
    site.until("no longer held", |object| {
        is_observed(object) && condition(object, "AuthorityApplied").is_null()
    })
    .await;
    assert_eq!(live("deployment").await["replicas"], 0);

    site.apply(&widened()).await;
    site.until("held again", is_held).await;
    label(&site, None).await;
    wait("what was held back", async || {
        let image = live("deployment").await["template"]["spec"]["containers"][0]["image"].clone();
        holds(image == MINE, image.to_string())
    })
    .await;
    site.until("no longer held", |object| !is_held(object) && is_ready(object)).await;
    assert_eq!((live("service").await["type"].as_str(), site.token(SECRET).await), (Some("NodePort"), token));
    assert!(site.get("ingress", WORKLOAD).await.is_some());
    wait("the other one to be registered", async || {
        let names = site.names();
        holds(names == [NAME, "late"], format!("{names:?}"))
    })
    .await;
}

/// A token that an author chose is not sent anywhere: neither that of a control plane nor that of the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn while_admission_is_disabled_a_proxy_is_not_moved_rotated_or_taken_over() {
    let site = Site::with_proxy("glass-still").await;
    let other = site.another_double();
    let given = other.coderd.token_for(&[Role::Owner]);
    site.put(&secret(&site.ns, "other-token", &json!({ "token": given }))).await;
    let spec = json!({ "service": { "port": other.port },
        "operatorAccess": { "tokenSecretRef": { "name": "other-token" } } });
    site.put(&control_plane(&site.ns, "other", &spec)).await;
    let (token, revision) = (site.token(SECRET).await, site.revision().await);
    label(&site, Some("disabled")).await;
    for (what, change) in [
        ("another control plane", json!({ "controlPlaneRef": { "name": "other" } })),
        ("another name", json!({ "registration": { "proxyName": "of-others" } })),
    ] {
        site.apply(&change).await;
        let stalled = site.until(what, |object| is_observed(object) && !is_ready(object)).await;
        assert_eq!((site.token(SECRET).await, site.revision().await), (token.clone(), revision), "{what}");
        assert_eq!(
            (site.names(), other.coderd.workspace_proxies().len()),
            (vec![NAME.to_owned()], 0),
            "{stalled}"
        );
    }
    for annotation in ["coder.com/rotate-token", "coder.com/adopt-proxy"] {
        site.annotate(annotation, NAME).await;
        site.annotate("coder.com/reconcile-at", annotation).await;
        site.until("looked at", |object| object["status"]["lastHandledReconcileAt"] == annotation).await;
        assert_eq!(site.token(SECRET).await, token, "{annotation}");
    }
    label(&site, None).await;
    wait("another token", async || {
        let now = site.token(SECRET).await;
        holds(now.is_some() && now != token, "it is the same")
    })
    .await;
    site.until("the other name", |object| object["status"]["registration"]["current"]["name"] == "of-others")
        .await;
    assert_eq!(site.names(), ["of-others"]);
}
