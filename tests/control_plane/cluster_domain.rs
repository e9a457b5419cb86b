//! A cluster whose DNS domain is not `cluster.local`: every address we build ends with its domain.

use serde_json::Value;
use support::TestEnv;
use support::objects::is_ready;

/// Restarts the operator of a env nobody else stands on, and looks at its ready control plane `coder`.
pub async fn is_the_end_of_every_address(env: &TestEnv, namespace: &str) {
    let resolve = format!("--resolve=*.svc.corp.example={}", env.coderd().addr());
    env.restart(&["--cluster-domain=corp.example", &resolve]).await;
    let host = format!("coder.{namespace}.svc.corp.example");
    let moved = |plane: &Value| is_ready(plane) && plane["status"]["url"] == format!("http://{host}:80");
    let plane = env.until(namespace, "coder", "Ready at its new address", moved).await;
    assert_eq!(plane["status"]["resolved"]["accessURL"], format!("http://{host}"));
    let deployment = env.get("deployment", namespace, "coder").await.unwrap();
    let environment = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let told = environment.as_array().unwrap().iter().find(|one| one["name"] == "CODER_ACCESS_URL").unwrap();
    assert_eq!(told["value"], format!("http://{host}"));
}
