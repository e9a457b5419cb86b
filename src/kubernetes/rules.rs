//! What an account may do in a namespace, by the word of the API server: one question a namespace, which everybody may ask about
//! himself. It reads rules; it never decides what is needed.

use super::objects::{CallError, Objects};
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};

/// The rules that hold for somebody in a namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    rules: Vec<ResourceRule>,
    /// Whether somebody else may allow more, and does not say what.
    incomplete: bool,
}

/// The rules that hold in a namespace for whoever `reviews` ask as.
pub(crate) async fn reviewed_rules(
    reviews: Objects<SelfSubjectRulesReview>,
    namespace: &str,
) -> Result<Rules, CallError> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let status = reviews.create(&review).await?.status.unwrap_or_default();
    Ok(Rules { rules: status.resource_rules, incomplete: status.incomplete })
}

impl Rules {
    /// All there is.
    #[cfg(test)]
    pub(crate) fn of(rules: Vec<ResourceRule>) -> Self {
        Self { rules, incomplete: false }
    }

    /// Whether they allow something, as far as can be told: where an authorizer does not say what it allows, nothing is known to
    /// be missing.
    pub(crate) fn allow(&self, verb: &str, group: &str, resource: &str, name: Option<&str>) -> bool {
        self.incomplete || self.rules.iter().any(|rule| allows(rule, verb, group, resource, name))
    }
}

fn allows(rule: &ResourceRule, verb: &str, group: &str, resource: &str, name: Option<&str>) -> bool {
    let has = |words: &[String], wanted: &str| words.iter().any(|word| word == "*" || word == wanted);
    let listed =
        |words: &Option<Vec<String>>, wanted| words.as_deref().is_some_and(|words| has(words, wanted));
    let names = rule.resource_names.as_deref().unwrap_or_default();
    has(&rule.verbs, verb)
        && listed(&rule.api_groups, group)
        && listed(&rule.resources, resource)
        && (names.is_empty() || name.is_some_and(|name| names.iter().any(|one| one == name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str]) -> ResourceRule {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        ResourceRule {
            api_groups: Some(words(&["apps"])),
            resources: Some(words(&["deployments"])),
            resource_names: Some(words(names)),
            verbs: words(&["get", "list"]),
        }
    }

    #[test]
    fn a_rule_allows_what_it_names_and_one_that_is_limited_by_name_only_that() {
        let allows = |names: &[&str], verb, group, resource, name| {
            Rules::of(vec![rule(names)]).allow(verb, group, resource, name)
        };
        assert!(allows(&[], "get", "apps", "deployments", None));
        assert!(allows(&["a"], "get", "apps", "deployments", Some("a")));
        assert!(!allows(&["a"], "get", "apps", "deployments", None), "all is more than one");
        for (verb, group, resource) in
            [("patch", "apps", "deployments"), ("get", "", "deployments"), ("get", "apps", "daemonsets")]
        {
            assert!(!allows(&[], verb, group, resource, None), "{verb} {group} {resource}");
        }
        let unknown = Rules { rules: Vec::new(), incomplete: true };
        assert!(unknown.allow("get", "apps", "deployments", None), "nobody can tell");
    }
}
