//! A coderd that answers oddly: that knows none of the keys it made, that fails once, that shows no keys any more.

use crate::one_double::{BINARY, OneDouble};
use serde_json::json;
use support::coderd::{Fault, Occurrence};
use support::objects::{condition, is_ready};
use support::test_env::TestEnv;

const LIST: &str = "GET /organizations/{org}/provisionerkeys";
const MAKE: &str = "POST /organizations/{org}/provisionerkeys";

/// Requests a reconcile and waits until it is done.
async fn reconcile(env: &OneDouble, ns: &str, request: &str) {
    let words =
        format!("annotate coderprovisioner/builders -n {ns} --overwrite coder.com/reconcile-at={request}");
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_provisioner(ns, "builders", &format!("the reconcile {request}"), |object| {
        object["status"]["lastHandledReconcileAt"] == request
    })
    .await;
}

// One test: faults are those of the whole double.
#[tokio::test(flavor = "multi_thread")]
async fn odd_answers_of_coderd_cost_few_calls_no_readiness_and_no_key() {
    let builder = TestEnv::builder(BINARY).nodes(2).flag("--verify-interval=10s");
    let env = OneDouble { env: builder.start().await };
    let ns = env.control_plane("odd").await;

    // It makes keys and does not know them: however often something wakes the reconcile, few are made.
    let unknown = json!({ "message": "provisioner daemon key invalid" });
    let rejects =
        env.coderd().inject("GET /provisionerkeys/{key}", Occurrence::Every, Fault::answer(401, &unknown));
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    env.until_provisioner_reason(&ns, "builders", "ProvisionerKeyReady", "ProvisionerKeyFailed").await;
    for number in 0..10 {
        reconcile(&env, &ns, &format!("rejected-{number}")).await;
    }
    let made = env.coderd().calls_to(MAKE).len();
    assert!((2..=10).contains(&made), "{made} keys were made");
    assert!(env.keys(&ns).len() <= 1, "{:?}", env.keys(&ns));
    rejects.withdraw();
    let daemons = env.daemons(&ns).await;
    // The pause is over sooner or later; nobody here waits for the timer.
    for number in 0..60 {
        reconcile(&env, &ns, &format!("again-{number}")).await;
        let object = env.get("coderprovisioner", &ns, "builders").await.unwrap();
        if condition(&object, "ProvisionerKeyReady")["status"] == "True" {
            break;
        }
    }
    env.until_provisioner(&ns, "builders", "ready", is_ready).await;

    // One question that fails makes nothing unready.
    let warnings = async || {
        let events = env.events_about(&ns, "builders").await;
        events.iter().filter(|event| event.0 == "Warning").map(|event| event.3).sum::<u64>()
    };
    let before = warnings().await;
    let fails = env.coderd().inject(LIST, Occurrence::Next, Fault::status(500));
    reconcile(&env, &ns, "failed-once").await;
    fails.withdraw();
    let after = env.get("coderprovisioner", &ns, "builders").await.unwrap();
    assert!(is_ready(&after), "{after}");
    assert_eq!(warnings().await, before, "nobody is told of one answer that did not come");

    // Its user may not see keys any more: an empty list is no proof that a key is gone.
    let (none, no) = (json!([]), json!({ "read": false }));
    let hides = env.coderd().inject(LIST, Occurrence::Every, Fault::answer(200, &none));
    let denies = env.coderd().inject("POST /authcheck", Occurrence::Every, Fault::answer(200, &no));
    env.cluster.kubectl(&format!("delete coderprovisioner builders -n {ns} --wait=false")).await.expect_ok();
    env.until_provisioner(&ns, "builders", "held", |object| {
        condition(object, "CleanedUp")["reason"] == "CleanupFailed"
    })
    .await;
    assert_eq!(env.keys(&ns).len(), 1, "it is still there");
    hides.withdraw();
    denies.withdraw();
    env.until_gone("coderprovisioner", &ns, "builders").await;
    assert_eq!(env.keys(&ns), Vec::<String>::new());
    env.coderd().assert_no_violations();
    drop(daemons);
}
