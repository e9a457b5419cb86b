//! Tests of what is asked for which change, and of how answers become a decision.
//! They never meet a cluster: the answers are given by the test.

mod adoption;
mod budget;
mod exposure;
mod kept_secret;
mod pod_security;
mod run_pods;
mod sent_secrets;

use serde_json::{Value, json};

use super::*;
use crate::cause::{Cause, CauseReason};

const NS: &str = "coder";

fn control_plane(spec: Value) -> Value {
    json!({"metadata": {"name": "cp"}, "spec": spec})
}

fn proxy(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Field and questions of everything that is required.
fn asked(kind: Kind, old: Option<&Value>, new: &Value) -> Vec<(String, Vec<String>)> {
    let words = |checks: &[AccessCheck]| checks.iter().map(AccessCheck::in_words).collect::<Vec<_>>();
    required_access(old, new, NS, kind)
        .into_iter()
        .map(|access| {
            (access.field, words(&access.alternatives).into_iter().chain(words(&access.all_of)).collect())
        })
        .collect()
}

/// Asks a person who holds exactly what `holds` says.
fn reviewed(required: Vec<RequiredAccess>, holds: impl Fn(&AccessCheck) -> bool) -> (Vec<Cause>, usize) {
    let mut reviews = AccessReviews::new(required);
    let mut count = 0;
    loop {
        let questions = reviews.pending();
        if questions.is_empty() {
            return (reviews.causes(), count);
        }
        for question in questions {
            count += 1;
            let held = holds(&question);
            reviews.record(question, held);
        }
    }
}

fn denied(
    kind: Kind,
    old: Option<&Value>,
    new: &Value,
    holds: impl Fn(&AccessCheck) -> bool,
) -> Vec<&'static str> {
    reviewed(required_access(old, new, NS, kind), holds).0.iter().map(|cause| cause.code).collect()
}

/// What is required by one rule.
fn required(code: &str, kind: Kind, old: Option<&Value>, new: &Value) -> Vec<RequiredAccess> {
    required_access(old, new, NS, kind).into_iter().filter(|access| access.code == code).collect()
}

/// Who may do everything that workspaces need, in one namespace.
fn has_workspaces(check: &AccessCheck, namespace: &str) -> bool {
    ["pods", "persistentvolumeclaims", "deployments"].contains(&check.resource.as_str())
        && check.namespace == namespace
}

#[test]
fn an_object_that_is_no_object_asks_for_what_a_silent_one_asks() {
    for object in [json!({}), json!([]), json!({"metadata": {"name": "cp"}, "spec": {}})] {
        let fields: Vec<String> =
            asked(Kind::ControlPlane, None, &object).into_iter().map(|(field, _)| field).collect();
        let (perms, deployments) = ("spec.rbac.workspacePerms", "spec.rbac.enableDeployments");
        assert_eq!(fields, ["spec", perms, perms, deployments]);
        assert_eq!(denied(Kind::ControlPlane, None, &object, |check| has_workspaces(check, NS)), [""; 0]);
    }
}

#[test]
fn a_provisioner_gets_pods_and_claims_at_home_and_deployments_where_it_asks() {
    let of = |rbac: Value| json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": "cp"}, "rbac": rbac}});
    let rules = |old: Option<&Value>, new: &Value| required("CODER0502", Kind::Provisioner, old, new);
    let resources = |required: Vec<RequiredAccess>| -> Vec<String> {
        required.iter().map(|access| access.all_of[0].resource.clone()).collect()
    };
    let (silent, all) = (of(json!({})), of(json!({"enableDeployments": true})));
    assert_eq!(resources(rules(None, &silent)), ["pods", "persistentvolumeclaims"]);
    assert_eq!(resources(rules(Some(&silent), &all)), ["deployments"]);
    assert_eq!(rules(None, &of(json!({"workspacePerms": false, "enableDeployments": true}))), []);
    assert_eq!(required("CODER0502", Kind::WorkspaceProxy, None, &proxy(json!({}))), []);
}

#[test]
fn rules_of_a_provisioner_are_asked_for_as_those_of_a_control_plane_are() {
    let of = |rbac: Value| json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": "cp"}, "rbac": rbac}});
    let rule = |verbs: Value| json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": verbs}]);
    let (silent, reads) = (of(json!({})), of(json!({"extraRules": rule(json!(["get"]))})));
    let told = |old: Option<&Value>, new: &Value| asked(Kind::Provisioner, old, new);
    let rights = |verb: &str| {
        ["escalate roles.rbac.authorization.k8s.io", "bind roles.rbac.authorization.k8s.io", verb]
            .map(|right| format!("{right} in namespace {NS}"))
            .to_vec()
    };
    let field = "spec.rbac.extraRules[0]".to_owned();
    assert_eq!(told(Some(&silent), &reads), [(field.clone(), rights("get secrets"))]);
    let lists = of(json!({"extraRules": rule(json!(["get", "list"]))}));
    assert_eq!(told(Some(&reads), &lists), [(field, rights("list secrets"))]);
    assert_eq!(told(Some(&lists), &reads), []);
    let holds = |check: &AccessCheck| check.resource == "secrets" && check.verb == "get";
    assert_eq!(denied(Kind::Provisioner, Some(&silent), &reads, holds), [""; 0]);
    assert_eq!(denied(Kind::Provisioner, Some(&silent), &lists, holds), ["CODER0502"]);
    let off = of(json!({"workspacePerms": false, "extraRules": rule(json!(["get"]))}));
    assert_eq!(told(Some(&silent), &off), [], "no Role is written");
}

#[test]
fn workspace_rules_are_asked_for_at_home_as_elsewhere() {
    let silent = control_plane(json!({}));
    let required = required("CODER0502", Kind::ControlPlane, None, &silent);
    assert_eq!(required.iter().map(|access| access.all_of.len()).sum::<usize>(), 24);
    assert!(required.iter().flat_map(|access| &access.all_of).all(|check| check.namespace == NS));
    for verb in ["escalate", "bind"] {
        let (causes, count) = reviewed(required.clone(), |check| check.verb == verb);
        assert!(causes.is_empty() && count <= 2, "{verb} answers all of it: {count} questions");
    }
    let none = |check: &AccessCheck| check.verb != "deletecollection" && has_workspaces(check, NS);
    assert_eq!(denied(Kind::ControlPlane, None, &silent, none), ["CODER0502"; 3]);
    assert_eq!(asked(Kind::ControlPlane, Some(&silent), &silent), []);
}

/// Nothing that the operator writes can give anybody a right.
#[test]
fn status_is_never_an_input() {
    let mut generator = crate::generate::Generator::new(21);
    for _ in 0..5_000 {
        let kind = generator.kind();
        let (old, new) = (generator.object(kind), generator.object(kind));
        let with_status = |object: &Value, status: &Value| {
            let mut object = object.clone();
            object["status"] = status.clone();
            object
        };
        let (before, after) = (generator.json(4), generator.json(4));
        let (old_status, new_status) = (with_status(&old, &before), with_status(&new, &after));
        let plain = required_access(Some(&old), &new, NS, kind);
        assert_eq!(required_access(Some(&old_status), &new_status, NS, kind), plain, "{before} {after}");
        assert_eq!(required_access(None, &new_status, NS, kind), required_access(None, &new, NS, kind));
        let config = crate::Config::default();
        assert_eq!(
            crate::defaults(kind, &new_status, Some(&old_status), &config),
            crate::defaults(kind, &new, Some(&old), &config)
        );
        assert_eq!(
            crate::resolved(kind, &new_status, &config)["spec"],
            crate::resolved(kind, &new, &config)["spec"]
        );
    }
}

/// A control plane whose only rights besides are these.
fn rules(rules: Value) -> Value {
    control_plane(json!({"rbac": {"extraRules": rules}}))
}

/// The same without any of these: what it has besides is not asked again.
fn no_rules() -> Value {
    control_plane(json!({}))
}

#[test]
fn a_rule_is_asked_for_verb_by_verb_after_escalate_and_bind() {
    let object = rules(
        json!([{"apiGroups": ["", "apps"], "resources": ["secrets", "pods/exec"], "verbs": ["get", "list"]}]),
    );
    let old = Some(&no_rules());
    let required = required_access(old, &object, NS, Kind::ControlPlane);
    assert_eq!((required.len(), required[0].all_of.len()), (1, 8));
    for verb in ["escalate", "bind"] {
        assert_eq!(denied(Kind::ControlPlane, old, &object, |check| check.verb == verb), [""; 0]);
    }
    assert_eq!(
        denied(Kind::ControlPlane, old, &object, |check| ["get", "list"].contains(&check.verb.as_str())),
        [""; 0]
    );
    let (causes, _) = reviewed(required, |check| check.verb == "get");
    assert_eq!(
        causes[0].to_string(),
        "spec.rbac.extraRules[0]: you may not list pods/exec in namespace coder; ask somebody who holds the right \
         there, or who may escalate or bind roles there, to apply it (CODER0502)"
    );
}

#[test]
fn only_what_is_added_is_asked_for() {
    let old = rules(json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]}]));
    let split = rules(
        json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}, {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]),
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&old), &split), []);
    let more =
        rules(json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}]));
    let required = required_access(Some(&old), &more, NS, Kind::ControlPlane);
    assert_eq!(required[0].all_of.iter().map(|check| check.verb.as_str()).collect::<Vec<_>>(), ["watch"]);
    let narrow = rules(
        json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get"], "resourceNames": ["a"]}]),
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&old), &narrow), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&narrow), &old).len(), 1, "a name less is a right more");
}

#[test]
fn a_namespace_is_asked_for_everything_coderd_gets_there() {
    let spec = |namespaces: Value| {
        control_plane(
            json!({"rbac": {"workspaceNamespaces": namespaces, "extraRules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]}}),
        )
    };
    let (one, two) = (spec(json!(["a"])), spec(json!(["a", "b", "a", NS])));
    let required = required_access(Some(&one), &two, NS, Kind::ControlPlane);
    assert_eq!(required.iter().map(|access| access.all_of.len()).sum::<usize>(), 25);
    assert!(
        required
            .iter()
            .all(|access| access.field == "spec.rbac.workspaceNamespaces[1]" && access.code == "CODER0503")
    );
    assert!(required.iter().flat_map(|access| &access.all_of).all(|check| check.namespace == "b"));
    assert_eq!(
        denied(Kind::ControlPlane, Some(&one), &two, |check| check.verb == "escalate"
            && check.namespace == "a"),
        ["CODER0503"; 4]
    );
    assert_eq!(
        denied(Kind::ControlPlane, Some(&one), &two, |check| check.verb != "deletecollection"),
        [""; 0]
    );
}

#[test]
fn turning_rights_on_asks_at_home_and_elsewhere() {
    let spec = |perms: bool| {
        control_plane(json!({"rbac": {"workspacePerms": perms, "workspaceNamespaces": ["a"],
            "extraRules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}}))
    };
    let (off, on) = (spec(false), spec(true));
    assert_eq!(required("CODER0502", Kind::ControlPlane, None, &off), [], "no Role is written");
    let fields: Vec<String> =
        asked(Kind::ControlPlane, Some(&off), &on).into_iter().map(|(field, _)| field).collect();
    let (rules, perms) = ("spec.rbac.extraRules[0]", "spec.rbac.workspacePerms");
    let everywhere = [perms, perms, "spec.rbac.enableDeployments", rules];
    assert_eq!(fields, [everywhere, everywhere].concat());
    assert_eq!(asked(Kind::ControlPlane, Some(&on), &off), []);
}

#[test]
fn a_stored_rule_of_any_size_is_not_asked_again_and_neither_is_a_part_of_it() {
    let words = |count: usize| (0..count).map(|n| format!("r{n}")).collect::<Vec<_>>();
    let rule = |count| json!({"apiGroups": ["x"], "resources": words(count), "verbs": words(40)});
    let of =
        |count, image: &str| control_plane(json!({"image": image, "rbac": {"extraRules": [rule(count)]}}));
    assert_eq!(required("CODER0502", Kind::ControlPlane, Some(&of(60, "a:1")), &of(60, "a:2")), []);
    assert_eq!(required_access(Some(&of(60, "a:1")), &of(30, "a:1"), NS, Kind::ControlPlane), []);
    let [grown] =
        required_access(Some(&of(60, "a:1")), &of(61, "a:1"), NS, Kind::ControlPlane).try_into().unwrap();
    assert!(grown.too_many, "{grown:?}");
}

#[test]
fn a_denial_is_told_also_by_a_code_that_no_rule_has() {
    let required = vec![RequiredAccess::any("spec", "CODER9999", vec![AccessCheck::create_pods(NS)])];
    let (causes, _) = reviewed(required, |_| false);
    let [cause] = causes.as_slice() else { panic!("{causes:?}") };
    assert_eq!((cause.code, cause.reason), ("CODER9999", CauseReason::Forbidden));
    assert!(cause.to_string().contains("; ask an administrator"), "{cause}");
}

#[test]
fn the_table_names_every_code_that_is_asked_for() {
    let codes: Vec<&str> = table().iter().map(|line| line.code).collect();
    assert_eq!(
        codes,
        [
            "CODER0509",
            "CODER0513",
            "CODER0507",
            "CODER0506",
            "CODER0512",
            "CODER0510",
            "CODER0502",
            "CODER0503"
        ]
    );
    assert!(codes.iter().all(|code| crate::rules::by_code(code).is_some()));
    let words = &table()[0].fields;
    assert!(
        words.contains("`suspend`, `replicas`") && words.contains("`coder.com/allow-downgrade` and"),
        "{words}"
    );
}
