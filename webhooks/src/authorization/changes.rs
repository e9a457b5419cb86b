//! Decides which fields of a spec a change touches, and what a change of each of them requires.
//! Never trusts a field it does not know: what is not listed counts as changing what runs.

use serde_json::Value;

/// What a change of a field requires of the user who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requires {
    /// Nothing: the same code runs, with the same reach.
    Nothing,
    /// The right to run pods: other code, or the same with another reach, identity, environment or place.
    RunPods,
    /// The rights that it grants, one by one; see [`super::grants`].
    Grant,
    /// The right to expose; see [`super::exposure`].
    Expose,
}

/// Fields of `spec` whose change requires nothing, in the order in which messages name them. Those that a container has
/// too are as harmless there.
pub const HARMLESS: [&str; 8] = [
    "suspend",
    "replicas",
    "resources",
    "readinessProbe",
    "livenessProbe",
    "startupProbe",
    "terminationGracePeriodSeconds",
    "podDisruptionBudget",
];

/// Fields of `spec` that require something else than [`Requires::RunPods`], in every kind that has them.
const OTHERWISE: [(&str, Requires); 3] =
    [("rbac", Requires::Grant), ("service", Requires::Expose), ("expose", Requires::Expose)];

/// What a change of a field of `spec` requires.
pub(crate) fn required_for(field: &str) -> Requires {
    if HARMLESS.contains(&field) {
        return Requires::Nothing;
    }
    let otherwise = OTHERWISE.iter().find(|(name, _)| *name == field);
    otherwise.map_or(Requires::RunPods, |(_, requires)| *requires)
}

/// The fields of `spec` whose change does not require the right to run pods.
pub(super) fn without_run_pods() -> impl Iterator<Item = &'static str> {
    HARMLESS.into_iter().chain(OTHERWISE.iter().map(|(name, _)| *name))
}

/// The fields of `spec` that two objects differ in.
pub(super) fn changed<'a>(old: &'a Value, new: &'a Value) -> Vec<&'a str> {
    let fields = |object: &'a Value| object.get("spec").and_then(Value::as_object).into_iter().flatten();
    let mut names: Vec<&str> = fields(old).chain(fields(new)).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| given(old, name) != given(new, name));
    names
}

/// The value of a field of `spec`; an empty list is as good as none.
fn given<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    object.get("spec")?.get(name).filter(|value| !empty(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::schema;
    use serde_json::json;

    fn fields_of(kind: Kind) -> Vec<String> {
        let properties = schema::shipped(kind).pointer("/properties/spec/properties").unwrap();
        properties.as_object().unwrap().keys().cloned().collect()
    }

    /// Written out, so that whoever adds a field sees what he decides: a new one requires the right to run pods.
    #[test]
    fn the_fields_that_require_nothing_are_few_and_every_listed_one_exists() {
        let harmless = |kind| -> Vec<String> {
            fields_of(kind).into_iter().filter(|name| required_for(name) == Requires::Nothing).collect()
        };
        let of_servers = [
            "livenessProbe",
            "podDisruptionBudget",
            "readinessProbe",
            "replicas",
            "resources",
            "startupProbe",
            "suspend",
            "terminationGracePeriodSeconds",
        ];
        assert_eq!(harmless(Kind::ControlPlane), of_servers);
        assert_eq!(harmless(Kind::WorkspaceProxy), of_servers);
        let few =
            ["podDisruptionBudget", "replicas", "resources", "suspend", "terminationGracePeriodSeconds"];
        assert_eq!(harmless(Kind::Provisioner), few);
        for name in without_run_pods() {
            assert!(Kind::ALL.into_iter().any(|kind| fields_of(kind).contains(&name.to_owned())), "{name}");
        }
        assert_eq!(required_for("ofTomorrow"), Requires::RunPods);
    }

    #[test]
    fn a_field_that_comes_goes_or_differs_is_changed_and_an_empty_list_is_none() {
        let old = json!({"spec": {"image": "a", "replicas": 1, "extraArgs": [], "metrics": {}}});
        let new = json!({"spec": {"image": "b", "replicas": 1, "tls": {}}});
        assert_eq!(changed(&old, &new), ["image", "metrics", "tls"]);
        assert_eq!(changed(&json!({}), &json!({"spec": {"image": "b"}})), ["image"]);
        assert_eq!(changed(&json!([]), &json!({"spec": 3})), [""; 0]);
    }
}
