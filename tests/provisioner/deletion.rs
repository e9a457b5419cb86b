//! The table of deletion in `docs/provisioner.md`, row by row: what holds a provisioner that is being deleted, what lets it go,
//! what is told, and what is left in coderd. Whatever holds it heals: then its key is deleted, and it goes.

use crate::env::{Case, run_all};
use crate::site::{NAME, Site, WORKLOAD, wait};
use serde_json::{Value, json};
use support::coderd::{Fault, Occurrence, Role};
use support::objects::{condition, secret};
use support::wait::holds;

/// What stands in the way of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    AccessDisabled,
    TokenMissing,
    TokenEmpty,
    TokenUnderAnotherKey,
    TokenRejected,
    ServerError,
    Unreachable,
}

/// Each with what the object says then.
const HELD: [(Trouble, &str); 7] = [
    (Trouble::AccessDisabled, "operatorAccess.disabled"),
    (Trouble::TokenMissing, "operator-token does not exist"),
    (Trouble::TokenEmpty, "operator-token is empty"),
    (Trouble::TokenUnderAnotherKey, "operator-token has no key token"),
    (Trouble::TokenRejected, "(401)"),
    (Trouble::ServerError, "coderd is up failed"),
    (Trouble::Unreachable, "nothing answers"),
];

impl Trouble {
    async fn begin(self, site: &Site) {
        let coderd = site.coderd();
        match self {
            Self::AccessDisabled => access(site, json!(true)).await,
            Self::TokenMissing => site.remove("secret", "operator-token").await,
            Self::TokenEmpty => token_secret(site, &json!({ "token": "" })).await,
            Self::TokenUnderAnotherKey => {
                site.remove("secret", "operator-token").await;
                token_secret(site, &json!({ "session": site.token })).await;
            }
            Self::TokenRejected => coderd.revoke_token(&site.token),
            Self::ServerError => drop(coderd.inject("*", Occurrence::Every, Fault::status(500))),
            Self::Unreachable => {
                drop(coderd.inject("*", Occurrence::Every, Fault::cut_before_processing()));
            }
        }
    }

    async fn end(self, site: &Site) {
        match self {
            Self::AccessDisabled => access(site, Value::Null).await,
            Self::TokenMissing | Self::TokenEmpty | Self::TokenUnderAnotherKey => {
                site.give_token(&site.token).await;
            }
            Self::TokenRejected => {
                site.give_token(&site.coderd().token_for(&[Role::TemplateAdmin])).await;
            }
            Self::ServerError | Self::Unreachable => site.coderd().clear_faults(),
        }
    }
}

async fn access(site: &Site, disabled: Value) {
    let change = json!({ "spec": { "operatorAccess": { "disabled": disabled } } });
    site.patch("codercontrolplane", "coder", &change).await;
    // Deleting is no race against the watch by which the operator learns of it.
    site.until_object("codercontrolplane", "coder", "the change to be seen", |plane| {
        plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
    })
    .await;
}

async fn token_secret(site: &Site, data: &Value) {
    site.put(&secret(&site.ns, "operator-token", data)).await;
}

/// Deletes the provisioner and waits until it says why it stays.
async fn until_held(site: &Site, why: &str) {
    site.remove("coderprovisioner", NAME).await;
    let held = site
        .until(&format!("held because of {why:?}"), |object| {
            condition(object, "CleanedUp")["reason"] == "CleanupFailed"
        })
        .await;
    let cleaned = condition(&held, "CleanedUp");
    let message = cleaned["message"].as_str().unwrap();
    assert_eq!(
        (&cleaned["status"], &condition(&held, "Ready")["reason"]),
        (&json!("False"), &cleaned["reason"])
    );
    assert!(message.contains(why), "{message}");
    assert!(message.contains("coder.com/release-external"), "the way out is told: {message}");
    assert_eq!(condition(&held, "Stalled")["status"], "False", "it is tried again");
    let (pods, status) = (condition(&held, "DeploymentReady"), &held["status"]);
    assert_eq!((&pods["status"], &pods["reason"]), (&json!("False"), &json!("NoReplicasReady")));
    assert!(pods["message"].as_str().unwrap().starts_with("the Deployment was removed"), "{pods}");
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(0), &json!(0)), "daemons went first");
}

/// What holds a provisioner is told; when it ends, the key is deleted and the object goes.
async fn is_held_and_heals(trouble: Trouble, why: &str) {
    let site = Site::with_key("held").await;
    trouble.begin(&site).await;
    until_held(&site, why).await;
    assert_eq!(site.keys(), [NAME], "{trouble:?}");
    trouble.end(&site).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new(), "{trouble:?}");
    assert_eq!(site.event("KeyLeftBehind").await, None, "{trouble:?}");
    site.coderd().assert_no_violations();
}

/// Deletes the provisioner, which goes, leaves its key in coderd and names it in an Event.
async fn leaves_its_key(site: &Site) {
    site.remove("coderprovisioner", NAME).await;
    key_is_left(site).await;
}

async fn key_is_left(site: &Site) {
    site.until_gone("coderprovisioner", NAME).await;
    let told = site.until_event("KeyLeftBehind").await;
    assert!(told.contains("provisioner key builders "), "{told}");
    assert_eq!(site.keys(), [NAME]);
    assert_eq!(site.made_and_deleted(), (1, 0));
}

async fn nothing_was_ever_made() {
    // There never was a control plane, so that there never was a URL.
    let site = Site::empty("never").await;
    site.apply(&json!({})).await;
    site.until_reason("Ready", "ControlPlaneUnavailable").await;
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.coderd().calls().len(), 0, "nobody was asked");
    assert_eq!(site.event("KeyLeftBehind").await, None);
}

async fn no_control_plane_ever_answered() {
    let site = Site::empty("silent").await;
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    let site = site.with_control_plane().await;
    site.apply(&json!({})).await;
    site.until_reason("ControlPlaneReady", "ControlPlaneUnavailable").await;
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!((site.keys(), site.event("KeyLeftBehind").await), (Vec::new(), None));
}

async fn the_license_covers_it_no_longer() {
    let site = Site::with_key("unlicensed").await;
    site.coderd().remove_license();
    leaves_its_key(&site).await;
}

async fn the_control_plane_is_gone() {
    let site = Site::with_key("gone").await;
    site.remove("codercontrolplane", "coder").await;
    site.until_gone("codercontrolplane", "coder").await;
    site.until_reason("ControlPlaneReady", "ControlPlaneUnavailable").await;
    leaves_its_key(&site).await;
}

/// What the older operator left, of which nothing but a name is known, and nobody can be asked.
async fn only_a_name_is_known() {
    let site = Site::with_key("named").await;
    site.apply(&json!({ "replicas": 0, "suspend": true })).await;
    site.until("suspended", |object| condition(object, "Suspended")["status"] == "True").await;
    site.patch_status(&json!({ "key": null })).await;
    site.remove("codercontrolplane", "coder").await;
    site.until_gone("codercontrolplane", "coder").await;
    leaves_its_key(&site).await;
}

async fn the_control_plane_is_going() {
    let site = Site::with_key("leaving").await;
    let held = |by: Value| json!({ "metadata": { "finalizers": by } });
    site.patch("codercontrolplane", "coder", &held(json!(["example.com/held"]))).await;
    site.remove("codercontrolplane", "coder").await;
    let told = site.until_reason("ControlPlaneReady", "ControlPlaneUnavailable").await;
    assert!(condition(&told, "ControlPlaneReady")["message"].as_str().unwrap().contains("being deleted"));
    leaves_its_key(&site).await;
    site.patch("codercontrolplane", "coder", &held(Value::Null)).await;
}

async fn the_namespace_is_going() {
    let site = Site::with_key("ending").await;
    // Nothing but the namespace says that it goes: its control plane stays, and coderd answers nobody.
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    site.patch("codercontrolplane", "coder", &held).await;
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    site.env.cluster.kubectl(&format!("delete namespace {} --wait=false", site.ns)).await.expect_ok();
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), [NAME]);
    site.patch("codercontrolplane", "coder", &json!({ "metadata": { "finalizers": null } })).await;
    wait("the namespace to be gone", async || {
        let there = site.env.get("namespace", "", &site.ns).await;
        holds(there.is_none(), there.unwrap_or_default()["status"].to_string())
    })
    .await;
}

async fn the_spec_says_orphan() {
    let site = Site::with_key("orphan").await;
    site.apply(&json!({ "replicas": 0, "deletionPolicy": "Orphan" })).await;
    leaves_its_key(&site).await;
}

async fn an_annotation_lets_it_go() {
    let site = Site::with_key("released").await;
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    until_held(&site, "nothing answers").await;
    site.annotate("coder.com/release-external", "true").await;
    key_is_left(&site).await;
}

async fn pods_end_before_their_key_goes() {
    let site = Site::new("busy").await;
    site.apply(&json!({ "replicas": 2 })).await;
    site.until("two daemons", |object| object["status"]["daemons"] == 2).await;
    let users = site.daemons.users();
    site.coderd().on_key_deletion(move |deletion| users.object_to(deletion));
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new());
    site.coderd().assert_no_violations();
}

/// Whoever may create pods can give one the labels of daemons: it has no key, and nothing waits for it.
async fn a_pod_with_the_labels_of_daemons_holds_nobody() {
    let site = Site::with_key("labelled").await;
    let labels = site.get("deployment", WORKLOAD).await.unwrap()["spec"]["selector"]["matchLabels"].clone();
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "workspace", "namespace": site.ns, "labels": labels },
        "spec": { "containers": [{ "name": "a", "image": "example.com/a" }] } });
    site.put(&pod).await;
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new());
    let left = site.get("pod", "workspace").await.expect("it is not ours to delete");
    assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_the_table_has_its_outcome() {
    let held = HELD.iter().map(|(trouble, why)| -> Case<'_> {
        (format!("{trouble:?}"), Box::pin(is_held_and_heals(*trouble, why)))
    });
    let others: Vec<Case<'_>> = vec![
        ("nothing was ever made".to_owned(), Box::pin(nothing_was_ever_made())),
        ("no control plane ever answered".to_owned(), Box::pin(no_control_plane_ever_answered())),
        ("not licensed".to_owned(), Box::pin(the_license_covers_it_no_longer())),
        ("control plane gone".to_owned(), Box::pin(the_control_plane_is_gone())),
        ("only a name is known".to_owned(), Box::pin(only_a_name_is_known())),
        ("control plane going".to_owned(), Box::pin(the_control_plane_is_going())),
        ("namespace going".to_owned(), Box::pin(the_namespace_is_going())),
        ("deletionPolicy: Orphan".to_owned(), Box::pin(the_spec_says_orphan())),
        ("release annotation".to_owned(), Box::pin(an_annotation_lets_it_go())),
        ("pods end first".to_owned(), Box::pin(pods_end_before_their_key_goes())),
        ("a pod of others".to_owned(), Box::pin(a_pod_with_the_labels_of_daemons_holds_nobody())),
    ];
    run_all(held.chain(others).collect()).await;
}
