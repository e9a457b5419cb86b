//! Decides how the rules are documented: one section a rule, for the page in `docs/` and for a terminal.
//! Never says anything that is not in the table.

use crate::authority;
use crate::rules::{self, Layer, Rule, Severity, When};

const INTRODUCTION: &str = "# Rules

Every rule has a code that never changes its meaning. `coder-k8s explain CODER0101` prints one section of this page.

A rule that refuses answers `403 Forbidden` with all problems at once. An update is only held to what it makes worse: \
what was wrong before is a warning. Where a rule lives:

- *schema* and *CEL*: in the CustomResourceDefinitions, always on
- *policy*: in the optional ValidatingAdmissionPolicies
- *webhook*: in the operator
- *lint*: in `coder-k8s lint`, without a cluster
";

/// The groups of codes.
const GROUPS: [(&str, &str); 6] = [
    ("CODER01", "Names"),
    ("CODER02", "Shape and values"),
    ("CODER03", "References and exposure"),
    ("CODER04", "Addresses and secrets"),
    ("CODER05", "Authority"),
    ("CODER06", "Advice for GitOps"),
];

/// The rules page, in Markdown.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (prefix, title) in GROUPS {
        page.push_str(&format!("\n## {title}\n"));
        if prefix == "CODER05" {
            page.push_str(&authority_table());
        }
        for rule in rules::rules().filter(|rule| rule.code.starts_with(prefix)) {
            page.push_str(&format!("\n{}", section(rule)));
        }
    }
    page
}

/// One rule, in Markdown.
pub fn section(rule: &Rule) -> String {
    let severity = match rule.severity {
        Severity::Deny => "refuses",
        Severity::Warn => "warns",
    };
    let when = match rule.when {
        When::Create => "on creation only",
        When::Always => "on creation and when it becomes worse",
        When::Change => "on a change only",
    };
    let layers: Vec<&str> = rule.layers.iter().map(|layer| layer_name(*layer)).collect();
    let kinds: Vec<&str> = rule.kinds.iter().map(|kind| kind.name()).collect();
    let fields: Vec<String> = rule.fields.iter().map(|field| format!("`{field}`")).collect();
    format!(
        "### {}: {}\n\n{}\n\n- Kinds: {}\n- Fields: {}\n- It {severity} {when}; lives in {}\n- Fix: {}\n\n\
         Not so:\n\n```yaml\n{}\n```\n\nBut so:\n\n```yaml\n{}\n```\n",
        rule.code,
        rule.title,
        rule.why,
        kinds.join(", "),
        fields.join(", "),
        layers.join(", "),
        rule.fix,
        rule.bad,
        rule.good
    )
}

const fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Schema => "schema",
        Layer::Cel => "CEL",
        Layer::Policy => "policy",
        Layer::Webhook => "webhook",
        Layer::Lint => "lint",
    }
}

fn authority_table() -> String {
    let mut table = "\nWhat a change adds is checked for the person who asks, with SubjectAccessReviews. What the \
                     object already had is not asked again.\n\n| code | field | right that is asked for | enough instead |\n|---|---|---|---|\n"
        .to_owned();
    for line in authority::TABLE {
        table.push_str(&format!("| {} | {} | {} | {} |\n", line.code, line.fields, line.asked, line.instead));
    }
    table.push_str(AMOUNTS_TO);
    table
}

/// What no question can take away: a server of one's own choice runs in the namespace.
const AMOUNTS_TO: &str = "
**What the right to create one of our kinds amounts to.** Its author chooses an image and its arguments, and coderd may
by default make pods, claims and deployments in its own namespace. So `create codercontrolplanes` amounts to `create
pods` in that namespace and nowhere else, and the other two kinds to running an image there. Whoever must not run
pods in a namespace must not get the right to create our kinds in it; everything beyond that namespace, every Secret and
every other account is asked for as in the table.

A change to an object that is being deleted is not reviewed, so that finalizers can always be removed; the operator does
not act on such a change.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_rule_once_and_no_blank_ends() {
        let page = page();
        for rule in rules::rules() {
            assert_eq!(page.matches(&format!("### {}: ", rule.code)).count(), 1, "{}", rule.code);
        }
        assert!(page.lines().all(|line| line == line.trim_end()));
        assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
    }
}
