//! Pins what is written down of a call, and that no secret ever is.
//! It never asserts on calls it did not make.

use serde_json::json;

use super::SOON;
use super::client::Ask;
use crate::coderd::{Coderd, Credential, NewUser, Role};

const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";
const CREATE: &str = "POST /organizations/{org}/provisionerkeys";
const PROVE: &str = "GET /provisionerkeys/{key}";

#[tokio::test]
async fn a_call_is_recorded_with_route_path_caller_status_and_body() {
    let coderd = Coderd::start().await;
    coderd.add_user(NewUser::named("ops").with(Role::Owner));
    let token = coderd.add_token("ops", SOON);
    Ask::post(KEYS, &json!({ "name": "eu" })).token(&token).send(&coderd).await;
    Ask::get(KEYS).token(&token).send(&coderd).await;
    assert_eq!(coderd.count(CREATE), 1);
    assert_eq!(
        coderd.count("POST /api/v2/organizations/{org}/provisionerkeys"),
        1,
        "the prefix may be written"
    );
    let call = &coderd.calls_to(CREATE)[0];
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", KEYS));
    assert_eq!(call.credential, Credential::User("ops".to_owned()));
    assert_eq!((call.status(), call.body.clone()), (Some(201), Some(json!({ "name": "eu" }))));
    assert_eq!(coderd.calls().len(), 2);
    assert_eq!(coderd.mutating_calls().len(), 1);
    let counts = coderd.counts();
    assert_eq!((counts.len(), counts[CREATE]), (2, 1));
}

#[tokio::test]
async fn credentials_are_told_apart_but_never_kept() {
    let coderd = Coderd::start().await;
    coderd.add_user(NewUser::named("ada"));
    let token = coderd.add_token("ada", SOON);
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    Ask::get("/healthz").send(&coderd).await;
    Ask::get("/api/v2/users/me").token("0123456789-0123456789012345678901").send(&coderd).await;
    Ask::get("/api/v2/users/me").token(&token).send(&coderd).await;
    Ask::get("/api/v2/provisionerkeys/x").daemon_key(&plaintext).send(&coderd).await;
    Ask::get("/api/v2/provisionerkeys/x").daemon_key(&"y".repeat(43)).send(&coderd).await;
    let credentials: Vec<String> = coderd.calls().iter().map(|call| call.credential.to_string()).collect();
    let key = coderd.key_proven_by(&plaintext).expect("it works");
    let expected = [
        "nobody",
        "a refused token",
        "user ada",
        &format!("provisioner key {key}"),
        "an unknown provisioner key",
    ];
    assert_eq!(credentials, expected);
    let everything = format!("{:?} {coderd:?}", coderd.calls());
    assert!(!everything.contains(&plaintext) && !everything.contains(&token[11..]), "a secret was kept");
}

#[tokio::test]
async fn a_secret_in_the_path_is_replaced_in_the_record() {
    let coderd = Coderd::start().await;
    let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
    Ask::get(&format!("/api/v2/provisionerkeys/{plaintext}")).daemon_key(&plaintext).send(&coderd).await;
    assert_eq!(coderd.calls_to(PROVE)[0].path, "/api/v2/provisionerkeys/<redacted>");
    assert_eq!(coderd.take_violations()[0].problem, "a credential in the URL");
}

#[tokio::test]
async fn a_test_can_wait_for_calls() {
    let coderd = Coderd::start().await;
    let calling = async {
        Ask::get("/healthz").send(&coderd).await;
        Ask::get("/healthz").send(&coderd).await;
    };
    let (calls, ()) = tokio::join!(coderd.wait_for_calls("GET /healthz", 2, SOON), calling);
    assert_eq!(calls.len(), 2);
}

#[tokio::test]
#[should_panic(expected = "the double has no route")]
async fn asking_for_calls_to_a_misspelt_route_is_an_error_of_the_test() {
    Coderd::start().await.calls_to("POST /organizations/{organization}/provisionerkeys");
}
