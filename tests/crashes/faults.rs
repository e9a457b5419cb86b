//! What can come between the operator and the API server besides its own death: each fault is shown to bite, and that the
//! operator converges all the same.

use crate::workloads::{CUSTOMER, condition, is_ready};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::coderd::Coderd;
use support::fault_proxy::Journal;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Fault, FaultProxy, Installation, Operator, until};
use tokio::sync::OnceCell;

const LIMIT: Duration = Duration::from_secs(60);
const STATUS: &str = "/codercontrolplanes/coder/status";
const SERVICES: &str = "/api/v1/services";

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = async || {
        let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
        cluster.kubectl_with_input("apply --server-side -f -", &support::optional_kinds()).await.expect_ok();
        cluster
    };
    CLUSTER.get_or_init(start).await
}

/// An operator behind a proxy of its own, which shows it one namespace.
struct Stage {
    cluster: &'static Cluster,
    home: String,
    /// The operator's namespace.
    operators: String,
    proxy: FaultProxy,
    journal: Arc<Journal>,
    operator: Operator,
    _coderd: Coderd,
}

impl Stage {
    async fn set(purpose: &str) -> Self {
        Self::verified_every("2s", purpose).await
    }

    async fn verified_every(interval: &str, purpose: &str) -> Self {
        let cluster = cluster().await;
        let (home, installation) =
            (cluster.namespace(purpose).await, Installation::new(cluster, "operator").await);
        let journal = Arc::new(Journal::default());
        let proxy = FaultProxy::recording(cluster, journal.clone()).await;
        proxy.show_only([home.as_str(), installation.namespace.as_str()]);
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        let mut options = installation.operator_through("controller", &proxy.url()).await;
        options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
        options.flags.push(format!("--verify-interval={interval}"));
        let mut operator = Operator::start(CUSTOMER.binary, &options).await;
        operator.ready(LIMIT).await;
        let operators = installation.namespace.clone();
        Self { cluster, home, operators, proxy, journal, operator, _coderd: coderd }
    }

    /// A stage with a control plane that is ready.
    async fn with_a_control_plane(purpose: &str) -> Self {
        Self::set(purpose).await.and_a_control_plane().await
    }

    async fn and_a_control_plane(self) -> Self {
        let stage = self;
        stage.apply().await;
        stage.ready().await;
        stage
    }

    async fn apply(&self) {
        self.apply_with(&json!({})).await;
    }

    async fn apply_with(&self, spec: &Value) {
        let manifest = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": self.home }, "spec": spec });
        let words = "apply --server-side --field-manager=git -f -";
        self.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    async fn get(&self, what: &str) -> Option<Value> {
        let words = format!("get {what} -n {} -o json --ignore-not-found", self.home);
        let text = self.cluster.kubectl(&words).await.expect_ok();
        (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    async fn ready(&self) -> Value {
        until("the control plane to be ready", LIMIT, async || {
            let plane = self.get("codercontrolplane/coder").await;
            holds(
                is_ready(plane.as_ref()),
                plane.as_ref().map_or(Value::Null, |one| one["status"].clone()).to_string(),
            )
            .map(|()| plane.unwrap_or_default())
        })
        .await
    }

    /// Asks for a pass and waits until it is done.
    async fn pass(&self, word: &str) {
        let words = format!(
            "annotate codercontrolplane/coder -n {} --overwrite coder.com/reconcile-at={word}",
            self.home
        );
        self.cluster.kubectl(&words).await.expect_ok();
        until("the request to be handled", LIMIT, async || {
            let plane = self.get("codercontrolplane/coder").await.unwrap_or_default();
            holds(plane["status"]["lastHandledReconcileAt"] == word, plane["status"].to_string())
        })
        .await;
    }

    /// Deletes a child and returns its uid.
    async fn delete(&self, what: &str) -> String {
        let uid = self.get(what).await.expect("it is there")["metadata"]["uid"].to_string();
        self.cluster.kubectl(&format!("delete {what} -n {}", self.home)).await.expect_ok();
        uid
    }

    async fn another(&self, what: &str, than: &str) {
        until(&format!("another {what}"), LIMIT, async || {
            let uid = self.get(what).await.map(|child| child["metadata"]["uid"].to_string());
            holds(uid.as_ref().is_some_and(|uid| uid != than), format!("{uid:?}"))
        })
        .await;
    }

    async fn dropped(&self) {
        until("the event to be dropped", LIMIT, async || {
            holds(self.proxy.dropped().len() == 1, format!("{:?}", self.proxy.dropped()))
        })
        .await;
    }

    /// The watches of Services that were opened since then.
    fn watches_since(&self, then: Instant) -> Vec<String> {
        let seen =
            self.proxy.seen().into_iter().filter(|seen| seen.at > then && seen.path.starts_with(SERVICES));
        seen.map(|seen| seen.path).filter(|path| path.contains("watch=")).collect()
    }
}

/// A conflict is no failure: what somebody else wrote is looked at, and the write is made again, without a word of alarm.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_on_a_write_is_tried_again_and_is_no_failure() {
    let stage = Stage::set("conflict").await;
    stage.proxy.on_next(2, Fault::Answer(409), |method, path| method == "PATCH" && path.contains(STATUS));
    stage.apply().await;
    stage.ready().await;
    let writes =
        stage.proxy.seen().iter().filter(|seen| seen.method == "PATCH" && seen.path.contains(STATUS)).count();
    assert!(writes >= 3, "{writes} writes of the status, of which two were refused");
    let alarms = stage.operator.logged("reconcile failed; it is tried again");
    assert!(alarms.is_empty(), "{alarms:?}");
}

/// The counterpart: the reason makes the difference, or the test above would prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_on_a_write_is_tried_again_and_is_a_failure() {
    let stage = Stage::set("outage").await;
    stage.proxy.on_next(1, Fault::Answer(500), |method, path| method == "PATCH" && path.contains(STATUS));
    stage.apply().await;
    stage.ready().await;
    assert_eq!(stage.operator.logged("reconcile failed; it is tried again").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_cut_goes_on_and_misses_nothing() {
    let stage = Stage::with_a_control_plane("cut").await;
    let cut = Instant::now();
    assert_eq!(stage.proxy.cut_watches(|url| url.starts_with(SERVICES)), 1);
    let before = stage.delete("service/coder").await;
    stage.another("service/coder", &before).await;
    let opened = stage.watches_since(cut);
    assert!(opened.iter().any(|url| url.contains("resourceVersion=")), "it was opened again: {opened:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_too_old_lists_again() {
    let stage = Stage::with_a_control_plane("gone").await;
    let expired = Instant::now();
    assert_eq!(stage.proxy.expire_watches(|url| url.starts_with(SERVICES)), 1);
    let before = stage.delete("service/coder").await;
    stage.another("service/coder", &before).await;
    let opened = stage.watches_since(expired);
    assert!(opened.iter().any(|url| url.contains("sendInitialEvents=true")), "it lists: {opened:?}");
}

/// What was told once is told again, old versions first: nothing is undone, and nothing is written but the answer to what
/// is asked for in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_rewound_changes_nothing() {
    let stage = Stage::with_a_control_plane("rewound").await;
    stage.pass("before").await;
    stage.journal.begin(None);
    let rewound = Instant::now();
    assert!(stage.proxy.rewind_watches(|url| url.contains("/codercontrolplanes")) > 0);
    until("the watch to go on", LIMIT, async || {
        let seen = stage.proxy.seen();
        let mut again =
            seen.iter().filter(|seen| seen.at > rewound && seen.path.contains("/codercontrolplanes?"));
        holds(again.any(|seen| seen.path.contains("watch=")), "not yet")
    })
    .await;
    stage.pass("after").await;
    let points = stage.journal.points();
    assert!(points.iter().all(|point| point.mutation.contains(STATUS)), "{points:?}");
    assert_eq!(points.len(), 1, "the request that was handled: {points:?}");
}

/// Nothing but a watch tells the operator that a child is gone: an event that is lost is found by the next list of what there
/// is, and nobody has to ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_dropped_is_made_up_for_within_the_verify_interval() {
    let stage = Stage::with_a_control_plane("dropped").await;
    stage.pass("before").await;
    stage.proxy.drop_event(|url, event| url.starts_with(SERVICES) && event["type"] == "DELETED");
    let before = stage.delete("service/coder").await;
    stage.dropped().await;
    stage.another("service/coder", &before).await;
    assert_eq!(condition(&stage.ready().await, "Ready")["status"], "True");
}

/// The moment in which an account is another one and no watch has told: nothing may be run as it.
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_runs_as_an_account_that_was_replaced_before_the_watch_told() {
    const ACCOUNTS: &str = "/api/v1/serviceaccounts";
    let stage = Stage::verified_every("1h", "replaced").await.and_a_control_plane().await;
    stage.proxy.drop_event(|url, event| url.starts_with(ACCOUNTS) && event["type"] == "DELETED");
    for words in ["delete serviceaccount/coder", "create serviceaccount coder"] {
        stage.cluster.kubectl(&format!("{words} -n {}", stage.home)).await.expect_ok();
    }
    stage.dropped().await;
    stage.cluster.kubectl(&format!("delete deployment/coder -n {}", stage.home)).await.expect_ok();
    until("the account to be refused", LIMIT, async || {
        let plane = stage.get("codercontrolplane/coder").await.unwrap_or_default();
        let ready = condition(&plane, "Ready");
        holds(ready["reason"] == "AccountNotOurs", ready.to_string())
    })
    .await;
    assert_eq!(stage.get("deployment/coder").await, None);
}

/// The same of a kind that a cluster may lack.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_route_that_is_dropped_is_made_up_for_as_well() {
    const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";
    let stage = Stage::set("route").await;
    let gateway = json!({ "host": "coder.example.com", "parentRefs": [{ "name": "public" }] });
    stage.apply_with(&json!({ "expose": { "gateway": gateway } })).await;
    stage.ready().await;
    stage.pass("before").await;
    stage.proxy.drop_event(|url, event| url.starts_with(ROUTES) && event["type"] == "DELETED");
    let before = stage.delete("httproute/coder").await;
    stage.dropped().await;
    stage.another("httproute/coder", &before).await;
}

/// A right that no watch has shown is taken back all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_event_was_dropped_goes_when_its_namespace_is_no_longer_asked_for() {
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/rolebindings";
    let stage = Stage::verified_every("1h", "unseen").await;
    let (kept, left) = (stage.cluster.namespace("kept").await, stage.cluster.namespace("left").await);
    for place in [&kept, &left] {
        let agree = format!("label namespace {place} coder.com/workspaces-from={}", stage.home);
        stage.cluster.kubectl(&agree).await.expect_ok();
    }
    stage.proxy.show_only([&stage.home, &stage.operators, &kept, &left].map(String::as_str));
    let unseen = left.clone();
    stage.proxy.drop_event(move |url, event| {
        url.starts_with(BINDINGS) && event["object"]["metadata"]["namespace"] == unseen.as_str()
    });
    stage.apply_with(&json!({ "rbac": { "workspaceNamespaces": [kept, left] } })).await;
    stage.ready().await;
    stage.dropped().await;
    stage.apply_with(&json!({ "rbac": { "workspaceNamespaces": [kept] } })).await;
    stage.ready().await;
    let granted = format!("get role,rolebinding -n {left} -o name");
    until("the rights to be taken back", LIMIT, async || {
        let there = stage.cluster.kubectl(&granted).await.expect_ok();
        holds(there.is_empty(), there)
    })
    .await;
}
