//! Simulated nodes: the real controller manager and scheduler, and kwok in place of kubelets.
//! Deployments really roll out; no container ever runs.

use super::Cluster;
use crate::process::Process;
use crate::{ports, tools, wait};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PostParams};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

/// By default these programs hold themselves back, and a measurement of many objects would be one of them.
/// kwok has no such limit.
const UNLIMITED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Starts the three programs, registers `count` nodes and returns when they are ready.
pub async fn start(cluster: &Cluster, count: usize) -> Vec<Process> {
    let mut processes = vec![
        Process::start("kube-controller-manager", cluster.folder(), &mut controller_manager(cluster)),
        Process::start("kube-scheduler", cluster.folder(), &mut scheduler(cluster)),
        Process::start("kwok", cluster.folder(), &mut kwok(cluster)),
    ];
    let nodes = Api::<Node>::all(cluster.client().await);
    for number in 0..count {
        nodes.create(&PostParams::default(), &node(number)).await.expect("a node can be registered");
    }
    wait::until("the simulated nodes to be ready", READY_LIMIT, async || {
        if let Some(ended) = processes.iter_mut().find_map(|process| process.check_running().err()) {
            panic!("{ended}");
        }
        let list = nodes.list(&Default::default()).await.map_err(|error| error.to_string())?;
        let ready = list.items.iter().filter(|node| is_ready(node)).count();
        wait::holds(ready == count, format!("{ready} of {count} are ready"))
    })
    .await;
    processes
}

fn controller_manager(cluster: &Cluster) -> Command {
    let pki = &cluster.control_plane.pki;
    let mut command = with_kubeconfig("kube-controller-manager", cluster);
    command
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(UNLIMITED)
        .args(["--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20"])
        .arg(format!("--service-account-private-key-file={}", pki.path("service-accounts.key")))
        .arg(format!("--root-ca-file={}", pki.path("ca.crt")));
    command
}

fn scheduler(cluster: &Cluster) -> Command {
    let mut command = with_kubeconfig("kube-scheduler", cluster);
    command.args(["--leader-elect=false", "--secure-port=0"]).args(UNLIMITED);
    command
}

/// Pods of simulated nodes have been ready for this long when they start, so that nobody waits for `minReadySeconds`: the
/// ReplicaSet controller counts from there. It is less than what anybody concludes something from that a daemon is silent.
const READY_FOR: &str = "-45s";
/// A pod with this annotation is ready as of its start, and is available when it has been ready for long enough.
pub const REALLY_READY: &str = "test.coder.com/ready-as-of-start";

/// What kwok does with nodes and pods.
fn stages(cluster: &Cluster) -> std::path::PathBuf {
    let stages = std::fs::read_to_string(tools::program("kwok-stages.yaml")).expect("the stages of kwok");
    let ready =
        |time: &str| format!("- lastTransitionTime: {time}\n        status: \"True\"\n        type: Ready\n");
    let earlier = format!(
        "{{{{ if index (or .metadata.annotations dict) \"{REALLY_READY}\" }}}}{{{{ $now | Quote }}}}{{{{ else }}}}\
         {{{{ now | dateModify \"{READY_FOR}\" | date \"2006-01-02T15:04:05Z07:00\" | Quote }}}}{{{{ end }}}}"
    );
    let changed = stages.replace(&ready("{{ $now | Quote }}"), &ready(&earlier));
    assert_ne!(changed, stages, "the stage in which a pod becomes ready");
    let file = cluster.folder().join("kwok-stages.yaml");
    std::fs::write(&file, changed).expect("the stages can be written");
    file
}

fn kwok(cluster: &Cluster) -> Command {
    let [port] = ports::free();
    let mut command = with_kubeconfig("kwok", cluster);
    command
        .arg(format!("--config={}", stages(cluster).display()))
        .args(["--manage-all-nodes=true", "--node-lease-duration-seconds=40"])
        .arg(format!("--server-address=127.0.0.1:{port}"));
    command
}

fn with_kubeconfig(program: &str, cluster: &Cluster) -> Command {
    let mut command = tools::command(program);
    command.arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    command
}

fn node(number: usize) -> Node {
    let room = json!({ "cpu": "32", "memory": "256Gi", "pods": "110" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("simulated-{number}"),
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": {
                "kubernetes.io/hostname": format!("simulated-{number}"),
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            },
        },
        "status": { "allocatable": room, "capacity": room },
    });
    serde_json::from_value(node).expect("a node")
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}
