//! Decides whether an annotation of ours is one that the operator reads, on this kind and with this value.
//! Never looks at annotations of others, and never refuses one: an object may carry what an operator of tomorrow reads.

use crds::well_known::{GROUP, annotation};
use serde_json::Value;

use super::{Check, IN_RUST, NO_CEL, Problem, Rule, Severity, Subject, When};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{nearest, quoted};

/// Problems that are told of one object: whoever has more of them knows by then.
const MOST: usize = 16;

pub(super) static RULES: &[Rule] = &[Rule {
    code: "CODER0119",
    title: "An annotation of coder.com is one that the operator reads",
    kinds: &Kind::ALL,
    fields: &["metadata.annotations"],
    severity: Severity::Warn,
    when: When::Always,
    layers: IN_RUST,
    check: Check::Object { find: unread, cel: NO_CEL },
    fix: "see docs/reference/annotations.md, or remove it",
    why: "Kubernetes takes any annotation, so a misspelt one, or one for another kind, is stored and nothing happens. \
          [reference/annotations.md](reference/annotations.md) lists those that the operator reads.",
    bad: "kind: CoderProvisioner\nmetadata:\n  annotations:\n    coder.com/adoptkey: builders",
    good: "kind: CoderProvisioner\nmetadata:\n  annotations:\n    coder.com/adopt-key: builders",
}];

fn unread(subject: &Subject<'_>) -> Vec<Problem> {
    let annotations = field::at(subject.object, "metadata.annotations").and_then(Value::as_object);
    let ours = annotations.into_iter().flatten().filter(|(key, _)| is_ours(key));
    ours.filter_map(|(key, value)| problem(subject.kind, key, value)).take(MOST).collect()
}

fn is_ours(key: &str) -> bool {
    key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'))
}

fn problem(kind: Kind, key: &str, value: &Value) -> Option<Problem> {
    let path = field::child("metadata.annotations", key);
    let invalid = |problem: String| Problem::invalid(path.clone(), problem);
    let Some(read) = annotation::READ.iter().find(|read| read.key == key) else {
        let unread = invalid("is not an annotation that the operator reads".to_owned());
        let unread = unread.because(CauseReason::NotSupported);
        return Some(match nearest(key, annotation::READ.iter().map(|read| read.key)) {
            Some(near) => unread.fixed_by(format!("did you mean {near}?")),
            None => unread,
        });
    };
    if !read.kinds.contains(&kind.name()) {
        let problem = format!("is for a {}, and does nothing here", read.kinds.join(" or a "));
        return Some(invalid(problem).because(CauseReason::NotSupported).fixed_by("remove it"));
    }
    let only = read.only.filter(|only| value.as_str() != Some(*only))?;
    Some(
        invalid(format!("only {} does something", quoted(only)))
            .fixed_by(format!("set it to {}", quoted(only))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(kind: Kind, annotations: Value) -> Vec<String> {
        let object = json!({ "metadata": { "annotations": annotations } });
        let problems = unread(&Subject { kind, object: &object, old: None });
        problems.into_iter().map(|one| format!("{}; {}", one.problem, one.fix.unwrap_or_default())).collect()
    }

    #[test]
    fn every_annotation_is_for_kinds_that_there_are_and_passes_on_them() {
        for read in annotation::READ {
            assert!(is_ours(read.key) && !read.kinds.is_empty(), "{}", read.key);
            for name in read.kinds {
                let kind = Kind::from_name(name).unwrap();
                assert_eq!(
                    told(kind, json!({ read.key: read.only.unwrap_or("x") })),
                    [""; 0],
                    "{}",
                    read.key
                );
            }
        }
    }

    #[test]
    fn one_that_is_misspelt_misplaced_or_has_a_value_that_does_nothing_is_told() {
        let misspelt = told(Kind::Provisioner, json!({ "coder.com/adoptkey": "x" }));
        assert_eq!(
            misspelt,
            ["is not an annotation that the operator reads; did you mean coder.com/adopt-key?"]
        );
        let unknown = told(Kind::Provisioner, json!({ "coder.com/owner-team": "x" }));
        assert_eq!(unknown, ["is not an annotation that the operator reads; "]);
        let misplaced = told(Kind::Provisioner, json!({ "coder.com/rotate-token": "now" }));
        assert_eq!(misplaced, ["is for a CoderWorkspaceProxy, and does nothing here; remove it"]);
        let idle = told(Kind::Provisioner, json!({ "coder.com/release-external": "yes" }));
        assert_eq!(idle, ["only \"true\" does something; set it to \"true\""]);
    }

    #[test]
    fn annotations_of_others_are_nobodys_business_and_many_are_not_all_told() {
        let others = json!({ "coder.community/a": "x", "example.com/coder.com/a": "x", "adopt-key": "x" });
        assert_eq!(told(Kind::ControlPlane, others), [""; 0]);
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|number| (format!("coder.com/{number}"), json!("x"))).collect();
        assert_eq!(told(Kind::ControlPlane, Value::Object(many)).len(), MOST);
    }
}
