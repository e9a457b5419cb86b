//! What the older operator, written in Go, leaves behind of a workspace proxy is taken over in place: its token stays, and its pods
//! roll at most once.

use crate::site::{NAME, SECRET, Site, WORKLOAD};
use serde_json::json;
use support::objects::is_ready;

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_proxy_keeps_its_token_and_rolls_at_most_once() {
    let site = Site::new("former").await;
    let token = site.coderd().add_workspace_proxy(NAME);
    let bootstrap = json!({ "coderURL": format!("http://coder.{}.svc.cluster.local:{}", site.ns, site.double.port),
        "credentialsSecretRef": { "name": "operator-token" } });
    // Suspended as long as no operator of ours has been there.
    let mut spec = json!({ "suspend": true, "image": "ghcr.io/coder/coder:v2.36.1", "bootstrap": bootstrap });
    site.apply_spec(NAME, &spec).await;
    let object = site.until_reason("Suspended", "Suspended").await;
    let labels = json!({ "app.kubernetes.io/name": "coder-workspace-proxy", "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/managed-by": "coder-k8s" });
    let metadata = |name: &str| {
        json!({ "name": name, "namespace": site.ns, "labels": labels, "ownerReferences": [{
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy", "name": NAME,
            "uid": object["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }] })
    };
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata(SECRET),
        "stringData": { "token": token } });
    site.create("secret", secret).await;
    let env = json!([{ "name": "CODER_PRIMARY_ACCESS_URL", "value": spec["bootstrap"]["coderURL"] },
        { "name": "CODER_PROXY_SESSION_TOKEN", "valueFrom": { "secretKeyRef": { "name": SECRET, "key": "token" } } }]);
    let container = json!({ "name": "workspace-proxy", "image": "ghcr.io/coder/coder:v2.36.1", "env": env,
        "args": ["wsproxy", "server", "--http-address=0.0.0.0:3001"],
        "ports": [{ "name": "http", "containerPort": 3001 }] });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(WORKLOAD),
        "spec": { "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } } } });
    site.create("deployment", deployment).await;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(WORKLOAD),
        "spec": { "selector": labels, "ports": [{ "name": "http", "port": 80, "targetPort": 3001 }] } });
    site.create("service", service).await;
    site.coderd().proxy_comes(&token, "http://wsproxy-eu").unwrap();

    spec["suspend"] = json!(false);
    site.apply_spec(NAME, &spec).await;
    let ready = site.until("taken over", |object| {
        is_ready(object) && !object["status"]["registration"]["current"].is_null()
    });
    ready.await;
    assert_eq!((site.only().regenerations, site.token(SECRET).await), (0, Some(token)));
    assert!(site.revision().await <= 2, "pods roll at most once");
    let deployment = site.get("deployment", WORKLOAD).await.unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["command"], json!(["coder"]));
    site.coderd().assert_no_violations();
}
