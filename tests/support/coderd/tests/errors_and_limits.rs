//! Pins what every answer has in common: error bodies, the build header, the three builds, rate limits.
//! It never depends on real time: the clock of these doubles stands still.

use std::time::Duration;

use serde_json::json;

use super::client::Ask;
use crate::coderd::{Coderd, Entitlement, Role};

const KEYS: &str = "/api/v2/organizations/default/provisionerkeys";

#[tokio::test]
async fn healthz_is_ok_for_everybody_and_outside_the_rate_limit() {
    let coderd = Coderd::builder().frozen_clock().api_rate_limit(Some(1)).start().await;
    for _ in 0..3 {
        let heard = Ask::get("/healthz").send(&coderd).await;
        assert_eq!((heard.status, heard.text.as_str()), (200, "OK"));
        assert_eq!(heard.header("x-ratelimit-limit"), "");
    }
}

#[tokio::test]
async fn build_information_needs_no_token_and_every_reply_names_the_version() {
    let coderd = Coderd::builder().version("v2.30.4").start().await;
    let heard = Ask::get("/api/v2/buildinfo").send(&coderd).await;
    assert_eq!(heard.status, 200);
    assert_eq!(heard.json()["version"], "v2.30.4");
    assert_eq!(heard.json()["workspace_proxy"], false);
    assert!(heard.json()["deployment_id"].is_string());
    assert_eq!(heard.header("x-coder-build-version"), "v2.30.4");
    coderd.set_version("v2.36.1");
    for path in ["/healthz", "/api/v2/users/me", "/api/v2/entitlements"] {
        assert_eq!(Ask::get(path).send(&coderd).await.header("x-coder-build-version"), "v2.36.1", "{path}");
    }
}

#[tokio::test]
async fn errors_are_json_with_a_message_and_nothing_empty() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[]);
    let heard = Ask::get("/api/v2/organizations/nowhere").token(&token).send(&coderd).await;
    assert_eq!(heard.header("content-type"), "application/json; charset=utf-8");
    let text = "Resource not found or you do not have access to this resource";
    assert_eq!(heard.json(), json!({ "message": text }));
}

#[tokio::test]
async fn an_agpl_build_has_no_premium_routes() {
    let coderd = Coderd::builder().agpl().start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let asks = [
        Ask::get("/api/v2/entitlements"),
        Ask::get(KEYS).token(&token),
        Ask::get("/api/v2/provisionerkeys/key"),
    ];
    for ask in asks {
        let heard = ask.send(&coderd).await;
        assert_eq!((heard.status, heard.message().as_str()), (404, "Route not found."));
    }
    assert_eq!(
        Ask::get(KEYS).send(&coderd).await.status,
        401,
        "below an organisation the caller comes first"
    );
    let daemons = Ask::get("/api/v2/organizations/default/provisionerdaemons").token(&token);
    assert_eq!(daemons.send(&coderd).await.status, 200);
}

#[tokio::test]
async fn an_unlicensed_build_refuses_premium_features_by_name() {
    let coderd = Coderd::builder().unlicensed().start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let refused = Ask::get(KEYS).token(&token).send(&coderd).await;
    assert_eq!(refused.status, 403);
    assert_eq!(refused.message(), "External Provisioner Daemons is a Premium feature. Contact sales!");
    let entitlements = Ask::get("/api/v2/entitlements").send(&coderd).await.json();
    assert_eq!(entitlements["has_license"], false);
    let feature = json!({ "entitlement": "not_entitled", "enabled": false });
    assert_eq!(entitlements["features"]["external_provisioner_daemons"], feature);
    coderd.add_license();
    assert_eq!(Ask::get(KEYS).token(&token).send(&coderd).await.status, 200);
}

#[tokio::test]
async fn a_grace_period_still_works_and_a_switched_off_feature_does_not() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    coderd.set_feature("external_provisioner_daemons", Entitlement::GracePeriod, true);
    assert_eq!(Ask::get(KEYS).token(&token).send(&coderd).await.status, 200);
    coderd.set_feature("external_provisioner_daemons", Entitlement::Entitled, false);
    assert_eq!(Ask::get(KEYS).token(&token).send(&coderd).await.status, 403);
    coderd.remove_license();
    coderd.set_entitlement_warnings(&["expired"]);
    let entitlements = Ask::get("/api/v2/entitlements").send(&coderd).await.json();
    assert_eq!(entitlements["warnings"], json!(["expired"]));
}

#[tokio::test]
async fn the_order_of_refusals_is_token_then_organisation_then_license() {
    let coderd = Coderd::builder().unlicensed().start().await;
    let token = coderd.token_for(&[Role::Owner]);
    assert_eq!(Ask::get("/api/v2/organizations/x/provisionerkeys").send(&coderd).await.status, 401);
    let ask = Ask::get("/api/v2/organizations/x/provisionerkeys").token(&token);
    assert_eq!(ask.send(&coderd).await.status, 404);
    assert_eq!(Ask::get(KEYS).token(&token).send(&coderd).await.status, 403);
}

#[tokio::test]
async fn replies_count_down_the_limit_and_then_answer_429() {
    let coderd = Coderd::builder().frozen_clock().api_rate_limit(Some(2)).start().await;
    let token = coderd.token_for(&[]);
    let me = || Ask::get("/api/v2/users/me").token(&token).send(&coderd);
    for left in ["1", "0"] {
        let heard = me().await;
        assert_eq!((heard.header("x-ratelimit-limit"), heard.header("x-ratelimit-remaining")), ("2", left));
        assert!(heard.header("x-ratelimit-reset").parse::<u64>().is_ok());
    }
    let refused = me().await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "60"));
    assert_eq!(refused.message(), "You've been rate limited for sending more than 2 requests in 1m0s.");
    coderd.clock().advance(Duration::from_secs(120));
    assert_eq!(me().await.status, 200);
}

#[tokio::test]
async fn the_limit_counts_per_user_and_cleaned_path() {
    let coderd = Coderd::builder().frozen_clock().api_rate_limit(Some(1)).start().await;
    let (one, other) = (coderd.token_for(&[]), coderd.token_for(&[]));
    let status = async |path: &str, token: &str| Ask::get(path).token(token).send(&coderd).await.status;
    assert_eq!(status("/api/v2/users/me", &one).await, 200);
    assert_eq!(status("/api/v2/users/me", &one).await, 429);
    assert_eq!(status("/api/v2/users/me", &other).await, 200);
    assert_eq!(status("/api/v2/organizations", &one).await, 200);
    assert_eq!(status("/api/v2//users/me", &one).await, 429);
    assert_eq!(coderd.take_violations().len(), 1, "the doubled slash is no route of ours");
}

#[tokio::test]
async fn only_owners_may_bypass_the_limit_and_others_get_428_in_plain_text() {
    let coderd = Coderd::builder().frozen_clock().api_rate_limit(Some(1)).start().await;
    let (owner, member) = (coderd.token_for(&[Role::Owner]), coderd.token_for(&[]));
    let me =
        |token: &str| Ask::get("/api/v2/users/me").token(token).header("X-Coder-Bypass-Ratelimit", "true");
    for _ in 0..3 {
        assert_eq!(me(&owner).send(&coderd).await.status, 200);
    }
    let refused = me(&member).send(&coderd).await;
    assert_eq!((refused.status, refused.header("content-type")), (428, "text/plain; charset=utf-8"));
    assert_eq!(refused.text, "\"X-Coder-Bypass-Ratelimit\" provided but user is not owner\n");
}

#[tokio::test]
async fn a_double_without_limits_sends_no_limit_headers() {
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let heard = Ask::get("/api/v2/buildinfo").send(&coderd).await;
    assert_eq!(heard.header("x-ratelimit-limit"), "");
    coderd.set_api_rate_limit(Some(5));
    assert_eq!(Ask::get("/api/v2/buildinfo").send(&coderd).await.header("x-ratelimit-limit"), "5");
}
