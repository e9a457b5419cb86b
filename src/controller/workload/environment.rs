//! Decides how the variables of a container are written. Which there are is decided by the kind that runs it; never the order
//! of two of one name, of which the last stands.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, SecretKeySelector};

/// A variable with a value.
pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..Default::default() }
}

/// A variable with a field of the pod.
pub(crate) fn of_pod(name: &str, field: &str) -> EnvVar {
    let field_ref = ObjectFieldSelector { field_path: field.to_owned(), ..Default::default() };
    from(name, EnvVarSource { field_ref: Some(field_ref), ..Default::default() })
}

/// A variable with a key of a Secret.
pub(crate) fn of_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector = SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), ..Default::default() };
    from(name, EnvVarSource { secret_key_ref: Some(selector), ..Default::default() })
}

fn from(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar { name: name.to_owned(), value_from: Some(source), ..Default::default() }
}
