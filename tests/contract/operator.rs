//! The built operator beside a real coderd: a control plane whose Service leads to that server and whose database is the
//! one it has migrated. What the operator makes, coderd accepts; what it takes back, coderd refuses.

use super::client_at;
use coder_k8s::coderd::Error;
use coder_k8s::coderd::error::Operation;
use coder_k8s::confidential::Confidential;
use serde_json::{Value, json};
use std::time::Duration;
use support::objects::condition;
use support::postgres::Postgres;
use support::real_coderd::{Edition, RealCoderd};
use support::wait::holds;
use support::{TestEnv, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(90);

fn spec(access: &Value) -> Value {
    let url = json!({ "secretKeyRef": { "name": "db", "key": "url" } });
    json!({ "operatorAccess": access,
        "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "valueFrom": url }],
        "licenseSecretRef": { "name": "license" } })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_operators_own_token_works_on_a_real_coderd_until_it_is_taken_back() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let env = TestEnv::builder(BINARY)
        .nodes(1)
        .without_coderd()
        .flag(format!("--resolve={}", postgres.resolve_rule()))
        .flag(format!("--resolve=*.svc.cluster.local={}", server.addr()))
        .limit(LIMIT)
        .start()
        .await;

    let namespace = env.cluster.namespace("contract").await;
    let url = postgres.url("postgres", server.database(), "sslmode=disable");
    env.apply_secret(&namespace, "db", &json!({ "url": url })).await;
    // A license in form, signed by nobody: coderd must refuse it, and the status must say what coderd said.
    let jwt = support::coderd::license_with(&json!({ "exp": 4_000_000_000_i64 }));
    env.apply_secret(&namespace, "license", &json!({ "license": jwt })).await;
    env.apply_control_plane(&namespace, "coder", &spec(&json!({}))).await;

    env.until_reason(&namespace, "coder", "OperatorAccessReady", "TokenProven").await;
    let record = format!("get secret {namespace}.coder.operator-token -n {}", env.installation.namespace);
    let words = format!("{record} -o go-template={{{{.data.token|base64decode}}}}");
    let token = Confidential::new(env.cluster.kubectl(&words).await.expect_ok().trim().to_owned());
    let client = client_at(server.addr(), Some(token));
    assert_eq!(client.me().await.unwrap().roles, ["owner"], "a license needs it");
    let refused = |plane: &Value| {
        let message = condition(plane, "LicenseApplied")["message"].as_str().unwrap_or_default();
        message.contains("license has multiple issues")
    };
    let plane = env.until(&namespace, "coder", "the license to be refused", refused).await;
    let refused = condition(&plane, "LicenseApplied");
    assert_eq!(refused["status"], "False");
    println!("LicenseApplied: {} {}", refused["reason"], refused["message"]);

    env.apply_control_plane(&namespace, "coder", &spec(&json!({ "disabled": true }))).await;
    env.until_reason(&namespace, "coder", "OperatorAccessReady", "Disabled").await;
    until("the token to be revoked", LIMIT, async || {
        let said = client.me().await;
        holds(said == Err(Error::Unauthorized { operation: Operation::Me }), format!("{said:?}"))
    })
    .await;
}
