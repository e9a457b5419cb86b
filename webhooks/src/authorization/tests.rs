//! Tests of what is asked for which change, and of how answers become a decision.
//! They never meet a cluster: the answers are given by the test.

mod exposure;
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
fn too_many_questions_end_in_a_request_to_split() {
    let with = |count: usize| {
        let namespaces: Vec<String> = (0..count).map(|number| format!("team-{number}")).collect();
        control_plane(json!({"rbac": {"workspaceNamespaces": namespaces}}))
    };
    let (none, some, many) = (with(0), with(7), with(120));
    let holds = |check: &AccessCheck| !["escalate", "bind"].contains(&check.verb.as_str());
    let required = |object| required_access(Some(&none), object, NS, Kind::ControlPlane);
    let (causes, count) = reviewed(required(&many), |check| check.verb == "escalate");
    assert_eq!((causes.len(), count), (0, 120), "whoever may escalate is asked once a namespace");
    let (causes, count) = reviewed(required(&some), holds);
    assert_eq!((causes.len(), count), (0, 7 * 26), "seven namespaces fit into one request");
    let (causes, count) = reviewed(required(&many), holds);
    assert_eq!(count, MAX_REVIEWS);
    assert_eq!(causes.last().unwrap().code, "CODER0508");
    assert!(causes.last().unwrap().message().contains("split the change"));
}

#[test]
fn no_namespace_is_asked_about_more_than_forty_times() {
    let words: Vec<String> = (0..20).map(|number| format!("w{number}")).collect();
    let rule = json!([{"apiGroups": [""], "resources": words, "verbs": ["get"]}]);
    let everything = rules(rule.clone());
    let (causes, count) = reviewed(required_access(None, &everything, NS, Kind::ControlPlane), |check| {
        !["escalate", "bind"].contains(&check.verb.as_str())
    });
    assert_eq!(count, 26, "what cannot be asked to the end is not begun");
    assert_eq!(causes.last().unwrap().code, "CODER0508");
    let there = control_plane(json!({"rbac": {"workspaceNamespaces": ["a"], "extraRules": rule}}));
    let required = required_access(Some(&everything), &there, NS, Kind::ControlPlane);
    let (_, count) = reviewed(required, |check| !["escalate", "bind"].contains(&check.verb.as_str()));
    assert_eq!(count, 26, "another namespace has its own forty");
}

#[test]
fn an_enormous_rule_costs_nothing_and_needs_escalate() {
    let words: Vec<String> = (0..2_000).map(|number| format!("w{number}")).collect();
    let object = rules(json!([{"apiGroups": words, "resources": words, "verbs": words}]));
    let old = Some(&no_rules());
    let required = required_access(old, &object, NS, Kind::ControlPlane);
    assert_eq!(required[0].all_of, []);
    let (causes, count) = reviewed(required, |check| !["escalate", "bind"].contains(&check.verb.as_str()));
    assert_eq!(count, 2, "what cannot be asked to the end is not begun");
    assert_eq!(
        causes.iter().map(|cause| (cause.code, cause.field.as_str())).collect::<Vec<_>>(),
        [("CODER0508", "spec.rbac.extraRules[0]")]
    );
    assert!(causes[0].message().contains("split the change"));
    assert_eq!(denied(Kind::ControlPlane, old, &object, |_| false), ["CODER0508"]);
    assert_eq!(denied(Kind::ControlPlane, old, &object, |check| check.verb == "bind"), [""; 0]);
}

/// A review of 15 kB that was 695,000 questions before the first was asked.
#[test]
fn many_rules_in_many_namespaces_are_not_written_out() {
    let words = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let rule = |n: usize| json!({"apiGroups": [format!("g{n}")], "resources": words("r", 5), "verbs": words("v", 8)});
    let rules: Vec<Value> = (0..64).map(rule).collect();
    let of = |rules: &[Value], namespaces: usize| {
        let namespaces = words("ns", namespaces);
        control_plane(json!({"rbac": {"extraRules": rules, "workspaceNamespaces": namespaces}}))
    };
    let (few, object) = (of(&rules[..1], 256), of(&rules, 256));
    for old in [None, Some(&few)] {
        let required = required_access(old, &object, NS, Kind::ControlPlane);
        let written: usize = required.iter().map(|access| access.all_of.len()).sum();
        assert!(
            written <= MAX_REVIEWS && required.len() <= 300,
            "{written} rights, {} in all",
            required.len()
        );
        assert_eq!(required.iter().filter(|access| access.too_many).count(), 257, "each namespace, once");
        let (causes, count) =
            reviewed(required, |check| !["escalate", "bind"].contains(&check.verb.as_str()));
        assert_eq!((causes.last().unwrap().code, count), ("CODER0508", MAX_REVIEWS));
    }
    let long = json!([{"apiGroups": [""], "resources": ["r".repeat(100_000)], "verbs": words("v", 40)}]);
    let required = required_access(
        Some(&no_rules()),
        &control_plane(json!({"rbac": {"extraRules": long}})),
        NS,
        Kind::ControlPlane,
    );
    assert!(
        required.len() == 1 && required[0].too_many && required[0].all_of.is_empty(),
        "no word is that long"
    );
}

#[test]
fn rights_are_counted_within_one_budget_and_asked_about_once() {
    let words = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let rule =
        |resources: &[String]| json!({"apiGroups": [""], "resources": resources, "verbs": ["get", "list"]});
    let twice = rules(json!([rule(&words("r", 15)), rule(&words("r", 18))]));
    let required = required_access(Some(&no_rules()), &twice, NS, Kind::ControlPlane);
    let counts: Vec<usize> = required.iter().map(|access| access.all_of.len()).collect();
    assert_eq!(counts, [30, 6], "what one rule asks for another does not");
    let [before, after] = [30, 31].map(|size| words("r", 900).chunks(size).map(rule).collect::<Vec<_>>());
    let [before, after] = [before, after].map(|cut| rules(json!(cut)));
    assert_eq!(required_access(Some(&before), &after, NS, Kind::ControlPlane), [], "cut otherwise");

    // Every right is covered, but only by the last rule but one or the last, so that each is compared with all.
    let with = |resources: &[String], verb: &str| json!({"apiGroups": ["g"], "resources": resources, "verbs": [verb]});
    let many = words("m", 400);
    let mut before: Vec<Value> = (0..62).map(|_| with(&words("x", 1), "get")).collect();
    before.extend([with(&many, "get"), with(&many, "list")]);
    let both = json!({"apiGroups": ["g"], "resources": many, "verbs": ["get", "list"]});
    let after = vec![both; 64];
    let required = required_access(Some(&rules(json!(before))), &rules(json!(after)), NS, Kind::ControlPlane);
    let [told] = required.try_into().unwrap();
    assert!(told.too_many && told.field == "spec.rbac.extraRules[1]", "{told:?}");
}

#[test]
fn a_rule_that_is_too_large_is_passed_in_parts() {
    let rule = |count: usize| {
        let words: Vec<String> = (0..count).map(|number| format!("w{number}")).collect();
        rules(json!([{"apiGroups": [""], "resources": words, "verbs": ["get"]}]))
    };
    let holds = |check: &AccessCheck| check.verb == "get";
    let none = no_rules();
    assert_eq!(denied(Kind::ControlPlane, Some(&none), &rule(60), holds), ["CODER0508"]);
    assert_eq!(denied(Kind::ControlPlane, Some(&none), &rule(30), holds), [""; 0]);
    assert_eq!(denied(Kind::ControlPlane, Some(&rule(30)), &rule(60), holds), [""; 0]);
    assert_eq!(denied(Kind::ControlPlane, Some(&rule(30)), &rule(60), |_| false), ["CODER0502"]);
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
    assert_eq!(codes, ["CODER0509", "CODER0507", "CODER0506", "CODER0510", "CODER0502", "CODER0503"]);
    assert!(codes.iter().all(|code| crate::rules::by_code(code).is_some()));
    let words = &table()[0].fields;
    assert!(
        words.contains("`suspend`, `replicas`") && words.contains("`coder.com/adopt-proxy` and"),
        "{words}"
    );
}
