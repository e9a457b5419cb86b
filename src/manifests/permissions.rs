//! Decides what the page on permissions shows: every role that is shipped, who holds it, and why each right is needed.
//! It never says what the table does not say: reasons and purposes are those of [`super::rbac::ROLES`].

use super::rbac::{GRANTS_ACCOUNT, Grant, Holder, On, Part, ROLES, Role, SERVICE_ACCOUNT};
use super::reference::{HEADER, cell, code};
use super::roles::role_kind;
use super::{File, Generated};

const OPENING: &str = "# Permissions\n\n\
    Every right that is shipped, with its reason. The names are those before a prefix that an overlay adds; the same reasons \
    stand beside the rules in `kustomize/base/rbac.yaml`. The third column names the parts of the operator that need a right: where \
    each role has an identity of its own (`kustomize/components/split-roles`), the account of the webhooks holds what is for them, for \
    certificates and for metrics, that of the controller everything else, the authority that keeps the CA included. In `kustomize/overlays/namespaced` the same rights are Roles, without those that no \
    Role can give. [security.md](../security.md) says who can do what with them.\n";

/// `docs/reference/permissions.md`.
pub(super) fn files() -> Generated {
    let mut content = format!("{HEADER}\n{OPENING}");
    for role in ROLES {
        content.push_str(&section(role));
    }
    Ok(vec![File { path: "docs/reference/permissions.md".to_owned(), content }])
}

fn section(role: &Role) -> String {
    let rows: String = role.grants.iter().map(row).collect();
    format!(
        "\n## {} {}\n\n{} {}\n\n| on | may | for | why |\n|---|---|---|---|\n{rows}",
        role_kind(role.holder),
        code(role.name),
        holder(role.holder),
        cell(role.purpose)
    )
}

/// Who holds a role, and where it counts.
fn holder(holder: Holder) -> String {
    let account = |name: &str, place: &str| format!("Held by the ServiceAccount {} {place}.", code(name));
    match holder {
        Holder::OperatorEverywhere => account(SERVICE_ACCOUNT, "in every namespace"),
        Holder::OperatorAtHome => account(SERVICE_ACCOUNT, "in its own namespace"),
        Holder::GrantsEverywhere => account(GRANTS_ACCOUNT, "in every namespace"),
        Holder::Users { aggregate_to: [] } => "Held by nobody until you bind it.".to_owned(),
        Holder::Users { aggregate_to } => {
            format!("Added to the built-in {}.", words(aggregate_to, " and "))
        }
    }
}

fn row(grant: &Grant) -> String {
    let on = match grant.on {
        On::Resources { group, resources } => on(group, resources),
        On::Named { group, resources, names } => {
            format!("{}<br>only {}", on(group, resources), words(names, ", "))
        }
        On::Urls(urls) => words(urls, ", "),
    };
    let parts = grant.parts.iter().map(|part| part_name(*part)).collect::<Vec<_>>().join(", ");
    format!("| {on} | {} | {parts} | {} |\n", grant.verbs.join(", "), cell(grant.reason))
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Controller => "controller",
        Part::Webhooks => "webhooks",
        Part::AggregatedApi => "aggregated API",
        Part::Certificates => "certificates",
        Part::Authority => "authority",
        Part::Metrics => "metrics",
    }
}

fn on(group: &str, resources: &[&str]) -> String {
    let resources = words(resources, ", ");
    if group.is_empty() { resources } else { format!("{resources}<br>of {}", code(group)) }
}

fn words(words: &[&str], between: &str) -> String {
    words.iter().map(|word| code(word)).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::super::rbac::Extent;
    use super::*;

    #[test]
    fn every_row_of_the_table_is_a_row_of_the_page() {
        let page = files().unwrap().remove(0).content;
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, ROLES.iter().map(|role| role.grants.len()).sum::<usize>());
        for role in ROLES {
            assert!(
                page.contains(&format!("## {} `{}`\n", role_kind(role.holder), role.name)),
                "{}",
                role.name
            );
        }
    }

    #[test]
    fn a_right_that_is_limited_by_name_says_so() {
        let named = On::Named { group: "", resources: &["serviceaccounts"], names: &["coder-k8s-grants"] };
        let told = row(&Grant {
            on: named,
            verbs: &["impersonate"],
            parts: &[Part::Controller, Part::Metrics],
            extent: Extent::Namespace,
            reason: "Because.",
        });
        assert_eq!(
            told,
            "| `serviceaccounts`<br>only `coder-k8s-grants` | impersonate | controller, metrics | Because. |\n"
        );
    }
}
