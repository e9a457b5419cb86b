//! Decides how the CEL of a rule is put where it is needed: on a field of a definition or on a whole object.
//! Never changes what the CEL means.

use crate::kind::Kind;
use crate::rules::{CelCheck, Rule, Scope, When};

/// Replaces a name in an expression where it stands as a word of its own and not behind a dot.
fn with(text: &str, name: &str, replacement: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(name) {
        let (before, found) = rest.split_at(start);
        let (found, after) = found.split_at(name.len());
        result.push_str(before);
        let word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let part_of_word = result.ends_with(word) || result.ends_with('.') || after.starts_with(word);
        result.push_str(if part_of_word { found } else { replacement });
        rest = after;
    }
    result.push_str(rest);
    result
}

/// The rule for `x-kubernetes-validations` at [`CelCheck::at`], and whether it looks back at the old value. On a field it
/// does not have to: the API server skips it while the value stays as it is. On the whole object, which always changes,
/// it must.
pub(super) fn in_definition(rule: &Rule, check: &CelCheck) -> (String, bool) {
    let good = format!("{} == 0", check.text);
    match rule.when {
        When::Create => (format!("oldSelf.hasValue() || {good}"), true),
        When::Always if check.at.is_empty() => {
            let old = with(&check.text, "self", "oldSelf.value()");
            (format!("{good} || oldSelf.hasValue() && {old} > 0"), true)
        }
        When::Always => (good, false),
        When::Change => (check.text.clone(), false),
    }
}

/// An expression over `object` and `oldObject` that is true where all is well.
pub(super) fn in_policy(kind: Kind, rule: &Rule, check: &CelCheck) -> String {
    let new = on("object", check);
    let [here, before] = ["object", "oldObject"].map(|object| below(object, &check.at));
    let both = || format!("{} && {}", present("object", &check.at), present("oldObject", &check.at));
    match (rule.when, rule.scope_of_check(kind, check)) {
        (When::Create, _) => format!("oldObject != null || {new} == 0"),
        (When::Always, Scope::Value(_)) => {
            format!("{new} == 0 || oldObject != null && {} && {before} == {here}", both())
        }
        (When::Always, Scope::Count(_)) => {
            format!("{new} <= (oldObject == null ? 0 : {})", on("oldObject", check))
        }
        (When::Change, _) => {
            let text = with(&with(&check.text, "oldSelf", &before), "self", &here);
            format!("oldObject == null || !({}) || ({text})", both())
        }
    }
}

/// The number of problems a counting check finds in an object.
fn on(object: &str, check: &CelCheck) -> String {
    let text = with(&check.text, "self", &below(object, &check.at));
    if check.at.is_empty() {
        return text;
    }
    format!("({} ? {text} : 0)", present(object, &check.at))
}

fn below(object: &str, path: &str) -> String {
    if path.is_empty() { object.to_owned() } else { format!("{object}.{path}") }
}

/// Whether the value at a path is there.
fn present(object: &str, path: &str) -> String {
    let mut reached = object.to_owned();
    let mut tests = Vec::new();
    for key in path.split('.').filter(|key| !key.is_empty()) {
        reached = format!("{reached}.{key}");
        tests.push(format!("has({reached})"));
    }
    if tests.is_empty() { "true".to_owned() } else { tests.join(" && ") }
}

/// A text of a message as CEL writes it.
pub(super) fn literal(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_replaced() {
        assert_eq!(
            with("self.a + oldSelf.b + selfish + x.self", "self", "object"),
            "object.a + oldSelf.b + selfish + x.self"
        );
        assert_eq!(with("f(self)", "self", "oldSelf.value()"), "f(oldSelf.value())");
    }

    #[test]
    fn an_expression_on_a_whole_object_tests_the_way() {
        let check = CelCheck::counting("spec.key.name", "(self == '' ? 1 : 0)");
        let expected = "(has(object.spec) && has(object.spec.key) && has(object.spec.key.name) ? (object.spec.key.name == '' ? 1 : 0) : 0)";
        assert_eq!(on("object", &check), expected);
    }
}
