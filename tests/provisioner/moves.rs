//! What moves a provisioner: another Secret, another organization, another control plane, a key of others. Nothing is rotated
//! that need not be, and each coderd hears of its own token and key alone.

use crate::env::{Case, run_all};
use crate::site::{NAME, SECRET, Site, WORKLOAD, wait};
use crds::well_known::annotation::KEY_OF;
use serde_json::{Value, json};
use support::coderd::{Coderd, Credential, Role};
use support::objects::{condition, is_ready, secret, text};
use support::wait::holds;

/// The names of the keys in an organization.
fn keys(coderd: &Coderd, organization: &str) -> Vec<String> {
    coderd.provisioner_keys(organization).into_iter().map(|key| key.name).collect()
}

async fn only_the_secret_changes() {
    let site = Site::new("place").await;
    site.apply(&json!({})).await;
    site.ready().await;
    let plaintext = site.plaintext(SECRET, "key").await;
    assert!(plaintext.is_some());
    site.apply(&json!({ "key": { "secretName": "elsewhere" } })).await;
    site.until_gone("secret", SECRET).await;
    site.ready().await;
    assert_eq!((site.plaintext("elsewhere", "key").await, site.revision().await), (plaintext.clone(), 2));

    site.apply(&json!({ "key": { "secretName": "elsewhere", "secretKey": "token" } })).await;
    site.until_object("secret", "elsewhere", "the other data key alone", |secret| {
        secret["data"].as_object().is_some_and(|data| data.keys().eq(["token"]))
    })
    .await;
    let moved = site.ready().await;
    assert_eq!((site.plaintext("elsewhere", "token").await, site.revision().await), (plaintext, 3));
    assert_eq!(moved["status"]["secretRef"], json!({ "name": "elsewhere", "key": "token" }));
    assert_eq!(site.made_and_deleted(), (1, 0), "nothing was rotated");
}

async fn an_immutable_secret_has_data_of_others() {
    let site = Site::new("kept").await;
    site.apply(&json!({})).await;
    site.ready().await;
    let others = json!({ "stringData": { "db-password": "hunter2" }, "immutable": true });
    site.patch("secret", SECRET, &others).await;
    site.apply(&json!({ "key": { "secretName": "elsewhere" } })).await;
    let told = site.until_event("SecretLeftBehind").await;
    assert!(told.contains(SECRET), "{told}");
    site.ready().await;
    assert_eq!(site.plaintext(SECRET, "db-password").await.as_deref(), Some("hunter2"));
    assert_eq!(site.made_and_deleted(), (1, 0), "nothing was rotated");
}

async fn the_organization_is_renamed() {
    let site = Site::new("renamed").await;
    site.coderd().add_organization("team");
    site.apply(&json!({ "organizationName": "team" })).await;
    site.ready().await;
    site.coderd().rename_organization("team", "crew");
    let missing = site.until_reason("ProvisionerKeyReady", "OrganizationMissing").await;
    assert!(text(condition(&missing, "Ready"), "/message").contains("spec.organizationName"));
    site.apply(&json!({ "organizationName": "crew" })).await;
    site.ready().await;
    assert_eq!((site.made_and_deleted(), site.revision().await), ((1, 0), 1), "an organization is its id");
    assert_eq!(keys(site.coderd(), "crew"), [NAME]);
}

async fn the_organization_changes() {
    let site = Site::new("organization").await;
    site.coderd().add_organization("team");
    site.apply(&json!({})).await;
    site.ready().await;
    site.apply(&json!({ "organizationName": "team" })).await;
    site.until_generation(2).await;
    assert_eq!(
        (keys(site.coderd(), "default"), keys(site.coderd(), "team")),
        (vec![], vec![NAME.to_owned()])
    );
}

/// Whether a coderd was shown what another one gave.
fn is_shown_foreign_secrets(coderd: &Coderd) -> bool {
    coderd
        .calls()
        .iter()
        .any(|call| matches!(call.credential, Credential::RefusedToken | Credential::UnknownProvisionerKey))
}

/// From one control plane to another and back, at leisure and in haste.
async fn the_control_plane_is_swapped() {
    let site = Site::new("swapped").await;
    let other = site.env.double();
    let token = other.coderd.token_for(&[Role::TemplateAdmin]);
    site.put(&secret(&site.ns, "other-token", &json!({ "token": token }))).await;
    let access = json!({ "operatorAccess": { "tokenSecretRef": { "name": "other-token" } } });
    site.apply_control_plane("other", &other, &access).await;
    let serving = |name: &str| json!({ "controlPlaneRef": { "name": name } });
    site.apply(&serving("coder")).await;
    site.ready().await;

    site.apply(&serving("other")).await;
    site.until_generation(2).await;
    assert_eq!((site.keys(), keys(&other.coderd, "default")), (vec![], vec![NAME.to_owned()]));
    let url = |deployment: &Value| {
        let env = deployment.pointer("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap();
        env.iter().find(|one| one["name"] == "CODER_URL").unwrap()["value"].as_str().unwrap().to_owned()
    };
    let deployment = site.get("deployment", WORKLOAD).await.unwrap();
    assert_eq!(url(&deployment), format!("http://other.{}.svc.cluster.local:{}", site.ns, other.port));
    assert_eq!(site.revision().await, 2, "address and key change at once");

    for name in ["coder", "other", "coder"] {
        site.apply(&serving(name)).await;
    }
    site.until("ready with one key in the first coderd", |object| {
        let key = &object["status"]["key"];
        is_ready(object)
            && object["status"]["controlPlaneRefName"] == "coder"
            && key["pending"].is_null()
            && key["retiring"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
    assert_eq!((site.keys().len(), keys(&other.coderd, "default").len()), (1, 0));
    for coderd in [site.coderd(), &other.coderd] {
        assert!(!is_shown_foreign_secrets(coderd), "{:?}", coderd.calls());
        coderd.assert_no_violations();
    }
}

async fn another_database_behind_the_same_address() {
    let site = Site::with_key("restored").await;
    site.coderd().replace_deployment();
    site.until_generation(2).await;
    assert_eq!(site.keys(), [NAME], "a name that is free in the new one");
    let left = site.until_event("KeyLeftBehind").await;
    assert!(left.contains(NAME), "{left}");
}

/// Deleted and applied again on a database that stays, as a tool does that replaces objects.
async fn the_control_plane_is_made_anew() {
    let site = Site::with_key("anew").await;
    for (number, name) in [(2, "builders-2"), (3, NAME)] {
        site.remove("codercontrolplane", "coder").await;
        site.until_gone("codercontrolplane", "coder").await;
        site.apply_control_plane("coder", &site.double, &json!({})).await;
        site.until_generation(number).await;
        assert_eq!(site.keys(), [name], "of the one before nothing is left");
    }
    assert_eq!((site.event("KeyLeftBehind").await, site.event("KeyNameTaken").await), (None, None));
    // Nor when the object goes before it was looked at again.
    site.apply(&json!({ "replicas": 0, "suspend": true })).await;
    site.until("suspended", |object| condition(object, "Suspended")["status"] == "True").await;
    site.remove("codercontrolplane", "coder").await;
    site.until_gone("codercontrolplane", "coder").await;
    site.apply_control_plane("coder", &site.double, &json!({})).await;
    site.until_object("codercontrolplane", "coder", "Ready", is_ready).await;
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new());
}

/// What the older operator left is moved before anybody of ours looked at it: its plaintext is shown to nobody else.
async fn a_key_of_the_older_operator_is_moved() {
    let site = Site::with_key("former").await;
    let other = site.env.double();
    let token = other.coderd.token_for(&[Role::TemplateAdmin]);
    site.put(&secret(&site.ns, "other-token", &json!({ "token": token }))).await;
    let access = json!({ "operatorAccess": { "tokenSecretRef": { "name": "other-token" } } });
    site.apply_control_plane("other", &other, &access).await;
    // Suspended, so that nobody writes what that operator never wrote.
    let serving = |name: &str, suspend: bool| json!({ "replicas": 0, "suspend": suspend, "controlPlaneRef": { "name": name } });
    site.apply(&serving("coder", true)).await;
    site.until("suspended", |object| condition(object, "Suspended")["status"] == "True").await;
    site.patch_status(&json!({ "key": null })).await;
    site.patch("secret", SECRET, &json!({ "metadata": { "annotations": { KEY_OF: null } } })).await;
    site.apply(&serving("other", false)).await;
    site.until("ready in the other coderd", |object| {
        is_ready(object) && object["status"]["controlPlaneRefName"] == "other"
    })
    .await;
    assert_eq!((site.keys(), keys(&other.coderd, "default")), (vec![NAME.to_owned()], vec![NAME.to_owned()]));
    assert!(!is_shown_foreign_secrets(&other.coderd), "{:?}", other.coderd.calls());
    let left = site.until_event("KeyLeftBehind").await;
    assert!(left.contains(NAME), "{left}");
}

async fn a_key_is_taken_over_on_purpose() {
    let site = Site::new("adopted").await;
    let foreign = site.coderd().add_provisioner_key("default", NAME, &[]);
    site.apply(&json!({})).await;
    site.ready().await;
    assert_eq!(site.keys(), [NAME, "builders-2"]);
    // As long as somebody's daemons run with it, it stays.
    site.coderd().connect_daemon(&foreign, "elsewhere").unwrap();
    site.annotate("coder.com/adopt-key", NAME).await;
    site.until("the key to be on its way out", |object| {
        object["status"]["key"]["retiring"][0]["name"] == NAME
    })
    .await;
    site.reconcile("while-it-is-used").await;
    assert_eq!(site.keys(), [NAME, "builders-2"]);
    site.coderd().disconnect_daemon("elsewhere");
    site.coderd().forget_daemon("elsewhere");
    site.until_keys(&["builders-2"]).await;
    assert_eq!(site.made_and_deleted(), (1, 1));
}

async fn two_ask_for_one_name() {
    let site = Site::with_key("rivals").await;
    site.apply_named("rivals", &json!({ "replicas": 0, "key": { "name": "BUILDERS" } })).await;
    let rival = site
        .until_object("coderprovisioner", "rivals", "stalled", |object| {
            condition(object, "Stalled")["reason"] == "KeyNameConflict"
        })
        .await;
    assert!(text(condition(&rival, "Stalled"), "/message").contains("CoderProvisioner builders"), "{rival}");
    assert_eq!(site.keys(), [NAME], "nothing was made for it");
    // The name is free when the older one is gone.
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    site.until_object("coderprovisioner", "rivals", "ready", is_ready).await;
    assert_eq!(site.keys(), [NAME]);
    assert_eq!(site.made_and_deleted(), (2, 1));
}

async fn another_name_is_another_key() {
    let site = Site::with_key("named").await;
    site.apply(&json!({ "replicas": 0, "key": { "name": "makers" } })).await;
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["makers"]);
    wait("the Event that names the first", async || {
        let told = site.event("KeyDeleted").await.unwrap_or_default();
        holds(told.contains("builders"), told)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_moves_and_rotates_only_what_it_must() {
    let cases: Vec<Case<'_>> = vec![
        ("only the Secret".to_owned(), Box::pin(only_the_secret_changes())),
        ("an immutable Secret".to_owned(), Box::pin(an_immutable_secret_has_data_of_others())),
        ("organization renamed".to_owned(), Box::pin(the_organization_is_renamed())),
        ("organization changed".to_owned(), Box::pin(the_organization_changes())),
        ("control plane swapped".to_owned(), Box::pin(the_control_plane_is_swapped())),
        ("another database".to_owned(), Box::pin(another_database_behind_the_same_address())),
        ("control plane made anew".to_owned(), Box::pin(the_control_plane_is_made_anew())),
        ("taken over and moved".to_owned(), Box::pin(a_key_of_the_older_operator_is_moved())),
        ("adopt-key".to_owned(), Box::pin(a_key_is_taken_over_on_purpose())),
        ("one name for two".to_owned(), Box::pin(two_ask_for_one_name())),
        ("another name".to_owned(), Box::pin(another_name_is_another_key())),
    ];
    run_all(cases).await;
}
