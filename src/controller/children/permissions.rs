//! Decides what is said of rights the API server does not let us hand on: which rules are lacking, and by how much one
//! set of rules goes beyond another. Pure, and never fails: what cannot be read of a refusal is left out.

use crds::well_known::GROUP;
use k8s_openapi::api::rbac::v1::PolicyRule;
use std::collections::BTreeMap;

/// What the API server says before it lists the rules.
const HEAD: &str = "not currently held:";
/// Rules, and words of one field, that are read of a refusal.
const MOST: usize = 50;
/// Rights that one rule may stand for before it is compared as a whole.
const LARGEST: usize = 1000;
/// The group of Roles and RoleBindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// What the account for grants holds of our own group, so that it may set owners: [`RBAC`] is the other group it uses.
const FINALIZERS: [&str; 4] =
    ["codercontrolplanes/finalizers", "coderprovisioners/finalizers", "*/finalizers", "*"];

/// The rules that a refusal says we do not hold; none if it is about something else.
pub(crate) fn refused(message: &str) -> Vec<PolicyRule> {
    // A refusal that is quoted twice is read once.
    let Some(rest) = message.split(HEAD).nth(1) else { return Vec::new() };
    let bodies = rest.split('{').skip(1).filter_map(|one| one.split_once('}'));
    bodies.filter_map(|(body, _)| parsed(body)).take(MOST).collect()
}

/// What of these rules the account for grants holds for its own work: Kubernetes would let it hand that on, and we do not.
pub(crate) fn never_handed_on(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut never = Vec::new();
    for rule in rules {
        let groups = list(rule.api_groups.as_ref());
        if names_rbac(std::slice::from_ref(rule)) {
            never.push(PolicyRule { api_groups: Some(vec![RBAC.to_owned()]), ..rule.clone() });
        }
        let resources = list(rule.resources.as_ref()).iter().filter(|one| FINALIZERS.contains(&one.as_str()));
        let resources: Vec<String> = resources.cloned().collect();
        if groups.iter().any(|group| group == GROUP) && !resources.is_empty() {
            let (api_groups, resources) = (Some(vec![GROUP.to_owned()]), Some(resources));
            never.push(PolicyRule { api_groups, resources, ..rule.clone() });
        }
    }
    never
}

/// Whether a rule is about Roles and RoleBindings, which admission refuses.
pub(crate) fn names_rbac(rules: &[PolicyRule]) -> bool {
    rules.iter().any(|rule| list(rule.api_groups.as_ref()).iter().any(|group| group == RBAC))
}

/// One rule as the API server writes it: `APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]`.
fn parsed(body: &str) -> Option<PolicyRule> {
    let words = |name: &str| -> Option<Vec<String>> {
        let list = body.split_once(&format!("{name}:["))?.1.split_once(']')?.0;
        Some(list.split('"').skip(1).step_by(2).take(MOST).map(str::to_owned).collect())
    };
    Some(PolicyRule {
        api_groups: words("APIGroups"),
        resources: Some(words("Resources")?),
        resource_names: words("ResourceNames"),
        non_resource_urls: None,
        verbs: words("Verbs")?,
    })
}

/// One right: group, resource, name of the object if it is limited to one, verb.
type Right<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

/// What `these` allow and `those` do not.
pub(crate) fn beyond(these: &[PolicyRule], those: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut lacking: BTreeMap<(&str, &str, Option<&str>), Vec<&str>> = BTreeMap::new();
    let mut whole = Vec::new();
    for rule in these {
        let Some(rights) = rights(rule) else {
            if !those.contains(rule) {
                whole.push(rule.clone());
            }
            continue;
        };
        for right in rights.into_iter().filter(|right| !those.iter().any(|rule| allows(rule, *right))) {
            let verbs = lacking.entry((right.0, right.1, right.2)).or_default();
            if !verbs.contains(&right.3) {
                verbs.push(right.3);
            }
        }
    }
    let rules = lacking.into_iter().map(|((group, resource, name), verbs)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: name.map(|name| vec![name.to_owned()]),
        non_resource_urls: None,
        verbs: verbs.into_iter().map(str::to_owned).collect(),
    });
    rules.chain(whole).collect()
}

fn list(words: Option<&Vec<String>>) -> &[String] {
    words.map_or(&[], Vec::as_slice)
}

/// Every single right of a rule; nothing if there are too many.
fn rights(rule: &PolicyRule) -> Option<Vec<Right<'_>>> {
    let (groups, resources) = (list(rule.api_groups.as_ref()), list(rule.resources.as_ref()));
    let names: Vec<Option<&str>> = match list(rule.resource_names.as_ref()) {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let count = [groups.len(), resources.len(), names.len(), rule.verbs.len()];
    if count.into_iter().try_fold(1, usize::checked_mul)? > LARGEST {
        return None;
    }
    let mut rights = Vec::new();
    for group in groups {
        for resource in resources {
            for name in &names {
                rights.extend(
                    rule.verbs.iter().map(|verb| (group.as_str(), resource.as_str(), *name, verb.as_str())),
                );
            }
        }
    }
    Some(rights)
}

/// Whether a rule allows a right, by the rules of RBAC.
fn allows(rule: &PolicyRule, (group, resource, name, verb): Right<'_>) -> bool {
    let has = |words: &[String], word: &str| words.iter().any(|one| one == "*" || one == word);
    let names = list(rule.resource_names.as_ref());
    let part = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
    let resources = list(rule.resources.as_ref());
    has(list(rule.api_groups.as_ref()), group)
        && (has(resources, resource) || part.is_some_and(|part| resources.contains(&part)))
        && has(&rule.verbs, verb)
        && (names.is_empty() || name.is_some_and(|name| names.iter().any(|one| one == name)))
}

/// Rules in words, `get,list secrets, * widgets.example.com`; the first ones if there is no room for all.
pub(crate) fn words(rules: &[PolicyRule], room: usize) -> String {
    let all: Vec<String> = rules.iter().flat_map(of_rule).collect();
    let mut text = String::new();
    for (index, one) in all.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        if index > 0 && text.len() + comma.len() + one.len() > room {
            return format!("{text} and {} more", all.len() - index);
        }
        // One alone may be as long as its author likes.
        text.extend(comma.chars().chain(one.chars().take(room)));
    }
    text
}

fn of_rule(rule: &PolicyRule) -> Vec<String> {
    let verbs = rule.verbs.join(",");
    let of = |group: &String, resource: &String| {
        let what = match (group.as_str(), resource.split_once('/')) {
            ("", _) => resource.clone(),
            (group, Some((kind, part))) => format!("{kind}.{group}/{part}"),
            (group, None) => format!("{resource}.{group}"),
        };
        match list(rule.resource_names.as_ref()) {
            [] => format!("{verbs} {what}"),
            names => format!("{verbs} {what} {}", names.join(",")),
        }
    };
    let core = [String::new()];
    let groups = match list(rule.api_groups.as_ref()) {
        [] => &core[..],
        groups => groups,
    };
    let resources = list(rule.resources.as_ref());
    groups.iter().flat_map(|group| resources.iter().map(move |resource| of(group, resource))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 110;

    fn told(rules: &[PolicyRule]) -> String {
        words(rules, ROOM)
    }

    fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(owned(resources)),
            verbs: owned(verbs),
            ..PolicyRule::default()
        }
    }

    #[test]
    fn a_refusal_is_read_as_the_api_server_writes_it() {
        let message = "apply Role team/coder: roles.rbac.authorization.k8s.io \"coder\" is forbidden: user \
             \"system:serviceaccount:a:b\" (groups=[\"system:serviceaccounts\"]) is attempting to grant RBAC \
             permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\" \"get\"]}\n\
             {APIGroups:[\"example.com\"], Resources:[\"widgets\"], Verbs:[\"*\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"deployments/scale\"], ResourceNames:[\"a\"], Verbs:[\"update\"]}";
        let expected = "delete,get secrets, * widgets.example.com, update deployments.apps/scale a";
        assert_eq!(told(&refused(message)), expected);
        let debug = format!("{message}: Forbidden (Status {{ message: {message:?}, code: 403 }})");
        assert_eq!(told(&refused(&debug)), expected, "quoted again by somebody");
    }

    #[test]
    fn another_refusal_or_half_of_one_is_no_rule() {
        for message in
            ["", "quota exceeded", "not currently held:", "not currently held:\n{APIGroups:[", "{}"]
        {
            assert_eq!(refused(message), [], "{message}");
        }
        let many = format!("{HEAD}{}", "{Resources:[\"a\"], Verbs:[\"get\"]}".repeat(1000));
        assert_eq!(refused(&many).len(), MOST);
        assert!(told(&refused(&many)).ends_with(" more") && told(&refused(&many)).len() < ROOM + 20);
    }

    #[test]
    fn what_the_account_for_grants_works_with_is_never_handed_on() {
        let mut mixed = rule(RBAC, &["roles", "pods"], &["create"]);
        mixed.api_groups = Some(vec![String::new(), RBAC.to_owned(), GROUP.to_owned()]);
        let finalizers = rule(GROUP, &["codercontrolplanes/finalizers", "coderprovisioners"], &["update"]);
        let usual = [rule("", &["pods"], &["get"]), rule(GROUP, &["coderprovisioners"], &["get"])];
        assert_eq!(never_handed_on(&usual), []);
        let told = words(&never_handed_on(&[mixed, finalizers, usual[0].clone()]), usize::MAX);
        let roles = "create roles.rbac.authorization.k8s.io, create pods.rbac.authorization.k8s.io";
        assert_eq!(told, format!("{roles}, update codercontrolplanes.coder.com/finalizers"));
    }

    #[test]
    fn one_set_of_rules_goes_beyond_another_by_what_it_lacks() {
        let base = [rule("", &["pods", "secrets"], &["get", "list"])];
        assert_eq!(beyond(&base, &base), []);
        assert_eq!(beyond(&base, &[rule("*", &["*"], &["*"])]), []);
        assert_eq!(told(&beyond(&base, &[rule("", &["pods"], &["*"])])), "get,list secrets");
        assert_eq!(told(&beyond(&base, &[])), "get,list pods, get,list secrets");
        assert_eq!(told(&beyond(&[rule("*", &["*"], &["*"])], &base)), "* *.*");
        let mut named = rule("", &["secrets"], &["get"]);
        named.resource_names = Some(vec!["a".to_owned()]);
        let named = [named];
        assert_eq!(beyond(&named, &base), [], "all of them, and so this one");
        assert_eq!(told(&beyond(&[rule("", &["secrets"], &["get"])], &named)), "get secrets");
        let part = [rule("", &["pods/log"], &["get"])];
        assert_eq!(beyond(&part, &[rule("", &["*/log"], &["get"])]), []);
        assert_eq!(told(&beyond(&part, &base)), "get pods/log");
    }

    #[test]
    fn a_rule_that_stands_for_very_much_is_compared_as_a_whole() {
        let verbs: Vec<String> = (0..2000).map(|number| format!("v{number}")).collect();
        let huge = [PolicyRule { verbs, ..rule("", &["pods"], &[]) }];
        assert_eq!(beyond(&huge, &huge), []);
        assert_eq!(beyond(&huge, &[]), huge);
    }
}
