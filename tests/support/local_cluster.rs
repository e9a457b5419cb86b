//! `make run`: a cluster with simulated nodes, the shipped manifests, the built operator, a control plane, a provisioner whose key is
//! rotated and a workspace proxy, until Ctrl-C.
//!
//!   cargo run -p support --bin local-cluster -- target/debug/coder-k8s          stays up until Ctrl-C
//!   --once            the same, then it ends
//!   --publish FOLDER  where kubeconfig and kubectl are linked, instead of .local

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::coderd::{Coderd, Role};
use support::database_tokens::Following;
use support::installation::repository;
use support::postgres::Postgres;
use support::{Cluster, ClusterOptions, Daemons, Installation, Operator, tools, until};

const READY_LIMIT: Duration = Duration::from_secs(60);
const CODERD: &str = "v2.36.1";
/// Where the sample's Secret says that the database is.
const DATABASE_HOST: &str = "database.coder.svc";
/// How long coderd goes on to list a daemon that has ended; it is three minutes in a real one.
const LISTED_FOR: Duration = Duration::from_secs(3);
/// The control plane, the provisioner and the proxy of the samples.
const CONTROL_PLANE: &str = "ccp/coder";
const PROVISIONER: &str = "coderprovisioner/builders";
const PROXY: &str = "coderworkspaceproxy/sydney";
/// What a user would type; each line is run as it is printed.
const SHOWN: [&str; 8] = [
    "get ccp/coder -n coder -o jsonpath={.spec}",
    "get coder -A",
    "get codercontrolplanes,coderprovisioners,coderworkspaceproxies -n coder -o wide",
    "get deployment,service,serviceaccount,role,rolebinding -n coder",
    "explain codercontrolplane.spec.expose",
    "scale ccp/coder -n coder --replicas=2",
    "get leases -n coder-system",
    "get events.events.k8s.io -n coder-system",
];

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let binary = words.next().expect("usage: local-cluster PATH-OF-CODER-K8S [--once]");
    let mut once = false;
    let mut published = repository().join(".local");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--once" => once = true,
            "--publish" => published = words.next().expect("--publish FOLDER").into(),
            other => panic!("unknown word {other}"),
        }
    }
    let began = Instant::now();

    say("starting etcd, kube-apiserver 1.36, controller manager, scheduler and two simulated nodes");
    let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
    say("applying kustomize/overlays/local");
    let installation = Installation::shipped(&cluster).await;
    // Simulated pods serve nothing: a stand-in answers for every coderd of the demo.
    let coderd = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
    let database = database(&coderd);
    say("starting the operator");
    let mut options = installation.operator("all").await;
    options.flags.extend(database.iter().map(|database| format!("--resolve={}", database.rule)));
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
    let mut operator = Operator::start(&binary, &options).await;
    operator.ready(READY_LIMIT).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    println!("--> ready after {:.1} s\n", began.elapsed().as_secs_f64());

    cluster.kubectl("create namespace coder").await.expect_ok();
    let nobody = || format!("postgres://coder@{DATABASE_HOST}/coder?sslmode=disable");
    let url = database.as_ref().map_or_else(nobody, |database| database.url.clone());
    let secret = format!("create secret generic coder-database -n coder --from-literal=url={url}");
    cluster.kubectl(&secret).await.expect_ok();
    apply(&cluster, "kustomize/samples/codercontrolplane-minimal.yaml").await;
    wait(&cluster, CONTROL_PLANE, "condition=Ready").await;
    if database.is_none() {
        give_token(&cluster, &coderd).await;
    }
    run_provisioner(&cluster, &coderd).await;
    rotate_key(&cluster).await;
    run_proxy(&cluster, &coderd).await;
    say("coderd itself is a stand-in of the test harness here: nodes and pods are simulated");
    apply(&cluster, "docs/refused.yaml").await;
    for words in SHOWN {
        kubectl(&cluster, words).await;
    }
    publish(&cluster, &published);
    say_what_next(&operator, &published.display().to_string());
    if once {
        return;
    }
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.expect("Ctrl-C can be received"),
        status = operator.ended(Duration::MAX / 4) => println!("the operator ended with {status}: see {}", operator.log_path().display()),
    }
    say("stopping");
}

/// A PostgreSQL with coderd's tables, and the stand-in in step with it.
struct DemoDatabase {
    url: String,
    rule: String,
    _following: Following,
}

/// The demo's database, if the machine has PostgreSQL.
fn database(coderd: &Arc<Coderd>) -> Option<DemoDatabase> {
    if !Postgres::is_installed() {
        return None;
    }
    say("starting PostgreSQL with coderd's tables");
    let postgres = Arc::new(Postgres::start());
    let name = postgres.coderd_database(CODERD);
    Some(DemoDatabase {
        url: postgres.url_at(DATABASE_HOST, "postgres", &name, "sslmode=disable"),
        rule: postgres.resolve_rule_for(DATABASE_HOST),
        _following: Following::begin(coderd.clone(), postgres, name),
    })
}

/// Gives the control plane a token, where there is no database for the operator to make one in.
async fn give_token(cluster: &Cluster, coderd: &Coderd) {
    say(
        "no PostgreSQL on this machine (apt-get install postgresql): the operator is given a token instead of making one",
    );
    let token = coderd.token_for(&[Role::Owner]);
    let secret = format!("create secret generic operator-token -n coder --from-literal=token={token}");
    cluster.kubectl(&secret).await.expect_ok();
    let access = r#"{"spec":{"operatorAccess":{"tokenSecretRef":{"name":"operator-token"}}}}"#;
    kubectl(cluster, &format!("patch {CONTROL_PLANE} -n coder --type=merge -p={access}")).await;
}

/// Applies the sample of a provisioner and waits until coderd sees a daemon of it.
async fn run_provisioner(cluster: &Cluster, coderd: &Arc<Coderd>) {
    say(
        "simulated pods run nothing: the harness dials coderd for each pod of a provisioner, with the key in its Secret",
    );
    tokio::spawn(dial_everywhere(cluster.client().await, coderd.clone()));
    // The operator has no token of its own before something needs it.
    apply(cluster, "kustomize/samples/coderprovisioner-minimal.yaml").await;
    wait(cluster, CONTROL_PLANE, "condition=OperatorAccessReady").await;
    wait(cluster, PROVISIONER, "condition=Ready").await;
    show_keys(cluster).await;
}

/// Dials for the pods of provisioners in every namespace, also in those that come later.
async fn dial_everywhere(client: Client, coderd: Arc<Coderd>) {
    let mut followed = BTreeMap::new();
    let namespaces = watcher(Api::<Namespace>::all(client.clone()), watcher::Config::default());
    let mut namespaces = pin!(namespaces.default_backoff().applied_objects());
    while let Some(seen) = namespaces.next().await {
        let Some(name) = seen.ok().and_then(|namespace| namespace.metadata.name) else { continue };
        followed.entry(name).or_insert_with_key(|name| {
            let answers = coderd.clone();
            Daemons::follow(client.clone(), name, LISTED_FOR, move |_| Some(answers.clone()))
        });
    }
}

/// Applies the sample of a workspace proxy and waits until coderd's health check of it is fine.
async fn run_proxy(cluster: &Cluster, coderd: &Arc<Coderd>) {
    say(
        "the harness comes to coderd for the pods of workspace proxies, too, with the token that each was given",
    );
    let answers = coderd.clone();
    tokio::spawn(async move { support::proxies::come(&answers, "http://sydney.example.com").await });
    apply(cluster, "kustomize/samples/coderworkspaceproxy-minimal.yaml").await;
    wait(cluster, PROXY, "condition=Ready").await;
    kubectl(cluster, &format!("get {PROXY} -n coder -o jsonpath={{.status.registration}}")).await;
}

/// Changes a tag, and waits until the key that was made for it is the only one.
async fn rotate_key(cluster: &Cluster) {
    say(
        "other tags are another key: it is made, rolled out, and the one before goes when no daemon uses it any more",
    );
    kubectl(cluster, &tagged("blue")).await;
    wait(cluster, PROVISIONER, "jsonpath={.status.provisionerKeyName}=builders-2").await;
    wait(cluster, PROVISIONER, "condition=Ready").await;
    let events = "events -n coder --for coderprovisioner/builders";
    let deleted = until("the former key to be deleted", READY_LIMIT, async || {
        let told = cluster.kubectl(events).await.expect_ok();
        told.contains("KeyDeleted").then_some(told).ok_or_else(|| "it is still there".to_owned())
    });
    println!("$ kubectl {events}\n{}", deleted.await);
    show_keys(cluster).await;
}

/// The words that change the tags of the sample.
fn tagged(team: &str) -> String {
    let tags = format!(r#"{{"spec":{{"tags":{{"team":"{team}"}}}}}}"#);
    format!("patch {PROVISIONER} -n coder --type=merge -p={tags}")
}

/// Which keys the provisioner has: the one in use, one that is about to replace it, and those that wait for their daemons to end.
async fn show_keys(cluster: &Cluster) {
    kubectl(cluster, &format!("get {PROVISIONER} -n coder -o jsonpath={{.status.key}}")).await;
}

/// Waits as a user would.
async fn wait(cluster: &Cluster, what: &str, until: &str) {
    kubectl(cluster, &format!("wait {what} -n coder --for={until} --timeout=120s")).await;
}

/// Runs a line as it is printed.
async fn kubectl(cluster: &Cluster, words: &str) {
    println!("$ kubectl {}\n{}", quoted(words), cluster.kubectl(words).await.expect_ok());
}

/// The words as a shell takes them.
fn quoted(words: &str) -> String {
    let one = |word: &str| if word.contains('"') { format!("'{word}'") } else { word.to_owned() };
    words.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

fn say(what: &str) {
    println!("--> {what}");
}

/// Applies a manifest of the repository and prints what kubectl says, good or bad.
async fn apply(cluster: &Cluster, manifest: &str) {
    println!("$ kubectl apply -n coder -f {manifest}");
    let answer =
        cluster.kubectl(&format!("apply -n coder -f {}", repository().join(manifest).display())).await;
    println!("{}{}", answer.stdout, answer.stderr);
}

/// Puts kubeconfig and kubectl where the printed lines expect them.
fn publish(cluster: &Cluster, folder: &Path) {
    let place = |name: &str, target: &Path| {
        // Under another name first, then renamed over what an earlier run left.
        let fresh = folder.join(format!(".{name}-{}", std::process::id()));
        symlink(target, &fresh).expect("the folder is writable");
        std::fs::rename(&fresh, folder.join(name)).expect("the folder is writable");
    };
    std::fs::create_dir_all(folder).expect("the folder is writable");
    place("kubeconfig", &cluster.kubeconfig());
    place("kubectl", &tools::program("kubectl"));
}

fn say_what_next(operator: &Operator, folder: &str) {
    println!(
        "\
The operator runs as a process beside the cluster, with the rights of its service account. To try it, in another shell:

  export KUBECONFIG={folder}/kubeconfig PATH={folder}:$PATH
  kubectl get coder -A
  kubectl explain codercontrolplane.spec
  kubectl apply -n coder -f kustomize/samples/coderprovisioner-minimal.yaml
  kubectl get ccp,cprov,cwsp -n coder -o wide
  curl -s 'http://127.0.0.1:{probes}/readyz?verbose'

Rotate the key of the provisioner once more, and watch it:

  kubectl {tagged}
  kubectl get {PROVISIONER} -n coder -w
  kubectl events -n coder --for {PROVISIONER}

It is not Ready while a pod with the new key replaces the old one, and Ready again within half a minute; the Events name
the key that was made and the one that was deleted, and status.key has one key in the end. To take it all away:

  kubectl delete {PROXY} {PROVISIONER} codercontrolplane/coder -n coder

Logs of the operator: {log}
Ctrl-C stops everything and leaves nothing running.",
        probes = operator.ports.probes,
        tagged = quoted(&tagged("green")),
        log = operator.log_path().display(),
    );
}
