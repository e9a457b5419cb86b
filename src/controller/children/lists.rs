//! Decides for each list of a child who has a part in it, and how a list is put right that somebody else changed.
//! It never removes what others added to a list that is theirs as well, but for one of our items under another name.

use serde_json::{Map, Value};

/// Who has a part in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// We alone: what others add goes.
    Ours,
    /// Others as well: what they add stays.
    Shared,
}

/// A list that server-side apply merges item by item, so that an item of somebody else, or one of ours under another
/// key, stays when we apply ours. Every other list is replaced as a whole and is ours alone, but for those in `OPEN`:
/// rules, subjects, tolerations, arguments, hosts, parents.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    field: &'static str,
    /// What tells items apart.
    keys: &'static [&'static str],
    whose: Whose,
    /// Why it is so.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the reader of the table; a test asks for it"))]
    why: &'static str,
}

/// Every list of a child that is merged by key.
const LISTS: &[List] = &[
    List {
        field: "ownerReferences",
        keys: &["uid"],
        whose: Whose::Shared,
        why: "An object may have more than one owner, and goes with the last of them.",
    },
    List {
        field: "ports",
        keys: &["port", "protocol"],
        whose: Whose::Ours,
        why: "Of a Service: one more is a way in that nobody asked for, and a changed number leaves two of one name, \
              which the API server refuses.",
    },
    List {
        field: "ports",
        keys: &["containerPort", "protocol"],
        whose: Whose::Ours,
        why: "Of a container: a changed number leaves two of one name, and the Service and the probes go by names.",
    },
    List {
        field: "containers",
        keys: &["name"],
        whose: Whose::Shared,
        why: "Service meshes and agents put their own beside coderd.",
    },
    List {
        field: "initContainers",
        keys: &["name"],
        whose: Whose::Shared,
        why: "The same for what they run before it.",
    },
    List {
        field: "volumes",
        keys: &["name"],
        whose: Whose::Shared,
        why: "What the containers of others mount.",
    },
    List {
        field: "volumeMounts",
        keys: &["mountPath"],
        whose: Whose::Shared,
        why: "Agents mount libraries and certificates into every container.",
    },
    List {
        field: "volumeDevices",
        keys: &["devicePath"],
        whose: Whose::Shared,
        why: "The same for what they mount as a device.",
    },
    List {
        field: "env",
        keys: &["name"],
        whose: Whose::Shared,
        why: "Agents are told by variables, and tools that restart pods do it by one.",
    },
    List {
        field: "imagePullSecrets",
        keys: &["name"],
        whose: Whose::Shared,
        why: "A cluster adds credentials for its mirror; one more opens nothing.",
    },
    List {
        field: "claims",
        keys: &["name"],
        whose: Whose::Shared,
        why: "Devices that a node gives; one more takes nothing away.",
    },
    List {
        field: "hostAliases",
        keys: &["ip"],
        whose: Whose::Ours,
        why: "The first address of a host counts: one that stays behind sends coderd to the wrong place.",
    },
    List {
        field: "topologySpreadConstraints",
        keys: &["topologyKey", "whenUnsatisfiable"],
        whose: Whose::Ours,
        why: "A constraint that stays behind keeps pods from being scheduled.",
    },
];

/// Lists that are replaced as a whole and that others add to all the same, and why they may: ours must all be there, in
/// order. When ours is applied for another reason, what they added goes, and they add it again.
const OPEN: &[(&str, &str)] = &[(
    "paths",
    "Of a rule of an Ingress: with http01-edit-in-place cert-manager answers a challenge under one of its own.",
)];

impl List {
    /// The list at a field with these items of ours, if it is merged by key.
    fn of(field: &str, wanted: &[Value]) -> Option<&'static Self> {
        let has_keys = |list: &&Self| {
            let first = list.keys.first().copied().unwrap_or_default();
            wanted.first().is_none_or(|item| item.get(first).is_some())
        };
        LISTS.iter().filter(|list| list.field == field).find(has_keys)
    }

    /// Whether an item is the one we mean: a key we do not give is a default of the API server.
    fn same(&self, live: &Value, wanted: &Value) -> bool {
        self.keys.iter().all(|key| wanted.get(*key).is_none_or(|value| live.get(*key) == Some(value)))
    }

    /// Whether an item is ours but for its key.
    fn is_renamed(&self, live: &Value, wanted: &Value) -> bool {
        let mut rest = wanted.clone();
        if let Some(rest) = rest.as_object_mut() {
            rest.retain(|key, _| !self.keys.contains(&key.as_str()));
        }
        super::drift::holds(live, &rest)
    }

    /// An item with the key of ours; applying ours does the rest.
    fn renamed(&self, former: &Value, wanted: &Value) -> Value {
        let mut item = former.clone();
        for key in self.keys.iter().filter(|key| wanted.get(**key).is_some()) {
            item[*key] = wanted[*key].clone();
        }
        item
    }

    /// Whether containers are listed: two of one kind would fight over ports and files.
    fn is_of_containers(&self) -> bool {
        ["containers", "initContainers"].contains(&self.field)
    }

    /// Whether an item of the live list must go.
    fn is_stray(&self, item: &Value, live: &[Value], wanted: &[Value]) -> bool {
        let lost = |wanted: &&Value| !live.iter().any(|live| self.same(live, wanted));
        let known = wanted.iter().any(|wanted| self.same(item, wanted));
        let renamed =
            || self.is_of_containers() && wanted.iter().filter(lost).any(|lost| self.is_renamed(item, lost));
        !known && (self.whose == Whose::Ours || renamed())
    }
}

/// Whether the live list holds what we want, by `holds` for each item.
pub(super) fn hold(
    field: &str,
    live: &[Value],
    wanted: &[Value],
    holds: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let Some(list) = List::of(field, wanted) else {
        if OPEN.iter().any(|(open, _)| *open == field) {
            let mut live = live.iter();
            return wanted.iter().all(|wanted| live.any(|live| holds(live, wanted)));
        }
        return live.len() == wanted.len()
            && live.iter().zip(wanted).all(|(live, wanted)| holds(live, wanted));
    };
    let there = |wanted: &Value| live.iter().any(|live| list.same(live, wanted) && holds(live, wanted));
    let strays = || live.iter().any(|item| list.is_stray(item, live, wanted));
    wanted.iter().all(there) && !strays()
}

/// Takes out of every list what must not be there and what applying ours would not remove, and puts ours in its place;
/// whether there was anything to do. What the API server gave an item of ours, such as a node port, goes with it.
/// `applied` are the fields we applied last, in the words of `managedFields`: applying ours removes those items itself.
pub(super) fn clear(field: &str, live: &mut Value, wanted: &Value, applied: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let mut changed = false;
            for (key, wanted) in wanted {
                let applied = &applied[format!("f:{key}")];
                changed |= live.get_mut(key).is_some_and(|live| clear(key, live, wanted, applied));
            }
            changed
        }
        (Value::Array(live), Value::Array(wanted)) => match List::of(field, wanted) {
            Some(list) => clear_list(list, live, wanted, applied),
            None => false,
        },
        _ => false,
    }
}

/// What we applied of an item; nothing if we did not.
fn applied_item<'a>(item: &Value, applied: &'a Value) -> Option<&'a Value> {
    let is_key_of = |key: &str| {
        let keys =
            key.strip_prefix("k:").and_then(|key| serde_json::from_str::<Map<String, Value>>(key).ok());
        keys.is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
    };
    applied.as_object()?.iter().find(|(key, _)| is_key_of(key)).map(|(_, fields)| fields)
}

fn clear_list(list: &List, live: &mut Vec<Value>, wanted: &[Value], applied: &Value) -> bool {
    let (strays, mut kept): (Vec<Value>, Vec<Value>) = live
        .iter()
        .cloned()
        .partition(|item| list.is_stray(item, live, wanted) && applied_item(item, applied).is_none());
    let mut changed = !strays.is_empty();
    for (index, wanted) in wanted.iter().enumerate() {
        if let Some(live) = kept.iter_mut().find(|live| list.same(live, wanted)) {
            let applied = applied_item(live, applied).unwrap_or(&Value::Null);
            changed |= clear("", live, wanted, applied);
        } else if changed {
            let former =
                strays.iter().find(|stray| stray["name"] == wanted["name"] && !wanted["name"].is_null());
            let former = former.or_else(|| strays.iter().find(|stray| list.is_renamed(stray, wanted)));
            let item = former.map_or_else(|| wanted.clone(), |former| list.renamed(former, wanted));
            kept.insert(index.min(kept.len()), item);
        }
    }
    if changed {
        *live = kept;
    }
    changed
}

/// One value over another: maps are merged, everything else is replaced.
fn over(mut below: Value, above: &Value) -> Value {
    match (&mut below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                let merged = below.remove(key).map_or_else(|| value.clone(), |there| over(there, value));
                below.insert(key.clone(), merged);
            }
        }
        (below, above) => *below = above.clone(),
    }
    below
}

/// Maps that others write into as well, by field.
const SHARED_MAPS: [&str; 6] = ["spec", "template", "metadata", "annotations", "labels", "containers"];
/// Fields of which an object has one at most: ours does away with the other.
const EITHER: [[&str; 2]; 2] = [["minAvailable", "maxUnavailable"], ["maxUnavailable", "minAvailable"]];

/// Makes ours exactly as we want it where an apply is refused because it would be merged with what somebody else put
/// there: a variable cannot have a value and a source, nor a probe two ways. What others have beside ours stays.
pub(super) fn restore(field: &str, live: &mut Value, wanted: &Value) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) if SHARED_MAPS.contains(&field) => {
            for [ours, other] in EITHER {
                if wanted.contains_key(ours) && !wanted.contains_key(other) {
                    live.remove(other);
                }
            }
            for (key, wanted) in wanted {
                restore(key, live.entry(key).or_insert(Value::Null), wanted);
            }
        }
        (Value::Array(live), Value::Array(wanted)) => match List::of(field, wanted) {
            Some(list) => restore_list(list, live, wanted),
            None => live.clone_from(wanted),
        },
        (live, wanted) => live.clone_from(wanted),
    }
}

fn restore_list(list: &List, live: &mut Vec<Value>, wanted: &[Value]) {
    if list.whose == Whose::Ours {
        let there = |wanted: &Value| live.iter().find(|live| list.same(live, wanted)).cloned();
        *live = wanted.iter().map(|wanted| over(there(wanted).unwrap_or_default(), wanted)).collect();
        return;
    }
    for wanted in wanted {
        match live.iter_mut().find(|live| list.same(live, wanted)) {
            Some(live) => restore(list.field, live, wanted),
            None => live.push(wanted.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::children::drift::holds;
    use serde_json::json;

    fn cleared(live: &Value, wanted: &Value) -> Option<Value> {
        let mut live = live.clone();
        clear("", &mut live, wanted, &Value::Null).then_some(live)
    }

    #[test]
    fn every_row_says_why_and_is_found_by_its_key() {
        for list in LISTS {
            assert!(list.why.ends_with('.') && list.why.split_whitespace().count() >= 4, "{}", list.why);
            let item = json!({ (list.keys[0]): "x" });
            assert_eq!(List::of(list.field, &[item]).unwrap().why, list.why);
        }
        assert!(List::of("rules", &[]).is_none());
    }

    #[test]
    fn a_path_that_others_add_to_a_rule_stays_and_ours_must_be_there() {
        let path = |path: &str| json!({"path": path, "pathType": "Prefix"});
        let rules = |paths: &[&str]| json!({"rules": [{"http": {"paths": paths.iter().map(|one| path(one)).collect::<Vec<_>>()}}]});
        let challenge = "/.well-known/acme-challenge/x";
        for live in [&["/"][..], &[challenge, "/"], &["/", challenge]] {
            assert!(holds(&rules(live), &rules(&["/"])), "{live:?}");
        }
        assert!(holds(&rules(&["/a", challenge, "/b"]), &rules(&["/a", "/b"])));
        for live in [&[challenge][..], &[], &["/b", "/a"]] {
            assert!(!holds(&rules(live), &rules(&["/a", "/b"])), "{live:?}");
        }
    }

    #[test]
    fn a_service_has_our_ports_and_no_others_and_keeps_what_the_server_gave_them() {
        let wanted = json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}});
        let live = |ports: Value| json!({"spec": {"ports": ports, "clusterIP": "10.0.0.1"}});
        let ours = json!({"name": "http", "port": 80, "protocol": "TCP", "nodePort": 31000});
        let right = live(json!([ours]));
        assert!(holds(&right, &wanted));
        assert_eq!(cleared(&right, &wanted), None);
        let renumbered = live(json!([{"name": "http", "port": 99, "protocol": "TCP", "nodePort": 31000}]));
        let added = live(json!([ours, {"name": "more", "port": 99, "protocol": "TCP"}]));
        for wrong in [renumbered, added] {
            assert!(!holds(&wrong, &wanted));
            assert_eq!(cleared(&wrong, &wanted), Some(right.clone()));
        }
        let named = live(json!([{"name": "web", "port": 80, "protocol": "TCP"}]));
        assert!(!holds(&named, &wanted), "applying ours is enough");
        assert_eq!(cleared(&named, &wanted), None);
    }

    #[test]
    fn a_sidecar_stays_and_our_container_under_another_name_goes() {
        let coder = |name: &str| json!({"name": name, "image": "coder", "args": ["a"], "ports": [{"name": "http", "containerPort": 8080}]});
        let sidecar = json!({"name": "mesh", "image": "proxy"});
        let wanted = json!({"containers": [coder("coder")]});
        let meshed = json!({"containers": [coder("coder"), sidecar]});
        assert!(holds(&meshed, &wanted));
        let renamed = json!({"containers": [coder("x"), sidecar]});
        assert!(!holds(&renamed, &wanted));
        assert_eq!(cleared(&renamed, &wanted), Some(meshed.clone()));
        let copied = json!({"containers": [coder("coder"), coder("x")]});
        assert!(holds(&copied, &wanted), "ours is there: the other is somebody's own");
        let mut inside = meshed.clone();
        inside["containers"][0]["ports"][0]["containerPort"] = json!(1);
        assert_eq!(cleared(&inside, &wanted), Some(meshed));
    }

    #[test]
    fn lists_without_keys_are_ours_in_order() {
        let wanted = json!({"tolerations": [{"key": "a"}, {"key": "b"}]});
        assert!(holds(&json!({"tolerations": [{"key": "a", "operator": "Equal"}, {"key": "b"}]}), &wanted));
        for live in [json!([{"key": "b"}, {"key": "a"}]), json!([{"key": "a"}, {"key": "b"}, {"key": "c"}])] {
            assert!(!holds(&json!({ "tolerations": live }), &wanted));
        }
    }

    #[test]
    fn what_is_refused_when_merged_is_made_ours_and_the_rest_stays() {
        let wanted = json!({"replicas": 1, "template": {"spec": {
            "containers": [{"name": "coder", "env": [{"name": "A", "value": "1"}], "probe": {"httpGet": {}}}],
            "volumes": [{"name": "v", "emptyDir": {}}]}}});
        let mut live = json!({"replicas": 1, "paused": true, "template": {"spec": {
            "containers": [{"name": "coder", "env": [{"name": "B"}, {"name": "A", "valueFrom": {}}], "probe": {"exec": {}}}, {"name": "mesh"}],
            "volumes": [{"name": "v", "hostPath": {}}, {"name": "m"}], "hostNetwork": false}}});
        restore("spec", &mut live, &wanted);
        assert_eq!(
            live,
            json!({"replicas": 1, "paused": true, "template": {"spec": {
                "containers": [{"name": "coder", "env": [{"name": "B"}, {"name": "A", "value": "1"}], "probe": {"httpGet": {}}}, {"name": "mesh"}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "m"}], "hostNetwork": false}}})
        );
        let mut budget = json!({"minAvailable": 1, "selector": {}});
        restore("spec", &mut budget, &json!({"maxUnavailable": 1}));
        assert_eq!(budget, json!({"maxUnavailable": 1, "selector": {}}));
    }
}
