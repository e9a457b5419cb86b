//! Decides whether a live object still is what we want, whether it is ours, and how the fields an older release wrote
//! become ours. Pure: it compares values and never asks anybody.

use super::lists;
pub(crate) use crate::kubernetes::is_controlled_by;
use crds::well_known::{MANAGER, annotation};
use json_patch::{Patch, PatchOperation, ReplaceOperation, TestOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value, json};

/// Who puts lists right, in `managedFields`. Never the one who applies: what it leaves there is never taken for ours.
pub(crate) const MENDER: &str = "coder-k8s-mending";

/// Fields whose absence says something else than false or nothing.
const KEPT: [&str; 3] = ["allowPrivilegeEscalation", "automountServiceAccountToken", "emptyDir"];

/// Whether the live object holds everything the manifest says.
pub(crate) fn holds(live: &Value, wanted: &Value) -> bool {
    holds_at("", live, wanted) && !has_other_target(live, wanted)
}

/// Whether a Service leads by name to a place of somebody else's.
fn has_other_target(live: &Value, wanted: &Value) -> bool {
    wanted["kind"] == "Service" && !live["spec"]["externalName"].is_null()
}

fn holds_at(field: &str, live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        // One key more, and it selects less.
        (Value::Object(live), Value::Object(wanted)) if field == "selector" => live == wanted,
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| match live.get(key) {
                Some(live) => holds_at(key, live, wanted),
                // The API server drops what is empty or zero.
                None => is_empty(wanted) && !KEPT.contains(&key.as_str()),
            })
        }
        (Value::Array(live), Value::Array(wanted)) if wanted.iter().all(Value::is_object) => {
            lists::hold(field, live, wanted, holds)
        }
        (Value::String(live), Value::String(wanted)) => live == wanted || same_quantity(live, wanted),
        (live, wanted) => live == wanted,
    }
}

/// The patch that takes out of the lists what must not be there and what applying ours would leave, if there is any.
pub(crate) fn clearing(live: &Value, wanted: &Value) -> Option<Patch> {
    let mut spec = live.get("spec")?.clone();
    let mut changed = lists::clear("spec", &mut spec, wanted.get("spec")?, &applied(live)["f:spec"]);
    // Where it is of that type, it goes with the type when ours is applied.
    if has_other_target(live, wanted) && spec["type"] != "ExternalName" {
        changed |= spec.as_object_mut().is_some_and(|spec| spec.remove("externalName").is_some());
    }
    changed.then(|| replacing_spec(live, spec))
}

/// The fields that we applied, as `managedFields` has them. What of them we no longer want goes with the next apply.
fn applied(live: &Value) -> Value {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let ours = managers.into_iter().flatten().find(|entry| is_ours(entry, "Apply"));
    ours.map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

/// The fields that were written in our name, by an apply or by the update of an older release.
pub(crate) fn written(live: &Value) -> Value {
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let ours = |entry: &&Value| is_ours(entry, "Apply") || is_ours(entry, "Update");
    managers.into_iter().flatten().filter(ours).fold(json!({}), |mut all, entry| {
        merge(&mut all, &entry["fieldsV1"]);
        all
    })
}

/// The patch that makes ours exactly as we want it, for an apply that is refused because it would be merged with what
/// somebody else put there.
pub(crate) fn restoring(live: &Value, wanted: &Value) -> Option<Patch> {
    let mut spec = live.get("spec")?.clone();
    lists::restore("spec", &mut spec, wanted.get("spec")?);
    Some(replacing_spec(live, spec))
}

/// The patch that replaces the spec if it is still what was read, whatever became of the status meanwhile.
fn replacing_spec(live: &Value, spec: Value) -> Patch {
    let test = TestOperation { path: pointer(&["spec"]), value: live["spec"].clone() };
    let replace = ReplaceOperation { path: pointer(&["spec"]), value: spec };
    Patch(vec![PatchOperation::Test(test), PatchOperation::Replace(replace)])
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(held) => !held,
        Value::Null => true,
    }
}

/// The API server writes quantities its own way: `1000m` becomes `1`.
fn same_quantity(one: &str, other: &str) -> bool {
    matches!((quantity(one), quantity(other)), (Some(one), Some(other)) if one == other)
}

fn quantity(text: &str) -> Option<f64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Whether an object is a child of the one of this uid: controlled by it, or made by us with these labels and controlled
/// by nobody, because somebody took our reference away.
pub(crate) fn is_child_of(live: &Value, uid: &str, labels: &Value) -> bool {
    let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if owners.into_iter().flatten().any(|owner| owner["controller"] == true) {
        return is_controlled_by(live, uid);
    }
    let managers = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    live["metadata"]["annotations"][annotation::FINGERPRINT].is_string()
        && managers.into_iter().flatten().any(|entry| is_ours(entry, "Apply") || is_created(entry))
        && labels.is_object()
        && holds(&live["metadata"]["labels"], labels)
}

/// Whether an entry of `managedFields` is that of our create, which alone writes the fingerprint without an apply.
fn is_created(entry: &Value) -> bool {
    let fingerprint = format!("f:{}", annotation::FINGERPRINT);
    is_ours(entry, "Update") && entry["fieldsV1"]["f:metadata"]["f:annotations"].get(&fingerprint).is_some()
}

/// The patch by which fields that our `Update` wrote become ours to apply, if there are any. Without it, a field that
/// is no longer wanted would stay for ever, because two of us own it.
pub(crate) fn adoption(live: &Value) -> Option<Patch> {
    let managers = live.pointer("/metadata/managedFields")?.as_array()?;
    let (updates, mut others): (Vec<&Value>, Vec<&Value>) =
        managers.iter().partition(|entry| is_ours(entry, "Update"));
    if updates.is_empty() {
        return None;
    }
    let applied = others.iter().position(|entry| is_ours(entry, "Apply")).map(|index| others.remove(index));
    let mut ours = applied.unwrap_or(updates.first()?).clone();
    ours["operation"] = json!("Apply");
    for update in updates {
        merge(&mut ours["fieldsV1"], &update["fieldsV1"]);
    }
    let all: Vec<Value> = std::iter::once(ours).chain(others.into_iter().cloned()).collect();
    managed_by(live, all)
}

/// The patch by which nobody owns what was written to put lists right, if there is anything. Such a list may hold what
/// others added: made ours, it would go with the next apply; left to the mender, it would never go.
pub(crate) fn disowning(live: &Value) -> Option<Patch> {
    let managers = live.pointer("/metadata/managedFields")?.as_array()?;
    let others: Vec<Value> = managers.iter().filter(|entry| entry["manager"] != MENDER).cloned().collect();
    (others.len() < managers.len()).then(|| managed_by(live, others))?
}

pub(super) fn managed_by(live: &Value, managers: Vec<Value>) -> Option<Patch> {
    let version = live.pointer("/metadata/resourceVersion")?.clone();
    let test = TestOperation { path: pointer(&["metadata", "resourceVersion"]), value: version };
    let path = pointer(&["metadata", "managedFields"]);
    let replace = ReplaceOperation { path, value: Value::Array(managers) };
    Some(Patch(vec![PatchOperation::Test(test), PatchOperation::Replace(replace)]))
}

fn is_ours(entry: &Value, operation: &str) -> bool {
    entry["manager"] == MANAGER
        && entry["operation"] == operation
        && entry.get("subresource").is_none_or(Value::is_null)
}

pub(super) fn merge(into: &mut Value, from: &Value) {
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(there) => merge(there, value),
            None => _ = into.insert(key.clone(), value.clone()),
        }
    }
}

fn pointer(tokens: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(tokens.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_or_others_add_is_no_drift() {
        let wanted = json!({"metadata": {"labels": {"a": "1"}, "annotations": {}},
            "spec": {"replicas": 1, "initialDelaySeconds": 0, "hostNetwork": false, "containers": [{"name": "coder", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}], "args": ["a", "b"]}});
        let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "uid": "u"},
            "spec": {"replicas": 1, "strategy": {}, "containers": [{"name": "sidecar"}, {"name": "coder", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}], "args": ["a", "b"]}});
        assert!(holds(&live, &wanted));
    }

    #[test]
    fn a_changed_value_a_lost_key_a_lost_item_and_another_order_of_words_are_drift() {
        let wanted = json!({"a": 1, "list": [{"name": "x"}], "words": ["a", "b"]});
        for live in [
            json!({"a": 2, "list": [{"name": "x"}], "words": ["a", "b"]}),
            json!({"list": [{"name": "x"}], "words": ["a", "b"]}),
            json!({"a": 1, "list": [], "words": ["a", "b"]}),
            json!({"a": 1, "list": [{"name": "x"}], "words": ["b", "a"]}),
        ] {
            assert!(!holds(&live, &wanted), "{live}");
        }
        assert!(!holds(&json!({"cpu": "100m"}), &json!({"cpu": "1"})));
        let subjects = |names: &[&str]| json!({"subjects": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        assert!(holds(&subjects(&["a"]), &subjects(&["a"])));
        assert!(!holds(&subjects(&["a", "b"]), &subjects(&["a"])), "somebody else was let in");
        assert!(!holds(&json!({}), &json!({"allowPrivilegeEscalation": false})));
        assert!(!holds(&json!({"hostPath": {}}), &json!({"emptyDir": {}})), "another source");
    }

    #[test]
    fn a_child_whose_reference_is_gone_is_known_by_our_apply_or_our_create() {
        let labels = json!({"a": "1"});
        let live = |operation: &str, fields: Value| {
            json!({"metadata": {"labels": labels, "annotations": {annotation::FINGERPRINT: "x"}, "managedFields": [
                {"manager": "coder-k8s", "operation": operation, "fieldsV1": fields}]}})
        };
        let created =
            json!({"f:metadata": {"f:annotations": {format!("f:{}", annotation::FINGERPRINT): {}}}});
        assert!(is_child_of(&live("Apply", json!({})), "u", &labels));
        assert!(is_child_of(&live("Update", created.clone()), "u", &labels), "made by one create");
        assert!(!is_child_of(&live("Update", json!({})), "u", &labels), "the older operator's");
        let mut owned = live("Update", created);
        owned["metadata"]["ownerReferences"] = json!([{"uid": "other", "controller": true}]);
        assert!(!is_child_of(&owned, "u", &labels));
    }

    #[test]
    fn fields_of_our_update_move_into_our_apply() {
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "coder-k8s", "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:c": {}}}},
            {"manager": "coder-k8s", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}},
            {"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {"f:spec": {"f:a": {}, "f:d": {}}}},
        ]}});
        let patch = serde_json::to_value(adoption(&live).unwrap()).unwrap();
        let managers = &patch[1]["value"];
        assert_eq!(managers[0]["fieldsV1"], json!({"f:spec": {"f:a": {}, "f:b": {}, "f:d": {}}}));
        assert_eq!(managers[0]["operation"], "Apply");
        assert_eq!(managers.as_array().unwrap().len(), 3, "the status entry and kubectl's stay");
        assert_eq!(patch[0]["value"], "7");
    }

    #[test]
    fn what_was_put_right_is_left_to_nobody_and_never_becomes_ours_even_after_a_crash() {
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "coder-k8s-mending", "operation": "Update", "fieldsV1": {}},
            {"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {}},
        ]}});
        let patch = serde_json::to_value(disowning(&live).unwrap()).unwrap();
        assert_eq!(
            patch[1]["value"],
            json!([{"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {}}])
        );
        assert_eq!(adoption(&live), None);
    }

    #[test]
    fn a_service_selects_exactly_ours_and_leads_nowhere_else() {
        let wanted = json!({"kind": "Service", "spec": {"type": "ClusterIP", "selector": {"app": "coder"}}});
        let live = |spec: Value| json!({"kind": "Service", "spec": spec});
        let right = json!({"type": "ClusterIP", "selector": {"app": "coder"}, "clusterIP": "10.0.0.1"});
        assert!(holds(&live(right.clone()), &wanted));
        let mut narrowed = right.clone();
        narrowed["selector"]["track"] = json!("canary");
        assert!(!holds(&live(narrowed), &wanted));
        let mut named = right.clone();
        named["externalName"] = json!("elsewhere.example.com");
        assert!(!holds(&live(named.clone()), &wanted));
        let patch = serde_json::to_value(clearing(&live(named.clone()), &wanted).unwrap()).unwrap();
        assert_eq!(patch[1]["value"], right);
        named["type"] = json!("ExternalName");
        assert_eq!(clearing(&live(named), &wanted), None, "applying ours is enough");
    }

    #[test]
    fn what_we_applied_before_goes_with_the_apply_and_only_the_rest_is_cleared() {
        let https = json!({"name": "https", "containerPort": 8443, "protocol": "TCP"});
        let http = json!({"name": "http", "containerPort": 8080, "protocol": "TCP"});
        let spec = |ports: &[&Value]| json!({"containers": [{"name": "coder", "ports": ports}]});
        let wanted = json!({"spec": spec(&[&http])});
        let mut live = json!({"spec": spec(&[&http, &https])});
        assert!(!holds(&live, &wanted) && clearing(&live, &wanted).is_some(), "a stranger's");
        let own = json!({"f:spec": {"f:containers": {"k:{\"name\":\"coder\"}": {"f:ports": {
            "k:{\"containerPort\":8443,\"protocol\":\"TCP\"}": {".": {}}}}}}});
        live["metadata"] =
            json!({"managedFields": [{"manager": "coder-k8s", "operation": "Apply", "fieldsV1": own}]});
        assert!(!holds(&live, &wanted));
        assert_eq!(clearing(&live, &wanted), None, "ours of the last generation");
    }

    #[test]
    fn what_was_written_in_our_name_is_told_whether_it_was_applied_or_updated() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "coder-k8s", "operation": "Update", "fieldsV1": {"f:spec": {"f:a": {}}}},
            {"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {"f:spec": {"f:b": {}}}},
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:c": {}}}},
        ]}});
        assert_eq!(written(&live), json!({"f:spec": {"f:a": {}, "f:b": {}}}));
        assert_eq!(written(&json!({})), json!({}));
    }

    #[test]
    fn an_object_without_our_update_is_left_alone() {
        let live = json!({"metadata": {"resourceVersion": "7", "managedFields": [
            {"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {}},
        ]}});
        assert_eq!((adoption(&live), disowning(&live)), (None, None));
        assert_eq!(adoption(&json!({})), None);
    }

    #[test]
    fn a_child_without_a_controller_is_ours_if_we_made_it() {
        let labels = json!({"app": "coder"});
        let made = json!({"metadata": {"labels": {"app": "coder"}, "annotations": {"coder.com/fingerprint": "x"},
            "managedFields": [{"manager": "coder-k8s", "operation": "Apply", "fieldsV1": {}}]}});
        assert!(is_child_of(&made, "a", &labels));
        let mut others = made.clone();
        others["metadata"]["ownerReferences"] = json!([{"uid": "b", "controller": true}]);
        assert!(!is_child_of(&others, "a", &labels) && is_child_of(&others, "b", &labels));
        for field in ["labels", "annotations", "managedFields"] {
            let mut lacking = made.clone();
            lacking["metadata"].as_object_mut().unwrap().remove(field);
            assert!(!is_child_of(&lacking, "a", &labels), "{field}");
        }
    }
}
