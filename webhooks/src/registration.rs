//! Decides which fields of a proxy say how the operator registers it: those for a control plane, or those of `bootstrap`.
//! Never decides whether both may be given: the rule about that does, and a control plane counts.

use serde_json::Value;

use crate::field;
use crate::kind::Kind;

/// Fields of a proxy that the operator registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Who it is registered with: a control plane by its name, or an address.
    pub(crate) registrar: &'static str,
    /// What holds the names.
    pub(crate) parent: &'static str,
    /// Its name in coderd.
    pub(crate) proxy_name: &'static str,
    /// The Secret that its token is kept in.
    pub(crate) token_secret: &'static str,
}

const WITH_CONTROL_PLANE: Registration = Registration {
    registrar: "spec.controlPlaneRef.name",
    parent: "registration",
    proxy_name: "spec.registration.proxyName",
    token_secret: "spec.registration.tokenSecretName",
};

const WITH_BOOTSTRAP: Registration = Registration {
    registrar: "spec.bootstrap.coderURL",
    parent: "bootstrap",
    proxy_name: "spec.bootstrap.proxyName",
    token_secret: "spec.bootstrap.generatedTokenSecretName",
};

impl Registration {
    /// That of an object; none where the operator registers nothing.
    pub(crate) fn of(kind: Kind, object: &Value) -> Option<Self> {
        let given = |path: &str| {
            kind == Kind::WorkspaceProxy && field::at(object, path).is_some_and(Value::is_object)
        };
        if given("spec.controlPlaneRef") {
            return Some(WITH_CONTROL_PLANE);
        }
        given("spec.bootstrap").then_some(WITH_BOOTSTRAP)
    }

    /// Whether it is made through the operator's access to a control plane.
    pub(crate) fn is_with_control_plane(self) -> bool {
        self == WITH_CONTROL_PLANE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_control_plane_counts_before_bootstrap_and_nothing_is_no_registration() {
        let of = |spec: Value| Registration::of(Kind::WorkspaceProxy, &json!({ "spec": spec }));
        assert_eq!(of(json!({"controlPlaneRef": {}, "bootstrap": {}})), Some(WITH_CONTROL_PLANE));
        assert_eq!(of(json!({"bootstrap": {}})), Some(WITH_BOOTSTRAP));
        for none in [json!({}), json!({"controlPlaneRef": null}), json!({"bootstrap": "x"}), json!(3)] {
            assert_eq!(of(none), None);
        }
        let provisioner = json!({"spec": {"controlPlaneRef": {}}});
        assert_eq!(Registration::of(Kind::Provisioner, &provisioner), None);
    }
}
