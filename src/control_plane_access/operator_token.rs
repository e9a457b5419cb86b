//! Reads the token that the operator made for a control plane from its Secret in the operator's namespace. Pure: it looks
//! at one object. It never takes a token that was made for another control plane, also not for an earlier one of this name.

use crate::confidential::{Confidential, decoded};
use crds::well_known::{MANAGER, label, secret_key};
use serde_json::Value;

/// Annotation: uid of the control plane the token is for.
pub(crate) const OWNER_UID: &str = "coder.com/control-plane-uid";

/// Why there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// None was made yet, or none that is proven to work.
    NotYet,
    /// Somebody else's Secret has the name.
    Foreign,
}

/// The token for the control plane of this uid. It stands there only after coderd has accepted it.
pub(crate) fn current(secret: Option<&Value>, uid: &str) -> Result<Confidential<String>, NoToken> {
    let secret = secret.ok_or(NoToken::NotYet)?;
    let metadata = &secret["metadata"];
    if metadata["labels"][label::MANAGED_BY] != MANAGER {
        return Err(NoToken::Foreign);
    }
    // What an earlier control plane of this name left is replaced by the one of now.
    let is_for_it = !uid.is_empty() && metadata["annotations"][OWNER_UID] == uid;
    let token = decoded(&secret["data"][secret_key::TOKEN]).filter(|_| is_for_it);
    token.filter(|token| !token.is_blank()).map(Confidential::trimmed).ok_or(NoToken::NotYet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_proven_token_of_this_very_control_plane_is_taken() {
        let secret = |uid: &str, data: Value| {
            json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "coder-k8s" },
                "annotations": { "coder.com/control-plane-uid": uid } }, "data": data })
        };
        let token =
            |secret: &Value, uid: &str| current(Some(secret), uid).map(|token| token.expose().clone());
        let proven = json!({ "token": "YS1iCg==", "next": "Yy1k" });
        assert_eq!(token(&secret("u1", proven.clone()), "u1"), Ok("a-b".to_owned()));
        assert_eq!(token(&secret("u0", proven.clone()), "u1"), Err(NoToken::NotYet), "an earlier one's");
        assert_eq!(token(&secret("", proven.clone()), ""), Err(NoToken::NotYet), "nobody's");
        for unproven in
            [json!({ "next": "Yy1k" }), json!({ "token": "IAo=" }), json!({ "token": "/w==" }), json!({})]
        {
            assert_eq!(token(&secret("u1", unproven), "u1"), Err(NoToken::NotYet));
        }
        let mut foreign = secret("u1", proven);
        foreign["metadata"]["labels"] = json!({});
        assert_eq!(token(&foreign, "u1"), Err(NoToken::Foreign));
        assert_eq!(current(None, "u1"), Err(NoToken::NotYet));
    }
}
