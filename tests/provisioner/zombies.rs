//! Pods that are ready while coderd does not hear of their daemons: told, and deleted one a minute.

use crate::one_double::OneDouble;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::objects::{condition, text};

/// The pods of daemons in a namespace that are not on their way out, in the order of their names.
async fn pods(env: &OneDouble, namespace: &str) -> Vec<String> {
    let list = env.get("pods", namespace, "").await.unwrap_or_default();
    let pods = list["items"].as_array().cloned().unwrap_or_default();
    let stays = |pod: &&Value| {
        let is_daemon = text(pod, "/metadata/labels/app.kubernetes.io~1name") == "coder-provisioner";
        is_daemon && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let mut names: Vec<String> =
        pods.iter().filter(stays).map(|pod| text(pod, "/metadata/name").to_owned()).collect();
    names.sort();
    names
}

/// Makes a pod one that has been ready for ten minutes.
async fn age(env: &OneDouble, namespace: &str, pod: &str) {
    let object = env.get("pod", namespace, pod).await.unwrap();
    let mut conditions = object["status"]["conditions"].clone();
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(10);
    let then = jiff::Timestamp::from_second(then.as_second()).unwrap();
    for one in conditions.as_array_mut().unwrap().iter_mut().filter(|one| one["type"] == "Ready") {
        one["lastTransitionTime"] = json!(then.to_string());
    }
    let patch = json!({ "status": { "conditions": conditions } }).to_string();
    let words =
        format!("patch pod {pod} -n {namespace} --subresource=status --type=merge --patch-file=/dev/stdin");
    env.cluster.kubectl_with_input(&words, &patch).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_coderd_does_not_hear_of_is_told_and_deleted_one_a_minute() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("zombies").await;
    env.apply_provisioner(&ns, "builders", &json!({ "replicas": 3 })).await;
    let _daemons = env.daemons(&ns).await;
    env.until_provisioner(&ns, "builders", "three daemons", |object| object["status"]["daemons"] == 3).await;
    let first = pods(&env, &ns).await;
    assert_eq!(first.len(), 3);

    // Two of them are lost. As long as they are ready for less than coderd lists a daemon, nothing is concluded.
    let (heard, lost) = first.split_first().unwrap();
    for pod in lost {
        env.coderd().disconnect_daemon(pod);
        env.coderd().forget_daemon(pod);
    }
    env.until_provisioner(&ns, "builders", "one daemon", |object| object["status"]["daemons"] == 1).await;
    assert_eq!(pods(&env, &ns).await, first);
    // No pod goes before this, and so no second one within a minute of it: that is asserted as long as it lasts.
    let began = Instant::now();
    let is_within_the_minute = || began.elapsed() < Duration::from_secs(60);
    for pod in &first {
        age(&env, &ns, pod).await;
    }
    env.until_event(&ns, "builders", "Daemon", "PodReplaced").await;
    let told = env
        .until_provisioner(&ns, "builders", "the other one told, or replaced as well", |object| {
            let message = text(condition(object, "Ready"), "/message");
            let is_told = message.contains("coderd has not heard of its daemon");
            is_told || object["status"]["daemons"] == 3
        })
        .await;
    let left = pods(&env, &ns).await;
    assert!(left.contains(heard), "who is heard of stays");
    let zombie = lost.iter().find(|pod| left.contains(pod));
    assert!(zombie.is_some() || !is_within_the_minute(), "one a minute, not both at once");
    if let Some(zombie) = zombie {
        let message = text(condition(&told, "Ready"), "/message");
        assert!(message.contains(zombie.as_str()) && !message.contains(heard.as_str()), "{message}");
        // Heard of again within its minute, it stays.
        let plaintext = env.plaintext(&ns, "builders-provisioner-key", "key").await.unwrap();
        env.coderd().connect_daemon(&plaintext, zombie).unwrap();
        let stays = is_within_the_minute();
        env.until_provisioner(&ns, "builders", "three daemons again", |object| {
            let message = &condition(object, "Ready")["message"];
            object["status"]["daemons"] == 3 && message == "coderd sees 3 daemons with the key"
        })
        .await;
        let now = pods(&env, &ns).await;
        assert!(now.contains(zombie) || !stays, "{now:?}");
        assert!(now.contains(heard) && now.len() == 3, "{now:?}");
    }
}
