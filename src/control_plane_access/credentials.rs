//! Decides whose token is used for a control plane, before anything is read: the operator's own, or one that was given.
//! Pure. It never decides whether the token works: coderd does.

use super::plan::{Plan, plan};
use super::unreached::{Holder, Unreached};
use crds::CoderControlPlane;
use crds::shared::SecretKeySelector;
use crds::well_known::secret_key;

/// Whose token somebody wants to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials<'a> {
    /// The one that the control plane gives the operator.
    Operator,
    /// One that an author gave, whom admission has asked whether he may read it.
    Given {
        /// Where the Secret is.
        namespace: &'a str,
        /// Its name.
        secret: &'a str,
        /// The key that holds it.
        key: &'a str,
    },
}

impl<'a> Credentials<'a> {
    /// Those of `spec.bootstrap.credentialsSecretRef`, if there is one; else the operator's.
    pub(crate) fn of_bootstrap(namespace: &'a str, reference: Option<&'a SecretKeySelector>) -> Self {
        let Some(reference) = reference else { return Self::Operator };
        let key = reference.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        Self::Given { namespace, secret: reference.name.trim(), key: key.unwrap_or(secret_key::TOKEN) }
    }
}

/// Where the token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenPlace {
    /// In a Secret that an author named.
    Named {
        /// Who named it.
        holder: Holder,
        /// Where it is.
        namespace: String,
        /// Its name.
        secret: String,
        /// The key that holds it.
        key: String,
    },
    /// In the one that the operator makes for the control plane.
    Generated,
}

/// Where the token for a control plane is, or why there can be none.
pub(super) fn place(
    control_plane: &CoderControlPlane,
    credentials: Credentials<'_>,
) -> Result<TokenPlace, Unreached> {
    let name = || control_plane.metadata.name.clone().unwrap_or_default();
    let named = |holder, namespace: &str, secret: String, key: String| match secret.is_empty() {
        true => Err(Unreached::TokenSecretRefInvalid { holder }),
        false => Ok(TokenPlace::Named { holder, namespace: namespace.to_owned(), secret, key }),
    };
    match (credentials, plan(&control_plane.spec)) {
        (Credentials::Given { namespace, secret, key }, _) => {
            named(Holder::Bootstrap, namespace, secret.to_owned(), key.to_owned())
        }
        (Credentials::Operator, Plan::Disabled) => Err(Unreached::AccessDisabled { control_plane: name() }),
        (Credentials::Operator, Plan::Given { secret, key }) => {
            let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
            named(Holder::Operator, namespace, secret, key)
        }
        (Credentials::Operator, Plan::NoUrl) => {
            Err(Unreached::TokenSecretRefMissing { control_plane: name() })
        }
        (Credentials::Operator, Plan::Generated(_) | Plan::Unresolvable(_)) => Ok(TokenPlace::Generated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn placed(spec: Value, credentials: Credentials<'_>) -> Result<TokenPlace, Unreached> {
        let metadata = json!({ "name": "coder", "namespace": "team", "uid": "u1" });
        place(&from_value(json!({ "metadata": metadata, "spec": spec })).unwrap(), credentials)
    }

    fn named(holder: Holder, secret: &str, key: &str) -> TokenPlace {
        let (namespace, secret, key) = ("team".to_owned(), secret.to_owned(), key.to_owned());
        TokenPlace::Named { holder, namespace, secret, key }
    }

    #[test]
    fn the_control_plane_says_where_the_operators_token_is() {
        let of = |spec| placed(spec, Credentials::Operator);
        let url = json!([{ "name": "CODER_PG_CONNECTION_URL", "value": "postgres://a" }]);
        assert_eq!(of(json!({ "extraEnv": url })).ok(), Some(TokenPlace::Generated));
        let given = json!({ "operatorAccess": { "tokenSecretRef": { "name": " mine " } }, "extraEnv": url });
        assert_eq!(of(given).unwrap(), named(Holder::Operator, "mine", "token"));
        let disabled =
            json!({ "operatorAccess": { "disabled": true, "tokenSecretRef": { "name": "mine" } } });
        assert!(matches!(of(disabled), Err(Unreached::AccessDisabled { .. })));
        assert!(matches!(of(json!({})), Err(Unreached::TokenSecretRefMissing { .. })));
        let blank = json!({ "operatorAccess": { "tokenSecretRef": { "name": " " } } });
        assert!(matches!(of(blank), Err(Unreached::TokenSecretRefInvalid { holder: Holder::Operator })));
    }

    #[test]
    fn a_token_that_was_given_is_used_whatever_the_control_plane_says() {
        let reference = |name: &str, key: Option<&str>| SecretKeySelector {
            name: name.to_owned(),
            key: key.map(str::to_owned),
        };
        for spec in [json!({}), json!({ "operatorAccess": { "disabled": true } })] {
            for (key, expected) in [(None, "token"), (Some(" "), "token"), (Some(" k "), "k")] {
                let reference = reference(" maker ", key);
                let given = Credentials::of_bootstrap("team", Some(&reference));
                assert_eq!(placed(spec.clone(), given).unwrap(), named(Holder::Bootstrap, "maker", expected));
            }
        }
        let blank = reference("", None);
        let refused = placed(json!({}), Credentials::of_bootstrap("team", Some(&blank)));
        assert!(matches!(refused, Err(Unreached::TokenSecretRefInvalid { holder: Holder::Bootstrap })));
        assert_eq!(Credentials::of_bootstrap("team", None), Credentials::Operator);
    }
}
