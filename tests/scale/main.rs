//! Many control planes at once on a real API server with the real Deployment controller: all of them settle within the
//! requests that `tests/budget.yaml` allows, a second reconcile of all of them writes nothing, and a later one asks nothing.

mod attached;
mod budget;

use attached::Attached;
use budget::{Budget, Counted};
use std::collections::BTreeSet;
use std::time::Duration;
use support::audit::Request;
use support::coderd::{Coderd, Role};
use support::fleet::Key;
use support::wait::holds;
use support::{
    Cluster, ClusterOptions, Daemons, Fleet, Installation, Operator, OperatorOptions, objects, until,
};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const COUNT: usize = 300;
/// How many are made one after the other besides.
const ALONE: usize = 5;
/// Far more than it takes: the machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_control_planes_settle_within_the_budget_and_are_rechecked_without_a_request() {
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
    reconciled(&operator, &fleet, |_| 1).await;
    // The first look of a process reads what there is; those that follow know it.
    recheck(&cluster, &operator, &fleet).await;
    let settled = cluster.requests_of(&installation.user()).len();
    recheck(&cluster, &operator, &fleet).await;
    stop(operator).await;
    let mut second = cluster.requests_of(&installation.user()).split_off(first.len());
    let rechecks = second.split_off(settled - first.len());
    let asked: Vec<&Request> =
        rechecks.iter().filter(|request| !is_of_the_process(request, &installation.namespace)).collect();
    assert_eq!(asked, Vec::<&Request>::new(), "a recheck makes no request");
    let looked_at = second.iter().filter(|request| request.sort() == "get codercontrolplanes").count();
    assert!(looked_at >= COUNT, "the audit log saw {looked_at} reconciles");
    let writes: Vec<&Request> = second
        .iter()
        .filter(|request| !request.is_read() && !is_of_the_process(request, &installation.namespace))
        .collect();
    assert_eq!(writes, Vec::<&Request>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_provisioners_settle_within_the_budget_and_a_recheck_writes_nothing_anywhere() {
    let provisioners = Attached {
        kind: "coderprovisioners",
        control_planes: 5,
        count: 50,
        role: Role::TemplateAdmin,
        object: |namespace, name| objects::provisioner(namespace, name, "coder"),
        processes: |client, namespace, coderd| {
            Daemons::follow(client, namespace, Duration::ZERO, move |_| Some(coderd.clone()))
        },
    };
    attached::settle_within(&Budget::read().provisioners, &provisioners).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_workspace_proxies_settle_within_the_budget_and_a_recheck_writes_nothing_anywhere() {
    let proxies = Attached {
        kind: "coderworkspaceproxies",
        control_planes: 2,
        count: 20,
        role: Role::Owner,
        object: |namespace, name| objects::workspace_proxy(namespace, name, "coder"),
        processes: |client, namespace, coderd| {
            Daemons::follow_proxies(client, namespace, move |_| Some(coderd.clone()))
        },
    };
    attached::settle_within(&Budget::read().workspace_proxies, &proxies).await;
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

/// Has every control plane reconciled once more for a change that is nothing to it.
async fn recheck(cluster: &Cluster, operator: &Operator, fleet: &Fleet) {
    // Each has its own count: where events came apart, one has been reconciled more often than others.
    let before = operator.reconciles();
    let mark: usize = before.values().sum();
    let namespaces: BTreeSet<&String> = fleet.members.iter().map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        let words = format!("label namespace {namespace} rechecked=after-{mark} --overwrite");
        cluster.kubectl(&words).await.expect_ok();
    }
    reconciled(operator, fleet, |key| before.get(key).copied().unwrap_or_default() + 1).await;
}

/// Waits until every control plane had so many reconciles that ended well.
async fn reconciled(operator: &Operator, fleet: &Fleet, count: impl Fn(&Key) -> usize) {
    let wanted: usize = fleet.members.iter().map(&count).sum();
    until("a reconcile of every control plane", LIMIT, async || {
        // Counting lines costs little beside reading them.
        let lines = operator.log().matches("reconcile ended").count();
        holds(lines >= wanted, format!("{lines} reconciles of {wanted}"))?;
        let reconciles = operator.reconciles();
        let is_left = |key: &&Key| reconciles.get(*key).copied().unwrap_or_default() < count(key);
        let left = fleet.members.iter().filter(is_left).count();
        holds(left == 0, format!("{left} are still to come"))
    })
    .await;
}
