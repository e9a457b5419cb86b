//! The status of a pod of which only what somebody here looks at is read, while it is read: one of a thousand containers, or with
//! conditions of others, takes no more room than a usual one. It decides what that is by name and size, and judges nothing.

use super::trimmed::{Counts, Few, LONGEST};
use serde::{Deserialize, Serialize};

/// Conditions that are looked at.
const CONDITIONS: [&str; 2] = ["Ready", "PodScheduled"];

/// What is read, in the words of Kubernetes.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    conditions: Few<Condition>,
    init_container_statuses: Few<Container>,
    container_statuses: Few<Container>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<String>,
    reason: String,
    message: String,
}

impl Counts for Condition {
    fn counted(self) -> Option<Self> {
        let counts = CONDITIONS.contains(&self.r#type.as_str());
        counts.then(|| Self {
            reason: self.reason.counted().unwrap_or_default(),
            message: beginning(self.message),
            ..self
        })
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    restart_count: i64,
    state: State,
}

impl Counts for Container {
    fn counted(self) -> Option<Self> {
        Some(self)
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct State {
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Waiting {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i64,
}

/// As much of a text as anybody is shown.
fn beginning(text: String) -> String {
    text.char_indices().nth(LONGEST).map_or(text.clone(), |(end, _)| text[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_str, json};

    #[test]
    fn of_a_pod_with_a_thousand_containers_little_is_kept() {
        let container = json!({"name": "c", "image": "i".repeat(300), "restartCount": 3, "started": true,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "x".repeat(300)}}});
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let others = json!({"type": "example.com/gate", "status": "True", "message": "x".repeat(30_000)});
        let mut conditions = vec![others; 100];
        conditions.push(ready);
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "conditions": conditions,
            "initContainerStatuses": vec![container.clone(); 1000], "containerStatuses": [container]});
        let read: PodStatus = from_str(&status.to_string()).unwrap();
        let read = json!(read);
        assert!(read.to_string().len() < 10_000, "{}", read.to_string().len());
        assert_eq!(read["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(read["phase"], "Running");
        let kept =
            json!({"name": "c", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        assert_eq!(read["containerStatuses"], json!([kept]));
        let long = json!({"conditions": [{"type": "PodScheduled", "message": "ä".repeat(5000)}]});
        let read = json!(from_str::<PodStatus>(&long.to_string()).unwrap());
        assert_eq!(read["conditions"][0]["message"].as_str().map(|text| text.chars().count()), Some(LONGEST));
        assert_eq!(json!(from_str::<PodStatus>("{}").unwrap())["phase"], Value::Null);
    }
}
