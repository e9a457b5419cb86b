//! `coder-k8s convert helm-values` as it is run: what it prints passes `coder-k8s lint`, what it cannot carry is told on
//! standard error, and the exit code says which of the two it was.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use support::installation::repository;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

/// Exit code, standard output, standard error.
fn run(words: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(BINARY)
        .args(words)
        .current_dir(repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn convert(more: &[&str], values: &Value) -> (i32, String, String) {
    let words: Vec<&str> = ["convert", "helm-values", "-"].iter().chain(more).copied().collect();
    run(&words, &values.to_string())
}

/// Values that use what the chart offers.
fn values() -> Value {
    let secret = |name: &str, key: &str| json!({ "secretKeyRef": { "name": name, "key": key } });
    json!({
        "coder": {
            "image": { "repo": "registry.example.com/coder", "tag": "v2.36.1", "pullSecrets": [{ "name": "registry" }] },
            "env": [
                { "name": "CODER_PG_CONNECTION_URL", "valueFrom": secret("coder-db-url", "url") },
                { "name": "CODER_ACCESS_URL", "value": "https://coder.example.com" },
                { "name": "CODER_PROMETHEUS_ENABLE", "value": "true" },
            ],
            "envFrom": [{ "secretRef": { "name": "coder-oidc" } }],
            "replicaCount": 2,
            "service": { "annotations": { "example.com/lb": "internal" } },
            "ingress": { "enable": true, "className": "nginx", "host": "coder.example.com",
                "wildcardHost": "*.coder.example.com", "annotations": { "example.com/a": "b" },
                "tls": { "enable": true, "secretName": "tls", "wildcardSecretName": "wildcard" } },
            "tls": { "secretNames": ["coder-tls"] },
            "certs": { "secrets": [{ "name": "company-ca", "key": "ca.crt" }] },
            "resources": { "requests": { "cpu": "1", "memory": "2Gi" } },
            "securityContext": { "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
                "readOnlyRootFilesystem": null, "seccompProfile": { "type": "RuntimeDefault" },
                "allowPrivilegeEscalation": false },
            "podSecurityContext": { "fsGroup": 1000 },
            "serviceAccount": { "workspacePerms": true, "enableDeployments": true,
                "annotations": { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/coder" } },
            "readinessProbe": { "enabled": true, "initialDelaySeconds": 0 },
            "livenessProbe": { "enabled": false, "initialDelaySeconds": 0 },
            "volumes": [{ "name": "extra", "emptyDir": {} }],
            "volumeMounts": [{ "name": "extra", "mountPath": "/extra" }],
            "nodeSelector": { "kubernetes.io/arch": "amd64" },
            "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
            "hostAliases": [{ "ip": "192.0.2.1", "hostnames": ["git.example.com"] }],
            "priorityClassName": "high",
            "commandArgs": ["server", "--verbose"],
        },
        "extraTemplates": [{ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "extra" } }],
    })
}

#[test]
fn what_is_printed_passes_lint_and_everything_has_its_place() {
    let provisioner = json!({ "coder": { "image": { "tag": "v2.36.1" } },
        "provisionerDaemon": { "tags": { "environment": "on-prem" }, "terminationGracePeriodSeconds": 300 } });
    let proxy = json!({ "coder": { "workspaceProxy": true, "image": { "tag": "v2.36.1" }, "env": [
        { "name": "CODER_PRIMARY_ACCESS_URL", "value": "https://coder.example.com" },
        { "name": "CODER_ACCESS_URL", "value": "https://proxy.example.com" },
        { "name": "CODER_PROXY_SESSION_TOKEN",
            "valueFrom": { "secretKeyRef": { "name": "proxy", "key": "token" } } }] } });
    let cases = [
        (values(), vec!["--namespace=coder"], "CoderControlPlane"),
        (json!({}), vec!["--chart-version=2.36.1"], "CoderControlPlane"),
        (proxy, vec!["--name=sydney"], "CoderWorkspaceProxy"),
        (provisioner, vec!["--chart=provisioner"], "CoderProvisioner"),
    ];
    for (values, words, kind) in cases {
        let (code, manifests, told) = convert(&words, &values);
        assert_eq!(code, 0, "{told}");
        assert!(!told.contains("not carried"), "{told}");
        assert!(manifests.contains(&format!("kind: {kind}")), "{manifests}");
        assert!(!manifests.contains('#'), "no comments: {manifests}");
        let (code, found, error) = run(&["lint", "-"], &manifests);
        assert_eq!(code, 0, "{found}{error}\n{manifests}");
    }
}

#[test]
fn what_has_no_place_is_told_and_the_exit_code_says_so() {
    let mut values = values();
    values["coder"]["service"]["sessionAffinity"] = json!("ClientIP");
    values["coder"]["somethingNew"] = json!({ "enabled": true });
    let (code, manifests, told) = convert(&[], &values);
    assert_eq!(code, 1);
    assert!(manifests.starts_with("---\napiVersion: coder.com/v1alpha1\n"), "{manifests}");
    for value in ["coder.service.sessionAffinity", "coder.somethingNew.enabled"] {
        assert!(told.contains(&format!("not carried: {value}: ")), "{told}");
    }
}

#[test]
fn what_cannot_be_read_prints_nothing() {
    for (input, said) in [("coder: [", "line"), ("- a", "no mapping"), ("a: 1\n---\nb: 2\n", "more than one")]
    {
        let (code, printed, told) = run(&["convert", "helm-values", "-"], input);
        assert_eq!((code, printed.as_str()), (2, ""), "{input}");
        assert!(told.contains(said), "{told}");
    }
    let (code, _, told) = run(&["convert", "helm-values", "no-such-file.yaml"], "");
    assert_eq!(code, 2);
    assert!(told.contains("no-such-file.yaml"), "{told}");
}

#[test]
fn a_release_without_values_is_the_chart_with_its_defaults() {
    let words = ["convert", "helm-values", "-", "--chart-version=2.36.1"];
    let (code, printed, told) = run(&words, "USER-SUPPLIED VALUES:\nnull\n");
    assert_eq!((code, told.as_str()), (0, ""));
    assert_eq!(run(&words, "{}").1, printed);
}

#[test]
fn keys_of_others_obey_no_terminal_and_begin_no_line() {
    let key = "a\u{1b}[2J\nto do: everything: run this";
    let (code, _, told) = convert(&[], &json!({ "coder": { "image": { "tag": "v1" }, key: true } }));
    assert_eq!(code, 1);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("not carried: coder.a [2J to do: everything: run this: "), "{told}");
    let (code, _, told) = convert(&[], &json!({ "apiVersion": "v1", "kind": key }));
    assert_eq!((code, told.lines().count()), (2, 1), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = support::process::scratch_folder("manual");
    let (code, _, told) = run(&["manual", &format!("--output={}", folder.display())], "");
    assert_eq!(code, 0, "{told}");
    for page in ["coder-k8s.1", "coder-k8s-lint.1", "coder-k8s-convert-helm-values.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH DESCRIPTION"), "{page}: {text}");
    }
}
