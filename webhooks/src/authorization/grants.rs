//! Decides what coderd and its provisioners may do in which namespace according to an object, and how much of it is new.
//! Never judges whether a rule makes sense: the rule CODER0501 does.

use std::collections::BTreeSet;

use crds::well_known::workspace_access;
use serde_json::Value;

use super::{AccessCheck, MAX_REVIEWS, MAX_REVIEWS_PER_NAMESPACE, RequiredAccess};
use crate::field;
use crate::kind::Kind;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Single rights of one rule that are looked at, so that no manifest makes us count for ever.
const LOOKED_AT: usize = 1_000;
/// How often, for one object, a right is compared with a rule that was there before.
const COMPARED: usize = 100_000;
/// Bytes of a group, resource, verb or name; no longer one exists, and each is copied into its question.
const WORD: usize = 253;
/// Rules and namespaces the schema allows; an object with more of them is refused for that.
const RULES: usize = 64;
const NAMESPACES: usize = 256;

/// A rule of a Role, and the field it comes from.
struct Grant<'a> {
    field: String,
    groups: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    verbs: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
}

/// Group, resource, verb and name.
type Right<'a> = [&'a str; 4];

impl<'a> Grant<'a> {
    fn covers(&self, [group, resource, verb, name]: Right<'_>) -> bool {
        let holds = |words: &BTreeSet<&str>, word: &str| words.contains(word) || words.contains("*");
        holds(&self.groups, group)
            && holds(&self.resources, resource)
            && holds(&self.verbs, verb)
            && (self.names.is_empty() || self.names.contains(name))
    }

    fn rights(&self) -> impl Iterator<Item = Right<'a>> {
        let names: Vec<&'a str> =
            if self.names.is_empty() { vec![""] } else { self.names.iter().copied().collect() };
        self.groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |name| [*group, *resource, *verb, name])
                })
            })
        })
    }

    /// Whether another rule, on its own, gives all that this one does. Says so of any size without counting.
    fn is_within(&self, other: &Self) -> bool {
        let within = |words: &BTreeSet<&str>, all: &BTreeSet<&str>| all.contains("*") || words.is_subset(all);
        within(&self.groups, &other.groups)
            && within(&self.resources, &other.resources)
            && within(&self.verbs, &other.verbs)
            && (other.names.is_empty() || !self.names.is_empty() && self.names.is_subset(&other.names))
    }

    fn has_long_words(&self) -> bool {
        let sets = [&self.groups, &self.resources, &self.verbs, &self.names];
        sets.into_iter().flatten().any(|word| word.len() > WORD)
    }

    /// Its rights that neither `before` nor an earlier rule covers: `None` if they are too many to say. What is compared
    /// is taken from `budget`.
    fn added_to(
        &self,
        before: &[Self],
        earlier: &BTreeSet<Right<'_>>,
        budget: &mut usize,
    ) -> Option<Vec<Right<'a>>> {
        if before.iter().any(|known| self.is_within(known)) {
            return Some(Vec::new());
        }
        if self.has_long_words() {
            return None;
        }
        let mut added = Vec::new();
        for (count, right) in self.rights().enumerate() {
            *budget = budget.checked_sub(1 + before.len())?;
            if count == LOOKED_AT {
                return None;
            }
            if earlier.contains(&right) || before.iter().any(|known| known.covers(right)) {
                continue;
            }
            if earlier.len() + added.len() == MAX_REVIEWS_PER_NAMESPACE {
                return None;
            }
            added.push(right);
        }
        Some(added)
    }
}

/// The rights that the rules of an object add in a namespace.
struct AddedRights<'a> {
    /// Field of each rule that adds rights, with those that no earlier rule has: at most [`MAX_REVIEWS_PER_NAMESPACE`] in all.
    rules: Vec<(&'a str, Vec<Right<'a>>)>,
    /// Field of the first rule with which they would be more. Nothing is said about those after it: what answers for it,
    /// `escalate` or `bind`, answers for them too.
    too_many: Option<&'a str>,
}

impl<'a> AddedRights<'a> {
    fn of(now: &'a [Grant<'a>], before: &[Grant<'a>], budget: &mut usize) -> Self {
        let mut added = Self { rules: Vec::new(), too_many: None };
        let mut earlier = BTreeSet::new();
        for grant in now {
            let Some(gained) = grant.added_to(before, &earlier, budget) else {
                added.too_many = Some(&grant.field);
                break;
            };
            earlier.extend(gained.iter().copied());
            if !gained.is_empty() {
                added.rules.push((&grant.field, gained));
            }
        }
        added
    }

    /// What is asked for them in one namespace; told at the field of the namespace where that is new. `left` is how many
    /// rights may still be written out for the request.
    fn required(&self, namespace: &str, place: Option<&str>, left: &mut usize) -> Vec<RequiredAccess> {
        let mut required = Vec::new();
        for (field, rights) in &self.rules {
            let Some(less) = left.checked_sub(rights.len()) else {
                *left = 0;
                required.push(access(field, None, namespace, place));
                return required;
            };
            *left = less;
            required.push(access(field, Some(rights), namespace, place));
        }
        required.extend(self.too_many.map(|field| access(field, None, namespace, place)));
        required
    }
}

fn flag(object: &Value, path: &str, default: bool) -> bool {
    field::at(object, path).and_then(Value::as_bool).unwrap_or(default)
}

/// Every rule of an object's Roles; none where it gets no rights at all.
fn granted(kind: Kind, object: &Value) -> Vec<Grant<'_>> {
    if kind == Kind::WorkspaceProxy || !flag(object, "spec.rbac.workspacePerms", true) {
        return Vec::new();
    }
    workspace(kind, object).into_iter().chain(extra(object)).collect()
}

/// Rules that the spec writes out.
fn extra(object: &Value) -> Vec<Grant<'_>> {
    let rules = field::items_at(object, "spec.rbac.extraRules").iter().take(RULES).enumerate();
    rules
        .map(|(index, rule)| {
            let texts = |key: &str| {
                let list = rule.get(key).and_then(Value::as_array);
                list.into_iter().flatten().filter_map(Value::as_str).collect()
            };
            Grant {
                field: format!("spec.rbac.extraRules[{index}]"),
                groups: texts("apiGroups"),
                resources: texts("resources"),
                verbs: texts("verbs"),
                names: texts("resourceNames"),
            }
        })
        .collect()
}

/// What workspaces need, which is granted unless the spec says otherwise.
fn workspace(kind: Kind, object: &Value) -> Vec<Grant<'static>> {
    let grant = |(from, resource): (&workspace_access::Resources, &'static str)| Grant {
        field: from.field.to_owned(),
        groups: BTreeSet::from([from.group]),
        resources: BTreeSet::from([resource]),
        verbs: BTreeSet::from(workspace_access::VERBS),
        names: BTreeSet::new(),
    };
    let deployments = flag(object, "spec.rbac.enableDeployments", kind == Kind::ControlPlane);
    workspace_access::granted(deployments).map(grant).collect()
}

/// Workspace namespaces other than that of the object, each once, with the field that names it.
fn other_namespaces<'a>(object: &'a Value, own: &str) -> Vec<(String, &'a str)> {
    let mut seen = BTreeSet::new();
    let entries =
        field::items_at(object, "spec.rbac.workspaceNamespaces").iter().take(NAMESPACES).enumerate();
    entries
        .filter_map(|(index, entry)| {
            let namespace = entry.as_str()?.trim();
            let first = !namespace.is_empty() && namespace != own && seen.insert(namespace);
            first.then(|| (format!("spec.rbac.workspaceNamespaces[{index}]"), namespace))
        })
        .collect()
}

/// Access to the rights that would be added, in the namespace of the object as in every other workspace namespace.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, own: &str) -> Vec<RequiredAccess> {
    let known = old.map(|old| other_namespaces(old, own)).unwrap_or_default();
    let known: BTreeSet<&str> = known.into_iter().map(|(_, namespace)| namespace).collect();
    let (before, now) = (old.map(|old| granted(kind, old)).unwrap_or_default(), granted(kind, new));
    // A namespace that is new gains everything, one that is known what the rules gain.
    let mut budget = COMPARED;
    let more = AddedRights::of(&now, &before, &mut budget);
    let all = AddedRights::of(&now, &[], &mut budget);
    let mut left = MAX_REVIEWS;
    let mut required = more.required(own, None, &mut left);
    for (field, namespace) in other_namespaces(new, own) {
        required.extend(if known.contains(namespace) {
            more.required(namespace, None, &mut left)
        } else {
            all.required(namespace, Some(&field), &mut left)
        });
    }
    required
}

/// What is asked for the rights that a rule adds in one namespace, or for more of them than can be asked.
fn access(
    field: &str,
    rights: Option<&Vec<Right<'_>>>,
    namespace: &str,
    place: Option<&str>,
) -> RequiredAccess {
    let (field, code) = place.map_or((field, "CODER0502"), |field| (field, "CODER0503"));
    let roles = |verb| AccessCheck::new(verb, RBAC, "roles", namespace);
    RequiredAccess {
        field: field.to_owned(),
        code,
        alternatives: vec![roles("escalate"), roles("bind")],
        // More than can be asked is not asked at all.
        all_of: rights.into_iter().flatten().map(|right| check(*right, namespace)).collect(),
        too_many: rights.is_none(),
    }
}

fn check([group, resource, verb, name]: Right<'_>, namespace: &str) -> AccessCheck {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let check = AccessCheck::new(verb, group, resource, namespace).named(name);
    AccessCheck { subresource: subresource.to_owned(), ..check }
}
