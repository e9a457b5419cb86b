//! Which pods are zombies, and which of them goes.

use super::*;
use serde_json::json;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A pod of the Deployment that is ready since the beginning.
fn pod(name: &str) -> Value {
    let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "provisioner-b-5d8f", "uid": "rs",
        "controller": true });
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": at(0).to_string() });
    json!({ "metadata": { "name": name, "uid": format!("uid-{name}"), "ownerReferences": [owner] },
        "status": { "conditions": [ready] } })
}

/// A look at these pods, of which coderd lists some.
fn look(before: &Silence, pods: &[Value], daemons: &[&str], seconds: i64) -> Judged {
    let daemons = daemons.iter().map(|name| (*name).to_owned()).collect();
    let pods: Vec<Pod> = pods.iter().filter_map(|pod| Pod::of(pod, "provisioner-b")).collect();
    judge(
        before,
        &Look { pods: &pods, called_by: CalledBy::Name, daemons: &daemons, quiet: WINDOW, now: at(seconds) },
    )
}

fn deleted(judged: &Judged) -> Option<&str> {
    judged.delete.as_ref().map(|zombie| zombie.name.as_str())
}

#[test]
fn a_pod_that_coderd_does_not_list_goes_once_it_was_missing_for_the_whole_window() {
    let pods = [pod("a"), pod("b")];
    let first = look(&Silence::default(), &pods, &["a"], 200);
    assert_eq!((deleted(&first), first.zombies.len()), (None, 0), "coderd may have been away until now");
    assert_eq!(first.again, Some(Duration::from_secs(180)));
    let later = look(&first.silence, &pods, &["a"], 379);
    assert_eq!((deleted(&later), later.again), (None, Some(Duration::from_secs(1))));
    let over = look(&later.silence, &pods, &["a"], 380);
    assert_eq!((deleted(&over), over.zombies.as_slice()), (Some("b"), ["b".to_owned()].as_slice()));
    let back = look(&later.silence, &pods, &["a", "b"], 379);
    assert!(back.silence.is_nothing() && back.again.is_none(), "it was heard of again");
}

#[test]
fn a_coderd_that_was_away_costs_no_pod_and_many_zombies_go_one_a_minute() {
    let pods = [pod("a"), pod("b"), pod("c")];
    let away = look(&Silence::default(), &pods, &[], 200);
    let there = look(&away.silence, &pods, &["a", "b", "c"], 215);
    assert_eq!((deleted(&there), there.silence.is_nothing()), (None, true), "they dialled again");
    let mut silence = look(&Silence::default(), &pods, &[], 200).silence;
    let mut gone = Vec::new();
    for seconds in (380..=560).step_by(20) {
        let left: Vec<Value> =
            pods.iter().filter(|one| !gone.contains(&one["metadata"]["name"])).cloned().collect();
        let judged = look(&silence, &left, &[], seconds);
        gone.extend(deleted(&judged).map(|name| json!(name)));
        assert!(gone.len() as i64 <= (seconds - 380) / 60 + 1, "{seconds}: {gone:?}");
        silence = judged.silence;
    }
    assert_eq!(gone, ["a", "b", "c"]);
}

#[test]
fn a_look_that_could_not_be_taken_begins_the_time_anew() {
    let pods = [pod("a")];
    let before = look(&Silence::default(), &pods, &[], 200).silence.broken();
    let judged = look(&before, &pods, &[], 400);
    assert_eq!((deleted(&judged), judged.again), (None, Some(Duration::from_secs(180))));
    let late = look(&judged.silence, &pods, &[], 900);
    assert_eq!(deleted(&late), None, "nobody knows what was in between");
    let after = look(&judged.silence, &pods, &[], 580);
    assert_eq!(deleted(&after), Some("a"));
    assert_eq!(after.silence.broken().deleted, Some(at(580)), "the pause is kept");
}

#[test]
fn only_pods_of_the_deployment_that_are_ready_for_long_and_stay_are_judged() {
    let long_missing = |pod: &Value| {
        let first = look(&Silence::default(), std::slice::from_ref(pod), &[], 200);
        deleted(&look(&first.silence, std::slice::from_ref(pod), &[], 500)).map(str::to_owned)
    };
    assert_eq!(long_missing(&pod("a")).as_deref(), Some("a"));
    let without = |pointer: &str, value: Value| {
        let mut pod = pod("a");
        *pod.pointer_mut(pointer).unwrap() = value;
        long_missing(&pod)
    };
    assert_eq!(without("/status/conditions/0/status", json!("False")), None);
    assert_eq!(without("/metadata/ownerReferences", json!([])), None, "a pod that somebody labelled so");
    assert_eq!(without("/metadata/ownerReferences/0/name", json!("provisioner-b-other-5d8f")), None);
    assert_eq!(without("/metadata/ownerReferences/0/kind", json!("Job")), None);
    assert_eq!(without("/status/conditions/0/lastTransitionTime", json!(at(400).to_string())), None);
    let mut leaving = pod("a");
    leaving["metadata"]["deletionTimestamp"] = json!(at(100).to_string());
    assert_eq!(long_missing(&leaving), None);
}

#[test]
fn daemons_that_are_not_called_like_their_pods_are_never_judged() {
    let named = |variable: Value, args: Value| called_by(&json!({ "env": [variable], "args": args }), "NAME");
    let by = |path: &str| json!({ "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let start = || json!(["provisioner", "start"]);
    assert_eq!(named(by("metadata.name"), start()), Some(CalledBy::Name));
    assert_eq!(named(by("metadata.uid"), start()), Some(CalledBy::Uid));
    assert_eq!(named(by("spec.nodeName"), start()), None);
    assert_eq!(named(json!({ "name": "NAME", "value": "mine" }), start()), None);
    assert_eq!(named(by("metadata.name"), json!(["provisioner", "start", "--name=mine"])), None);
    assert_eq!(named(json!({ "name": "OTHER" }), start()), None);
    let uid = BTreeSet::from(["uid-a".to_owned()]);
    let pods = [Pod::of(&pod("a"), "provisioner-b").unwrap()];
    let look = Look { pods: &pods, called_by: CalledBy::Uid, daemons: &uid, quiet: WINDOW, now: at(900) };
    assert_eq!(judge(&Silence::default(), &look).again, None);
}

#[test]
fn pods_are_listed_only_where_coderd_lists_fewer_daemons() {
    let daemons = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let worth =
        |ready, names: &[&str]| is_worth_a_look(ready, "provisioner-b", CalledBy::Name, &daemons(names));
    assert!(!worth(0, &[]) && worth(1, &[]));
    assert!(!worth(1, &["provisioner-b-1"]) && worth(2, &["provisioner-b-1"]));
    assert!(worth(1, &["a-laptop"]), "whoever copied the key stands in for no pod");
}

#[test]
fn what_is_told_names_a_few_and_does_not_change_by_itself() {
    let names = |count: usize| (0..count).map(|number| format!("p{number}")).collect::<Vec<String>>();
    assert_eq!(told(&[]), None);
    assert!(told(&names(1)).unwrap().starts_with("pod p0 is ready, and coderd has not heard of its daemon"));
    assert!(told(&names(5)).unwrap().starts_with("pods p0, p1, p2 and 2 more are ready"));
}
