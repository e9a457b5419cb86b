//! Pins licenses: who may see and add them, the 500 for a duplicate, and what an addition does to the entitlements.
//! It never checks signatures, which only Coder can make.

use serde_json::json;

use super::client::Ask;
use crate::coderd::{Coderd, Role, license_with};

const LICENSES: &str = "/api/v2/licenses";
const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

fn upload(jwt: &str, token: &str) -> Ask {
    Ask::post(LICENSES, &json!({ "license": jwt })).token(token)
}

#[tokio::test]
async fn an_owner_adds_lists_and_deletes_a_license_and_entitlements_follow() {
    let coderd = Coderd::builder().unlicensed().start().await;
    let owner = coderd.token_for(&[Role::Owner]);
    let jwt = license_with(&json!({ "jti": ID, "exp": 4_000_000_000_i64, "trial": true }));
    let added = upload(&jwt, &owner).send(&coderd).await;
    assert_eq!((added.status, &added.json()["uuid"]), (201, &json!(ID)));
    let listed = Ask::get(LICENSES).token(&owner).send(&coderd).await.json();
    assert_eq!((&listed[0]["claims"]["jti"], listed[0].get("jwt")), (&json!(ID), None));
    let entitlements = Ask::get("/api/v2/entitlements").send(&coderd).await.json();
    assert_eq!((&entitlements["has_license"], &entitlements["trial"]), (&json!(true), &json!(true)));

    let path = format!("{LICENSES}/{}", listed[0]["id"]);
    assert_eq!(Ask::delete(&path).token(&owner).send(&coderd).await.status, 200);
    let again = Ask::delete(&path).token(&owner).send(&coderd).await;
    assert_eq!((again.status, again.message().as_str()), (404, "Unknown license ID"));
    let entitlements = Ask::get("/api/v2/entitlements").send(&coderd).await.json();
    assert_eq!(entitlements["has_license"], json!(false));
}

#[tokio::test]
async fn the_same_text_twice_is_a_500_with_the_unique_key() {
    let coderd = Coderd::start().await;
    let owner = coderd.token_for(&[Role::Owner]);
    let jwt = license_with(&json!({ "exp": 4_000_000_000_i64 }));
    assert_eq!(upload(&jwt, &owner).send(&coderd).await.status, 201);
    let again = upload(&jwt, &owner).send(&coderd).await;
    assert_eq!((again.status, again.message().as_str()), (500, "Unable to add license to database"));
    assert!(again.json()["detail"].as_str().expect("a detail").contains("licenses_jwt_key"));
}

#[tokio::test]
async fn others_see_none_and_may_not_add() {
    let coderd = Coderd::start().await;
    let (owner, other) = (coderd.token_for(&[Role::Owner]), coderd.token_for(&[Role::TemplateAdmin]));
    let jwt = license_with(&json!({ "exp": 4_000_000_000_i64 }));
    assert_eq!(upload(&jwt, &other).send(&coderd).await.status, 403);
    assert_eq!(upload(&jwt, &owner).send(&coderd).await.status, 201);
    assert_eq!(Ask::get(LICENSES).token(&other).send(&coderd).await.json(), json!([]));
    assert_eq!(Ask::get(LICENSES).send(&coderd).await.status, 401);
    let bodies = coderd.calls().into_iter().filter_map(|call| call.body);
    assert!(bodies.into_iter().all(|body| !body.to_string().contains(&jwt)), "the text is recorded nowhere");
}

#[tokio::test]
async fn broken_and_expired_licenses_are_400() {
    let coderd = Coderd::start().await;
    let owner = coderd.token_for(&[Role::Owner]);
    for jwt in ["nonsense", "a.!.c", &license_with(&json!({ "exp": 1 })), &license_with(&json!({}))] {
        let refused = upload(jwt, &owner).send(&coderd).await;
        assert_eq!((refused.status, refused.message().as_str()), (400, "Invalid license"), "{jwt}");
    }
}

#[tokio::test]
async fn an_agpl_build_has_no_licenses() {
    let coderd = Coderd::builder().agpl().start().await;
    let owner = coderd.token_for(&[Role::Owner]);
    let heard = Ask::get(LICENSES).token(&owner).send(&coderd).await;
    assert_eq!((heard.status, heard.message().as_str()), (404, "Route not found."));
}

#[tokio::test]
async fn a_user_deletes_its_own_token_only() {
    let coderd = Coderd::start().await;
    let (one, other) = (coderd.token_for(&[]), coderd.token_for(&[]));
    let path = |token: &str| format!("/api/v2/users/me/keys/{}", &token[..10]);
    assert_eq!(Ask::delete(&path(&other)).token(&one).send(&coderd).await.status, 404);
    assert_eq!(Ask::delete(&path(&one)).token(&one).send(&coderd).await.status, 204);
    assert_eq!(Ask::get("/api/v2/users/me").token(&one).send(&coderd).await.status, 401);
}
