//! One process and one identity for each role: each starts, does its work and tries nothing that its own account may not do.

use crate::rights::{exercise, granted, run_a_control_plane, used};
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
    let webhooks = installation.account_of("webhooks");
    for question in ["get secrets", "list secrets", "get deployments.apps", "impersonate serviceaccounts"] {
        let user = format!("system:serviceaccount:{}:{webhooks}", installation.namespace);
        let words = format!("auth can-i {question} -n {} --as={user}", installation.namespace);
        assert_eq!(cluster.kubectl(&words).await.stdout.trim(), "no", "{question}");
    }
}
