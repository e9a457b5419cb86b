//! Decides how the rules are documented: one section a rule, for the page in `docs/` and for a terminal.
//! Never says anything that is not in the table.

use super::holds;
use crate::authorization;
use crate::kind::Kind;
use crate::rules::{self, Layer, Rule, Severity, When};

const INTRODUCTION: &str = "# Rules

Every rule has a code that never changes its meaning. `coder-k8s explain CODER0101` prints one section of this page.

A rule that denies answers `403 Forbidden` with all problems at once. An update is only held to what it makes worse: \
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
    ("CODER05", "Authorization"),
    ("CODER06", "Advice for GitOps"),
];

/// The rules page, in Markdown.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (prefix, title) in GROUPS {
        page.push_str(&format!("\n## {title}\n"));
        if prefix == "CODER05" {
            page.push_str(&authorization_table());
        }
        for rule in rules::rules().filter(|rule| rule.code.starts_with(prefix)) {
            page.push_str(&format!("\n{}", section(rule)));
        }
    }
    page
}

/// One rule, in Markdown.
pub(crate) fn section(rule: &Rule) -> String {
    let severity = match rule.severity {
        Severity::Deny => "denies",
        Severity::Warn => "warns",
    };
    let when = match rule.when {
        When::Create => "on creation only",
        When::Always => "on creation, and on an update that makes it worse",
        When::Change => "on an update only",
    };
    let layers: Vec<&str> = rule.layers.iter().map(|layer| layer_name(*layer)).collect();
    let kinds: Vec<&str> = rule.kinds.iter().map(|kind| kind.name()).collect();
    let fields: Vec<String> = rule.fields.iter().map(|field| format!("`{field}`")).collect();
    let exceptions: String = rule.layers.iter().map(|layer| exceptions(rule, *layer)).collect();
    format!(
        "### {}: {}\n\n{}\n\n- Kinds: {}\n- Fields: {}\n- It {severity} {when}; lives in {}\n{exceptions}- Fix: {}\n\n\
         Bad:\n\n```yaml\n{}\n```\n\nGood:\n\n```yaml\n{}\n```\n",
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

/// The fields of a rule that one of its layers does not look at, as a line of the list.
fn exceptions(rule: &Rule, layer: Layer) -> String {
    let left_out = |field: &&&str| {
        let has = |kind: &&Kind| rule.fields_of(**kind).any(|own| own == **field);
        !rule.kinds.iter().filter(has).all(|kind| holds(layer, *kind, rule, field))
    };
    let fields: Vec<String> = rule.fields.iter().filter(left_out).map(|field| format!("`{field}`")).collect();
    if fields.is_empty() {
        return String::new();
    }
    format!("- Not in {}: {}\n", layer_name(layer), fields.join(", "))
}

const fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Schema => "schema",
        Layer::Cel => "CEL",
        Layer::Policy => "policy",
        Layer::Webhook => "webhook",
        Layer::Lint => "lint",
        Layer::BreakGlass => "the policy for namespaces with admission switched off",
    }
}

fn authorization_table() -> String {
    let mut table = "\nWhoever makes a change must hold what it adds. The webhook checks that with \
                     SubjectAccessReviews; what the object already had is not checked again.\n\n| code | field | right \
                     that is required | enough instead |\n|---|---|---|---|\n"
        .to_owned();
    for line in authorization::table() {
        table.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            line.code, line.fields, line.required, line.instead
        ));
    }
    table.push_str(AMOUNTS_TO);
    table
}

/// What follows from the table, and what switches it off.
const AMOUNTS_TO: &str = "
**Running code needs the right to run code.** Whoever may create pods or Deployments in a namespace reaches its Secrets,
ConfigMaps and accounts without the operator and needs no right to each of them; whoever may not, cannot do it by way of
our kinds either. The built-in ClusterRoles `edit` and `admin` hold every right that a plain object requires, workspace
rules included. At most 40 access reviews are made for a namespace and 200 for a request, which is enough for six
workspace namespaces of somebody who holds `edit` in each: for more, or for many `extraRules`, give whoever applies the
object `escalate` or `bind` on roles there, which takes one review.

A change to an object that is being deleted is reviewed like any other. Removing a finalizer changes no spec and is never
reviewed.

In a namespace with the label `coder.com/admission: disabled` the webhooks are not called. A policy that comes with the
operator then makes one check in place of the whole table: may the user `escalate` roles in that namespace?
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Check;
    use serde_json::Value;

    #[test]
    fn the_page_has_every_rule_once_and_no_blank_ends() {
        let page = page();
        for rule in rules::rules() {
            assert_eq!(page.matches(&format!("### {}: ", rule.code)).count(), 1, "{}", rule.code);
        }
        assert!(page.lines().all(|line| line == line.trim_end()));
        assert!(page.ends_with('\n') && !page.ends_with("\n\n"));
    }

    /// Whether the page says that a layer looks at a field of a rule.
    fn claims(rule: &Rule, layer: &str, field: &str) -> bool {
        let section = section(rule);
        let line =
            |start: &str| section.lines().find_map(|line| line.split_once(start)).map(|(_, rest)| rest);
        let lives = line("; lives in ").unwrap().split(", ").any(|one| one == layer);
        let left_out = line(&format!("- Not in {layer}: ")).unwrap_or_default();
        lives && !left_out.split(", ").any(|one| one == format!("`{field}`"))
    }

    /// Whether the definition of a kind has CEL of a rule on this field; for a rule across fields, on something above it.
    fn in_definition(definition: &Value, rule: &Rule, field: &str) -> bool {
        let across = matches!(rule.check, Check::Object { .. });
        let has = |schema: &Value| {
            let validations = schema["x-kubernetes-validations"].as_array();
            let of_rule =
                |one: &Value| one["message"].as_str().is_some_and(|text| text.starts_with(rule.code));
            validations.into_iter().flatten().any(of_rule)
        };
        let mut schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
        let mut found = across && has(schema);
        for key in field.split('.') {
            let name = key.trim_end_matches("[]");
            schema = &schema["properties"][name];
            found |= across && has(schema);
            if name.len() < key.len() {
                schema = &schema["items"];
            }
        }
        found || has(schema)
    }

    /// Whether the policy of a kind has an expression of a rule that looks at this field.
    fn in_policy(policy: &Value, rule: &Rule, field: &str) -> bool {
        let (list, inner) = field.split_once("[]").unwrap_or((field, ""));
        let looks = |expression: &str, at: &str| {
            let ends =
                |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
            expression.split(at).skip(1).any(ends)
        };
        let variables = policy["spec"]["variables"].as_array().unwrap().iter();
        let of_rule = |one: &&Value| {
            one["name"]
                .as_str()
                .unwrap()
                .strip_prefix(&rule.code.to_lowercase())
                .is_some_and(|rest| rest.starts_with('_'))
        };
        variables.filter(of_rule).map(|one| one["expression"].as_str().unwrap()).any(|expression| {
            let item = inner.is_empty() || looks(expression, &format!("item{inner}"));
            matches!(rule.check, Check::Object { .. }) || looks(expression, &format!("object.{list}")) && item
        })
    }

    #[test]
    fn the_page_says_where_each_field_of_a_rule_is_looked_at() {
        let definitions = crate::render::cel::with_rules(crds::custom_resource_definitions());
        let policies = crate::render::policies::policies();
        let mut left_out = Vec::new();
        for rule in rules::rules() {
            for field in rule.fields {
                let kinds =
                    Kind::ALL.into_iter().filter(|kind| rule.fields_of(*kind).any(|own| own == *field));
                let (mut cel, mut policy) = (true, true);
                for kind in kinds {
                    let definition =
                        definitions.iter().find(|one| one.spec.names.kind == kind.name()).unwrap();
                    cel &= in_definition(&serde_json::to_value(definition).unwrap(), rule, field);
                    let of_kind = &policies[kind as usize];
                    policy &= in_policy(&serde_json::to_value(of_kind).unwrap(), rule, field);
                }
                assert_eq!(claims(rule, "CEL", field), cel, "{} {field}: CEL", rule.code);
                assert_eq!(claims(rule, "policy", field), policy, "{} {field}: policy", rule.code);
                left_out.extend((rule.lives_in(Layer::Cel) && !cel).then_some((rule.code, *field)));
            }
        }
        for known in
            [("CODER0115", "spec.tls.secretNames[]"), ("CODER0118", "spec.rbac.workspaceNamespaces[]")]
        {
            assert!(left_out.contains(&known), "{left_out:?}");
        }
    }
}
