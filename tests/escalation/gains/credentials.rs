//! Secrets that leave the namespace, or are written there by the operator: the right to run pods is not enough for them.

use super::Gain;
use serde_json::{Value, json};
use webhooks::Kind::{self, Provisioner, WorkspaceProxy};

/// The Secret that the operator writes a token into and sends: whoever chooses it must be allowed to make it and to read it.
pub(super) fn kept_tokens() -> Vec<Gain> {
    let kept = |field: &str, spec: Value| {
        Gain::of(WorkspaceProxy, spec)
            .refused(field, "CODER0506")
            .refused(field, "CODER0512")
            .refused("spec.bootstrap", "CODER0509")
            .enough(&["create pods", "get secrets", "create secrets"])
            .enough(&["create deployments.apps", "get secrets @*", "create secrets @*"])
            .too_little(&["create pods", "get secrets"])
            .too_little(&["create pods", "create secrets"])
            .too_little(&["get,create secrets"])
            .too_little(&["create pods", "get secrets", "create secrets @team-a"])
    };
    let credentials = json!({ "name": "mine" });
    let boot = json!({ "coderURL": "https://coder.example.com", "credentialsSecretRef": credentials,
        "generatedTokenSecretName": "payroll" });
    let registered =
        json!({ "controlPlaneRef": { "name": "coder" }, "registration": { "tokenSecretName": "payroll" } });
    vec![
        kept("spec.bootstrap.generatedTokenSecretName", json!({ "bootstrap": boot })),
        kept("spec.registration.tokenSecretName", registered)
            .refused("spec.controlPlaneRef", "CODER0509")
            .refused("spec.registration", "CODER0509")
            // That of the control plane runs instead of the one that admission had written.
            .refused("spec.image", "CODER0509"),
    ]
}

/// Credentials that travel to an address or a control plane of the author's choice: no right to make pods replaces the
/// right to read.
pub(super) fn sent_away() -> Vec<Gain> {
    let sending = |kind: Kind, field: &str, secret: &str, spec: Value| {
        Gain::of(kind, spec)
            .refused(field, "CODER0506")
            .refused("spec.bootstrap", "CODER0509")
            .enough(&["create pods", "get secrets"])
            .enough(&["create deployments.apps", "get secrets @*"])
            .too_little(&["create pods", "create deployments.apps"])
            .too_little(&["list,watch secrets", "get secrets other", "create pods"])
            .too_little(&["get secrets @team-a", "create pods"])
            .too_little(&[&format!("get secrets {secret}")])
    };
    let payroll = json!({ "name": "payroll" });
    let boot =
        |url: &str, secret: &str| json!({ "coderURL": url, "credentialsSecretRef": { "name": secret } });
    vec![
        sending(
            Provisioner,
            "spec.bootstrap.credentialsSecretRef.name",
            "payroll",
            json!({ "bootstrap": { "credentialsSecretRef": payroll } }),
        ),
        sending(
            WorkspaceProxy,
            "spec.bootstrap.credentialsSecretRef.name",
            "payroll",
            json!({ "bootstrap": boot("https://coder.example.com", "payroll") }),
        ),
        sending(
            WorkspaceProxy,
            "spec.proxySessionTokenSecretRef.name",
            "payroll",
            json!({ "primaryAccessURL": "https://mine.example.com", "proxySessionTokenSecretRef": payroll }),
        )
        .refused("spec.primaryAccessURL", "CODER0509")
        .refused("spec.proxySessionTokenSecretRef", "CODER0509"),
    ]
}
