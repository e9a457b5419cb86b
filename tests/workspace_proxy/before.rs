//! What a workspace proxy does with what it had before: a proxy of others that it took over once, a
//! database that was away for a while.

use crate::site::{NAME, SECRET, Site, wait};
use serde_json::json;
use support::coderd::{Fault, Occurrence};
use support::objects::{self, condition, is_ready};
use support::wait::holds;

/// A proxy that was taken over once, whose annotation was tidied away afterwards.
async fn adopted(purpose: &str) -> Site {
    let site = Site::new(purpose).await;
    site.coderd().add_workspace_proxy(NAME);
    site.apply(&json!({})).await;
    site.until_reason("Stalled", "ProxyNameConflict").await;
    site.annotate("coder.com/adopt-proxy", NAME).await;
    site.comes().await;
    site.ready().await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_once_and_is_made_anew_is_ours_though_the_answer_is_lost() {
    let site = adopted("readopt").await;
    site.patch(
        "coderworkspaceproxy",
        NAME,
        &json!({ "metadata": { "annotations": { "coder.com/adopt-proxy": null } } }),
    )
    .await;
    site.ready().await;
    // An administrator deletes it; it is made anew, and the answer of that is lost.
    let lost =
        site.coderd().inject("POST /api/v2/workspaceproxies", Occurrence::Next, Fault::response_lost());
    site.coderd().remove_workspace_proxy(NAME);
    wait("the answer to be lost", async || holds(lost.hits() > 0, "not yet".to_owned())).await;
    site.comes().await;
    site.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_adopted_once_and_is_made_anew_goes_with_its_object() {
    let site = adopted("readopt-del").await;
    let lost =
        site.coderd().inject("POST /api/v2/workspaceproxies", Occurrence::Next, Fault::response_lost());
    let refused =
        site.coderd().inject("PATCH /api/v2/workspaceproxies/{proxy}", Occurrence::Every, Fault::status(500));
    site.coderd().remove_workspace_proxy(NAME);
    wait("the answer to be lost", async || {
        holds(lost.hits() > 0 && refused.hits() > 0, "not yet".to_owned())
    })
    .await;
    site.coderd().clear_faults();
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(
        site.names().is_empty(),
        "what the operator made is gone: {:?}",
        site.coderd().workspace_proxies()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_out_that_is_told_is_one_that_works() {
    let site = adopted("advice").await;
    // Somebody registers it anew, by hand.
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.coderd().remove_workspace_proxy(NAME);
    site.coderd().add_workspace_proxy(NAME);
    site.apply(&json!({})).await;
    let stalled = site.until_reason("Stalled", "ProxyNameConflict").await;
    let message = condition(&stalled, "Stalled")["message"].as_str().unwrap().to_owned();
    assert!(!message.contains("adopt-proxy"), "the annotation acts once: {message}");
    assert!(message.contains("proxyName"), "{message}");
}

/// An annotation that stands in Git acts once for each object: one that is made anew takes over again.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_made_anew_takes_over_again() {
    let site = adopted("adopts-again").await;
    site.apply(&json!({ "deletionPolicy": "Orphan" })).await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.until_gone("secret", SECRET).await;
    assert_eq!((site.names(), site.only().regenerations), (vec![NAME.to_owned()], 1), "it is left behind");
    site.put(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
        "metadata": { "name": NAME, "namespace": site.ns, "annotations": { "coder.com/adopt-proxy": NAME } },
        "spec": { "controlPlaneRef": { "name": "coder" } } }))
        .await;
    site.comes().await;
    site.ready().await;
    assert_eq!((site.names(), site.only().regenerations), (vec![NAME.to_owned()], 2));
}

/// Whoever may write a status does not have a proxy taken over twice: that it was is written beside the token, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_empties_takes_nothing_over_again() {
    let site = adopted("emptied").await;
    let token = site.token(SECRET).await;
    site.patch_status(&json!({ "status": { "registration": null } })).await;
    site.until("recorded anew", |object| {
        is_ready(object) && !object["status"]["registration"]["current"].is_null()
    })
    .await;
    assert_eq!((site.only().regenerations, site.token(SECRET).await), (1, token));

    // Somebody registers another one of that name, by hand.
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.coderd().remove_workspace_proxy(NAME);
    let theirs = site.coderd().add_workspace_proxy(NAME);
    site.patch_status(&json!({ "status": { "registration": null } })).await;
    site.apply(&json!({})).await;
    site.until_reason("Stalled", "ProxyNameConflict").await;
    assert_eq!((site.only().regenerations, site.coderd().token_of_proxy(NAME)), (0, Some(theirs)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_back_has_its_proxy() {
    let site = Site::with_proxy("db-back").await;
    let other = site.another_double();
    let (mine, theirs) = (
        site.token("operator-token").await.unwrap(),
        other.coderd.token_for(&[support::coderd::Role::Owner]),
    );
    // The wrong database for a while.
    site.put(&objects::secret(&site.ns, "operator-token", &json!({ "token": theirs }))).await;
    site.apply_control_plane("coder", &other).await;
    wait("a registration there", async || {
        let token = site.token(SECRET).await.ok_or("none")?;
        other.coderd.proxy_comes(&token, "http://wsproxy-eu").map_err(|refused| format!("{refused:?}"))
    })
    .await;
    site.ready().await;
    site.put(&objects::secret(&site.ns, "operator-token", &json!({ "token": mine }))).await;
    site.apply_control_plane("coder", &site.double).await;
    site.comes().await;
    site.ready().await;
}
