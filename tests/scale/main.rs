//! Many control planes at once on a real API server with the real Deployment controller: all of them settle within the
//! requests that `tests/budget.yaml` allows, and a second reconcile of all of them writes nothing.

mod budget;

use budget::{Budget, Counted};
use std::collections::BTreeSet;
use std::time::Duration;
use support::audit::Request;
use support::coderd::Coderd;
use support::fleet::Key;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Fleet, Installation, Operator, OperatorOptions, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const COUNT: usize = 300;
/// How many are made one after the other besides.
const ALONE: usize = 5;
/// Far more than it takes: the machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_control_planes_settle_within_the_budget_and_a_second_pass_writes_nothing() {
    let cluster = Cluster::start(ClusterOptions { nodes: 4, audit: true, ..Default::default() }).await;
    let installation = Installation::new(&cluster, "operator").await;
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let mut options = installation.operator("controller").await;
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
    // At this level the end of every reconcile is told.
    options.flags.push("--log-level=debug".to_owned());

    let operator = start(&options).await;
    let mut fleet = Fleet::create(&cluster, "plane", COUNT).await;
    fleet.ready(&cluster, LIMIT, |_| ()).await;
    // Among many, changes that come close together are looked at together. One that is alone costs most.
    for number in 0..ALONE {
        let one = Fleet::create(&cluster, &format!("alone-{number}"), 1).await;
        one.ready(&cluster, LIMIT, |_| ()).await;
        fleet.members.extend(one.members);
    }
    stop(operator).await;
    let first = cluster.requests_of(&installation.user());
    let whole = first.iter().find(|request| request.verb == "list" && !is_bounded(request));
    assert_eq!(whole, None, "a list that may be of any length comes in pages");
    let counted = Counted::of(&first, &fleet);
    println!("{counted}");
    assert_eq!(Budget::read().broken_by(&counted), Vec::<String>::new());

    let operator = start(&options).await;
    until("a second reconcile of every control plane", LIMIT, async || {
        let lines = operator.log().matches("reconcile ended").count();
        holds(lines >= fleet.members.len(), format!("{lines} reconciles"))?;
        let left = fleet.members.difference(&reconciled(&operator)).count();
        holds(left == 0, format!("{left} had none yet"))
    })
    .await;
    stop(operator).await;
    let second = cluster.requests_of(&installation.user()).split_off(first.len());
    let looked_at = second.iter().filter(|request| request.sort() == "get codercontrolplanes").count();
    assert!(looked_at >= COUNT, "the audit log saw {looked_at} reconciles");
    let writes: Vec<&Request> = second
        .iter()
        .filter(|request| !request.is_read() && !is_of_the_process(request, &installation.namespace))
        .collect();
    assert_eq!(writes, Vec::<&Request>::new());
}

/// What a start of the process writes whatever the control planes are, at its own home: the leases of its duties, and
/// the Event that tells who leads.
fn is_of_the_process(request: &Request, home: &str) -> bool {
    request.namespace == home && (request.resource == "leases" || request.resource == "events")
}

/// Whether a list is short by what it asks for, or comes in pages.
fn is_bounded(request: &Request) -> bool {
    request.uri.contains("limit=") || request.uri.contains("labelSelector=")
}

async fn start(options: &OperatorOptions) -> Operator {
    let mut operator = Operator::start(BINARY, options).await;
    operator.ready(LIMIT).await;
    operator
}

/// Ends it as Kubernetes would, so that all it asked is in the log.
async fn stop(mut operator: Operator) {
    operator.process().signal("TERM");
    let status = operator.ended(LIMIT).await;
    assert!(status.success(), "{status}");
}

/// The control planes that had a reconcile which ended well.
fn reconciled(operator: &Operator) -> BTreeSet<Key> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let ended = operator.logged("reconcile ended").into_iter();
    ended
        .filter(|line| !text(&line["outcome"]).starts_with("Failed"))
        .map(|line| (text(&line["reconcile"]["namespace"]), text(&line["reconcile"]["name"])))
        .collect()
}
