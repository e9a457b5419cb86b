//! Decides when a control plane runs as an account that it does not make for itself.
//! Never asks for the account that is named after the object and made by the operator.

use serde_json::Value;

use super::{Access, AccessCheck};
use crate::field;

/// The account an object uses that is somebody else's, and the field that says so.
fn borrowed(object: &Value) -> Option<(&'static str, &str)> {
    let own = field::text_at(object, "metadata.name").unwrap_or_default();
    let chosen = field::text_at(object, "spec.serviceAccount.name").filter(|name| !name.is_empty());
    let made = field::at(object, "spec.serviceAccount.disableCreate") != Some(&Value::Bool(true));
    match chosen {
        Some(name) if name != own => Some(("spec.serviceAccount.name", name)),
        _ if made => None,
        // Somebody else makes an account of our name: choosing the name of the object chooses the account.
        _ => Some(("spec.serviceAccount.disableCreate", own)),
    }
}

/// The account the change adds.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Option<Access> {
    let (field, name) = borrowed(new)?;
    if old.and_then(borrowed).is_some_and(|(_, before)| before == name) {
        return None;
    }
    let token = AccessCheck::new("create", "", "serviceaccounts", namespace).named(name);
    let token = AccessCheck { subresource: "token".to_owned(), ..token };
    Some(Access::any(field, "CODER0504", vec![AccessCheck::create_pods(namespace), token]))
}
