//! Decides how far a Deployment has come, as `kubectl rollout status` would. Pure: it reads one object.
//! It never takes replicas of an older template for new ones.

use serde_json::Value;

/// How far the Deployment has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// There is none yet.
    Absent,
    /// It could not be applied this time, so that nothing is known of it.
    Unseen,
    /// No replicas were asked for, and none run.
    ScaledToZero,
    /// Replicas are being made or replaced; how far they are.
    UnderWay(String),
    /// It was complete, and replicas are not available any more, or not yet where more are asked for; how many are.
    Unavailable(String),
    /// It is not done when it should be, but its pods are alive; what is known of them.
    Slow(String),
    /// Kubernetes gave up waiting for it, and its pods say why.
    Stuck(String),
    /// Every replica is of the newest template and available.
    Complete(i32),
}

impl Rollout {
    /// Whether it goes on by itself, or is about to begin.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay(_) | Self::Unavailable(_) | Self::Slow(_) | Self::Absent)
    }
}

/// How far it is.
pub(crate) fn rollout(deployment: Option<&Value>) -> Rollout {
    let Some(deployment) = deployment else { return Rollout::Absent };
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let wanted = deployment.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let (all, available) = (number("/status/replicas"), number("/status/availableReplicas"));
    if number("/status/observedGeneration") < number("/metadata/generation") {
        // What the Deployment controller counts as new may be of an older template. Said in the words that it will be
        // said in when the controller has seen the change: the status is written once for both.
        return under_way(wanted, all, 0, available);
    }
    let updated = number("/status/updatedReplicas");
    if wanted == 0 && all == 0 {
        return Rollout::ScaledToZero;
    }
    if updated >= wanted && all <= updated && available >= updated {
        return Rollout::Complete(i32::try_from(wanted).unwrap_or(i32::MAX));
    }
    if let Some(message) = gave_up(deployment) {
        return Rollout::Stuck(format!("{message}; look at the pods: image, Secrets and events"));
    }
    if let Some(why) = refusal(deployment) {
        return Rollout::UnderWay(format!("pods cannot be created: {why}{}", way_out(deployment, why)));
    }
    if updated >= wanted && all <= updated && was_complete(deployment) {
        return Rollout::Unavailable(format!(
            "{available} of {wanted} replicas are available; if the others do not start soon, look at the pods: log, \
             events and nodes"
        ));
    }
    under_way(wanted, all, updated, available)
}

/// Whether every pod is of the newest template, those that end included, as far as the cluster counts them: a daemon ends
/// when its build does.
pub(crate) fn is_over(deployment: Option<&Value>, rollout: &Rollout) -> bool {
    let ending = count(deployment, "/status/terminatingReplicas");
    ending == 0 && matches!(rollout, Rollout::Complete(_) | Rollout::ScaledToZero)
}

/// Why the API server refuses the pods: a quota, Pod Security, an account that is not there. It is said once for each
/// ReplicaSet, so that it does not change with every try.
fn refusal(deployment: &Value) -> Option<&str> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    let failure = conditions
        .iter()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True")?;
    failure["message"].as_str()
}

/// What to do where the account of the pods is not there: that is one the operator was told not to make.
fn way_out(deployment: &Value, refusal: &str) -> String {
    let account = deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str);
    match account.filter(|_| refusal.contains("error looking up service account")) {
        Some(account) => {
            format!("; create ServiceAccount {account}, or set spec.serviceAccount.disableCreate to false")
        }
        None => String::new(),
    }
}

fn under_way(wanted: i64, all: i64, updated: i64, available: i64) -> Rollout {
    let old = match all.saturating_sub(updated) {
        ..=0 => String::new(),
        1 => "; 1 old replica remains".to_owned(),
        many => format!("; {many} old replicas remain"),
    };
    let are = if available == 1 { "is" } else { "are" };
    Rollout::UnderWay(format!("{updated} of {wanted} replicas are updated, {available} {are} available{old}"))
}

fn gave_up(deployment: &Value) -> Option<&str> {
    progressing(deployment, "ProgressDeadlineExceeded")?["message"].as_str()
}

/// Whether the rollout of this template was complete once. Kubernetes says so until the next one begins, also while
/// replicas that were added start.
fn was_complete(deployment: &Value) -> bool {
    progressing(deployment, "NewReplicaSetAvailable").is_some()
}

/// What the Deployment says about its rollout, if it is for this reason.
fn progressing<'a>(deployment: &'a Value, reason: &str) -> Option<&'a Value> {
    let conditions = deployment.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Progressing" && condition["reason"] == reason)
}

/// Replicas that are ready, of whatever template.
pub(crate) fn ready_replicas(deployment: Option<&Value>) -> i32 {
    count(deployment, "/status/readyReplicas")
}

/// Replicas there are, of whatever template.
pub(crate) fn replicas(deployment: Option<&Value>) -> i32 {
    count(deployment, "/status/replicas")
}

fn count(deployment: Option<&Value>, path: &str) -> i32 {
    let count = deployment.and_then(|deployment| deployment.pointer(path)).and_then(Value::as_i64);
    count.and_then(|count| i32::try_from(count).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(wanted: i64, all: i64, updated: i64, available: i64) -> Value {
        json!({"metadata": {"generation": 3}, "spec": {"replicas": wanted}, "status": {
            "observedGeneration": 3, "replicas": all, "updatedReplicas": updated, "availableReplicas": available,
            "readyReplicas": available}})
    }

    #[test]
    fn a_rollout_is_complete_only_when_every_replica_is_new_and_available() {
        assert_eq!(rollout(None), Rollout::Absent);
        assert_eq!(rollout(Some(&deployment(2, 2, 2, 2))), Rollout::Complete(2));
        assert_eq!(rollout(Some(&deployment(0, 0, 0, 0))), Rollout::ScaledToZero);
        for unfinished in [
            deployment(2, 2, 1, 2),
            deployment(2, 3, 2, 3),
            deployment(2, 2, 2, 1),
            deployment(0, 1, 0, 1),
            deployment(1, 0, 0, 0),
        ] {
            assert!(matches!(rollout(Some(&unfinished)), Rollout::UnderWay(_)), "{unfinished}");
        }
    }

    #[test]
    fn pods_that_are_refused_are_told_at_once() {
        let mut refused = deployment(1, 0, 0, 0);
        refused["status"]["conditions"] =
            json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: none"}]);
        let said = rollout(Some(&refused));
        assert_eq!(said, Rollout::UnderWay("pods cannot be created: exceeded quota: none".to_owned()));
    }

    #[test]
    fn a_rollout_is_over_when_the_last_old_pod_has_ended() {
        let mut done = deployment(2, 2, 2, 2);
        assert!(
            is_over(Some(&done), &rollout(Some(&done))),
            "an older cluster does not count those that end"
        );
        done["status"]["terminatingReplicas"] = json!(1);
        assert!(!is_over(Some(&done), &rollout(Some(&done))));
        let begun = deployment(2, 3, 1, 2);
        assert!(!is_over(Some(&begun), &rollout(Some(&begun))));
    }

    #[test]
    fn a_template_that_nobody_saw_yet_is_under_way() {
        let mut deployment = deployment(2, 2, 2, 2);
        deployment["metadata"]["generation"] = json!(4);
        assert!(matches!(rollout(Some(&deployment)), Rollout::UnderWay(_)));
    }

    #[test]
    fn more_replicas_are_not_told_as_another_template() {
        let mut scaled = deployment(2, 1, 1, 1);
        scaled["metadata"]["generation"] = json!(4);
        let said = "0 of 2 replicas are updated, 1 is available; 1 old replica remains";
        assert_eq!(rollout(Some(&scaled)), Rollout::UnderWay(said.to_owned()));
    }

    #[test]
    fn replicas_that_are_lost_after_a_rollout_are_no_rollout() {
        let with = |reason: &str, mut deployment: Value| {
            deployment["status"]["conditions"] =
                json!([{"type": "Progressing", "status": "True", "reason": reason, "message": "m"}]);
            rollout(Some(&deployment))
        };
        let lost = deployment(1, 1, 1, 0);
        let Rollout::Unavailable(said) = with("NewReplicaSetAvailable", lost.clone()) else {
            panic!("a pod that crashed")
        };
        assert!(said.starts_with("0 of 1 replicas are available"), "{said}");
        assert!(
            matches!(with("ReplicaSetUpdated", lost), Rollout::UnderWay(_)),
            "the old one is gone, the new not there"
        );
        let back = with("NewReplicaSetAvailable", deployment(2, 2, 1, 2));
        assert!(matches!(back, Rollout::UnderWay(_)), "back to an older template");
    }

    #[test]
    fn the_first_rollout_of_one_replica_is_told_in_three_steps() {
        let seen = |all, updated, available| {
            let mut one = deployment(1, all, updated, available);
            one["metadata"]["generation"] = json!(1);
            one["status"]["observedGeneration"] = json!(1);
            one
        };
        let created = json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}});
        let all = [created, seen(0, 0, 0), seen(1, 1, 0), seen(1, 1, 1)];
        let mut told: Vec<Rollout> = all.iter().map(|one| rollout(Some(one))).collect();
        told.dedup();
        assert_eq!(told.len(), 3, "each is a write of the status: {told:?}");
    }

    #[test]
    fn a_deadline_that_passed_is_stuck_unless_it_got_there_in_the_end() {
        let late = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]);
        let mut stuck = deployment(1, 1, 1, 0);
        stuck["status"]["conditions"] = late.clone();
        assert!(matches!(rollout(Some(&stuck)), Rollout::Stuck(message) if message.starts_with("timed out")));
        let mut done = deployment(1, 1, 1, 1);
        done["status"]["conditions"] = late;
        assert_eq!(rollout(Some(&done)), Rollout::Complete(1));
    }
}
