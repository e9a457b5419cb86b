//! `make footprint`: binary size, idle memory and time to true readiness of the release build in `--app=all` and in each role of
//! split-roles, what 300 big Secrets of others add to its memory, and what callers without credentials do.
//!
//!   cargo run -p support --bin footprint -- target/release/coder-k8s
//!   cargo run -p support --bin footprint -- target/release/coder-k8s starts roles    these parts alone

mod lists;
mod requests;
mod starts;

use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::time::{Duration, Instant};
use support::figures::{Figure, report};
use support::memory::{MEGABYTE, peak, resident};
use support::operator::Ports;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, OperatorOptions, ports, until};

const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for start-up work to end: memory is read when nothing happens any more.
const SETTLE: Duration = Duration::from_secs(5);
const SECRETS: usize = 300;
/// The API server takes no Secret above 1,048,576 bytes.
const SECRET_BYTES: usize = 1_000_000;
/// Starts with the Secrets there, and without.
const STARTS: usize = 5;

/// What is measured, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Starts,
    Roles,
    Attacks,
    Secrets,
    Lists,
}

const PARTS: [(&str, Part); 5] = [
    ("starts", Part::Starts),
    ("roles", Part::Roles),
    ("attacks", Part::Attacks),
    ("secrets", Part::Secrets),
    ("lists", Part::Lists),
];

/// The parts that somebody names; all of them if nobody names one.
fn parts(words: &[String]) -> Vec<Part> {
    let all = PARTS.map(|(name, _)| name).join(", ");
    for word in words {
        assert!(PARTS.iter().any(|(name, _)| name == word), "there is no part {word}; there are {all}");
    }
    let wanted = PARTS.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name));
    wanted.map(|(_, part)| *part).collect()
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let binary = words.next().expect("usage: footprint PATH-OF-CODER-K8S [PART...]");
    let words: Vec<String> = words.collect();
    println!("--> starting a cluster");
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let installation = Installation::shipped(&cluster).await;
    let options = installation.operator("all").await;
    let size = std::fs::metadata(&binary).expect("the binary exists").len() as f64 / MEGABYTE;
    let mut figures = vec![Figure::at_most("stripped binary", size, "MB", 20.0)];
    for part in parts(&words) {
        figures.extend(match part {
            Part::Starts => starts::of_all(&binary, &options).await,
            Part::Roles => starts::of_roles(&binary).await,
            Part::Attacks => requests::under_attack(&installation, &binary, &options).await,
            Part::Secrets => among_secrets(&cluster, &binary, &options).await,
            Part::Lists => lists::figures(&cluster, &installation, &binary).await,
        });
    }
    // A part alone must not take the place of all figures.
    let name =
        if words.is_empty() { "footprint".to_owned() } else { format!("footprint-{}", words.join("-")) };
    report(&name, &figures);
}

/// What Secrets that concern nobody add: to an operator that runs while they come, and to one that starts among them.
async fn among_secrets(cluster: &Cluster, binary: &str, options: &OperatorOptions) -> Vec<Figure> {
    let namespace = cluster.namespace("secrets").await;
    // A control plane that waits for two Secrets: when its status names one no more, the operator has seen it come, and
    // with it all that were created before.
    let sources = ["before", "after"].map(|name| json!({ "secretRef": { "name": name } }));
    let plane = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": namespace },
        "spec": { "operatorAccess": { "disabled": true }, "envFrom": sources } });
    cluster.kubectl_with_input("apply --server-side -f -", &plane.to_string()).await.expect_ok();
    let (mut without, mut without_peak) =
        starts(binary, options, &format!("without {SECRETS} Secrets")).await;

    let (operator, _) = start(binary, options).await;
    create(cluster, &namespace, &["before".to_owned()], 1).await;
    seen(cluster, &namespace, "before").await;
    tokio::time::sleep(SETTLE).await;
    let before = resident(operator.id());
    println!("--> {SECRETS} Secrets of 1 MB come");
    let names: Vec<String> = (0..SECRETS).map(|number| format!("of-others-{number}")).collect();
    create(cluster, &namespace, &names, SECRET_BYTES).await;
    create(cluster, &namespace, &["after".to_owned()], 1).await;
    seen(cluster, &namespace, "after").await;
    tokio::time::sleep(SETTLE).await;
    let (after, highest) = (resident(operator.id()), peak(operator.id()));
    println!("    {before:.1} MB before, {after:.1} MB after, {highest:.1} MB at most");
    stop(operator).await;

    let (mut with, mut with_peak) = starts(binary, options, &format!("with {SECRETS} Secrets")).await;
    // What is measured after this begins without a control plane.
    cluster.kubectl(&format!("delete codercontrolplane/coder -n {namespace}")).await.expect_ok();
    let growth =
        |name: &str, value| Figure::at_most(&format!("{SECRETS} Secrets of 1 MB: {name}"), value, "MB", 2.0);
    vec![
        growth("growth", after - before),
        growth("growth of a start", median(&mut with) - median(&mut without)),
        growth("growth of its peak", median(&mut with_peak) - median(&mut without_peak)),
    ]
}

/// Idle memory and the highest ever of some starts.
async fn starts(binary: &str, options: &OperatorOptions, what: &str) -> (Vec<f64>, Vec<f64>) {
    println!("--> {STARTS} starts {what}");
    let (mut idle, mut highest) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let (operator, _) = start(binary, options).await;
        // The first reconcile of the control plane is part of a start: everything is listed by then.
        until("a start to lead", LIMIT, async || {
            let elected = operator.logged("started leading").len();
            holds(elected == 2, format!("{elected} of 2 duties are led"))
        })
        .await;
        tokio::time::sleep(SETTLE).await;
        idle.push(resident(operator.id()));
        highest.push(peak(operator.id()));
        println!("    {:.1} MB idle, {:.1} MB at most", idle[idle.len() - 1], highest[highest.len() - 1]);
        stop(operator).await;
    }
    (idle, highest)
}

/// Creates Secrets of this many bytes.
async fn create(cluster: &Cluster, namespace: &str, names: &[String], bytes: usize) {
    let secrets = Api::<Secret>::namespaced(cluster.client().await, namespace);
    let creations = names.iter().map(|name| {
        let (secrets, mut secret) = (secrets.clone(), Secret::default());
        secret.metadata.name = Some(name.clone());
        secret.data = Some([("data".to_owned(), ByteString(vec![b'x'; bytes]))].into());
        async move { secrets.create(&PostParams::default(), &secret).await.map(drop) }
    });
    let created: Vec<_> = stream::iter(creations).buffer_unordered(4).collect().await;
    created.into_iter().collect::<Result<Vec<()>, _>>().expect("the Secret can be created");
}

/// Waits until the control plane no longer misses a Secret.
async fn seen(cluster: &Cluster, namespace: &str, name: &str) {
    let query = format!(
        "get ccp coder -n {namespace} -o jsonpath={{.status.conditions[?(@.type==\"Ready\")].message}}"
    );
    until("the operator to see a Secret", LIMIT, async || {
        let message = cluster.kubectl(&query).await.expect_ok();
        let missing = message.contains(&format!("Secret {name} does not exist"));
        holds(!missing && !message.trim().is_empty(), message)
    })
    .await;
}

/// Starts the operator and returns it with the milliseconds to the first true `/readyz`.
async fn start(binary: &str, options: &OperatorOptions) -> (Operator, f64) {
    let began = Instant::now();
    // On chosen ports: reading them from the log would blur what is measured.
    let [probes, webhooks, aggregated, mcp, metrics] = ports::free();
    let operator = Operator::start_on(binary, options, Ports { probes, webhooks, aggregated, mcp, metrics });
    while began.elapsed() < LIMIT {
        if operator.probe("/readyz").await.is_ok_and(|(status, _)| status == 200) {
            return (operator, began.elapsed().as_secs_f64() * 1000.0);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("not ready within {LIMIT:?}: {}", operator.log());
}

/// Ends it as Kubernetes would: the next one leads at once.
async fn stop(mut operator: Operator) {
    operator.process().signal("TERM");
    operator.ended(LIMIT).await;
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
