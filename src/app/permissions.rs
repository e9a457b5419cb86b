//! Holds readiness of an operator that watches a few namespaces until it had every permission there that the table names, once,
//! and says which it lacks, then and later: Roles are bound namespace by namespace, and one is soon forgotten. Whoever takes one
//! back later stops no other namespace. It asks; it never works around a gap.

use super::process::{Context, Fatal, Running};
use crate::kubernetes::{CallError, Kube, Rules, Scope, reviewed_rules};
use crate::manifests::rbac::{GRANTS_ACCOUNT, Grant, Holder, On, grants_at_home, grants_in_watched};
use crate::serving::readiness::Gate;
use std::time::{Duration, Instant};

/// How soon a namespace is asked about again while something is missing there: somebody is mending it.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause: it doubles each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Missing permissions that are named; the others are counted.
const NAMED: usize = 5;

/// Starts to ask; nothing where the whole cluster is watched.
pub(super) fn follow(context: &Context, running: &mut Running) {
    let Scope::Namespaces(namespaces) = context.kube.scope().clone() else { return };
    let check = Check {
        kube: context.kube.clone(),
        grants_account: context.flags.grants_account.clone(),
        again: context.flags.verify_interval,
        gate: context.readiness.gate("permissions"),
    };
    let known = Known::of(context.kube.namespace(), &namespaces, Instant::now());
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        unfollow.run_until_cancelled(check.run(known)).await;
        Ok::<_, Fatal>(())
    });
}

/// What it is asked for in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    /// The operator's own one.
    Home,
    /// One of those that are watched.
    Watched,
}

/// What was found in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    /// What is missing, for a person; nothing if nothing is.
    Lacks(Vec<String>),
    /// Nobody could tell, and why.
    Unanswered(String),
}

/// What is known of one namespace, and when it is asked about again.
#[derive(Debug)]
struct Place {
    namespace: String,
    as_: As,
    finding: Finding,
    due: Instant,
    pause: Duration,
}

/// What is known of all of them.
#[derive(Debug)]
struct Known {
    places: Vec<Place>,
    /// Whether nothing was missing anywhere, once.
    was_complete: bool,
}

/// What readiness says.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Complete,
    /// It was complete before.
    Lost(String),
    /// It never was.
    Waiting(String),
}

impl Known {
    /// Nothing yet: everything is asked for now.
    fn of(home: &str, watched: &[String], now: Instant) -> Self {
        let place = |namespace: &str, as_| Place {
            namespace: namespace.to_owned(),
            as_,
            finding: Finding::Unanswered("not asked yet".to_owned()),
            due: now,
            pause: FIRST_PAUSE,
        };
        let watched = watched.iter().map(|namespace| place(namespace, As::Watched));
        Self { places: std::iter::once(place(home, As::Home)).chain(watched).collect(), was_complete: false }
    }

    /// Takes note of what was found in a namespace. One where something is missing is asked about later each time; one that is
    /// complete after `again`.
    fn note(&mut self, index: usize, finding: Finding, again: Duration, now: Instant) {
        let Some(place) = self.places.get_mut(index) else { return };
        if finding == Finding::Lacks(Vec::new()) {
            (place.due, place.pause) = (now + again, FIRST_PAUSE);
        } else {
            place.due = now + place.pause;
            place.pause = (place.pause * 2).min(LONGEST_PAUSE);
        }
        place.finding = finding;
    }

    /// What there is to say of all of them.
    fn word(&mut self) -> Word {
        let (mut missing, mut unanswered) = (Vec::new(), None);
        for place in &self.places {
            match &place.finding {
                Finding::Lacks(lacks) => missing.extend(lacks.iter().cloned()),
                Finding::Unanswered(why) => unanswered = unanswered.or(Some(why.clone())),
            }
        }
        let told = if missing.is_empty() { unanswered } else { Some(told(&missing)) };
        self.was_complete |= told.is_none();
        match told {
            None => Word::Complete,
            Some(told) if self.was_complete => Word::Lost(told),
            Some(told) => Word::Waiting(told),
        }
    }

    /// When somebody is to be asked next.
    fn next(&self) -> Option<Instant> {
        self.places.iter().map(|place| place.due).min()
    }
}

/// What is asked for, and what hears of it.
struct Check {
    kube: Kube,
    grants_account: String,
    again: Duration,
    gate: Gate,
}

impl Check {
    async fn run(self, mut known: Known) {
        let mut before = Word::Complete;
        while let Some(next) = known.next() {
            tokio::time::sleep_until(next.into()).await;
            for index in 0..known.places.len() {
                let place = &known.places[index];
                if place.due > Instant::now() {
                    continue;
                }
                let finding = match self.missing(&place.namespace, place.as_).await {
                    Ok(missing) => Finding::Lacks(missing),
                    Err(error) => Finding::Unanswered(error.to_string()),
                };
                known.note(index, finding, self.again, Instant::now());
            }
            let word = known.word();
            match &word {
                Word::Complete => self.gate.open(),
                Word::Lost(what) => self.gate.open_with(format!("waiting for {what}")),
                Word::Waiting(what) => self.gate.close(what.clone()),
            }
            if let Word::Lost(missing) | Word::Waiting(missing) = &word
                && word != before
            {
                tracing::warn!(missing, "permissions are missing");
            }
            before = word;
        }
    }

    /// Every permission that is missing in a namespace, for a person.
    async fn missing(&self, namespace: &str, as_: As) -> Result<Vec<String>, CallError> {
        let rules = reviewed_rules(self.kube.everywhere(), namespace).await?;
        if as_ == As::Home {
            return Ok(lacking(grants_at_home(), &rules, namespace, &self.grants_account).collect());
        }
        let needed = grants_in_watched(Holder::OperatorEverywhere);
        let mut missing: Vec<String> = lacking(needed, &rules, namespace, &self.grants_account).collect();
        let rules = reviewed_rules(self.kube.as_grants(), namespace).await?;
        let needed = grants_in_watched(Holder::GrantsEverywhere);
        let of_grants = lacking(needed, &rules, namespace, &self.grants_account);
        missing.extend(of_grants.map(|one| format!("{one}, as ServiceAccount {}", self.grants_account)));
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
    fn only_a_namespace_that_lacks_something_is_asked_about_again_soon_and_later_each_time() {
        let (start, again) = (Instant::now(), Duration::from_secs(300));
        let mut known = Known::of("home", &["a".to_owned(), "b".to_owned()], start);
        assert_eq!(known.next(), Some(start));
        let lacks = |what: &[&str]| Finding::Lacks(what.iter().map(|one| (*one).to_owned()).collect());
        let (nothing, something) = (lacks(&[]), lacks(&["list pods in namespace b"]));
        known.note(0, nothing.clone(), again, start);
        known.note(1, nothing.clone(), again, start);
        let mut pauses = Vec::new();
        let mut now = start;
        for _ in 0..6 {
            known.note(2, something.clone(), again, now);
            assert_eq!(known.places.iter().filter(|place| place.due < start + again).count(), 1);
            let next = known.next().unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 30, 30]);
        known.note(2, nothing, again, now);
        assert_eq!(known.next(), Some(start + again), "what is complete is asked about now and then");
        known.note(2, something, again, now);
        assert_eq!(known.next(), Some(now + FIRST_PAUSE), "it is lost again");
    }

    #[test]
    fn readiness_waits_until_nothing_was_missing_once_and_only_remarks_what_is_lost_later() {
        let (now, again) = (Instant::now(), Duration::from_secs(300));
        let mut known = Known::of("home", &["a".to_owned()], now);
        let lacks = || Finding::Lacks(vec!["list pods in namespace a".to_owned()]);
        let said = || "permission to list pods in namespace a".to_owned();
        assert_eq!(known.word(), Word::Waiting("not asked yet".to_owned()));
        known.note(0, Finding::Lacks(Vec::new()), again, now);
        known.note(1, lacks(), again, now);
        assert_eq!(known.word(), Word::Waiting(said()));
        known.note(1, Finding::Lacks(Vec::new()), again, now);
        assert_eq!(known.word(), Word::Complete);
        known.note(0, Finding::Unanswered("no answer".to_owned()), again, now);
        assert_eq!(known.word(), Word::Lost("no answer".to_owned()));
        known.note(1, lacks(), again, now);
        assert_eq!(known.word(), Word::Lost(said()), "what is missing comes first");
    }

    #[test]
    fn many_that_are_missing_are_counted() {
        let many: Vec<String> = (0..7).map(|number| number.to_string()).collect();
        assert_eq!(told(&many), "permission to 0; 1; 2; 3; 4; and 2 more");
        assert_eq!(told(&many[..1]), "permission to 0");
    }
}
