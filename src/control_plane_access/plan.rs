//! Decides from the spec alone which access the operator has to coderd: none, a token that was given, or one it makes
//! itself in the database. It never reads what the spec refers to.

use crate::confidential::Confidential;
use crds::CoderControlPlaneSpec;
use crds::well_known::secret_key;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar};

/// The variable in which coderd is told its database.
pub(crate) const VARIABLE: &str = "CODER_PG_CONNECTION_URL";

/// Which access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// None: the spec says so.
    Disabled,
    /// The token in this key of this Secret.
    Given {
        /// Name of the Secret.
        secret: String,
        /// Key inside it.
        key: String,
    },
    /// A token of our own, if one of these places has the database's URL; the first that has it counts.
    Generated(Vec<Place>),
    /// The URL is given in a way that only the kubelet can read.
    Unresolvable(&'static str),
    /// No place for a URL is named.
    NoUrl,
}

/// Where the URL may stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the spec itself.
    Written(Confidential<String>),
    /// In a Secret or ConfigMap of the object's namespace.
    Referred {
        /// Which kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// The key that holds it.
        key: String,
        /// What it means if the key, or the whole object, is not there.
        absent: Absent,
    },
}

/// What a place refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// What it means that something is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The pods wait for it, and so do we: an object and a key that must be there.
    Wait,
    /// The pods wait for the object; without the key the next place counts.
    WaitForObject,
    /// The next place counts.
    Skip,
}

const EXPANDED: &str = "CODER_PG_CONNECTION_URL in spec.extraEnv is put together with $(NAME), which only the kubelet \
     can do; give the whole URL in a Secret and refer to it with secretKeyRef, or set spec.operatorAccess.tokenSecretRef";
const OTHER_SOURCE: &str = "CODER_PG_CONNECTION_URL in spec.extraEnv comes from a field of the pod or a file, which only \
     the kubelet can read; refer to a Secret with secretKeyRef, or set spec.operatorAccess.tokenSecretRef";

/// Which access the spec asks for.
pub(crate) fn plan(spec: &CoderControlPlaneSpec) -> Plan {
    let access = spec.operator_access.as_ref();
    if access.is_some_and(|access| access.disabled == Some(true)) {
        return Plan::Disabled;
    }
    if let Some(given) = access.and_then(|access| access.token_secret_ref.as_ref()) {
        let key = given.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let key = key.unwrap_or(secret_key::TOKEN).to_owned();
        return Plan::Given { secret: given.name.trim().to_owned(), key };
    }
    match places(spec) {
        Ok(places) if places.is_empty() => Plan::NoUrl,
        Ok(places) => Plan::Generated(places),
        Err(why) => Plan::Unresolvable(why),
    }
}

/// Where the database's URL may stand, whatever access is asked for; or why only the kubelet can tell.
pub(crate) fn places(spec: &CoderControlPlaneSpec) -> Result<Vec<Place>, &'static str> {
    // Of two of a name the last counts, as in the container.
    let own = match spec.extra_env.iter().rev().find(|variable| variable.name == VARIABLE).map(of_variable) {
        Some(own) => own?,
        None => Own::Nothing,
    };
    let sources = spec.env_from.iter().rev().filter_map(of_source);
    Ok(match own {
        Own::Empty => Vec::new(),
        Own::Nothing => sources.collect(),
        Own::Is(place) => match place {
            Place::Referred { absent: Absent::Skip, .. } => std::iter::once(place).chain(sources).collect(),
            _ => vec![place],
        },
    })
}

/// What `extraEnv` says of the variable.
enum Own {
    /// Nothing.
    Nothing,
    /// That it is empty, whatever `envFrom` says.
    Empty,
    /// Where it stands.
    Is(Place),
}

fn of_variable(variable: &EnvVar) -> Result<Own, &'static str> {
    let absent = |optional: Option<bool>| if optional == Some(true) { Absent::Skip } else { Absent::Wait };
    let Some(from) = &variable.value_from else {
        let value = variable.value.as_deref().unwrap_or_default().trim();
        return match value {
            "" => Ok(Own::Empty),
            value if value.contains("$(") => Err(EXPANDED),
            value => Ok(Own::Is(Place::Written(Confidential::new(value.to_owned())))),
        };
    };
    let (kind, name, key, optional) = match (&from.secret_key_ref, &from.config_map_key_ref) {
        (Some(secret), _) => (Kind::Secret, &secret.name, &secret.key, secret.optional),
        (None, Some(map)) => (Kind::ConfigMap, &map.name, &map.key, map.optional),
        (None, None) => return Err(OTHER_SOURCE),
    };
    let (name, key) = (name.clone(), key.clone());
    Ok(Own::Is(Place::Referred { kind, name, key, absent: absent(optional) }))
}

/// The place in a source of variables, if its prefix can make the variable's name at all.
fn of_source(source: &EnvFromSource) -> Option<Place> {
    let key = VARIABLE.strip_prefix(source.prefix.as_deref().unwrap_or_default())?.to_owned();
    let (kind, name, optional) = match (&source.secret_ref, &source.config_map_ref) {
        (Some(secret), _) => (Kind::Secret, secret.name.clone(), secret.optional),
        (None, Some(map)) => (Kind::ConfigMap, map.name.clone(), map.optional),
        (None, None) => return None,
    };
    let absent = if optional == Some(true) { Absent::Skip } else { Absent::WaitForObject };
    (!key.is_empty()).then_some(Place::Referred { kind, name, key, absent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn of(spec: Value) -> Plan {
        plan(&from_value(spec).unwrap())
    }

    fn referred(kind: Kind, name: &str, key: &str, absent: Absent) -> Place {
        Place::Referred { kind, name: name.to_owned(), key: key.to_owned(), absent }
    }

    fn variable(rest: Value) -> Value {
        let mut variable = json!({"name": VARIABLE});
        variable.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"extraEnv": [variable]})
    }

    #[test]
    fn who_says_no_gets_none_and_who_gives_a_token_keeps_it() {
        let url = json!([{"name": VARIABLE, "value": "postgres://a"}]);
        let reference = json!({"name": " mine "});
        assert_eq!(
            of(json!({"operatorAccess": {"disabled": true, "tokenSecretRef": reference}, "extraEnv": url})),
            Plan::Disabled
        );
        let given = Plan::Given { secret: "mine".to_owned(), key: "token".to_owned() };
        assert_eq!(of(json!({"operatorAccess": {"tokenSecretRef": reference}, "extraEnv": url})), given);
        let keyed =
            json!({"operatorAccess": {"disabled": false, "tokenSecretRef": {"name": "mine", "key": "k"}}});
        assert_eq!(of(keyed), Plan::Given { secret: "mine".to_owned(), key: "k".to_owned() });
        // Accepted and ignored.
        assert_eq!(of(json!({"operatorAccess": {"generatedTokenSecretName": "x"}})), Plan::NoUrl);
    }

    #[test]
    fn a_url_in_extra_env_is_taken_from_where_it_stands() {
        let written = Plan::Generated(vec![Place::Written(Confidential::new("postgres://a".to_owned()))]);
        assert_eq!(of(variable(json!({"value": " postgres://a\n"}))), written);
        let secret = json!({"valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}});
        assert_eq!(
            of(variable(secret)),
            Plan::Generated(vec![referred(Kind::Secret, "db", "url", Absent::Wait)])
        );
        let map = json!({"valueFrom": {"configMapKeyRef": {"name": "db", "key": "url"}}});
        assert_eq!(
            of(variable(map)),
            Plan::Generated(vec![referred(Kind::ConfigMap, "db", "url", Absent::Wait)])
        );
    }

    #[test]
    fn what_only_the_kubelet_can_read_is_named() {
        assert_eq!(
            of(variable(json!({"value": "postgres://u:$(PASSWORD)@h/d"}))),
            Plan::Unresolvable(EXPANDED)
        );
        let field = json!({"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['url']"}}});
        assert_eq!(of(variable(field)), Plan::Unresolvable(OTHER_SOURCE));
        let part = json!({"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}});
        assert_eq!(of(variable(part)), Plan::Unresolvable(OTHER_SOURCE));
    }

    #[test]
    fn the_last_source_comes_first_and_a_prefix_must_fit() {
        let sources = json!([
            {"secretRef": {"name": "first"}},
            {"prefix": "OTHER_", "secretRef": {"name": "never"}},
            {"prefix": VARIABLE, "secretRef": {"name": "nothing-left"}},
            {"prefix": "CODER_", "configMapRef": {"name": "last", "optional": true}},
            {},
        ]);
        let places = vec![
            referred(Kind::ConfigMap, "last", "PG_CONNECTION_URL", Absent::Skip),
            referred(Kind::Secret, "first", VARIABLE, Absent::WaitForObject),
        ];
        assert_eq!(of(json!({"envFrom": sources})), Plan::Generated(places));
    }

    #[test]
    fn extra_env_wins_over_env_from_unless_it_is_optional() {
        let with_source = |variable: Value| {
            of(json!({"envFrom": [{"secretRef": {"name": "all"}}], "extraEnv": [variable]}))
        };
        let from = |optional: bool| json!({"name": VARIABLE, "valueFrom": {"secretKeyRef": {"name": "db", "key": "url", "optional": optional}}});
        let own = |absent| referred(Kind::Secret, "db", "url", absent);
        assert_eq!(with_source(from(false)), Plan::Generated(vec![own(Absent::Wait)]));
        let all = referred(Kind::Secret, "all", VARIABLE, Absent::WaitForObject);
        assert_eq!(with_source(from(true)), Plan::Generated(vec![own(Absent::Skip), all]));
        assert_eq!(
            with_source(json!({"name": VARIABLE, "value": ""})),
            Plan::NoUrl,
            "coderd sees an empty one"
        );
        assert_eq!(of(json!({})), Plan::NoUrl);
    }

    #[test]
    fn the_last_of_two_variables_counts_and_nothing_shows_a_url() {
        let twice = json!({"extraEnv": [
            {"name": VARIABLE, "value": "postgres://old"}, {"name": VARIABLE, "value": "postgres://u:hunter2@h"}]});
        let plan = of(twice);
        assert_eq!(
            plan,
            Plan::Generated(vec![Place::Written(Confidential::new("postgres://u:hunter2@h".to_owned()))])
        );
        assert!(!format!("{plan:?}").contains("hunter2"));
    }
}
