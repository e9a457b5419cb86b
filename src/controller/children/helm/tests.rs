//! Whose an object is, and what a take-over writes.

use super::*;
use crate::controller::children::ChildKind;

const RELEASE: Release<'static> = Release { name: "prod", namespace: "a" };

fn child() -> Child {
    let owner = json!([{ "kind": "CoderControlPlane", "name": "coder", "uid": "u1", "controller": true }]);
    Child::new(
        ChildKind::Service,
        "a",
        "coder",
        json!({ "metadata": { "labels": { "app": "coder" }, "ownerReferences": owner },
            "spec": { "selector": { "app": "coder" } } }),
    )
}

/// As `helm install` leaves it.
fn installed() -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "coder", "namespace": "a",
        "resourceVersion": "7",
        "labels": { "app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "coder-1", "team": "a" },
        "annotations": { "meta.helm.sh/release-name": "prod", "meta.helm.sh/release-namespace": "a" },
        "managedFields": [
            { "manager": "helm-controller", "operation": "Update", "fieldsV1": { "f:metadata": {
                "f:annotations": { "f:meta.helm.sh/release-name": {} } }, "f:spec": { "f:type": {} } } },
            { "manager": "helm", "operation": "Update", "fieldsV1": { "f:spec": { "f:ports": {} } } },
            { "manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": {} } },
            { "manager": "kubectl-label", "operation": "Update", "fieldsV1": { "f:metadata": {
                "f:labels": { "f:team": {} } } } },
        ] } })
}

fn whose(live: &Value) -> Whose {
    RELEASE.whose(Some(live), &child(), "u1")
}

#[test]
fn only_what_says_it_is_of_this_release_and_has_no_controller_is_taken() {
    assert_eq!(RELEASE.whose(None, &child(), "u1"), Whose::Nobodys);
    assert_eq!(whose(&installed()), Whose::OfRelease);
    let told = |field: &str, value: Value| {
        let mut live = installed();
        *live.pointer_mut(field).unwrap() = value;
        match whose(&live) {
            Whose::Others(why) => why,
            other => panic!("{field}: {other:?}"),
        }
    };
    let annotations = "/metadata/annotations/meta.helm.sh~1release-";
    let name = told(&format!("{annotations}name"), json!("test\u{1b}"));
    assert!(name.starts_with("Service coder belongs to release test"), "{name}");
    assert!(told(&format!("{annotations}namespace"), json!("b")).ends_with("of namespace b"));
    assert!(told("/metadata/labels/app.kubernetes.io~1managed-by", json!("me")).ends_with("no Helm release"));
    let mut owned = installed();
    owned["metadata"]["ownerReferences"] =
        json!([{ "kind": "App", "name": "x", "uid": "u2", "controller": true }]);
    assert_eq!(whose(&owned), Whose::Others("Service coder is controlled by App x".to_owned()));
    owned["metadata"]["ownerReferences"] = json!([{ "uid": "u1", "controller": true }]);
    assert_eq!(whose(&owned), Whose::Ours);
}

#[test]
fn one_write_makes_it_ours_with_all_that_helm_wrote_and_nothing_of_others() {
    let mut live = installed();
    let patch = taking_over(&live, &child()).unwrap();
    json_patch::patch(&mut live, &patch).unwrap();
    assert_eq!(whose(&live), Whose::Ours, "it is known by its reference");
    let managers = live.pointer("/metadata/managedFields").unwrap().as_array().unwrap();
    let names: Vec<&str> = managers.iter().filter_map(|entry| entry["manager"].as_str()).collect();
    assert_eq!(names, ["coder-k8s", "helm", "kubectl-label"], "the status is nobody's to apply");
    let ours = &managers[0];
    assert_eq!((&ours["operation"], &ours["apiVersion"]), (&json!("Apply"), &json!("v1")));
    let fields = &ours["fieldsV1"];
    assert!(fields["f:spec"]["f:type"].is_object() && fields["f:spec"]["f:ports"].is_object(), "{fields}");
    for (field, key) in
        [("f:annotations", "f:meta.helm.sh/release-namespace"), ("f:labels", "f:helm.sh/chart")]
    {
        assert!(fields["f:metadata"][field][key].is_object(), "{key}, whoever wrote it: {fields}");
    }
    let mut newer = installed();
    newer["metadata"]["resourceVersion"] = json!("8");
    assert!(json_patch::patch(&mut newer, &patch).is_err(), "somebody else was faster");
}

#[test]
fn the_way_out_is_told_only_where_it_is_one() {
    assert_eq!(way_out(&installed()).unwrap(), "coder.com/adopt-helm-release: prod");
    for (field, value) in [
        ("/metadata/namespace", json!("b")),
        ("/metadata/annotations/meta.helm.sh~1release-name", json!("A b,c=d")),
        ("/metadata/labels/app.kubernetes.io~1managed-by", json!("me")),
    ] {
        let mut live = installed();
        *live.pointer_mut(field).unwrap() = value;
        assert_eq!(way_out(&live), None, "{field}");
    }
    let mut owned = installed();
    owned["metadata"]["ownerReferences"] = json!([{ "uid": "u2", "controller": true }]);
    assert_eq!(way_out(&owned), None);
}

#[test]
fn a_release_has_a_name_that_helm_gives() {
    for name in ["coder", "coder-2", "a.b", &"x".repeat(53)] {
        assert!(Release::named(name, "a").is_some(), "{name}");
    }
    for name in ["", "Coder", "a,b=c", "-a", "a-", "a b", &"x".repeat(54)] {
        assert_eq!(Release::named(name, "a"), None, "{name}");
    }
}

#[test]
fn a_replica_set_is_known_by_its_name_its_labels_and_what_its_deployment_copied_to_it() {
    let left = json!({ "metadata": { "name": "coder-5d9", "labels": { "pod-template-hash": "5d9",
        "app.kubernetes.io/instance": "prod", "app.kubernetes.io/managed-by": "Helm" },
        "annotations": { "meta.helm.sh/release-name": "prod", "meta.helm.sh/release-namespace": "a" } } });
    assert!(RELEASE.left(&left, "coder"));
    assert!(!RELEASE.left(&left, "other"));
    for (field, value) in [
        ("/metadata/name", json!("coder-5d8")),
        ("/metadata/labels/pod-template-hash", json!("x")),
        ("/metadata/labels/app.kubernetes.io~1instance", json!("test")),
        ("/metadata/labels/app.kubernetes.io~1managed-by", json!("me")),
        ("/metadata/annotations/meta.helm.sh~1release-name", json!("test")),
        ("/metadata/annotations/meta.helm.sh~1release-namespace", json!("b")),
    ] {
        let mut other = left.clone();
        *other.pointer_mut(field).unwrap() = value;
        assert!(!RELEASE.left(&other, "coder"), "{field}");
    }
    let mut owned = left;
    owned["metadata"]["ownerReferences"] = json!([{ "uid": "d", "controller": true }]);
    assert!(!RELEASE.left(&owned, "coder"), "its Deployment is there");
}

#[test]
fn a_service_leads_to_the_pods_with_exactly_our_labels() {
    let to = |selector: Value| leads_to(&json!({ "spec": { "selector": selector } }), &child());
    assert!(to(json!({ "app": "coder" })));
    assert!(
        !to(json!({ "app": "coder", "track": "canary" })) && !to(json!({ "app": "old" })) && !to(Value::Null)
    );
}
