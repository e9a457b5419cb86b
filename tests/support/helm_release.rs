//! What a release of Coder's Helm chart consists of, as `helm install` leaves it in a cluster: what the chart 2.36.1 renders,
//! as far as it matters here, with the marks of Helm. It never talks to anybody.

use serde_json::{Value, json};

/// The field manager of Helm.
pub const MANAGER: &str = "helm";

/// Every object of a release of this name, its Ingress and its record included.
pub fn objects(namespace: &str, release: &str, replicas: u32) -> Vec<Value> {
    let selector = json!({ "app.kubernetes.io/name": "coder", "app.kubernetes.io/instance": release });
    let mut labels = selector.clone();
    labels["app.kubernetes.io/managed-by"] = json!("Helm");
    labels["app.kubernetes.io/part-of"] = json!("coder");
    labels["app.kubernetes.io/version"] = json!("2.36.1");
    labels["helm.sh/chart"] = json!("coder-2.36.1");
    let marks = json!({ "meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace });
    let metadata =
        |name: &str| json!({ "name": name, "namespace": namespace, "labels": labels, "annotations": marks });
    // The chart gives these no labels; Helm adds its own.
    let rbac = |name: &str| {
        json!({ "name": name, "namespace": namespace, "annotations": marks,
            "labels": { "app.kubernetes.io/managed-by": "Helm" } })
    };
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let group = "rbac.authorization.k8s.io";
    let record = json!({ "name": format!("sh.helm.release.v1.{release}.v1"), "namespace": namespace,
        "labels": { "owner": "helm", "name": release, "status": "deployed", "version": "1" } });
    vec![
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": record, "type": "helm.sh/release.v1",
            "stringData": { "release": "x" } }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("coder") }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": rbac("coder-workspace-perms"),
            "rules": [{ "apiGroups": [""], "resources": ["pods", "persistentvolumeclaims"], "verbs": verbs }] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": rbac("coder"),
            "subjects": [{ "kind": "ServiceAccount", "name": "coder" }],
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "coder-workspace-perms" } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata("coder"), "spec": {
            "type": "LoadBalancer", "sessionAffinity": "None", "externalTrafficPolicy": "Cluster", "selector": selector,
            "ports": [{ "name": "http", "port": 80, "targetPort": "http", "protocol": "TCP" }] } }),
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata("coder"), "spec": {
            "rules": [{ "host": "coder.example.com", "http": { "paths": [{ "path": "/", "pathType": "Prefix",
                "backend": { "service": { "name": "coder", "port": { "name": "http" } } } }] } }] } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("coder"), "spec": {
            "replicas": replicas, "selector": { "matchLabels": selector },
            "template": { "metadata": { "labels": labels, "annotations": { "app.kubernetes.io/component": "coderd" } },
                "spec": pods() } } }),
    ]
}

/// What its pods run.
fn pods() -> Value {
    json!({ "serviceAccountName": "coder", "restartPolicy": "Always", "terminationGracePeriodSeconds": 60,
        "containers": [{ "name": "coder", "image": "ghcr.io/coder/coder:v2.36.1", "imagePullPolicy": "IfNotPresent",
            "command": ["/opt/coder"], "args": ["server"],
            "env": [
                { "name": "CODER_HTTP_ADDRESS", "value": "0.0.0.0:8080" },
                { "name": "CODER_ACCESS_URL", "value": "http://coder.coder.svc.cluster.local" },
                { "name": "KUBE_POD_IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
            ],
            "ports": [{ "containerPort": 8080, "name": "http", "protocol": "TCP" }],
            "readinessProbe": { "httpGet": { "path": "/healthz", "port": "http", "scheme": "HTTP" } },
            "securityContext": { "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
                "runAsGroup": 1000, "seccompProfile": { "type": "RuntimeDefault" } } }] })
}
