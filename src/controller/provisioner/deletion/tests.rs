//! When a provisioner is let go, what is told of it, and which pods hold it.

use super::*;
use serde_json::json;

#[test]
fn a_coderd_that_drips_through_all_the_time_is_asked_again_later_each_time() {
    assert_eq!(blocked(true, false, Some("slow".to_owned())), End::Held("slow".to_owned()));
    assert_eq!(blocked(true, true, None), End::Late, "the rest follows at once");
    assert!(matches!(blocked(false, true, None), End::Held(why) if why == "coderd is unreachable"));
}

#[test]
fn a_pod_works_until_its_grace_period_is_over_and_a_minute_more() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let pod = |end: Value| json!({ "metadata": { "deletionTimestamp": end } });
    assert!(is_working(&pod(Value::Null), now), "nobody stops it");
    assert!(is_working(&pod(json!("2026-01-01T00:09:30Z")), now));
    assert!(!is_working(&pod(json!("2026-01-01T00:08:30Z")), now), "its node is gone");
}

#[test]
fn every_key_that_a_status_names_is_told_once_whoever_wrote_it() {
    let key = |name: &str| {
        json!({ "name": name, "generation": 1, "controlPlaneUID": "u", "deploymentID": "d", "organizationID": "o",
            "tagsHash": "t", "since": "2026-01-01T00:00:00Z", "attempted": true, "used": true, "seal": "x" })
    };
    let of = |status: Value| {
        let object = json!({ "metadata": { "name": "a", "namespace": "b" }, "status": status });
        let key = crate::controller::identity::ObjectKey { namespace: "b".to_owned(), name: "a".to_owned() };
        named(&Object::new(key, Origin::Read, object))
    };
    let perhaps = |names: &[&str]| -> Vec<Left> {
        names.iter().map(|name| Left::Unproven((*name).to_owned())).collect()
    };
    let both = json!({ "provisionerKeyName": "b", "key": { "current": key("b"), "retiring": [key("a")], "generation": 2 } });
    assert_eq!(of(both), perhaps(&["a", "b"]));
    assert_eq!(of(json!({ "provisionerKeyName": "b" })), perhaps(&["b"]), "as the older operator left it");
    assert_eq!(of(json!({})), perhaps(&[]));
}
