//! `make run`: a cluster with simulated nodes, the shipped manifests, the built operator and a sample, until Ctrl-C.
//!
//!   cargo run -p support --bin local-cluster -- target/debug/coder-k8s          stays up until Ctrl-C
//!   --once            the same, then it ends
//!   --publish FOLDER  where kubeconfig and kubectl are linked, instead of .local

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::coderd::Coderd;
use support::database_tokens::Following;
use support::installation::repository;
use support::postgres::Postgres;
use support::{Cluster, ClusterOptions, Installation, Operator, tools};

const READY_LIMIT: Duration = Duration::from_secs(60);
const CODERD: &str = "v2.36.1";
/// Where the sample's Secret says that the database is.
const DATABASE_HOST: &str = "database.coder.svc";
/// What a user would type; each line is run as it is printed.
const SHOWN: [&str; 8] = [
    "get ccp/coder -n coder -o jsonpath={.spec}",
    "get coder -A",
    "get codercontrolplanes -n coder -o wide",
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
    wait(&cluster, "Ready").await;
    match &database {
        Some(_) => {
            // The operator has no token of its own before something needs it.
            apply(&cluster, "kustomize/samples/coderprovisioner-minimal.yaml").await;
            wait(&cluster, "OperatorAccessReady").await;
        }
        None => say(
            "no PostgreSQL on this machine (apt-get install postgresql): OperatorAccessReady stays False and says why",
        ),
    }
    say("coderd itself is a stand-in of the test harness here: nodes and pods are simulated");
    apply(&cluster, "docs/refused.yaml").await;
    for words in SHOWN {
        println!("$ kubectl {words}");
        println!("{}", cluster.kubectl(words).await.expect_ok());
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

/// Waits for a condition of the sample as a user would.
async fn wait(cluster: &Cluster, condition: &str) {
    let words = format!("wait ccp/coder -n coder --for=condition={condition} --timeout=60s");
    println!("$ kubectl {words}\n{}", cluster.kubectl(&words).await.expect_ok());
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
  kubectl apply -n coder -k kustomize/samples
  kubectl get ccp,cprov,cwsp -n coder -o wide
  kubectl delete codercontrolplane coder -n coder
  curl -s 'http://127.0.0.1:{probes}/readyz?verbose'

Logs of the operator: {log}
Ctrl-C stops everything and leaves nothing running.",
        probes = operator.ports.probes,
        log = operator.log_path().display(),
    );
}
