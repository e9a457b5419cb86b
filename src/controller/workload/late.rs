//! Decides whether a rollout whose deadline has passed is slow or stuck, by its pods. Pure: it reads pods and the time.
//! It never takes a container that keeps crashing for one that is alive.

use super::rollout::Rollout;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long a container that was restarted must run to count as alive: longer than Kubernetes waits between restarts,
/// which is five minutes at most.
const STEADY: SignedDuration = SignedDuration::from_mins(6);

/// What a rollout is that is not done when its deadline has passed; `hint` is what may keep pods of this kind that run.
pub(crate) fn judge(pods: &[Value], now: Timestamp, hint: Option<&str>) -> Rollout {
    let (finished, mut waiting): (Vec<&Value>, Vec<&Value>) =
        pods.iter().filter(|pod| is_there(pod) && !is_ready(pod)).partition(|pod| is_finished(pod));
    if waiting.is_empty() {
        // Nothing has taken their place.
        waiting = finished;
    }
    if let Some(trouble) = waiting.iter().find_map(|pod| trouble(pod, now)) {
        return Rollout::Stuck(trouble);
    }
    match waiting.first() {
        Some(pod) => Rollout::Slow(format!(
            "the rollout has exceeded its progress deadline, but its pods are running: {} is not ready yet; check its \
             log{}",
            name(pod),
            hint.map_or_else(String::new, |hint| format!(". {hint}"))
        )),
        None => Rollout::Stuck(
            "the rollout makes no progress and no pod is starting; look at the events of the \
            ReplicaSet: a quota or an admission policy may refuse the pods"
                .to_owned(),
        ),
    }
}

/// What a late rollout is whose pods could not be looked at: nobody is called because the API server did not answer.
pub(crate) fn unseen() -> Rollout {
    Rollout::Slow(
        "the rollout has exceeded its progress deadline, and its pods could not be read this time; retrying"
            .to_owned(),
    )
}

/// Whether a pod has ended and lingers, because it was evicted for example: another takes its place.
fn is_finished(pod: &Value) -> bool {
    ["Failed", "Succeeded"].iter().any(|phase| pod["status"]["phase"] == *phase)
}

fn name(pod: &Value) -> String {
    format!("pod {}", pod["metadata"]["name"].as_str().unwrap_or_default())
}

fn is_there(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null()
}

fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|condition| condition["type"] == name)
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// What is wrong with a pod that is not ready; nothing if it is alive.
fn trouble(pod: &Value, now: Timestamp) -> Option<String> {
    let statuses = |field: &str| pod["status"][field].as_array().cloned().unwrap_or_default();
    let all: Vec<Value> =
        statuses("initContainerStatuses").into_iter().chain(statuses("containerStatuses")).collect();
    let fix = "look at the pod: image, Secrets, log and events";
    if let Some((container, reason)) = all.iter().find_map(|status| Some((status, failing(status, now)?))) {
        let container = container["name"].as_str().unwrap_or_default();
        return Some(format!("{}: container {container} is in {reason}; {fix}", name(pod)));
    }
    if all.iter().any(|status| status["state"]["running"].is_object()) {
        return None;
    }
    let unscheduled = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False");
    let why = unscheduled.map_or_else(
        || format!("it is {}", pod["status"]["phase"].as_str().unwrap_or("Pending")),
        |scheduled| {
            let text = |field: &str| scheduled[field].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("reason"), text("message"))
        },
    );
    Some(format!("{} does not start: {why}; {fix}", name(pod)))
}

/// Why a container will not come up by itself, in a word of Kubernetes.
fn failing(status: &Value, now: Timestamp) -> Option<String> {
    let restarts = status["restartCount"].as_i64().unwrap_or_default();
    let state = &status["state"];
    if let Some(reason) = state["waiting"]["reason"].as_str() {
        return (!["ContainerCreating", "PodInitializing"].contains(&reason)).then(|| reason.to_owned());
    }
    if let Some(started) = state["running"]["startedAt"].as_str() {
        let steady = started.parse::<Timestamp>().is_ok_and(|started| now.duration_since(started) > STEADY);
        return (restarts > 0 && !steady).then(|| format!("its restart number {restarts}"));
    }
    let exit = state["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)?;
    Some(format!("a stop with exit code {exit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: Value) -> Value {
        json!({"metadata": {"name": "coder-1"}, "status": status})
    }

    fn with_container(state: Value, restarts: i64) -> Value {
        pod(json!({"containerStatuses": [{"name": "coder", "restartCount": restarts, "state": state}]}))
    }

    #[test]
    fn a_pod_that_runs_is_slow_and_one_that_cannot_is_stuck() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let running = |since: &str| json!({"running": {"startedAt": since}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let (long_ago, just_now) = ("2026-01-01T11:00:00Z", "2026-01-01T11:59:00Z");
        for alive in [
            with_container(running(just_now), 0),
            with_container(running(long_ago), 0),
            with_container(running(long_ago), 3),
        ] {
            assert!(matches!(judge(std::slice::from_ref(&alive), now, None), Rollout::Slow(_)), "{alive}");
        }
        let unscheduled = pod(json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}]}));
        for (stuck, why) in [
            (with_container(waiting("CrashLoopBackOff"), 5), "CrashLoopBackOff"),
            (with_container(waiting("ImagePullBackOff"), 0), "ImagePullBackOff"),
            (with_container(waiting("CreateContainerConfigError"), 0), "CreateContainerConfigError"),
            (with_container(waiting("ContainerCreating"), 0), "does not start"),
            (with_container(running(just_now), 3), "restart number 3"),
            (with_container(json!({"terminated": {"exitCode": 1}}), 1), "exit code 1"),
            (unscheduled, "Unschedulable: 0/2 nodes"),
        ] {
            let said = judge(&[stuck], now, None);
            assert!(matches!(&said, Rollout::Stuck(message) if message.contains(why)), "{why}: {said:?}");
        }
        assert!(matches!(judge(&[], now, None), Rollout::Stuck(_)));
        let evicted = pod(json!({"phase": "Failed", "reason": "Evicted"}));
        let alone = judge(std::slice::from_ref(&evicted), now, None);
        assert!(matches!(&alone, Rollout::Stuck(message) if message.contains("it is Failed")), "{alone:?}");
        let replaced = judge(&[evicted, with_container(running(just_now), 0)], now, None);
        assert!(matches!(replaced, Rollout::Slow(_)), "{replaced:?}");
        let crashed_once = with_container(running("2026-01-01T11:53:00Z"), 1);
        assert!(matches!(judge(&[crashed_once], now, None), Rollout::Slow(_)), "seven minutes ago");
        assert!(matches!(unseen(), Rollout::Slow(_)));
        let hint = "A control plane may be migrating its database";
        let slow = judge(&[with_container(running(just_now), 0)], now, Some(hint));
        assert!(matches!(&slow, Rollout::Slow(message) if message.ends_with(hint)), "{slow:?}");
        let mut ready = with_container(running(long_ago), 0);
        ready["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        assert!(matches!(judge(&[ready], now, None), Rollout::Stuck(_)), "of the template before");
    }
}
