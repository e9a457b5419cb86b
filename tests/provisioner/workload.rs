//! What a user does with the daemons themselves: scales them, suspends the object, changes the image; and what of it goes on
//! when the license ends or coderd asks to be left alone.

use crate::env::{Case, run_all};
use crate::site::{MAKE, NAME, Site, WORKLOAD};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::{Entitlement, Fault, Occurrence, Outcome};
use support::objects::{condition, is_ready, text};

const FEATURE: &str = "external_provisioner_daemons";

fn image(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/containers/0/image")
}

async fn until_image(site: &Site, wanted: &str) {
    let what = format!("the image {wanted}");
    site.until_object("deployment", WORKLOAD, &what, |deployment| image(deployment) == wanted).await;
}

/// Scales as an autoscaler does: by the subresource, which Git's spec leaves to it.
async fn scale(site: &Site, replicas: usize) {
    let change = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let provisioners = crate::site::api(&site.client, "coderprovisioner", &site.ns);
    provisioners.patch_scale(NAME, &PatchParams::default(), &change).await.unwrap();
}

async fn scaled_to_zero_and_by_an_autoscaler() {
    let site = Site::with_key("scaled").await;
    let none = site.ready().await;
    assert_eq!(condition(&none, "Ready")["reason"], "ScaledToZero");
    assert_eq!(condition(&none, "DeploymentReady")["reason"], "ScaledToZero");
    // Git says nothing of replicas: they are the autoscaler's.
    site.apply(&json!({})).await;
    scale(&site, 3).await;
    let three = |object: &Value| is_ready(object) && object["status"]["daemons"] == 3;
    let scaled = site.until("three daemons", three).await;
    assert_eq!(scaled["status"]["replicas"], 3);
    assert!(text(&scaled, "/status/selector").contains("app.kubernetes.io/instance=builders"), "{scaled}");
    site.apply(&json!({ "extraArgs": ["--verbose"] })).await;
    site.until_object("deployment", WORKLOAD, "the argument, and still three", |deployment| {
        deployment["spec"]["replicas"] == 3 && deployment["spec"].to_string().contains("--verbose")
    })
    .await;
    site.until("three daemons again", three).await;
    assert_eq!(site.made_and_deleted(), (1, 0));
}

async fn suspended() {
    let site = Site::with_key("suspended").await;
    let with = |suspend: bool, tag: &str| json!({ "replicas": 0, "suspend": suspend, "tags": { "environment": tag } });
    site.apply(&with(true, "other")).await;
    let still = site.until_reason("Suspended", "Suspended").await;
    assert_eq!(condition(&still, "Ready")["status"], "True", "it keeps what was said before");
    assert_eq!(still["status"]["observedGeneration"], still["metadata"]["generation"]);
    let calls = site.coderd().count(MAKE);
    site.apply(&with(true, "another")).await;
    site.until("the change to be seen", |object| {
        object["status"]["observedGeneration"] == object["metadata"]["generation"]
    })
    .await;
    assert_eq!((calls, site.coderd().count(MAKE)), (1, 1), "nothing is done");
    site.apply(&with(false, "another")).await;
    let done = site.until_generation(2).await;
    assert!(condition(&done, "Suspended").is_null(), "{done}");
}

async fn the_image_follows_the_control_plane() {
    let site = Site::with_key("image").await;
    until_image(&site, "ghcr.io/coder/coder:v2.36.1").await;
    let of_plane = |image: &str| json!({ "image": image });
    site.apply_control_plane("coder", &site.double, &of_plane("ghcr.io/coder/coder:v2.36.2")).await;
    until_image(&site, "ghcr.io/coder/coder:v2.36.2").await;
    site.apply(&json!({ "replicas": 0, "image": "registry.example.com/coder:mine" })).await;
    until_image(&site, "registry.example.com/coder:mine").await;
    site.apply_control_plane("coder", &site.double, &of_plane("ghcr.io/coder/coder:v2.36.3")).await;
    site.reconcile("after-the-control-plane").await;
    until_image(&site, "registry.example.com/coder:mine").await;
    assert_eq!(site.made_and_deleted(), (1, 0));
}

async fn the_license_ends_and_comes_back() {
    let site = Site::new("license").await;
    site.apply(&json!({})).await;
    site.ready().await;
    site.coderd().set_feature(FEATURE, Entitlement::GracePeriod, true);
    site.until_reason("ExternalProvisionersEntitled", "InGracePeriod").await;
    site.ready().await;
    let connected = || site.coderd().daemons().iter().filter(|daemon| daemon.connected).count();
    site.coderd().remove_license();
    let told = site.until_reason("ExternalProvisionersEntitled", "NotEntitled").await;
    assert_eq!(condition(&told, "Ready")["status"], "False");
    assert_eq!(condition(&told, "DeploymentReady")["status"], "True", "what runs goes on");
    assert_eq!(connected(), 1);
    // Scaling and image changes are no key work; other tags are.
    let changed = json!({ "replicas": 2, "image": "registry.example.com/coder:mine", "tags": { "a": "b" } });
    site.apply(&changed).await;
    site.until_object("deployment", WORKLOAD, "two pods of the other image", |deployment| {
        image(deployment) == "registry.example.com/coder:mine" && deployment["status"]["readyReplicas"] == 2
    })
    .await;
    site.reconcile("without-a-license").await;
    assert_eq!((site.keys(), site.made_and_deleted()), (vec![NAME.to_owned()], (1, 0)));
    site.coderd().add_license();
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["builders-2"]);
}

async fn coderd_is_left_alone_as_long_as_it_asks() {
    let site = Site::with_key("limited").await;
    let pause = Duration::from_secs(5);
    let limited = site.coderd().inject(MAKE, Occurrence::Next, Fault::too_many_requests(pause));
    site.apply(&json!({ "replicas": 0, "tags": { "a": "b" } })).await;
    limited.reached(Duration::from_secs(60)).await;
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["builders-2"], "the number of the intent is kept");
    let made = site.coderd().calls_to(MAKE);
    let outcomes: Vec<Outcome> = made.iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [201, 429, 201].map(Outcome::Answered));
    // Whoever else was under way when the answer came may have been heard a moment later.
    let since = |call: &support::coderd::Call| call.at.since(made[1].at);
    let early: Vec<String> = site
        .coderd()
        .calls()
        .iter()
        .filter(|call| call.index > made[1].index && since(call) < pause)
        .filter(|call| since(call) > Duration::from_secs(1))
        .map(|call| format!("{} {:?} after it", call.path, since(call)))
        .collect();
    assert!(early.is_empty(), "{early:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_are_scaled_suspended_and_upgraded_whatever_coderd_says() {
    let cases: Vec<Case<'_>> = vec![
        ("scaled".to_owned(), Box::pin(scaled_to_zero_and_by_an_autoscaler())),
        ("suspended".to_owned(), Box::pin(suspended())),
        ("image".to_owned(), Box::pin(the_image_follows_the_control_plane())),
        ("license".to_owned(), Box::pin(the_license_ends_and_comes_back())),
        ("rate limit".to_owned(), Box::pin(coderd_is_left_alone_as_long_as_it_asks())),
    ];
    run_all(cases).await;
}
