//! One process and one identity for each role: each starts, does its work and tries nothing that its own account may not do.

use crate::rights::{exercise, granted, run_a_control_plane, used};
use serde_json::json;
use std::time::Duration;
use support::{Cluster, ClusterOptions, Installation, Operator};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn every_role_works_with_the_rights_of_its_own_account_alone() {
    let options = ClusterOptions { audit: true, optional_kinds: true, ..Default::default() };
    let cluster = Cluster::start(options).await;
    let mut installation = Installation::split(&cluster, "split").await;
    let mut running = Vec::new();
    for role in ["controller", "webhooks"] {
        installation.service_account = installation.account_of(role);
        let mut options = installation.operator(role).await;
        let flags = ["--leaf-lifetime=2s", "--ca-propagation=1s", "--ca-retirement-margin=1s"];
        options.flags = flags.map(str::to_owned).into();
        if role == "webhooks" {
            // As its Deployment has it.
            options.flags.push("--keep-ca=false".to_owned());
        }
        let mut operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
        running.push(operator);
    }
    let webhooks = &running[1].ports;
    exercise(&cluster, &installation, webhooks.webhooks, webhooks.metrics).await;
    installation.admit(webhooks.webhooks, &[]).await;
    let team = cluster.namespace("team").await;
    run_a_control_plane(&cluster, &installation.namespace, &team).await;
    for role in ["controller", "webhooks"] {
        let account = installation.account_of(role);
        let user = format!("system:serviceaccount:{}:{account}", installation.namespace);
        let granted = granted(&cluster, &installation, &account).await;
        let (used, refused) = used(&cluster, &user);
        assert!(used.len() > 3, "{role}: {used:?}");
        assert_eq!(refused, [""; 0], "{role} tried what it may not do");
        assert_eq!(used.difference(&granted).collect::<Vec<_>>(), Vec::<&String>::new(), "{role}");
    }
    webhooks_do_no_more_than_ask(&cluster, &installation).await;
}

/// What a thief of the webhooks' token would try to become the controller, by way of the CA that both read.
async fn webhooks_do_no_more_than_ask(cluster: &Cluster, installation: &Installation) {
    let namespace = &installation.namespace;
    let account = format!("system:serviceaccount:{namespace}:{}", installation.account_of("webhooks"));
    for question in [
        "get secrets",
        "list secrets",
        "create secrets",
        "update secrets/coder-k8s-ca",
        "patch secrets/coder-k8s-ca",
        "delete secrets/coder-k8s-ca",
        "create leases.coordination.k8s.io",
        "update leases.coordination.k8s.io/coder-k8s-authority.coder.com",
        "patch validatingwebhookconfigurations.admissionregistration.k8s.io",
        "get deployments.apps",
        "impersonate serviceaccounts",
    ] {
        let words = format!("auth can-i {question} -n {namespace} --as={account}");
        assert_eq!(cluster.kubectl(&words).await.stdout.trim(), "no", "{question}");
    }
    // An owner that does not exist has the garbage collector delete the Secret; then it would be made anew, as a token.
    let owner = r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"nobody","uid":"00000000-0000-0000-0000-000000000000"}]}}"#;
    let words = format!("patch secret coder-k8s-ca -n {namespace} --type=merge -p {owner} --as={account}");
    cluster.kubectl(&words).await.expect_refused();
    let token = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": { "name": "coder-k8s-ca", "namespace": namespace,
            "annotations": { "kubernetes.io/service-account.name": installation.account_of("controller") } } });
    let words = format!("create -f - --as={account}");
    let refused = cluster.kubectl_with_input(&words, &token.to_string()).await.expect_refused();
    assert!(refused.contains("cannot create resource \"secrets\""), "{refused}");
}
