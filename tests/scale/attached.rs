//! Objects that are attached to control planes, provisioners or workspace proxies: all of them settle within what
//! `tests/budget.yaml` allows, of requests to the API server and of calls to coderd, and whoever looks at them again writes nothing
//! in either.

use crate::budget::{AttachedBudget, Rows, differences};
use crate::{BINARY, LIMIT, is_of_the_process, stop};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::audit::Request;
use support::coderd::{Call, Coderd, Role};
use support::daemons::Daemons;
use support::fleet::Key;
use support::objects::{control_plane, is_ready, secret};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

/// What objects of one control plane read of what is not theirs.
const SHARED: [&str; 4] = ["deployments", "namespaces", "secrets", "services"];
/// Averages are sums of shares.
const ROUNDING: f64 = 1e-6;

/// A kind, and how many of it there are.
pub struct Attached {
    /// Its plural.
    pub kind: &'static str,
    /// How many control planes there are, each in a namespace of its own.
    pub control_planes: usize,
    /// How many objects there are in all.
    pub count: usize,
    /// The role that the operator's token needs in coderd.
    pub role: Role,
    /// One of a namespace and a name, attached to the control plane `coder`.
    pub object: fn(&str, &str) -> Value,
    /// What runs in the pods of a namespace.
    pub processes: fn(kube::Client, &str, Arc<Coderd>) -> Daemons,
}

/// Has them made and looked at again, and compares what that cost with what is allowed.
pub async fn settle_within(allowed: &AttachedBudget, attached: &Attached) {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, audit: true, ..Default::default() }).await;
    let installation = Installation::new(&cluster, "operator").await;
    let coderd = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
    let mut options = installation.operator("controller").await;
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
    // At this level the end of every reconcile is told.
    options.flags.push("--log-level=debug".to_owned());
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let planes = create_control_planes(&cluster, &coderd, attached).await;
    let client = cluster.client().await;
    let processes =
        planes.iter().map(|namespace| (attached.processes)(client.clone(), namespace, coderd.clone()));
    let _processes: Vec<Daemons> = processes.collect();

    let (asked, called) = (cluster.requests_of(&installation.user()).len(), coderd.calls().len());
    let members = create(&cluster, &planes, attached).await;
    until_ready(&cluster, attached.kind, &members).await;
    let requests = cluster.requests_of(&installation.user()).split_off(asked);
    let first = Counted::of(&requests, &coderd.calls()[called..], &members);

    recheck(&cluster, &operator, &members).await;
    let (asked, called) = (cluster.requests_of(&installation.user()).len(), coderd.calls().len());
    recheck(&cluster, &operator, &members).await;
    stop(operator).await;
    let requests = cluster.requests_of(&installation.user()).split_off(asked);
    let calls = coderd.calls().split_off(called);
    let writes: Vec<&Request> = requests
        .iter()
        .filter(|request| !request.is_read() && !is_of_the_process(request, &installation.namespace))
        .collect();
    assert_eq!(writes, Vec::<&Request>::new(), "a recheck writes nothing");
    let effects: Vec<&str> =
        calls.iter().filter(|call| call.method != "GET").map(|call| call.route.as_str()).collect();
    assert_eq!(effects, Vec::<&str>::new(), "nor does it change anything in coderd");
    let second = Counted::of(&requests, &calls, &members);
    println!("{first:#?}\nrecheck: {second:#?}");
    assert_eq!(broken(allowed, &first, &second), Vec::<String>::new());
    coderd.assert_no_violations();
}

/// What was asked for them.
#[derive(Debug, Default)]
struct Counted {
    /// Writes for the one that took most of this sort.
    writes: Rows<f64>,
    /// Writes of all sorts for the one that took most.
    writes_in_all: usize,
    /// Reads for one on average, of what it shares with others, too.
    reads: Rows<f64>,
    /// Events for one on average.
    events: Rows<f64>,
    /// Calls to coderd for one on average.
    calls: Rows<f64>,
}

impl Counted {
    /// Sorts what was asked by whom it was for. Of what names none of them, reads of what they share are for all of them; the
    /// rest is for control planes.
    fn of(requests: &[Request], calls: &[Call], members: &BTreeSet<Key>) -> Self {
        let (mut counted, share) = (Self::default(), 1.0 / members.len() as f64);
        let mut writes: BTreeMap<&str, Rows<usize>> = BTreeMap::new();
        let homes: BTreeSet<&String> = members.iter().map(|(namespace, _)| namespace).collect();
        let at_home =
            |request: &&Request| homes.contains(&request.namespace) || homes.contains(&request.name);
        for request in requests.iter().filter(at_home) {
            let is_for = |name: &str| request.name.contains(name) || request.uri.contains(name);
            let rows = match members.iter().find(|(_, name)| is_for(name)) {
                _ if request.resource == "events" => &mut counted.events,
                Some(_) if request.is_read() => &mut counted.reads,
                None if request.is_read() && SHARED.contains(&request.resource.as_str()) => {
                    &mut counted.reads
                }
                Some((_, name)) => {
                    *writes.entry(name).or_default().entry(request.sort()).or_default() += 1;
                    continue;
                }
                None => continue,
            };
            *rows.entry(request.sort()).or_default() += share;
        }
        for of_one in writes.values() {
            counted.writes_in_all = counted.writes_in_all.max(of_one.values().sum());
            for (sort, count) in of_one {
                let most = counted.writes.entry(sort.clone()).or_default();
                *most = most.max(*count as f64);
            }
        }
        for call in calls {
            *counted.calls.entry(call.route.clone()).or_default() += share;
        }
        let averages = [&mut counted.reads, &mut counted.events, &mut counted.calls];
        averages.into_iter().flat_map(|rows| rows.values_mut()).for_each(|average| *average -= ROUNDING);
        counted
    }
}

/// Everything in which a run differs from what is allowed.
fn broken(allowed: &AttachedBudget, first: &Counted, recheck: &Counted) -> Vec<String> {
    let mut broken = Vec::new();
    if first.writes_in_all > allowed.writes_in_all {
        broken.push(format!("{} writes in all, allowed are {}", first.writes_in_all, allowed.writes_in_all));
    }
    for (part, allowed, used) in [
        ("writes", &allowed.writes, &first.writes),
        ("reads", &allowed.reads, &first.reads),
        ("events", &allowed.events, &first.events),
        ("calls", &allowed.calls, &first.calls),
        ("recheck_reads", &allowed.recheck_reads, &recheck.reads),
        ("recheck_calls", &allowed.recheck_calls, &recheck.calls),
    ] {
        broken.extend(differences(part, allowed, used));
    }
    broken
}

/// The namespaces of control planes that are ready and have given the operator a token.
async fn create_control_planes(cluster: &Cluster, coderd: &Coderd, attached: &Attached) -> Vec<String> {
    let mut namespaces = Vec::new();
    for _ in 0..attached.control_planes {
        let namespace = cluster.namespace("planes").await;
        let token = coderd.token_for(std::slice::from_ref(&attached.role));
        apply(cluster, &secret(&namespace, "operator-token", &json!({ "token": token }))).await;
        let access = json!({ "tokenSecretRef": { "name": "operator-token" } });
        apply(cluster, &control_plane(&namespace, "coder", &json!({ "operatorAccess": access }))).await;
        namespaces.push(namespace);
    }
    let members = namespaces.iter().map(|namespace| (namespace.clone(), "coder".to_owned())).collect();
    until_ready(cluster, "codercontrolplanes", &members).await;
    namespaces
}

async fn create(cluster: &Cluster, namespaces: &[String], attached: &Attached) -> BTreeSet<Key> {
    let members: BTreeSet<Key> = (0..attached.count)
        .map(|number| (namespaces[number % namespaces.len()].clone(), format!("attached-{number:04}")))
        .collect();
    let objects = members.iter().map(|(namespace, name)| (attached.object)(namespace, name));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects.collect::<Vec<Value>>() });
    apply(cluster, &list).await;
    members
}

async fn apply(cluster: &Cluster, object: &Value) {
    let words = "apply --server-side --field-manager=git -f -";
    cluster.kubectl_with_input(words, &object.to_string()).await.expect_ok();
}

async fn until_ready(cluster: &Cluster, kind: &str, members: &BTreeSet<Key>) {
    let client = cluster.client().await;
    until(&format!("{kind} to be ready"), LIMIT, async || {
        let request = http::Request::get(format!("/apis/coder.com/v1alpha1/{kind}")).body(Vec::new());
        let list: Value = client
            .request(request.map_err(|error| error.to_string())?)
            .await
            .map_err(|error| error.to_string())?;
        let ready = list["items"].as_array().into_iter().flatten().filter(|object| is_ready(object)).count();
        holds(ready >= members.len(), format!("{ready} of {}", members.len()))
    })
    .await;
}

/// Has every one of them reconciled once more for a change that is nothing to it.
async fn recheck(cluster: &Cluster, operator: &Operator, members: &BTreeSet<Key>) {
    let before = operator.reconciles();
    let mark: usize = before.values().sum();
    let namespaces: BTreeSet<&String> = members.iter().map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        let words = format!("label namespace {namespace} rechecked=after-{mark} --overwrite");
        cluster.kubectl(&words).await.expect_ok();
    }
    until("a reconcile of every one", LIMIT, async || {
        let now = operator.reconciles();
        let count = |counts: &BTreeMap<Key, usize>, key: &Key| counts.get(key).copied().unwrap_or_default();
        let left = members.iter().filter(|key| count(&now, key) <= count(&before, key)).count();
        holds(left == 0, format!("{left} are still to come"))
    })
    .await;
}
