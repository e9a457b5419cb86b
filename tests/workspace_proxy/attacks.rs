//! What reviews found that a workspace proxy could be made to do, each as it was done: a token that is replaced and then lost, a
//! registration that is left unsaid, a name in another case, a fight over one registration.

use crate::site::{NAME, SECRET, Site, wait};
use serde_json::{Value, json};
use std::time::Instant;
use support::objects::{self, condition, is_ready};
use support::wait::holds;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_works_is_not_replaced_before_another_can_be_kept() {
    let site = Site::with_proxy("unwritable").await;
    let token = site.comes().await;
    site.refuse_writes("false").await;
    site.annotate("coder.com/rotate-token", "1").await;
    let told = site.until_reason("ProxyTokenSecretReady", "SecretWriteFailed").await;
    assert!(condition(&told, "ProxyTokenSecretReady")["message"].as_str().unwrap().contains(SECRET));
    assert_eq!(condition(&told, "ProxyRegistered")["status"], "True");
    assert_eq!((site.only().regenerations, site.coderd().token_of_proxy(NAME)), (0, Some(token)));
    site.allow_writes().await;
    site.until("rotated", |object| object["status"]["registration"]["rotatedFor"] == "1").await;
    assert_eq!(site.only().regenerations, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_cannot_be_kept_is_made_again_later_each_time() {
    let site = Site::with_proxy("unkept").await;
    site.refuse_writes("has(request.dryRun) && request.dryRun").await;
    let begun = Instant::now();
    site.annotate("coder.com/rotate-token", "1").await;
    wait("a token to be made", async || holds(site.only().regenerations > 0, "none".to_owned())).await;
    for number in 0..12 {
        let value = number.to_string();
        site.annotate("coder.com/reconcile-at", &value).await;
        site.until("reconciled", |object| object["status"]["lastHandledReconcileAt"] == *value).await;
    }
    // Pauses of 1, 2, 4, .. seconds.
    let (made, most) = (site.only().regenerations, (begun.elapsed().as_secs() + 1).ilog2() + 2);
    assert!(made <= most as usize, "{made} tokens, where {most} are enough");
    site.allow_writes().await;
    site.comes().await;
    site.until("ready", |object| is_ready(object) && object["status"]["registration"]["rotatedFor"] == "1")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_of_the_author_the_former_registration_goes() {
    let site = Site::with_proxy("brought").await;
    let theirs = site.coderd().add_workspace_proxy("theirs");
    site.put(&objects::secret(&site.ns, "mine", &json!({ "token": theirs }))).await;
    let url = format!("http://coder.{}.svc.cluster.local:{}", site.ns, site.double.port);
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "primaryAccessURL": url,
        "proxySessionTokenSecretRef": { "name": "mine" } });
    site.apply_spec(NAME, &spec).await;
    wait("the former registration to go", async || {
        holds(site.names() == ["theirs"], format!("{:?}", site.names()))
    })
    .await;
    site.until_event("ProxyRemoved").await;
    site.until_gone("secret", SECRET).await;
    let is_free = |object: &Value| is_ready(object) && object["metadata"].get("finalizers").is_none();
    let ready = site.until("ready, and nothing left to remove", is_free).await;
    assert_eq!((&ready["status"]["registered"], ready["status"].get("registration")), (&json!(false), None));
    assert_eq!(site.only().regenerations, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_whose_token_the_author_brings_stays() {
    let site = Site::with_proxy("same-token").await;
    let token = site.comes().await;
    site.put(&objects::secret(&site.ns, "mine", &json!({ "token": token }))).await;
    let url = format!("http://coder.{}.svc.cluster.local:{}", site.ns, site.double.port);
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "primaryAccessURL": url,
        "proxySessionTokenSecretRef": { "name": "mine" } });
    site.apply_spec(NAME, &spec).await;
    site.until_event("ProxyLeftBehind").await;
    site.until("free", |object| object["metadata"].get("finalizers").is_none()).await;
    assert_eq!((site.names(), site.coderd().token_of_proxy(NAME)), (vec![NAME.to_owned()], Some(token)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_another_case_is_named_as_it_is_written_and_can_be_taken_over() {
    let site = Site::new("case").await;
    let theirs = site.coderd().add_workspace_proxy("EU");
    site.apply(&json!({})).await;
    let stalled = site.until_reason("Stalled", "ProxyNameConflict").await;
    let message = condition(&stalled, "Stalled")["message"].as_str().unwrap();
    assert!(message.contains("coder.com/adopt-proxy: EU"), "{message}");
    assert_eq!(site.coderd().token_of_proxy("EU"), Some(theirs));
    site.annotate("coder.com/adopt-proxy", "EU").await;
    site.comes().await;
    site.ready().await;
    assert_eq!((site.names(), site.only().regenerations), (vec![NAME.to_owned()], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_of_which_nothing_is_recorded_is_named_where_nobody_tells_of_it() {
    let site = Site::with_proxy("untold").await;
    let id = site.only().id.to_string();
    site.coderd().remove_license();
    site.until_reason("WorkspaceProxiesEntitled", "NotEntitled").await;
    site.patch_status(&json!({ "status": { "registration": null } })).await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    let told = site.until_event("ProxyLeftBehind").await;
    assert!(told.contains(&id), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fight_over_one_registration_ends() {
    let site = Site::with_proxy("fight").await;
    for round in 1..=4 {
        site.coderd().replace_proxy_token(NAME);
        if round < 4 {
            site.comes().await;
            site.until("proven", |object| {
                object["status"]["registration"]["replacedByOthers"]["times"] == round
                    && object["status"]["registration"].get("pending").is_none()
            })
            .await;
        }
    }
    let stalled = site.until_reason("Stalled", "TokenContested").await;
    assert!(condition(&stalled, "Stalled")["message"].as_str().unwrap().contains("coder.com/rotate-token"));
    let made = site.only().regenerations;
    site.annotate("coder.com/rotate-token", "mine again").await;
    site.comes().await;
    site.ready().await;
    assert_eq!(site.only().regenerations, made + 1);
}
