//! Watches that are behind: whatever a reflector shows of long ago, coderd is asked to make and to delete exactly the keys that
//! it is asked for when nothing is in the way.

use crate::proxied::{CONTROL_PLANES, DEPLOYMENTS, PROVISIONERS, Proxied, SECRETS};
use serde_json::{Value, json};
use std::time::Instant;
use support::daemons::Daemons;
use support::objects::is_ready;
use support::test_env::LIMIT;
use support::wait::{holds, until};

/// What a provisioner asks of coderd from the first key to the second when nothing is in the way.
async fn undisturbed(env: &Proxied) -> [(usize, usize); 2] {
    env.apply_provisioner("calm", &json!({})).await;
    env.provisioner_ready("calm").await;
    let made = env.asked("calm");
    rotate(env, "calm").await;
    [made, env.asked("calm")]
}

async fn rotate(env: &Proxied, name: &str) {
    env.apply_provisioner(name, &json!({ "tags": { "zone": "eu" } })).await;
    env.until_key(name, &format!("{name}-2")).await;
}

/// Whether it is ready with one key, the one of this number.
fn is_settled(object: &Value, number: u64) -> bool {
    let key = &object["status"]["key"];
    is_ready(object) && key["current"]["generation"] == number && key["retiring"].is_null()
}

/// The daemons of all pods; no key is deleted that one of them uses.
async fn daemons(env: &Proxied) -> Daemons {
    let daemons = env.daemons_here().await;
    let users = daemons.users();
    env.coderd().on_key_deletion(move |deletion| users.object_to(deletion));
    daemons
}

/// One that is ready with its first key.
async fn made(env: &Proxied) {
    env.apply_provisioner("stale", &json!({})).await;
    env.provisioner_ready("stale").await;
}

/// The Secret that was just written, the Deployment that was just applied: no watch tells of either.
#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_is_made_and_rotated_while_nothing_is_told_of_its_secret_and_deployment() {
    let env = Proxied::start("unseen", "2s").await;
    let _daemons = daemons(&env).await;
    let [first, rotated] = undisturbed(&env).await;
    env.hold_back(&[SECRETS, DEPLOYMENTS]);
    made(&env).await;
    assert_eq!(env.asked("stale"), first);
    rotate(&env, "stale").await;
    env.until_provisioner("stale", "settled", |object| is_settled(object, 2)).await;
    assert_eq!(env.asked("stale"), rotated);
    // What was held back is told at once, from the first event on.
    env.proxy().release();
    settle(&env, "released").await;
    assert_eq!(env.asked("stale"), rotated);
    env.coderd().assert_no_violations();
}

/// The reflector of provisioners still shows the one before the rotation, without the record of the second key.
#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_is_rotated_while_its_own_watch_shows_what_was() {
    let env = Proxied::start("behind", "1h").await;
    let _daemons = daemons(&env).await;
    let [_, rotated] = undisturbed(&env).await;
    made(&env).await;
    env.hold_back(&[PROVISIONERS]);
    env.apply_provisioner("stale", &json!({ "tags": { "zone": "eu" } })).await;
    for number in 0.. {
        // Nothing else tells of the change.
        env.poke(&format!("behind-{number}")).await;
        let object = env.get("coderprovisioner", &env.namespace, "stale").await.unwrap_or_default();
        if is_settled(&object, 2) {
            break;
        }
        assert!(number < 1000, "{}", object["status"]);
    }
    env.until_key("stale", "stale-2").await;
    assert_eq!(env.asked("stale"), rotated);
    env.proxy().release();
    settle(&env, "released").await;
    assert_eq!(env.asked("stale"), rotated);
    env.coderd().assert_no_violations();
}

/// Everything that was ever told is told again, old versions first.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_are_rewound_make_and_delete_nothing() {
    let env = Proxied::start("rewound", "1h").await;
    let _daemons = daemons(&env).await;
    made(&env).await;
    rotate(&env, "stale").await;
    env.until_provisioner("stale", "settled", |object| is_settled(object, 2)).await;
    settle(&env, "before").await;
    let asked = env.asked("stale");
    let kept = env.get("secret", &env.namespace, "stale-provisioner-key").await;
    for kind in [PROVISIONERS, SECRETS, DEPLOYMENTS, CONTROL_PLANES] {
        let rewound = Instant::now();
        assert!(env.proxy().rewind_watches(|url| url.split('?').next() == Some(kind)) > 0, "{kind}");
        until(&format!("the watch of {kind} to go on"), LIMIT, async || {
            let seen = env.proxy().seen();
            let mut again = seen.iter().filter(|seen| seen.at > rewound && seen.path.contains("watch="));
            holds(again.any(|seen| seen.path.starts_with(kind)), "not yet")
        })
        .await;
        settle(&env, &format!("after-{}", kind.rsplit('/').next().unwrap())).await;
        assert_eq!(env.asked("stale"), asked, "{kind}");
        assert_eq!(env.get("secret", &env.namespace, "stale-provisioner-key").await, kept, "{kind}");
    }
    env.coderd().assert_no_violations();
}

/// Waits until a reconcile that began after this word was asked for is over.
async fn settle(env: &Proxied, word: &str) {
    for word in [format!("{word}-1"), format!("{word}-2")] {
        let words = format!(
            "annotate coderprovisioner stale -n {} --overwrite coder.com/reconcile-at={word}",
            env.namespace
        );
        env.cluster.kubectl(&words).await.expect_ok();
        env.until_provisioner("stale", &format!("{word} to be handled"), |object| {
            object["status"]["lastHandledReconcileAt"] == word.as_str()
        })
        .await;
    }
}
