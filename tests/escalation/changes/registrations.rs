//! Changes of proxies that the operator registers: where their tokens go, and what is done for them in coderd.

use super::{Change, RUN_PODS, RUNS, change};
use serde_json::json;
use webhooks::Kind::WorkspaceProxy;

/// Where the token of a proxy goes that the operator registers.
pub(super) fn changes_of_registrations() -> Vec<Change> {
    let key = json!({ "name": "payroll", "key": "k" });
    let [ours, mine] = ["https://coder.example.com", "https://mine.example.com"];
    let boot = |url: &str| json!({ "bootstrap": { "coderURL": url, "credentialsSecretRef": key } });
    let of = |name: &str| json!({ "controlPlaneRef": { "name": name } });
    let named =
        |name: &str| json!({ "controlPlaneRef": { "name": "coder" }, "registration": { "proxyName": name } });
    let session = json!({ "primaryAccessURL": ours, "proxySessionTokenSecretRef": key });
    let dials = |url: &str| json!({ "controlPlaneRef": { "name": "coder" }, "primaryAccessURL": url });
    let kept = |secret: &str| json!({ "controlPlaneRef": { "name": "coder" }, "registration": { "tokenSecretName": secret } });
    vec![
        change("a token we made goes to a control plane", WorkspaceProxy, [boot(ours), of("coder")])
            .by(&["create pods"])
            .refused("spec.controlPlaneRef.name", "CODER0506"),
        change("the same by one who may read and run", WorkspaceProxy, [boot(ours), of("coder")])
            .by(&["get secrets", "create deployments.apps"]),
        change("a token we made goes to another control plane", WorkspaceProxy, [of("coder"), of("other")])
            .by(&["create pods"])
            .refused("spec.controlPlaneRef.name", "CODER0506"),
        change(
            "a token of a control plane is shown to an address",
            WorkspaceProxy,
            [of("coder"), dials(mine)],
        )
        .by(&["create pods"])
        .refused("spec.primaryAccessURL", "CODER0506"),
        change("pods go to another control plane", WorkspaceProxy, [of("coder"), of("other")])
            .by(&["get secrets"])
            .refused("spec.controlPlaneRef", RUN_PODS),
        change("the same by one who may read and run", WorkspaceProxy, [of("coder"), of("other")])
            .by(&["get secrets", "create deployments.apps"]),
        change("it takes the name of others", WorkspaceProxy, [of("coder"), named("of-others")])
            .by(&["get,create secrets"])
            .refused("spec.registration", RUN_PODS),
        change("the same by one who may run pods", WorkspaceProxy, [of("coder"), named("of-others")])
            .by(&RUNS),
        change(
            "a given token, then the rights of the operator",
            WorkspaceProxy,
            [session.clone(), of("coder")],
        )
        .refused("spec.controlPlaneRef", RUN_PODS)
        // A token that was made before may still be kept: it would go there.
        .refused("spec.controlPlaneRef.name", "CODER0506")
        .refused("spec.primaryAccessURL", RUN_PODS)
        .refused("spec.proxySessionTokenSecretRef", RUN_PODS)
        // That of the control plane runs instead of the one that admission had written.
        .refused("spec.image", RUN_PODS),
        change("the same by one who may read and run", WorkspaceProxy, [session, of("coder")])
            .by(&["get secrets", "create deployments.apps"]),
        change("a token we made moves to a Secret", WorkspaceProxy, [of("coder"), kept("payroll")])
            .by(&["create pods", "get secrets"])
            .refused("spec.registration.tokenSecretName", "CODER0512"),
        change("the same by one who may make Secrets", WorkspaceProxy, [of("coder"), kept("payroll")])
            .by(&["create pods", "get,create secrets"]),
        change("back to its own Secret", WorkspaceProxy, [kept("payroll"), of("coder")])
            .by(&["create pods", "get secrets"]),
    ]
}
