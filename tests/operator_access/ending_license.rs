//! A license that ends, one that cannot be uploaded because nothing runs, and what is said of entitlements nobody has
//! seen yet. Each test has a coderd of its own.

use crate::env::OperatorAccessEnv;
use serde_json::{Value, json};
use support::coderd::{Role, license_with};
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

const DAY: i64 = 86_400;

fn in_days(days: i64) -> i64 {
    jiff::Timestamp::now().as_second() + days * DAY
}

fn license(number: u8, ends: i64) -> String {
    license_with(&json!({ "jti": format!("6f1f6a3e-0000-4000-8000-0000000001{number:02}"), "exp": ends }))
}

fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_license_that_ends_is_told_in_time_and_an_ended_one_is_not_applied() {
    let env = OperatorAccessEnv::shared().await;
    let alone = env.alone("ending");
    let ns = &alone.namespace;
    env.apply_secret(ns, "mine", &json!({ "token": alone.coderd.token_for(&[Role::Owner]) })).await;
    let spec = json!({ "licenseSecretRef": { "name": "license" },
        "operatorAccess": { "tokenSecretRef": { "name": "mine" } } });
    env.apply_control_plane(ns, "coder", &spec).await;
    let ends = [in_days(200), in_days(29), in_days(6), in_days(-1)];
    for (number, (end, reason)) in
        ends.iter().zip(["Applied", "ExpiresWithin30Days", "ExpiresWithin7Days", "Expired"]).enumerate()
    {
        let jwt = license(u8::try_from(number).unwrap(), *end);
        env.apply_secret(ns, "license", &json!({ "license": jwt })).await;
        let plane = env.until_reason(ns, "coder", "LicenseApplied", reason).await;
        assert_eq!(plane["status"]["licenseExpiresAt"], date(*end));
        let ended = reason == "Expired";
        assert_eq!(condition(&plane, "LicenseApplied")["status"] == "True", !ended, "{reason}");
        assert_eq!(condition(&plane, "Stalled")["status"] == "True", ended, "{reason}");
        // Nothing new is told of what was told.
        env.reconcile(ns, "coder", &format!("again-{number}")).await;
    }
    until("each to be told once", LIMIT, async || {
        let told = env.events_of(ns, "LicenseApplied").await;
        let of = |reason: &str| told.iter().filter(|one| one.contains(reason)).cloned().collect::<Vec<_>>();
        let expected = ["ExpiresWithin30Days", "ExpiresWithin7Days", "Expired x"]
            .map(|reason| of(reason) == [format!("Warning {} x1", reason.trim_end_matches(" x"))]);
        holds(expected == [true; 3], told.join(", "))
    })
    .await;
    assert_eq!(alone.coderd.licenses().len(), 3, "an ended one is not sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_replicas_the_license_is_spoken_of_and_what_is_unknown_is_called_so() {
    let env = OperatorAccessEnv::shared().await;
    let alone = env.alone("stopped");
    let ns = &alone.namespace;
    env.apply_secret(ns, "mine", &json!({ "token": alone.coderd.token_for(&[Role::Owner]) })).await;
    env.apply_secret(ns, "license", &json!({ "license": license(50, in_days(200)) })).await;
    let spec = |replicas: i32| {
        json!({ "replicas": replicas, "licenseSecretRef": { "name": "license" },
            "operatorAccess": { "tokenSecretRef": { "name": "mine" } } })
    };
    let is = |plane: &Value, about: &str, status: &str, words: &str| {
        let one = condition(plane, about);
        one["status"] == status && one["message"].as_str().is_some_and(|message| message.contains(words))
    };
    env.apply_control_plane(ns, "coder", &spec(0)).await;
    let plane = env
        .until(ns, "coder", "speaking of the license", |plane| {
            is(plane, "LicenseApplied", "False", "no replicas") && is(plane, "Ready", "True", "license")
        })
        .await;
    let status = &plane["status"];
    assert_eq!(condition(&plane, "Ready")["reason"], "ScaledToZero");
    assert_eq!(
        (&status["licenseTier"], &status["externalProvisionerDaemonsEntitlement"]),
        (&json!("unknown"), &json!("unknown"))
    );
    assert!(status["entitlementsLastChecked"].is_null(), "nobody has looked");
    env.apply_control_plane(ns, "coder", &spec(1)).await;
    let plane = env.until_reason(ns, "coder", "LicenseApplied", "Applied").await;
    assert_eq!(plane["status"]["licenseTier"], "premium");
}
