//! Decides when an author chooses the Secret that the operator writes a provisioner key or a proxy token into, and requires
//! the right to make that Secret by hand. Never requires any for the default, a name that is derived from that of the object.

use crds::names::provisioner::{key_secret, key_secret_key};
use crds::names::workspace_proxy::token_secret;
use crds::well_known::secret_key;
use crds::{CoderProvisionerSpec, CoderWorkspaceProxySpec};
use serde_json::Value;

use super::{AccessCheck, RequiredAccess};
use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;

/// The fields that choose the Secret and the key in it.
#[derive(Clone, Copy)]
struct Fields {
    secret: &'static str,
    /// None where the key cannot be chosen.
    key: Option<&'static str>,
}

/// The fields that count in an object; none where the operator keeps nothing for it.
fn fields(kind: Kind, object: &Value) -> Option<Fields> {
    match kind {
        Kind::ControlPlane => None,
        Kind::Provisioner => Some(Fields { secret: "spec.key.secretName", key: Some("spec.key.secretKey") }),
        Kind::WorkspaceProxy => {
            let registration = Registration::of(kind, object)?;
            Some(Fields { secret: registration.token_secret, key: None })
        }
    }
}

/// Where the plaintext is kept: the Secret and the key in it.
fn place(kind: Kind, object: &Value) -> Option<[String; 2]> {
    let Fields { secret, key } = fields(kind, object)?;
    let text = |path: &str| field::text_at(object, path).filter(|text| !text.is_empty()).map(str::to_owned);
    let [derived_secret, derived_key] = derived(kind, object);
    Some([text(secret).unwrap_or(derived_secret), key.and_then(text).unwrap_or(derived_key)])
}

/// Where it is kept if the author does not choose.
fn derived(kind: Kind, object: &Value) -> [String; 2] {
    let name = field::text_at(object, "metadata.name").unwrap_or_default();
    match kind {
        Kind::WorkspaceProxy => {
            [token_secret(name, &CoderWorkspaceProxySpec::default()), secret_key::TOKEN.to_owned()]
        }
        Kind::ControlPlane | Kind::Provisioner => {
            let spec = CoderProvisionerSpec::default();
            [key_secret(name, &spec), key_secret_key(&spec).to_owned()]
        }
    }
}

/// What is chosen that was not chosen before. An object without a name, which the API server makes up, has no default yet.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Option<RequiredAccess> {
    let (fields, chosen) = (fields(kind, new)?, place(kind, new)?);
    let (default, before) = (derived(kind, new), old.and_then(|old| place(kind, old)));
    if chosen == default || before.is_some_and(|before| before == chosen) {
        return None;
    }
    let field = fields.key.filter(|_| chosen[0] == default[0]).unwrap_or(fields.secret);
    let create = AccessCheck::new("create", "", "secrets", namespace);
    Some(RequiredAccess::any(field, "CODER0512", vec![create]))
}
