//! Holds readiness of an operator that watches a few namespaces until it has every permission there that the table names, and says
//! which it lacks: Roles are bound namespace by namespace, and one is soon forgotten. It asks; it never works around a gap.

use super::process::{Context, Fatal, Running};
use crate::kubernetes::{CallError, Kube, Rules, Scope, reviewed_rules};
use crate::manifests::rbac::{GRANTS_ACCOUNT, Grant, Holder, On, grants_at_home, grants_in_watched};
use crate::serving::readiness::Gate;
use std::time::Duration;

/// How soon it is asked again while something is missing: somebody is mending it.
const RETRY: Duration = Duration::from_secs(2);
/// Missing permissions that are named; the others are counted.
const NAMED: usize = 5;

/// Starts to ask; nothing where the whole cluster is watched.
pub(super) fn follow(context: &Context, running: &mut Running) {
    let Scope::Namespaces(namespaces) = context.kube.scope().clone() else { return };
    let gate = context.readiness.gate("permissions");
    let check = Check {
        kube: context.kube.clone(),
        namespaces: namespaces.to_vec(),
        grants_account: context.flags.grants_account.clone(),
        again: context.flags.verify_interval,
        gate,
    };
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        unfollow.run_until_cancelled(check.run()).await;
        Ok::<_, Fatal>(())
    });
}

/// What is asked for, and what hears of it.
struct Check {
    kube: Kube,
    namespaces: Vec<String>,
    grants_account: String,
    again: Duration,
    gate: Gate,
}

impl Check {
    async fn run(self) {
        loop {
            let pause = match self.missing().await {
                Ok(missing) if missing.is_empty() => {
                    self.gate.open();
                    self.again
                }
                Ok(missing) => {
                    tracing::warn!(missing = missing.join("; "), "permissions are missing");
                    self.gate.close(told(&missing));
                    RETRY
                }
                Err(error) => {
                    self.gate.close(error.to_string());
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Every permission that is missing, for a person.
    async fn missing(&self) -> Result<Vec<String>, CallError> {
        let mut missing = Vec::new();
        let home = self.kube.namespace();
        let rules = reviewed_rules(self.kube.everywhere(), home).await?;
        missing.extend(lacking(grants_at_home(), &rules, home, &self.grants_account));
        for namespace in &self.namespaces {
            let rules = reviewed_rules(self.kube.everywhere(), namespace).await?;
            let needed = grants_in_watched(Holder::OperatorEverywhere);
            missing.extend(lacking(needed, &rules, namespace, &self.grants_account));
            let rules = reviewed_rules(self.kube.as_grants(), namespace).await?;
            let needed = grants_in_watched(Holder::GrantsEverywhere);
            let of_grants = lacking(needed, &rules, namespace, &self.grants_account);
            missing.extend(of_grants.map(|one| format!("{one}, as ServiceAccount {}", self.grants_account)));
        }
        Ok(missing)
    }
}

/// What of the table some rules do not allow, as `verbs resource in namespace x`.
fn lacking<'a>(
    needed: impl Iterator<Item = &'static Grant> + 'a,
    rules: &'a Rules,
    namespace: &'a str,
    grants_account: &'a str,
) -> impl Iterator<Item = String> + 'a {
    needed.flat_map(move |grant| {
        let (group, resources, names): (_, _, &[&str]) = match grant.on {
            On::Resources { group, resources } => (group, resources, &[]),
            On::Named { group, resources, names } => (group, resources, names),
            On::Urls(_) => ("", &[][..], &[]),
        };
        // Our account for grants carries the prefix of an overlay.
        let name = names.first().map(|name| if *name == GRANTS_ACCOUNT { grants_account } else { *name });
        resources.iter().filter_map(move |resource| {
            let lacks = |verb: &&&str| !rules.allow(verb, group, resource, name);
            let verbs: Vec<&str> = grant.verbs.iter().filter(lacks).copied().collect();
            let resource =
                if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            (!verbs.is_empty())
                .then(|| format!("{} {resource}{name} in namespace {namespace}", verbs.join(", ")))
        })
    })
}

fn told(missing: &[String]) -> String {
    let named = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = missing.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    format!("permission to {named}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::authorization::v1::ResourceRule;

    fn rule(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> ResourceRule {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        ResourceRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(words(resources)),
            resource_names: Some(words(names)).filter(|names| !names.is_empty()),
            verbs: words(verbs),
        }
    }

    /// The rules of the table itself.
    fn all(needed: impl Iterator<Item = &'static Grant>) -> Vec<ResourceRule> {
        let rules = needed.filter_map(|grant| match grant.on {
            On::Resources { group, resources } => Some(rule(group, resources, grant.verbs, &[])),
            On::Named { group, resources, names } => {
                let names: Vec<&str> = names
                    .iter()
                    .map(|name| if *name == GRANTS_ACCOUNT { "team-grants" } else { *name })
                    .collect();
                Some(rule(group, resources, grant.verbs, &names))
            }
            On::Urls(_) => None,
        });
        rules.collect()
    }

    fn missing(rules: Vec<ResourceRule>) -> Vec<String> {
        lacking(grants_at_home(), &Rules::of(rules), "home", "team-grants").collect()
    }

    #[test]
    fn whoever_has_what_the_table_names_lacks_nothing_and_what_is_missing_is_named() {
        let table = || all(grants_at_home());
        assert_eq!(missing(table()), [""; 0]);
        let mut rules = table();
        rules.retain(|rule| rule.resources != Some(vec!["serviceaccounts".to_owned()]));
        assert_eq!(missing(rules), ["impersonate serviceaccounts team-grants in namespace home"]);
        let mut rules = table();
        for rule in &mut rules {
            rule.verbs.retain(|verb| verb != "update");
        }
        let lacking = missing(rules).join("\n");
        assert!(
            lacking.contains(
                "update leases.coordination.k8s.io coder-k8s-controller.coder.com in namespace home"
            )
        );
        assert_eq!(missing(vec![rule("*", &["*"], &["*"], &[])]), [""; 0], "an administrator");
    }

    #[test]
    fn many_that_are_missing_are_counted() {
        let many: Vec<String> = (0..7).map(|number| number.to_string()).collect();
        assert_eq!(told(&many), "permission to 0; 1; 2; 3; 4; and 2 more");
        assert_eq!(told(&many[..1]), "permission to 0");
    }
}
