//! Decides which Secrets an object has sent to an address or a control plane that its author chose, and which of that is
//! new. Never asks about a Secret that stays among the pods of its namespace: whoever may run pods there reaches it.

use crds::names::workspace_proxy::token_secret;
use crds::well_known::secret_key;
use serde_json::Value;

use super::{AccessCheck, RequiredAccess};
use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;

/// A key of a Secret on its way to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SentSecret {
    field: &'static str,
    secret: String,
    key: String,
    to: String,
    /// Whether the manifest names the Secret.
    named: bool,
}

impl SentSecret {
    /// Whether the same travels to the same address, whichever field says so.
    fn is(&self, other: &Self) -> bool {
        (&self.secret, &self.key, &self.to) == (&other.secret, &other.key, &other.to)
    }
}

fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    field::text_at(object, path).filter(|text| !text.is_empty())
}

/// A Secret that the manifest refers to, and where it is sent to; an absent one counts as an address of its own.
fn referred(object: &Value, field: &'static str, to: &str) -> Option<SentSecret> {
    let reference = field.strip_suffix(".name").and_then(|reference| field::at(object, reference))?;
    let secret = reference.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    let key = reference.get("key").and_then(Value::as_str).filter(|key| !key.is_empty());
    Some(SentSecret {
        field,
        secret: secret.to_owned(),
        key: key.unwrap_or(secret_key::TOKEN).to_owned(),
        to: text(object, to).unwrap_or_default().to_owned(),
        named: true,
    })
}

/// The token of a registration: the operator shows it to the coderd that registered the proxy, and the proxy to the address
/// it dials. Told at the address where nobody named the Secret.
fn generated(object: &Value) -> Vec<SentSecret> {
    let Some(registration) = Registration::of(Kind::WorkspaceProxy, object) else {
        return Vec::new();
    };
    let Registration { registrar, token_secret: field, .. } = registration;
    let given = text(object, field);
    let name = text(object, "metadata.name").unwrap_or_default();
    let derived = || token_secret(name, &crds::CoderWorkspaceProxySpec::default());
    let to = |address: &'static str| SentSecret {
        field: if given.is_some() { field } else { address },
        secret: given.map_or_else(derived, str::to_owned),
        key: secret_key::TOKEN.to_owned(),
        to: text(object, address).map_or_else(String::new, |to| destination(address, to)),
        named: given.is_some(),
    };
    let dialled = text(object, DIALLED).map(|_| to(DIALLED));
    let mut sent = vec![to(registrar)];
    sent.extend(dialled.filter(|dialled| !sent.iter().any(|known| known.is(dialled))));
    sent
}

/// A control plane is no address, whatever it is called.
fn destination(path: &str, to: &str) -> String {
    if path == CONTROL_PLANE { format!("control plane {to}") } else { to.to_owned() }
}

const CREDENTIALS: &str = "spec.bootstrap.credentialsSecretRef.name";
const CONTROL_PLANE: &str = "spec.controlPlaneRef.name";
const DIALLED: &str = "spec.primaryAccessURL";

fn sent_secrets(kind: Kind, object: &Value) -> Vec<SentSecret> {
    match kind {
        Kind::ControlPlane => Vec::new(),
        // The key that the operator makes with it stays among the pods.
        Kind::Provisioner => referred(object, CREDENTIALS, CONTROL_PLANE).into_iter().collect(),
        Kind::WorkspaceProxy => {
            let credentials = referred(object, CREDENTIALS, "spec.bootstrap.coderURL");
            let session = referred(object, "spec.proxySessionTokenSecretRef.name", DIALLED);
            credentials.into_iter().chain(session).chain(generated(object)).collect()
        }
    }
}

/// What the change sends that was not sent there before. A token that is yet to be made is nobody's so far, unless the
/// manifest says where it is kept, or the object was there before: something may be there already.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Vec<RequiredAccess> {
    let before = old.map(|old| sent_secrets(kind, old)).unwrap_or_default();
    let fresh = sent_secrets(kind, new).into_iter().filter(|sent| {
        let known = before.iter().any(|known| sent.is(known));
        !known && (sent.named || old.is_some())
    });
    let access = |sent: SentSecret| {
        let read = AccessCheck::new("get", "", "secrets", namespace).named(&sent.secret);
        RequiredAccess::any(sent.field, "CODER0506", vec![read])
    };
    fresh.map(access).collect()
}
