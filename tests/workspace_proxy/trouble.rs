//! What stands in the way of a workspace proxy: names and Secrets of others, an address that is not allowed, no license, a coderd
//! that is away, a spec that is suspended.

use crate::site::{NAME, SECRET, Site, WORKLOAD, wait};
use serde_json::{Value, json};
use support::coderd::{Fault, Occurrence, ProxyStatus};
use support::objects::{self, condition, is_ready};
use support::wait::holds;

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_others_is_a_conflict_until_it_is_to_be_taken_over() {
    let site = Site::new("conflict").await;
    let theirs = site.coderd().add_workspace_proxy(NAME);
    site.apply(&json!({})).await;
    let stalled = site.until_reason("Stalled", "ProxyNameConflict").await;
    let message = condition(&stalled, "Stalled")["message"].as_str().unwrap();
    assert!(message.contains("coder.com/adopt-proxy: eu"), "{message}");
    assert_eq!(site.coderd().token_of_proxy(NAME), Some(theirs), "nobody's proxy is killed");
    site.annotate("coder.com/adopt-proxy", NAME).await;
    site.comes().await;
    site.ready().await;
    assert_eq!(site.only().regenerations, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_ask_for_one_name_the_older_has_it() {
    let site = Site::with_proxy("claims").await;
    let spec = json!({ "controlPlaneRef": { "name": "coder" }, "registration": { "proxyName": NAME } });
    site.apply_spec("younger", &spec).await;
    let is_it = |object: &Value| condition(object, "Stalled")["reason"] == "ProxyNameConflict";
    let stalled = site.until_named("younger", "a conflict", is_it).await;
    assert!(condition(&stalled, "Stalled")["message"].as_str().unwrap().contains("CoderWorkspaceProxy eu"));
    assert_eq!(site.only().regenerations, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_others_is_never_taken() {
    let site = Site::new("foreign").await;
    site.put(&objects::secret(&site.ns, SECRET, &json!({ "token": "mine" }))).await;
    site.apply(&json!({})).await;
    site.until_reason("Stalled", "SecretNotOurs").await;
    assert_eq!((site.names().len(), site.token(SECRET).await.as_deref()), (0, Some("mine")));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_go_to_a_control_plane_or_an_address_that_is_allowed() {
    let (site, allowed) = Site::outside("bootstrap").await;
    site.apply_spec(NAME, &Site::bootstrap("https://coder.elsewhere.example.com")).await;
    let stalled = site.until_reason("Stalled", "URLNotAllowed").await;
    assert!(condition(&stalled, "Stalled")["message"].as_str().unwrap().contains("--allow-url="));
    site.apply_spec(NAME, &Site::bootstrap(&allowed)).await;
    site.comes().await;
    let ready = site.ready().await;
    assert_eq!(condition(&ready, "BootstrapSecretReady")["status"], "True");
    let deployment = site.get("deployment", WORKLOAD).await.unwrap();
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[0], json!({ "name": "CODER_PRIMARY_ACCESS_URL", "value": allowed }));
    // Where it is not allowed any more what runs goes on.
    site.apply_spec(NAME, &Site::bootstrap("https://coder.elsewhere.example.com")).await;
    site.until_reason("Stalled", "URLNotAllowed").await;
    assert!(site.get("deployment", WORKLOAD).await.is_some() && site.names() == [NAME]);
    site.apply_spec(NAME, &Site::bootstrap(&allowed)).await;
    site.ready().await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert_eq!(site.names().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_author_needs_no_coderd() {
    let site = Site::empty("given").await;
    let spec = json!({ "primaryAccessURL": "https://coder.example.com",
        "proxySessionTokenSecretRef": { "name": "mine" } });
    site.apply_spec(NAME, &spec).await;
    let waiting = site.until_reason("Ready", "TokenSecretUnavailable").await;
    assert_eq!(condition(&waiting, "Stalled")["status"], "False");
    site.put(&objects::secret(&site.ns, "mine", &json!({ "token": "t" }))).await;
    let ready = site.ready().await;
    assert_eq!(
        (&ready["status"]["registered"], condition(&ready, "Ready")["reason"].as_str()),
        (&json!(false), Some("Available"))
    );
    assert!(ready["metadata"].get("finalizers").is_none());
    let revision = site.revision().await;
    site.put(&objects::secret(&site.ns, "mine", &json!({ "token": "another" }))).await;
    wait("pods to roll", async || {
        let now = site.revision().await;
        holds(now == revision + 1, format!("{now}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_license_nothing_is_registered_and_what_runs_goes_on() {
    let site = Site::new("license").await;
    site.coderd().remove_license();
    site.apply(&json!({})).await;
    let waiting = site.until_reason("Ready", "NotEntitled").await;
    assert_eq!(condition(&waiting, "Stalled")["status"], "False", "it may be on its way");
    assert_eq!(site.names().len(), 0);
    site.coderd().add_license();
    site.comes().await;
    site.ready().await;
    site.coderd().remove_license();
    site.until_reason("WorkspaceProxiesEntitled", "NotEntitled").await;
    assert!(site.get("deployment", WORKLOAD).await.is_some());
    site.coderd().add_license();
    site.ready().await;
    assert_eq!(site.only().regenerations, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coderd_that_is_away_is_told_and_never_stalls() {
    let site = Site::with_proxy("away").await;
    let revision = site.revision().await;
    let fault = site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    let away = site.until_reason("ControlPlaneReady", "ControlPlaneUnavailable").await;
    assert_eq!(condition(&away, "Stalled")["status"], "False");
    let enough = fault.hits() + 3;
    wait("three more questions", async || holds(fault.hits() >= enough, format!("{}", fault.hits()))).await;
    let still = site.get("coderworkspaceproxy", NAME).await.unwrap();
    assert_eq!(condition(&still, "Stalled")["status"], "False");
    site.coderd().clear_faults();
    site.ready().await;
    assert_eq!((site.only().regenerations, site.revision().await), (0, revision));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_coderd_says_of_the_proxy_is_told() {
    let site = Site::with_proxy("health").await;
    site.coderd().set_proxy_health(NAME, ProxyStatus::Unreachable, &["dial tcp: no route"], &[]);
    let told = site.until_reason("ProxyHealthy", "ProxyUnreachable").await;
    assert!(condition(&told, "ProxyHealthy")["message"].as_str().unwrap().contains("no route"));
    assert!(!is_ready(&told) && condition(&told, "Stalled")["status"] == "False");
    site.coderd().set_proxy_health(NAME, ProxyStatus::Ok, &[], &[]);
    site.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_proxy_is_left_alone() {
    let site = Site::new("suspended").await;
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    assert!(site.names().is_empty() && site.get("deployment", WORKLOAD).await.is_none());
    site.apply(&json!({})).await;
    site.comes().await;
    site.ready().await;
}
