//! Pins how organisations are addressed and who may see them.
//! It never tests what lives inside one.

use serde_json::json;

use super::client::Ask;
use crate::coderd::{Coderd, NewUser, Role};

async fn found(coderd: &Coderd, word: &str, token: &str) -> Option<String> {
    let heard = Ask::get(&format!("/api/v2/organizations/{word}")).token(token).send(coderd).await;
    (heard.status == 200).then(|| heard.json()["name"].as_str().expect("a name").to_owned())
}

#[tokio::test]
async fn an_organisation_answers_to_default_zero_uuid_its_uuid_and_its_name_in_any_case() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[]);
    let id = coderd.organization_id("default").to_string();
    let words =
        ["default", "00000000-0000-0000-0000-000000000000", &id, &id.to_uppercase(), "coder", "CoDer"];
    for word in words {
        assert_eq!(found(&coderd, word, &token).await.as_deref(), Some("coder"), "{word}");
    }
    assert_eq!(found(&coderd, "Default", &token).await, None, "only the exact word means the default one");
}

#[tokio::test]
async fn a_fresh_database_has_one_default_organisation_named_coder() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let all = Ask::get("/api/v2/organizations").token(&token).send(&coderd).await.json();
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!((&all[0]["name"], &all[0]["is_default"]), (&json!("coder"), &json!(true)));
}

#[tokio::test]
async fn an_organisation_one_may_not_read_looks_like_one_that_does_not_exist() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    let token = coderd.token_for(&[]);
    let ask = |word: &str| Ask::get(&format!("/api/v2/organizations/{word}")).token(&token);
    let (hidden, missing) = (ask("platform").send(&coderd).await, ask("nowhere").send(&coderd).await);
    assert_eq!((hidden.status, hidden.json()), (404, missing.json()));
    let listed = Ask::get("/api/v2/organizations").token(&token).send(&coderd).await.json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn owners_and_template_admins_read_all_and_members_their_own() {
    let coderd = Coderd::start().await;
    coderd.add_organization("platform");
    for role in [Role::Owner, Role::TemplateAdmin, Role::OrganizationAdmin("platform".to_owned())] {
        let token = coderd.token_for(std::slice::from_ref(&role));
        assert_eq!(found(&coderd, "platform", &token).await.as_deref(), Some("platform"), "{role:?}");
    }
    coderd.add_user(NewUser::named("guest").member_of("platform"));
    let token = coderd.add_token("guest", super::SOON);
    assert_eq!(found(&coderd, "default", &token).await, None);
}

#[tokio::test]
async fn a_renamed_organisation_keeps_its_id_and_a_removed_one_is_gone() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let id = coderd.add_organization("platform").to_string();
    coderd.rename_organization("platform", "infra");
    assert_eq!(found(&coderd, &id, &token).await.as_deref(), Some("infra"));
    assert_eq!(found(&coderd, "platform", &token).await, None);
    coderd.remove_organization("infra");
    assert_eq!(found(&coderd, &id, &token).await, None);
}
