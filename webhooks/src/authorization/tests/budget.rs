//! How many questions a change may cost: a request, a namespace and a rule each have their number, and what would take more is to be
//! split. However large a rule is, it is never written out.

use super::*;

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
