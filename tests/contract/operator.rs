//! The built operator beside a real coderd: a control plane whose Service leads to that server and whose database is the
//! one it has migrated. What the operator makes, coderd accepts; what it takes back, coderd refuses.

use super::client_at;
use coder_k8s::coderd::Error;
use coder_k8s::coderd::error::Operation;
use coder_k8s::confidential::Confidential;
use serde_json::{Value, json};
use std::time::Duration;
use support::postgres::Postgres;
use support::real_coderd::{Edition, RealCoderd};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(90);

fn condition<'a>(plane: &'a Value, name: &str) -> &'a Value {
    let conditions = plane["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}

/// Waits until a condition of the control plane has this reason.
async fn until_reason(cluster: &Cluster, namespace: &str, name: &str, reason: &str) -> Value {
    until(&format!("{name} {reason}"), LIMIT, async || {
        let text = cluster.kubectl(&format!("get ccp coder -n {namespace} -o json")).await.expect_ok();
        let plane: Value = serde_json::from_str(&text).unwrap();
        let current = plane["status"]["observedGeneration"] == plane["metadata"]["generation"];
        holds(current && condition(&plane, name)["reason"] == reason, plane["status"].to_string())
            .map(|()| plane)
    })
    .await
}

async fn apply(cluster: &Cluster, manifest: &Value) {
    let words = "apply --server-side --force-conflicts --field-manager=git -f -";
    cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
}

fn plane(namespace: &str, access: &Value) -> Value {
    let url = json!({ "secretKeyRef": { "name": "db", "key": "url" } });
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": namespace },
        "spec": { "operatorAccess": access,
            "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "valueFrom": url }],
            "licenseSecretRef": { "name": "license" } } })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_operators_own_token_works_on_a_real_coderd_until_it_is_taken_back() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
    let installation = Installation::new(&cluster, "contract").await;
    let mut options = installation.operator("controller").await;
    options.flags.push(format!("--resolve={}", postgres.resolve_rule()));
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", server.addr()));
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;

    let namespace = cluster.namespace("contract").await;
    let secret = |name: &str, data: Value| {
        json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": namespace }, "stringData": data })
    };
    let url = postgres.url("postgres", server.database(), "sslmode=disable");
    apply(&cluster, &secret("db", json!({ "url": url }))).await;
    // A license in form, signed by nobody: coderd must refuse it, and the status must say what coderd said.
    let jwt = support::coderd::license_with(&json!({ "exp": 4_000_000_000_i64 }));
    apply(&cluster, &secret("license", json!({ "license": jwt }))).await;
    apply(&cluster, &plane(&namespace, &json!({}))).await;

    until_reason(&cluster, &namespace, "OperatorAccessReady", "TokenProven").await;
    let record = format!("get secret {namespace}.coder.operator-token -n {}", installation.namespace);
    let words = format!("{record} -o go-template={{{{.data.token|base64decode}}}}");
    let token = Confidential::new(cluster.kubectl(&words).await.expect_ok().trim().to_owned());
    let client = client_at(server.addr(), Some(token));
    assert_eq!(client.me().await.unwrap().roles, ["owner"], "a license needs it");
    let refused = until("the license to be refused", LIMIT, async || {
        let text = cluster.kubectl(&format!("get ccp coder -n {namespace} -o json")).await.expect_ok();
        let license = condition(&serde_json::from_str(&text).unwrap(), "LicenseApplied").clone();
        let said = license["message"].as_str().unwrap_or_default().contains("license has multiple issues");
        holds(said, license.to_string()).map(|()| license)
    })
    .await;
    assert_eq!(refused["status"], "False");
    println!("LicenseApplied: {} {}", refused["reason"], refused["message"]);

    apply(&cluster, &plane(&namespace, &json!({ "disabled": true }))).await;
    until_reason(&cluster, &namespace, "OperatorAccessReady", "Disabled").await;
    until("the token to be revoked", LIMIT, async || {
        let said = client.me().await;
        holds(said == Err(Error::Unauthorized { operation: Operation::Me }), format!("{said:?}"))
    })
    .await;
}
