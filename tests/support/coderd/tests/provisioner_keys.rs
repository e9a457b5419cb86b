//! Pins the key routes: create once, list, delete by name, prove by plaintext, and who may.
//! It never tests daemons beyond their place in the key listing.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::client::{Ask, Heard};
use crate::coderd::{Coderd, Role};

const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";

async fn create(coderd: &Coderd, token: &str, body: Value) -> Heard {
    Ask::post(KEYS, &body).token(token).send(coderd).await
}

async fn prove(coderd: &Coderd, plaintext: &str) -> Heard {
    Ask::get("/api/v2/provisionerkeys/placeholder").daemon_key(plaintext).send(coderd).await
}

#[tokio::test]
async fn creating_a_key_answers_only_a_plaintext_of_forty_three_characters() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let heard = create(&coderd, &token, json!({ "name": "eu", "tags": { "zone": "eu" } })).await;
    assert_eq!(heard.status, 201);
    let body = heard.json();
    let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["key"]);
    assert_eq!(body["key"].as_str().map(str::len), Some(43));
}

#[tokio::test]
async fn listed_keys_have_no_secret_and_call_their_organisation_organization() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    create(&coderd, &token, json!({ "name": "eu", "tags": { "zone": "eu" } })).await;
    let keys = Ask::get(KEYS).token(&token).send(&coderd).await.json();
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "reserved keys are left out");
    let fields: Vec<&String> = keys[0].as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["created_at", "id", "name", "organization", "tags"]);
    assert_eq!(keys[0]["organization"], coderd.organization_id("default").to_string());
    assert_eq!(keys[0]["tags"], json!({ "zone": "eu" }));
}

#[tokio::test]
async fn names_are_stored_in_lower_case_and_conflict_in_any_case() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    assert_eq!(create(&coderd, &token, json!({ "name": "EU-West" })).await.status, 201);
    assert_eq!(coderd.provisioner_keys("default")[0].name, "eu-west");
    let conflict = create(&coderd, &token, json!({ "name": "eu-WEST" })).await;
    assert_eq!(conflict.status, 409);
    assert_eq!(conflict.message(), "Provisioner key with name 'eu-WEST' already exists in organization");
}

#[tokio::test]
async fn the_same_name_may_live_in_two_organisations() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    coderd.add_provisioner_key("platform", "eu", &[]);
    let token = coderd.token_for(&[Role::Owner]);
    assert_eq!(create(&coderd, &token, json!({ "name": "eu" })).await.status, 201);
}

#[tokio::test]
async fn empty_long_and_reserved_names_are_400_and_name_the_field() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let cases = [
        ("".to_owned(), "Name is required"),
        ("n".repeat(65), "Name must be at most 64 characters"),
        ("Built-In".to_owned(), "Name cannot be reserved name 'Built-In'"),
        ("user-auth".to_owned(), "Name cannot be reserved name 'user-auth'"),
        ("psk".to_owned(), "Name cannot be reserved name 'psk'"),
    ];
    for (name, text) in cases {
        let heard = create(&coderd, &token, json!({ "name": name })).await;
        assert_eq!(heard.status, 400);
        let validations = json!([{ "field": "name", "detail": text }]);
        assert_eq!(heard.json(), json!({ "message": text, "validations": validations }));
    }
    assert_eq!(create(&coderd, &token, json!({ "name": "n".repeat(64) })).await.status, 201);
}

#[tokio::test]
async fn a_body_that_does_not_decode_is_400() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let heard = create(&coderd, &token, json!({ "name": 7 })).await;
    assert_eq!((heard.status, heard.message().as_str()), (400, "Request body must be valid JSON."));
}

#[tokio::test]
async fn a_key_is_deleted_by_name_in_any_case_and_then_gone() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    let delete = || Ask::delete(&format!("{KEYS}/EU")).token(&token).send(&coderd);
    let gone = delete().await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    assert_eq!(delete().await.status, 404);
    assert_eq!(prove(&coderd, &plaintext).await.status, 401);
    assert_eq!(coderd.key_proven_by(&plaintext), None);
}

#[tokio::test]
async fn reserved_keys_cannot_be_deleted_and_exist_in_the_default_organisation_only() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    let token = coderd.token_for(&[Role::Owner]);
    let heard = Ask::delete(&format!("{KEYS}/psk")).token(&token).send(&coderd).await;
    assert_eq!(
        (heard.status, heard.message().as_str()),
        (400, "Cannot delete reserved 'psk' provisioner key")
    );
    let elsewhere = Ask::delete("/api/v2/organizations/platform/provisionerkeys/psk").token(&token);
    assert_eq!(elsewhere.send(&coderd).await.status, 404);
}

#[tokio::test]
async fn names_in_the_delete_path_must_be_escaped_as_go_escapes_them() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let delete =
        async |path: &str| Ask::delete(&format!("{KEYS}/{path}")).token(&token).send(&coderd).await.status;
    coderd.add_provisioner_key("default", "a key", &[]);
    coderd.add_provisioner_key("default", "a:key", &[]);
    coderd.add_provisioner_key("default", "a/key", &[]);
    coderd.add_provisioner_key("default", "daemons", &[]);
    assert_eq!(delete("a%20key").await, 204);
    assert_eq!(delete("a%3Akey").await, 404, "Go would not have escaped the colon");
    assert_eq!(delete("a:key").await, 204);
    assert_eq!(delete("a%2Fkey").await, 404, "coderd cannot delete a name with a slash");
    assert_eq!(delete("daemons").await, 204, "a name that is also a route");
}

#[tokio::test]
async fn a_plaintext_proves_its_key_without_license_and_whatever_the_path() {
    let coderd = Coderd::start().await;
    let plaintext = coderd.add_provisioner_key("default", "eu", &[("zone", "eu")]);
    coderd.remove_license();
    let proven = prove(&coderd, &plaintext).await;
    assert_eq!(proven.status, 200);
    assert_eq!((&proven.json()["name"], &proven.json()["tags"]["zone"]), (&json!("eu"), &json!("eu")));
    assert_eq!(proven.json()["id"], coderd.key_proven_by(&plaintext).expect("it works").to_string());
}

#[tokio::test]
async fn unknown_missing_and_misshapen_plaintexts_are_told_apart() {
    let coderd = Coderd::start().await;
    let unknown = prove(&coderd, &"x".repeat(43)).await;
    assert_eq!((unknown.status, unknown.message().as_str()), (401, "provisioner daemon key invalid"));
    assert_eq!(unknown.header("www-authenticate"), "", "the challenge belongs to session tokens");
    let short = prove(&coderd, "short").await;
    assert_eq!((short.status, short.json()["detail"].as_str()), (400, Some("must be 43 characters")));
    let missing = Ask::get("/api/v2/provisionerkeys/placeholder").send(&coderd).await;
    assert_eq!((missing.status, missing.message().as_str()), (401, "provisioner daemon key required"));
}

#[tokio::test]
async fn owner_template_admin_and_organisation_admins_manage_keys() {
    let coderd = Coderd::start().await;
    let here = || "default".to_owned();
    let roles = [
        Role::Owner,
        Role::TemplateAdmin,
        Role::OrganizationAdmin(here()),
        Role::OrganizationTemplateAdmin(here()),
    ];
    for role in roles {
        let token = coderd.token_for(std::slice::from_ref(&role));
        assert_eq!(create(&coderd, &token, json!({ "name": "eu" })).await.status, 201, "{role:?}");
        assert_eq!(
            Ask::delete(&format!("{KEYS}/eu")).token(&token).send(&coderd).await.status,
            204,
            "{role:?}"
        );
    }
}

#[tokio::test]
async fn a_plain_member_sees_keys_and_can_neither_make_nor_delete_one() {
    let coderd = Coderd::start().await;
    coderd.add_provisioner_key("default", "eu", &[]);
    let token = coderd.token_for(&[]);
    let listed = Ask::get(KEYS).token(&token).send(&coderd).await;
    assert_eq!((listed.status, listed.json().as_array().map(Vec::len)), (200, Some(1)));
    let delete = |name: &str| Ask::delete(&format!("{KEYS}/{name}")).token(&token);
    for refused in [create(&coderd, &token, json!({ "name": "us" })).await, delete("eu").send(&coderd).await]
    {
        assert_eq!(refused.status, 500, "coderd takes its own refusal for an internal error here");
        assert_eq!(refused.json()["detail"], "unauthorized: rbac: forbidden");
    }
    assert_eq!(delete("us").send(&coderd).await.status, 404);
    assert_eq!(delete("psk").send(&coderd).await.status, 400, "which comes first");
    assert_eq!(coderd.provisioner_keys("default").len(), 1);
}

#[tokio::test]
async fn an_admin_of_another_organisation_gets_404_everywhere() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    coderd.add_provisioner_key("default", "eu", &[]);
    let token = coderd.token_for(&[Role::OrganizationAdmin("platform".to_owned())]);
    let asks = [
        Ask::get(KEYS),
        Ask::get(&format!("{KEYS}/daemons")),
        Ask::post(KEYS, &json!({ "name": "us" })),
        Ask::delete(&format!("{KEYS}/eu")),
    ];
    for ask in asks {
        assert_eq!(ask.token(&token).send(&coderd).await.status, 404);
    }
}

#[tokio::test]
async fn the_listing_with_daemons_includes_reserved_keys() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    coderd.connect_daemon(&plaintext, "pod-b").expect("the key works");
    coderd.connect_daemon(&plaintext, "pod-a").expect("the key works");
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let listed = async |org: &str| {
        let path = format!("/api/v2/organizations/{org}/provisionerkeys/daemons");
        Ask::get(&path).token(&token).send(&coderd).await.json()
    };
    let keys = listed("default").await;
    let names: Vec<&str> =
        keys.as_array().expect("an array").iter().filter_map(|one| one["key"]["name"].as_str()).collect();
    assert_eq!(names, ["built-in", "user-auth", "psk", "eu"]);
    let daemons = &keys[3]["daemons"];
    assert_eq!((&daemons[0]["name"], &daemons[1]["name"]), (&json!("pod-a"), &json!("pod-b")));
    assert_eq!((&daemons[0]["status"], &daemons[0]["key_name"]), (&json!(null), &json!(null)));
    let elsewhere = listed("platform").await;
    assert_eq!(elsewhere.as_array().map(Vec::len), Some(1));
    assert_eq!(elsewhere[0]["key"]["name"], "user-auth");
    assert_eq!(elsewhere[0]["key"]["created_at"], "0001-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_test_sees_plaintexts_that_nothing_prints() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let made = create(&coderd, &token, json!({ "name": "EU" })).await.json();
    assert_eq!(coderd.plaintext_of("default", "Eu").as_deref(), made["key"].as_str());
    assert_eq!(coderd.plaintext_of("default", "us"), None);
    assert_eq!(coderd.plaintext_of("default", "psk"), None, "coderd's own have none");
    assert!(!format!("{coderd:?}").contains(made["key"].as_str().expect("a plaintext")));
}

#[tokio::test]
async fn whoever_watches_deletions_hears_of_each_and_may_object() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let used = coderd.add_provisioner_key("default", "eu", &[]);
    coderd.add_provisioner_key("default", "us", &[]);
    coderd.connect_daemon(&used, "pod-a").expect("the key works");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    coderd.on_key_deletion(move |deletion| {
        let in_use = deletion.had(&used);
        told.lock().expect("nobody panicked").push((deletion.key.name.clone(), deletion.connected.clone()));
        if in_use { Err(format!("{} is in use", deletion.key.name)) } else { Ok(()) }
    });
    for name in ["us", "us", "eu"] {
        Ask::delete(&format!("{KEYS}/{name}")).token(&token).send(&coderd).await;
    }
    let expected = [("us".to_owned(), Vec::new()), ("eu".to_owned(), vec!["pod-a".to_owned()])];
    assert_eq!(*heard.lock().expect("nobody panicked"), expected, "one that was not there is no deletion");
    let violations = coderd.take_violations();
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].problem, "eu is in use");
    coderd.add_provisioner_key("default", "ap", &[]);
    coderd.remove_provisioner_key("default", "ap");
    assert_eq!(
        heard.lock().expect("nobody panicked").len(),
        2,
        "a deletion by somebody else is not a client's"
    );
}

#[tokio::test]
async fn another_deployment_knows_no_key_of_the_first_and_lets_the_same_people_in() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::TemplateAdmin]);
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    let (deployment, organization) = (coderd.deployment_id(), coderd.organization_id("default"));
    coderd.replace_deployment();
    assert_ne!((coderd.deployment_id(), coderd.organization_id("default")), (deployment, organization));
    assert_eq!(prove(&coderd, &plaintext).await.status, 401);
    assert_eq!(create(&coderd, &token, json!({ "name": "eu" })).await.status, 201);
}
