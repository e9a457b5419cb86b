//! Pins who may call: token format, expiry, revocation, standing.
//! It never tests what an area does with the caller.

use std::time::Duration;

use serde_json::json;

use super::client::{Ask, Heard};
use crate::coderd::{Coderd, NewUser, Role, UserStatus};

const SIGNED_OUT: &str = "You are signed out or your session has expired. Please sign in again to continue.";

async fn me(coderd: &Coderd, token: &str) -> Heard {
    Ask::get("/api/v2/users/me").token(token).send(coderd).await
}

#[tokio::test]
async fn a_token_is_ten_characters_a_dash_and_twenty_two() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[]);
    let (id, secret) = token.split_once('-').expect("one dash");
    assert_eq!((id.len(), secret.len()), (10, 22));
    assert_eq!(me(&coderd, &token).await.status, 200);
}

#[tokio::test]
async fn users_me_shows_the_caller_with_site_roles_only() {
    let coderd = Coderd::start().await;
    let id = coderd.add_user(
        NewUser::named("ops").with(Role::TemplateAdmin).with(Role::OrganizationAdmin("default".to_owned())),
    );
    let token = coderd.add_token("ops", Duration::from_secs(60));
    let user = me(&coderd, &token).await.json();
    assert_eq!(user["id"], json!(id.to_string()));
    assert_eq!(user["username"], "ops");
    assert_eq!(user["status"], "active");
    assert_eq!(user["roles"], json!([{ "name": "template-admin", "display_name": "Template Admin" }]));
    assert_eq!(user["organization_ids"], json!([coderd.organization_id("default").to_string()]));
}

#[tokio::test]
async fn without_a_token_the_answer_is_401_with_a_challenge() {
    let coderd = Coderd::start().await;
    let heard = Ask::get("/api/v2/users/me").send(&coderd).await;
    assert_eq!(heard.status, 401);
    assert_eq!(heard.message(), SIGNED_OUT);
    assert_eq!(heard.json()["detail"], "Cookie \"coder_session_token\" or query parameter must be provided.");
    let challenge = heard.header("www-authenticate");
    assert!(challenge.starts_with("Bearer realm=\"coder\", error=\"invalid_token\""), "{challenge}");
    assert!(
        challenge.contains(&format!("{}/.well-known/oauth-protected-resource", coderd.url())),
        "{challenge}"
    );
}

#[tokio::test]
async fn malformed_tokens_are_401_with_the_reason() {
    let coderd = Coderd::start().await;
    let cases = [
        ("nodash", "incorrect amount of API key parts, expected 2 got 1"),
        ("a-b-c", "incorrect amount of API key parts, expected 2 got 3"),
        ("short-abc", "invalid API key ID length, expected 10 got 5"),
        ("0123456789-abc", "invalid API key secret length, expected 22 got 3"),
    ];
    for (token, reason) in cases {
        let heard = me(&coderd, token).await;
        assert_eq!(heard.status, 401);
        assert_eq!(heard.json()["detail"], format!("Invalid API key format: {reason}"));
    }
}

#[tokio::test]
async fn unknown_and_forged_tokens_are_401() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let forged = format!("{}-{}", &token[..10], "x".repeat(22));
    assert_eq!(me(&coderd, &forged).await.json()["detail"], "API key secret is invalid.");
    coderd.revoke_token(&token);
    assert_eq!(me(&coderd, &token).await.json()["detail"], "API key is invalid.");
}

#[tokio::test]
async fn a_token_ends_with_its_lifetime() {
    let coderd = Coderd::builder().frozen_clock().start().await;
    coderd.add_user(NewUser::named("ops"));
    let token = coderd.add_token("ops", Duration::from_secs(60));
    coderd.clock().advance(Duration::from_secs(60));
    assert_eq!(me(&coderd, &token).await.status, 200);
    coderd.clock().advance(Duration::from_secs(1));
    let heard = me(&coderd, &token).await;
    assert_eq!(heard.status, 401);
    assert!(heard.json()["detail"].as_str().expect("a detail").starts_with("API key expired at \"20"));
    assert!(heard.header("www-authenticate").contains("The access token has expired"));
}

#[tokio::test]
async fn an_expired_token_is_refused_at_once() {
    let coderd = Coderd::builder().frozen_clock().start().await;
    let token = coderd.token_for(&[]);
    coderd.expire_token(&token);
    assert_eq!(me(&coderd, &token).await.status, 401);
}

#[tokio::test]
async fn a_suspended_user_is_401_and_a_dormant_one_wakes_by_calling() {
    let coderd = Coderd::start().await;
    coderd.add_user(NewUser::named("ops").status(UserStatus::Dormant));
    let token = coderd.add_token("ops", Duration::from_secs(60));
    assert_eq!(me(&coderd, &token).await.json()["status"], "active");
    coderd.set_user_status("ops", UserStatus::Suspended);
    let heard = me(&coderd, &token).await;
    assert_eq!(heard.status, 401);
    let text = "User is not active (status = \"suspended\"). Contact an admin to reactivate your account.";
    assert_eq!(heard.message(), text);
}
