//! Tests of the rule table: codes, documentation, and that every example shows what it says.
//! They never judge a request: see the tests of [`crate::validate`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::{Operation, validate};

fn minimal(kind: Kind) -> Value {
    let spec = match kind {
        Kind::ControlPlane => json!({"image": "ghcr.io/coder/coder:v2.36.1"}),
        Kind::Provisioner => json!({"controlPlaneRef": {"name": "coder"}}),
        Kind::WorkspaceProxy => json!({
            "image": "ghcr.io/coder/coder:v2.36.1",
            "primaryAccessURL": "https://coder.example.com",
            "proxySessionTokenSecretRef": {"name": "session"},
        }),
    };
    json!({"apiVersion": "coder.com/v1alpha1", "kind": kind.name(), "metadata": {"name": "coder", "namespace": "coder"}, "spec": spec})
}

/// The object with a fragment laid over it; an empty map takes away what it stands for.
fn overlaid(mut object: Value, fragment: &Value) -> Value {
    if fragment == &json!({}) {
        return json!({});
    }
    match (&mut object, fragment) {
        (Value::Object(map), Value::Object(fragment)) => {
            for (key, value) in fragment {
                let below = map.remove(key).unwrap_or(Value::Null);
                map.insert(
                    key.clone(),
                    if below.is_object() { overlaid(below, value) } else { value.clone() },
                );
            }
            object
        }
        _ => fragment.clone(),
    }
}

/// An example of a rule as a whole object.
fn example(rule: &Rule, text: &str) -> (Kind, Value) {
    let fragment: Value =
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", rule.code));
    let named = fragment.get("kind").and_then(Value::as_str).and_then(Kind::from_name);
    let concerned = |kind: &Kind| rule.fields_of(*kind).next().is_some();
    let kind = named.or_else(|| rule.kinds.iter().copied().find(concerned)).unwrap();
    let base = match rule.code {
        // What they are about is in the minimal object.
        "CODER0307" | "CODER0308" => json!({"metadata": {"name": "coder"}, "kind": kind.name()}),
        "CODER0605" => json!({"kind": kind.name(), "spec": minimal(kind)["spec"]}),
        _ => minimal(kind),
    };
    (kind, overlaid(base, &fragment))
}

#[test]
fn codes_are_unique_ordered_and_well_formed() {
    let codes: Vec<&str> = rules().map(|rule| rule.code).collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(codes.len(), unique.len());
    assert!(codes.is_sorted(), "{codes:?}");
    for code in codes {
        assert!(code.len() == 9 && code.starts_with("CODER0"), "{code}");
    }
}

#[test]
fn every_rule_is_documented_and_no_text_makes_a_tool_recreate_objects() {
    for rule in rules() {
        for text in [rule.title, rule.fix, rule.why, rule.bad, rule.good] {
            assert!(!text.trim().is_empty(), "{}", rule.code);
            assert!(!text.to_lowercase().contains("immutable"), "{}: {text}", rule.code);
        }
        assert!(!rule.title.ends_with('.') && !rule.fix.ends_with('.'), "{}", rule.code);
        assert!(rule.why.ends_with('.'), "{}", rule.code);
        assert!(explain(rule.code).unwrap().contains(rule.why));
    }
    assert!(explain("coder0101").is_some() && explain("CODER9999").is_none());
}

#[test]
fn every_rule_that_refuses_lives_in_webhook_and_lint() {
    for rule in rules().filter(|rule| rule.severity == Severity::Deny) {
        // One is for the time when nobody calls the webhooks.
        assert!(rule.lives_in(Layer::Webhook) != rule.lives_in(Layer::BreakGlass), "{}", rule.code);
    }
    for rule in rules() {
        // Lint does not know who asks, nor what is stored.
        let offline = !matches!(rule.check, Check::Access) && rule.when != When::Change;
        assert_eq!(rule.lives_in(Layer::Lint), offline, "{}", rule.code);
    }
}

#[test]
fn every_layer_that_speaks_cel_has_cel_and_every_field_exists() {
    for rule in rules() {
        let cel = rule.lives_in(Layer::Cel) || rule.lives_in(Layer::Policy);
        for field in rule.fields {
            let known = rule.kinds.iter().any(|kind| crate::schema::has_field(*kind, field));
            assert!(known, "{} knows no {field}", rule.code);
        }
        let cel_checks: usize = rule.kinds.iter().map(|kind| rule.cel_checks(*kind).len()).sum();
        if cel {
            assert!(rule.kinds.iter().all(|kind| rule.fields_of(*kind).next().is_some()), "{}", rule.code);
            assert!(cel_checks > 0, "{} has no CEL", rule.code);
        }
    }
}

#[test]
fn every_example_shows_what_it_says() {
    // What one may hold depends on who asks, and what is too large is too long to be shown.
    for rule in rules().filter(|rule| !matches!(rule.check, Check::Access | Check::Size)) {
        let (kind, bad) = example(rule, rule.bad);
        let (_, good) = example(rule, rule.good);
        // The examples of changes go from the good one to the bad one.
        let operation = if rule.when == When::Change { Operation::Update(&good) } else { Operation::Create };
        let refused = validate(kind, &bad, operation);
        let told = refused.causes.iter().chain(&refused.warnings).any(|cause| cause.code == rule.code);
        assert!(told, "{}: {refused:?}\n{bad}", rule.code);
        assert_eq!(
            refused.causes.iter().any(|cause| cause.code == rule.code),
            rule.severity == Severity::Deny
        );
        let accepted = validate(kind, &good, Operation::Create);
        assert!(accepted.allowed(), "{}: {:?}", rule.code, accepted.denial());
        assert!(!accepted.warnings.iter().any(|warning| warning.code == rule.code), "{}", rule.code);
    }
}

#[test]
fn the_minimal_objects_break_nothing() {
    for kind in Kind::ALL {
        let verdict = validate(kind, &minimal(kind), Operation::Create);
        assert_eq!(verdict, crate::Verdict::default(), "{kind:?}");
    }
}

#[test]
fn name_limits_are_those_of_the_derived_names() {
    let limits = Kind::ALL.map(|kind| (kind.name_limits().hard, kind.name_limits().soft));
    assert_eq!(limits, [(63, 46), (51, 34), (55, 38)]);
}
