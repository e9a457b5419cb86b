//! Decides which rights nobody could be given by an operator that holds no more than it must.
//! Never decides whether the person who asks holds a right: see [`crate::authorization`].

use serde_json::Value;

use super::{CelCheck, Check, NOT_IN_CRD, Problem, Rule, Severity, Subject, When};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;

/// Verbs that turn a Role into more than it says.
const ESCALATING: [&str; 3] = ["escalate", "bind", "impersonate"];
/// Whoever writes Roles for others must not grant that.
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) static RULES: &[Rule] = &[Rule {
    code: "CODER0501",
    title: "A rule names what it grants",
    kinds: &[Kind::ControlPlane, Kind::Provisioner],
    fields: &["spec.rbac.extraRules"],
    severity: Severity::Deny,
    when: When::Always,
    layers: NOT_IN_CRD,
    check: Check::Object { find: ungrantable, cel: ungrantable_cel },
    fix: "list apiGroups, resources and verbs; leave out '*', rbac.authorization.k8s.io, escalate, bind, impersonate \
          and nonResourceURLs",
    why: "Kubernetes lets the operator grant only what the account it writes Roles as holds, which is no wildcard, no \
          escalating verb and nothing outside namespaces: a Role with such a rule could never be written. What that \
          account needs for its own work is never granted: this rule refuses the right to write Roles, and a rule for \
          codercontrolplanes/finalizers passes it but is never granted by the operator, which says so in the conditions \
          of the object.",
    bad: "spec:\n  rbac:\n    extraRules:\n      - {apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}",
    good: "spec:\n  rbac:\n    extraRules:\n      - {apiGroups: [\"\"], resources: [services], verbs: [get, list, watch, create, delete]}",
}];

fn texts<'a>(rule: &'a Value, key: &str) -> Vec<&'a str> {
    rule.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn reasons(rule: &Value) -> Vec<String> {
    let (groups, resources, verbs) =
        (texts(rule, "apiGroups"), texts(rule, "resources"), texts(rule, "verbs"));
    let mut reasons = Vec::new();
    if !texts(rule, "nonResourceURLs").is_empty() {
        reasons.push("has nonResourceURLs".to_owned());
    }
    for (name, values) in [("apiGroups", &groups), ("resources", &resources), ("verbs", &verbs)] {
        if values.is_empty() {
            reasons.push(format!("has no {name}"));
        } else if values.iter().any(|value| value.contains('*')) {
            reasons.push(format!("has '*' in {name}"));
        }
    }
    if groups.contains(&RBAC) {
        reasons.push(format!("names the API group {RBAC}"));
    }
    reasons.extend(
        ESCALATING.iter().filter(|verb| verbs.contains(verb)).map(|verb| format!("has the verb {verb}")),
    );
    reasons
}

fn ungrantable(subject: &Subject<'_>) -> Vec<Problem> {
    let rules = field::items_at(subject.object, "spec.rbac.extraRules").iter().enumerate();
    rules
        .filter(|(_, rule)| rule.is_object())
        .map(|(index, rule)| (index, reasons(rule)))
        .filter(|(_, reasons)| !reasons.is_empty())
        .map(|(index, reasons)| {
            Problem::invalid(format!("spec.rbac.extraRules[{index}]"), reasons.join(", "))
                .because(CauseReason::Forbidden)
        })
        .collect()
}

fn ungrantable_cel(_: Kind) -> Vec<CelCheck> {
    let odd = |name: &str| {
        format!("!has(item.{name}) || size(item.{name}) == 0 || item.{name}.exists(word, word.contains('*'))")
    };
    let text = format!(
        "self.filter(item, has(item.nonResourceURLs) && size(item.nonResourceURLs) > 0 || {} || {} || {} || \
         item.apiGroups.exists(word, word == '{RBAC}') || item.verbs.exists(word, word in {})).size()",
        odd("apiGroups"),
        odd("resources"),
        odd("verbs"),
        crate::text::list(&ESCALATING),
    );
    vec![CelCheck::counting("spec.rbac.extraRules", text)]
}
