//! Decides when an author chooses the Secret that the operator writes a provisioner key into, and requires the right to make
//! that Secret by hand. Never requires any for the default, a name that is derived from that of the object.

use crds::CoderProvisionerSpec;
use crds::names::provisioner::{key_secret, key_secret_key};
use serde_json::Value;

use super::{AccessCheck, RequiredAccess};
use crate::field;
use crate::kind::Kind;

const SECRET: &str = "spec.key.secretName";
const KEY: &str = "spec.key.secretKey";

/// Where the plaintext of a key is kept: the Secret and the key in it.
fn place(object: &Value) -> [String; 2] {
    let text = |path: &str| field::text_at(object, path).filter(|text| !text.is_empty()).map(str::to_owned);
    let [secret, key] = derived(object);
    [text(SECRET).unwrap_or(secret), text(KEY).unwrap_or(key)]
}

/// Where it is kept if the author does not choose.
fn derived(object: &Value) -> [String; 2] {
    let spec = CoderProvisionerSpec::default();
    let name = field::text_at(object, "metadata.name").unwrap_or_default();
    [key_secret(name, &spec), key_secret_key(&spec).to_owned()]
}

/// What is chosen that was not chosen before. An object without a name, which the API server makes up, has no default yet.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Option<RequiredAccess> {
    if kind != Kind::Provisioner {
        return None;
    }
    let (chosen, default, before) = (place(new), derived(new), old.map(place));
    let is_kept = chosen == default || before.is_some_and(|before| before == chosen);
    let field = if chosen[0] == default[0] { KEY } else { SECRET };
    let create = AccessCheck::new("create", "", "secrets", namespace);
    (!is_kept).then(|| RequiredAccess::any(field, "CODER0512", vec![create]))
}
