//! A coderd that answers oddly: that knows none of the keys it made, that fails once, that shows no keys any more.

use crate::one_double::{BINARY, OneDouble, reconcile};
use serde_json::json;
use std::time::Duration;
use support::coderd::{Fault, Occurrence};
use support::objects::{condition, is_ready};
use support::test_env::TestEnv;
use support::wait::{holds, until};

const LIST: &str = "GET /organizations/{org}/provisionerkeys";
const MAKE: &str = "POST /organizations/{org}/provisionerkeys";

/// One that lists a key no more, or does not say who it is, for a moment.
async fn loses_nothing(env: &OneDouble, ns: &str) {
    // A key that is not in the list once, though it was there a moment ago, and coderd hides none: it is looked again.
    let keys = env.keys(ns);
    let gone = env.coderd().inject(LIST, Occurrence::Next, Fault::answer(200, &json!([])));
    reconcile(env, ns, "gone-once").await;
    gone.withdraw();
    let after = env.get("coderprovisioner", ns, "builders").await.unwrap();
    assert!(is_ready(&after), "{after}");

    // It does not say which database it has: that is not another one.
    let anonymous = json!({ "version": "v2.36.1+0a1b2c3", "external_url": "https://github.com/coder/coder" });
    let forgets = env.coderd().inject("GET /buildinfo", Occurrence::Every, Fault::answer(200, &anonymous));
    env.until_provisioner_reason(ns, "builders", "ControlPlaneReady", "ControlPlaneUnavailable").await;
    forgets.withdraw();
    env.until_provisioner(ns, "builders", "ready", is_ready).await;
    assert_eq!(env.keys(ns), keys, "nothing was made and nothing was lost");
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

    loses_nothing(&env, &ns).await;

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

#[tokio::test(flavor = "multi_thread")]
async fn a_coderd_that_is_slow_makes_nobody_unready_and_keys_are_still_rotated() {
    let builder = TestEnv::builder(BINARY).nodes(2).flag("--verify-interval=5s");
    let env = OneDouble { env: builder.start().await };
    let ns = env.control_plane("slow").await;
    env.apply_provisioner(&ns, "builders", &json!({ "replicas": 0 })).await;
    env.provisioner_ready(&ns, "builders").await;
    // Nine calls of a look take longer than a reconcile had for all of them.
    let slow = env.coderd().inject("*", Occurrence::Every, Fault::delay(Duration::from_secs(5)));
    let before = env.coderd().calls_to(LIST).len();
    until("two more looks", Duration::from_secs(180), async || {
        let object = env.get("coderprovisioner", &ns, "builders").await.unwrap();
        assert!(is_ready(&object), "{object}");
        let looks = env.coderd().calls_to(LIST).len() - before;
        holds(looks >= 2, format!("{looks}"))
    })
    .await;
    env.apply_provisioner(&ns, "builders", &json!({ "replicas": 0, "tags": { "zone": "eu" } })).await;
    until("the next key", Duration::from_secs(180), async || {
        let keys = env.keys(&ns);
        holds(keys.contains(&format!("{ns}-2")), format!("{keys:?}"))
    })
    .await;
    slow.withdraw();
    env.until_keys(&ns, &["-2"]).await;
    env.provisioner_ready(&ns, "builders").await;
}
