//! Decides how the CA certificates that pods trust are named.
//! Never reads one: a Secret may come later than the object that names it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CA certificates the pods trust.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertsSpec {
    /// Keys of Secrets, each with certificates in PEM. They appear under `/etc/ssl/certs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub secrets: Vec<CertSecretSelector>,
}

/// One key of a Secret, both given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertSecretSelector {
    /// Name of the Secret, in the namespace of this object.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key inside the Secret, for example `ca.crt`.
    #[schemars(length(max = 253))]
    pub key: String,
}
