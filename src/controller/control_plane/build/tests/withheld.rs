//! What is widened and what is not, child by child, against live children that the API server and others have added to.

use super::super::Children;
use super::super::fixtures::ControlPlane;
use crate::controller::children::withheld::Withheld;
use crate::controller::children::{Child, ChildKind, withheld};
use serde_json::{Value, json};

/// The fields of a value in the words of `managedFields`, with the lists of pods merged by name.
fn fields(value: &Value) -> Value {
    let key = |item: &Value| {
        ["name", "containerPort", "port"].iter().find(|key| item.get(**key).is_some()).copied()
    };
    match value {
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (format!("f:{name}"), fields(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) if items.iter().all(|item| key(item).is_some()) => {
            let keyed = items.iter().map(|item| {
                let key = key(item).unwrap();
                (format!("k:{}", json!({ key: item[key] })), fields(item))
            });
            Value::Object(keyed.collect())
        }
        _ => json!({}),
    }
}

/// A child as it is live after it was applied: with our mark, defaults of the API server, and what others added.
fn live(child: &Child) -> Value {
    let mut live = child.wanted();
    let written = fields(&live);
    live["metadata"]["managedFields"] =
        json!([{ "manager": "coder-k8s", "operation": "Apply", "fieldsV1": written }]);
    live["metadata"]["annotations"]["example.com/theirs"] = json!("1");
    if child.kind == ChildKind::Deployment {
        let spec = &mut live["spec"]["template"]["spec"];
        spec["dnsPolicy"] = json!("ClusterFirst");
        spec["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
        spec["containers"][0]["env"].as_array_mut().unwrap().push(json!({ "name": "AGENT", "value": "1" }));
    }
    live
}

/// What is told when the spec of `before` becomes that of `after`, where every child of `before` is live.
fn told(before: &ControlPlane, after: &ControlPlane) -> Vec<String> {
    let (before, after) = (before.children(), after.children());
    let there = |child: &Child| {
        before
            .all()
            .find(|one| (one.kind, &one.namespace, &one.name) == (child.kind, &child.namespace, &child.name))
    };
    held(&after, |child| there(child).map(live)).parts().to_vec()
}

/// What is held back of children of which these are live.
fn held(children: &Children, live: impl Fn(&Child) -> Option<Value>) -> Withheld {
    withheld::withheld("ns", &children.all().map(|child| (child, live(child))).collect::<Vec<_>>())
}

fn plain() -> ControlPlane {
    ControlPlane::test().with("extraEnv", json!([{ "name": "A", "value": "1" }]))
}

#[test]
fn nothing_is_held_where_nothing_changes_and_what_gives_no_right_is_applied() {
    for plane in [plain(), ControlPlane::test().with_everything()] {
        assert_eq!(told(&plane, &plane), [""; 0]);
    }
    for (field, value) in [
        ("replicas", json!(3)),
        ("resources", json!({ "requests": { "cpu": "1" } })),
        ("nodeSelector", json!({ "disk": "fast" })),
        ("tolerations", json!([{ "key": "a", "operator": "Exists" }])),
        ("terminationGracePeriodSeconds", json!(5)),
        ("podDisruptionBudget", json!({ "maxUnavailable": 1 })),
        ("metrics", json!({ "enabled": false, "serviceMonitor": {} })),
    ] {
        let changed = plain().with(field, value);
        assert_eq!(told(&plain(), &changed), [""; 0], "{field} is given");
        assert_eq!(told(&changed, &plain()), [""; 0], "{field} is taken away");
    }
    assert_eq!(told(&plain().with_checksum("a"), &plain().with_checksum("b")), [""; 0], "another password");
}

#[test]
fn what_the_pods_run_is_kept_whatever_of_it_is_given_or_taken() {
    for (field, value) in [
        ("image", json!("evil:v9")),
        ("extraArgs", json!(["--verbose"])),
        ("extraEnv", json!([{ "name": "A", "value": "2" }])),
        ("extraEnv", json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "1" }])),
        ("envFrom", json!([{ "secretRef": { "name": "payroll" } }])),
        ("initContainers", json!([{ "name": "x", "image": "evil" }])),
        ("volumes", json!([{ "name": "x", "secret": { "secretName": "payroll" } }])),
        ("lifecycle", json!({ "preStop": { "exec": { "command": ["sh"] } } })),
        ("securityContext", json!({ "readOnlyRootFilesystem": true })),
        ("podSecurityContext", json!({ "runAsUser": 7 })),
        ("podAnnotations", json!({ "example.com/inject": "true" })),
        ("podLabels", json!({ "app": "other" })),
        ("hostAliases", json!([{ "ip": "192.0.2.1", "hostnames": ["database"] }])),
        ("imagePullSecrets", json!([{ "name": "theirs" }])),
        ("priorityClassName", json!("high")),
    ] {
        let changed = plain().with(field, value.clone());
        assert_eq!(told(&plain(), &changed), ["Deployment coder (what its pods run)"], "{field} {value}");
        assert_eq!(told(&changed, &plain()), ["Deployment coder (what its pods run)"], "{field} back");
    }
}

#[test]
fn rights_and_namespaces_are_taken_away_and_never_added() {
    let rule = |verb: &str| json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": [verb] });
    let rbac = |rules: Value, places: Value| {
        plain().with("rbac", json!({ "extraRules": rules, "workspaceNamespaces": places }))
    };
    let (few, many) = (rbac(json!([]), json!([])), rbac(json!([rule("get")]), json!(["team"])));
    assert_eq!(told(&many, &few), [""; 0], "narrower");
    let more = told(&few, &many);
    assert_eq!(more.len(), 3, "{more:?}");
    assert!(more[0].starts_with("Role coder-") && more[0].ends_with("(its rules)"), "{more:?}");
    assert!(more[1].starts_with("Role team/") && more[1].ends_with("(it is not there yet)"), "{more:?}");
    assert!(more[2].starts_with("RoleBinding team/"), "{more:?}");
}

#[test]
fn another_account_is_neither_made_nor_bound_nor_run_as() {
    let renamed = plain().with("serviceAccount", json!({ "name": "robot" }));
    let kinds: Vec<String> =
        told(&plain(), &renamed).iter().map(|what| what.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "Deployment"]);
    let identity = plain().with("serviceAccount", json!({ "annotations": { "cloud/role": "admin" } }));
    assert_eq!(told(&plain(), &identity), ["ServiceAccount coder (its annotations)"]);
    assert_eq!(told(&identity, &plain()), ["ServiceAccount coder (its annotations)"]);
}

#[test]
fn a_way_from_outside_is_closed_and_never_opened() {
    let service = |kind: &str| plain().with("service", json!({ "type": kind }));
    assert_eq!(told(&plain(), &service("LoadBalancer")), ["Service coder (its type)"]);
    assert_eq!(told(&service("NodePort"), &service("LoadBalancer")), ["Service coder (its type)"]);
    assert_eq!(told(&service("LoadBalancer"), &plain()), [""; 0]);
    assert_eq!(told(&service("LoadBalancer"), &service("LoadBalancer")), [""; 0]);
    let public = json!({ "annotations": { "example.com/scheme": "internet-facing" } });
    assert_eq!(told(&plain(), &plain().with("service", public)), ["Service coder (its type)"]);
    let ingress = |host: &str| plain().with("expose", json!({ "ingress": { "host": host } }));
    assert_eq!(told(&plain(), &ingress("a.example.com")), ["Ingress coder (it is not there yet)"]);
    assert_eq!(told(&ingress("a.example.com"), &ingress("b.example.com")), ["Ingress coder (its hosts)"]);
    assert_eq!(told(&ingress("a.example.com"), &ingress("a.example.com")), [""; 0]);
    assert_eq!(told(&ingress("a.example.com"), &plain()), [""; 0]);
}

#[test]
fn where_nothing_is_live_nothing_that_gives_a_right_is_made() {
    let children = ControlPlane::test().children();
    let withheld = held(&children, |_| None);
    let left: Vec<&str> =
        children.all().filter(|child| !withheld.has(child)).map(|child| child.kind.as_str()).collect();
    assert_eq!(left, ["Service"], "inside the cluster");
    let told = withheld.told("team").unwrap();
    assert!(told.contains("kubectl label namespace team coder.com/admission- to apply: "), "{told}");
    assert_eq!(Withheld::default().told("team"), None);
}

#[test]
fn what_others_add_to_the_pods_is_no_difference() {
    let children = ControlPlane::test().children();
    let template = &children.deployment.manifest["spec"]["template"];
    assert!(template["metadata"].get("annotations").is_none(), "nothing of ours is beside theirs");
    assert!(template["spec"].get("initContainers").is_none());
    let added_to = |child: &Child| {
        let mut live = live(child);
        if child.kind == ChildKind::Deployment {
            let template = &mut live["spec"]["template"];
            template["metadata"]["annotations"] =
                json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
            template["spec"]["initContainers"] = json!([{ "name": "mesh", "image": "mesh:1" }]);
        }
        Some(live)
    };
    assert_eq!(held(&children, added_to), Withheld::default());
}

#[test]
fn the_ports_of_the_service_stay_with_the_pods_that_are_left() {
    let moved =
        |image: &str| plain().with("image", json!(image)).with("tls", json!({ "secretNames": ["a"] }));
    let deployment = "Deployment coder (what its pods run)";
    assert_eq!(told(&plain(), &moved("evil:v9")), [deployment, "Service coder (its ports)"]);
    assert_eq!(told(&plain(), &plain().with("image", json!("evil:v9"))), [deployment]);
    let mut changed = ControlPlane::test().children();
    changed.serving.service.manifest["spec"]["ports"][0]["port"] = json!(9000);
    let before = ControlPlane::test().children();
    let there = |child: &Child| before.all().find(|one| one.kind == child.kind).map(live);
    assert_eq!(held(&changed, there), Withheld::default(), "the pods are what the spec asks for");
}
