//! The commands that lead from Coder's Helm chart to us, run in their order on what the chart makes: the Service keeps its
//! address, the pods of the release go last.

use super::{BINARY, Walk};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// What a release of the chart consists of, by the names and the fields that count.
fn release() -> String {
    let selector = json!({ "app.kubernetes.io/name": "coder", "app.kubernetes.io/instance": "coder" });
    let mut labels = selector.clone();
    labels["helm.sh/chart"] = json!("coder-2.36.1");
    labels["app.kubernetes.io/managed-by"] = json!("Helm");
    let metadata = json!({ "name": "coder", "namespace": "coder", "labels": labels,
        "annotations": { "meta.helm.sh/release-name": "coder", "meta.helm.sh/release-namespace": "coder" } });
    let role = json!({ "name": "coder-workspace-perms", "namespace": "coder" });
    let group = "rbac.authorization.k8s.io";
    let rbac = format!("{group}/v1");
    let items = json!([
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata },
        { "apiVersion": rbac, "kind": "Role", "metadata": role,
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] },
        { "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "subjects": [{ "kind": "ServiceAccount", "name": "coder", "namespace": "coder" }],
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "coder-workspace-perms" } },
        { "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "type": "LoadBalancer",
            "sessionAffinity": "ClientIP", "selector": selector,
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }] } },
        { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": { "replicas": 1,
            "selector": { "matchLabels": selector }, "template": { "metadata": { "labels": labels },
                "spec": { "serviceAccountName": "coder", "containers": [
                    { "name": "coder", "image": "ghcr.io/coder/coder:v2.36.1", "ports": [
                        { "name": "http", "containerPort": 8080 }] }] } } } },
        { "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {
            "name": "sh.helm.release.v1.coder.v1", "namespace": "coder", "labels": { "owner": "helm", "name": "coder" } } },
    ]);
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn values() -> String {
    json!({ "coder": { "env": [{ "name": "CODER_ACCESS_URL", "value": "https://coder.example.com" }] } })
        .to_string()
}

/// Runs the binary in a folder, with `> FILE` as a shell has it.
fn ours(line: &str, folder: &Path) {
    let (words, file) = line.split_once(" > ").unwrap_or((line, ""));
    let words = words.strip_prefix("coder-k8s ").unwrap().split(' ');
    let output = Command::new(BINARY).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    if !file.is_empty() {
        std::fs::write(folder.join(file), output.stdout).unwrap();
    }
}

#[tokio::test]
async fn the_page_leads_from_the_helm_chart_to_us() {
    let mut walk = Walk::begin().await;
    walk.run(super::OVER).await;
    walk.start().await;
    walk.kubectl("create namespace coder").await;
    walk.cluster.kubectl_with_input("apply -f -", &release()).await.expect_ok();
    walk.kubectl("rollout status deployment/coder -n coder --timeout=60s").await;
    let service = walk.uid("service coder -n coder").await;
    let address = "get service coder -n coder -o jsonpath={.spec.clusterIP}:{.spec.ports[0].nodePort}";
    let before = walk.kubectl(address).await;
    let pods_of_the_chart = "get pods -n coder -l helm.sh/chart -o name";
    let old = walk.kubectl(pods_of_the_chart).await;

    let folder = support::process::scratch_folder("helm");
    std::fs::write(folder.join("values.yaml"), values()).unwrap();
    let mut uid = String::new();
    for line in walk.section("From Coder's Helm chart") {
        let Some(words) = line.strip_prefix("kubectl ") else {
            ours(&line, &folder);
            continue;
        };
        let given = words.replace("-f coder.yaml", &format!("-f {}/coder.yaml", folder.display()));
        let answer = walk.kubectl(&given.replace("UID", &uid).replace('\'', "")).await;
        if words.ends_with("{.metadata.uid}") {
            uid = answer;
        }
        if words.starts_with("delete deployment") {
            assert_eq!(walk.kubectl(pods_of_the_chart).await, old, "the pods of the chart run on");
        }
    }
    assert_eq!(walk.uid("service coder -n coder").await, service, "it is the same Service");
    assert_eq!(walk.kubectl(address).await, before, "with the same address");
    let live = walk.kubectl("get service coder -n coder -o json").await;
    let live: Value = serde_json::from_str(&live).unwrap();
    assert_eq!(live["spec"]["selector"]["app.kubernetes.io/name"], "coder-control-plane");
    assert_eq!(live["spec"]["sessionAffinity"], "ClientIP", "what we do not set stays");
    walk.kubectl("wait ccp/coder -n coder --for=condition=Ready --timeout=60s").await;
    let left = walk.kubectl("get role,rolebinding -n coder -o name").await;
    for gone in ["/coder-workspace-perms", "/coder"] {
        assert!(left.lines().all(|name| !name.ends_with(gone)), "the chart's {gone} is left: {left}");
    }
    assert_ne!(left, "", "ours are there");
}
