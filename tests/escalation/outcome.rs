//! What comes of attacks: an author with few rights against everything that is shipped, reconcilers included, on a
//! cluster of its own. What he could not do before he cannot do afterwards, tried with his own credentials.

use super::tenant::LIMIT;
use serde_json::{Value, json};
use support::cluster::Answer;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const AUTHOR: &str = "--as=mallory -n coder";

fn plane(name: &str, spec: &Value) -> String {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": { "name": name }, "spec": spec })
        .to_string()
}

/// What the author tries with his own credentials; none of it is his.
const TRIES: [&str; 8] = [
    "get secret payroll",
    "create token robot",
    "create token coder",
    "create token mine",
    "get pods",
    "create deployment mine --image=mine",
    "create ingress mine --rule=c.example.com/*=coder:80",
    "create role mine --verb=get --resource=secrets",
];

async fn tries(cluster: &Cluster) -> Vec<(String, bool)> {
    let mut outcomes = Vec::new();
    for words in TRIES {
        let Answer { ok, .. } = cluster.kubectl(&format!("{words} {AUTHOR}")).await;
        outcomes.push((words.to_owned(), ok));
    }
    outcomes
}

/// Everything of ours in the namespace, as it is known to the cluster.
async fn made(cluster: &Cluster) -> Vec<String> {
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,ingresses,secrets";
    let names = cluster.kubectl(&format!("get {kinds} -n coder -o name")).await.expect_ok();
    let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
    names.sort();
    names
}

const MINE: &str = "registry.example.com/mine:v2.36.1";

/// What the author wants: his code, the account and the Secret of others, a way in, the node, rights.
fn wishes() -> [Value; 9] {
    [
        json!({ "image": MINE }),
        json!({ "image": MINE, "serviceAccount": { "name": "robot" } }),
        json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] }),
        json!({ "serviceAccount": { "annotations": { "eks.amazonaws.com/role-arn": "r" } } }),
        json!({ "expose": { "ingress": { "host": "c.example.com" } } }),
        json!({ "service": { "type": "NodePort" } }),
        json!({ "securityContext": { "privileged": true } }),
        json!({ "volumes": [{ "name": "n", "hostPath": { "path": "/" } }] }),
        json!({ "rbac": { "extraRules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }] } }),
    ]
}

/// Sends every wish, as a new object, over a stored one, and over one that is being deleted.
async fn attack(cluster: &Cluster) {
    for spec in wishes() {
        for (way, name) in [("create", "mine"), ("apply --server-side --force-conflicts", "coder")] {
            let sent = cluster.kubectl_with_input(&format!("{way} -f - {AUTHOR}"), &plane(name, &spec)).await;
            let refused = sent.expect_refused();
            assert!(refused.contains("(CODER05"), "{way} {spec}: {refused}");
        }
    }
    let hold = r#"patch ccp coder -n coder --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#;
    cluster.kubectl(hold).await.expect_ok();
    cluster.kubectl(&format!("delete ccp coder --wait=false {AUTHOR}")).await.expect_ok();
    for spec in wishes() {
        let change = json!({ "spec": spec }).to_string();
        let refused = cluster
            .kubectl(&format!("patch ccp coder --type=merge -p {change} {AUTHOR}"))
            .await
            .expect_refused();
        assert!(refused.contains("(CODER05"), "under deletion {spec}: {refused}");
    }
}

#[tokio::test]
async fn nothing_comes_of_an_attack_and_the_author_can_do_no_more_than_before() {
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let installation = Installation::shipped(&cluster).await;
    let operator = installation.start(BINARY, "all").await;
    installation.admit(operator.ports.webhooks, &[]).await;
    for words in [
        "create namespace coder",
        "create secret generic payroll -n coder --from-literal=token=canary",
        "create serviceaccount robot -n coder",
        "create role author -n coder --verb=get,list,create,update,patch,delete --resource=codercontrolplanes.coder.com",
        "create rolebinding author -n coder --role=author --user=mallory",
    ] {
        cluster.kubectl(words).await.expect_ok();
    }
    let stored = plane("coder", &json!({ "image": "ghcr.io/coder/coder:v2.36.1", "replicas": 0 }));
    until("the webhooks to be in force and the author to be known", LIMIT, async || {
        let answer = cluster.kubectl_with_input(&format!("create -f - {AUTHOR}"), &stored).await;
        holds(answer.stderr.contains("CODER0509"), answer.stderr)
    })
    .await;
    cluster.kubectl_with_input("apply --server-side -n coder -f -", &stored).await.expect_ok();
    // The Service comes after account, Roles and Deployment.
    let reconciled = async |name: &str| {
        until("the control plane to be reconciled", LIMIT, async || {
            let there = made(&cluster).await;
            holds(there.contains(&format!("service/{name}")), format!("{there:?}"))
        })
        .await;
    };
    reconciled("coder").await;
    let (before, own) = (made(&cluster).await, tries(&cluster).await);
    assert!(own.iter().all(|(_, ok)| !ok), "{own:?}");

    attack(&cluster).await;
    // The operator has been through all of it once an object that came later is there.
    let later = plane("later", &json!({ "replicas": 0 }));
    cluster.kubectl_with_input("apply --server-side -n coder -f -", &later).await.expect_ok();
    reconciled("later").await;
    let after: Vec<String> =
        made(&cluster).await.into_iter().filter(|name| !name.contains("later")).collect();
    assert_eq!(after, before);
    let running = "get deployment coder -n coder -o jsonpath={.spec.template.spec}";
    let running = cluster.kubectl(running).await.expect_ok();
    assert!(running.contains("ghcr.io/coder/coder:v2.36.1") && !running.contains("mine"), "{running}");
    assert_eq!(tries(&cluster).await, own);
}
