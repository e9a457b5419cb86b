//! Pins what counts as a violation, and that a pending one fails the test that sent it.
//! It never weakens an answer: the double answers as coderd would all the same.

use serde_json::json;

use super::client::Ask;
use crate::coderd::{Coderd, Role};

const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";

async fn problems(coderd: &Coderd, ask: Ask) -> Vec<String> {
    ask.send(coderd).await;
    coderd.take_violations().into_iter().map(|violation| violation.problem).collect()
}

#[tokio::test]
async fn what_our_client_sends_is_no_violation() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let ask = Ask::post(KEYS, &json!({ "name": "eu", "tags": { "any": "thing" } }))
        .token(&token)
        .header("User-Agent", "coder-k8s/0.1.0")
        .header("Accept", "application/json")
        .header("Accept-Encoding", "identity");
    assert_eq!(problems(&coderd, ask).await, [""; 0]);
    let empty_tags = Ask::post(KEYS, &json!({ "name": "us", "tags": {} })).token(&token);
    assert_eq!(problems(&coderd, empty_tags).await, [""; 0]);
    coderd.assert_no_violations();
}

#[tokio::test]
async fn unknown_routes_and_methods_are_violations() {
    let coderd = Coderd::start().await;
    let unknown = Ask::get("/api/v2/nothing").send(&coderd).await;
    assert_eq!((unknown.status, unknown.message().as_str()), (404, "Route not found."));
    assert_eq!(Ask::new("PUT", "/api/v2/buildinfo").send(&coderd).await.status, 405);
    let found: Vec<String> = coderd.take_violations().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["call 0 (GET /api/v2/nothing): unknown route", "call 1 (PUT /api/v2/buildinfo): unknown route"]
    );
}

#[tokio::test]
async fn cookies_bearer_tokens_and_unknown_headers_are_violations() {
    let coderd = Coderd::start().await;
    for header in ["Cookie", "Authorization", "X-Surprise"] {
        let ask = Ask::get("/api/v2/buildinfo").header(header, "value");
        let expected = format!("unexpected header {:?}", header.to_lowercase());
        assert_eq!(problems(&coderd, ask).await, [expected]);
    }
}

#[tokio::test]
async fn credentials_belong_only_to_the_routes_that_want_them() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    let on_health = Ask::get("/healthz").token(&token);
    assert_eq!(problems(&coderd, on_health).await, ["unexpected header \"coder-session-token\""]);
    let both = Ask::get("/api/v2/provisionerkeys/x").daemon_key(&plaintext).token(&token);
    assert_eq!(problems(&coderd, both).await, ["unexpected header \"coder-session-token\""]);
    let key_elsewhere = Ask::get(KEYS).token(&token).daemon_key(&plaintext);
    assert_eq!(
        problems(&coderd, key_elsewhere).await,
        ["unexpected header \"coder-provisioner-daemon-key\""]
    );
}

#[tokio::test]
async fn a_credential_in_the_query_is_a_violation_and_opens_nothing() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let heard = Ask::get(&format!("/api/v2/users/me?coder_session_token={token}")).send(&coderd).await;
    assert_eq!(heard.status, 401);
    assert!(!coderd.calls()[0].path.contains(&token), "the record keeps no secret");
    let found = coderd.take_violations();
    assert_eq!(found[0].problem, "a credential in query parameter \"coder_session_token\"");
    assert!(!found[0].request.contains(&token));
}

#[tokio::test]
async fn unknown_body_fields_and_bodies_where_none_belongs_are_violations() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let ask = Ask::post(KEYS, &json!({ "name": "eu", "organization": "x" })).token(&token);
    assert_eq!(problems(&coderd, ask).await, ["unknown body field \"organization\""]);
    let ask = Ask::get("/healthz").body("{}");
    assert_eq!(problems(&coderd, ask).await, ["unexpected body"]);
    let ask = Ask::new("POST", KEYS).token(&token).body("{\"name\":\"us\"}");
    assert_eq!(problems(&coderd, ask).await, ["content type None for a JSON body"]);
}

#[tokio::test]
async fn a_query_parameter_coderd_would_ignore_is_a_violation() {
    let coderd = Coderd::start().await;
    let ask = Ask::get("/api/v2/buildinfo?verbose=1");
    assert_eq!(problems(&coderd, ask).await, ["unknown query parameter \"verbose\""]);
}

#[tokio::test]
#[should_panic(expected = "call 0 (GET /api/v2/nothing): unknown route")]
async fn a_pending_violation_fails_the_test_when_the_double_is_dropped() {
    let coderd = Coderd::start().await;
    Ask::get("/api/v2/nothing").send(&coderd).await;
}

#[tokio::test]
#[should_panic(expected = "coderd was sent what it must not be sent")]
async fn a_test_can_ask_for_violations_before_the_end() {
    let coderd = Coderd::start().await;
    Ask::get("/api/v2/nothing").send(&coderd).await;
    coderd.assert_no_violations();
}
