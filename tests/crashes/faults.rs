//! What can come between the operator and the API server besides its own death: each fault is shown to bite, and that the
//! operator converges all the same.

use crate::workloads::control_plane::TARGET;
use serde_json::{Value, json};
use std::ops::Deref;
use std::time::Instant;
use support::objects::condition;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Fault, TestEnv, until};
use tokio::sync::OnceCell;

const STATUS: &str = "/codercontrolplanes/coder/status";
const SERVICES: &str = "/api/v1/services";

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let options = ClusterOptions { nodes: 2, optional_kinds: true, ..Default::default() };
    CLUSTER.get_or_init(|| Cluster::start(options)).await
}

/// A [`TestEnv`] behind a fault proxy, which shows the operator one namespace with the control plane `coder`.
struct FaultEnv {
    env: TestEnv,
    namespace: String,
}

impl Deref for FaultEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl FaultEnv {
    async fn start(purpose: &str) -> Self {
        Self::verified_every("2s", purpose).await
    }

    async fn verified_every(interval: &str, purpose: &str) -> Self {
        let cluster = cluster().await;
        let namespace = cluster.namespace(purpose).await;
        let env = TestEnv::builder(TARGET.binary)
            .in_cluster(cluster)
            .through_fault_proxy(&[&namespace])
            .flag(format!("--verify-interval={interval}"))
            .start()
            .await;
        Self { env, namespace }
    }

    /// One with a control plane that is ready.
    async fn with_a_control_plane(purpose: &str) -> Self {
        Self::start(purpose).await.and_a_control_plane().await
    }

    async fn and_a_control_plane(self) -> Self {
        self.apply_spec(&json!({})).await;
        self.become_ready().await;
        self
    }

    async fn apply_spec(&self, spec: &Value) {
        self.apply_control_plane(&self.namespace, "coder", spec).await;
    }

    async fn become_ready(&self) -> Value {
        self.ready(&self.namespace, "coder").await
    }

    /// Deletes a child and returns its uid.
    async fn delete(&self, kind: &str) -> Value {
        let child = self.get(kind, &self.namespace, "coder").await.expect("it is there");
        self.cluster.kubectl(&format!("delete {kind}/coder -n {}", self.namespace)).await.expect_ok();
        child["metadata"]["uid"].clone()
    }

    /// Waits until there is a child with another uid.
    async fn until_recreated(&self, kind: &str, uid: &Value) {
        let other = |child: &Value| child.is_object() && child["metadata"]["uid"] != *uid;
        self.until_object(kind, &self.namespace, "coder", "to be recreated", other).await;
    }

    async fn until_dropped(&self) {
        until("the event to be dropped", LIMIT, async || {
            let dropped = self.proxy().dropped();
            holds(dropped.len() == 1, format!("{dropped:?}"))
        })
        .await;
    }

    /// Waits until the object is read after that.
    async fn until_read(&self, after: Instant) {
        until("the object to be looked for", LIMIT, async || {
            let seen = self.proxy().seen();
            let mut read = seen.iter().filter(|seen| seen.at > after && seen.method == "GET");
            holds(read.any(|seen| seen.path.ends_with("/codercontrolplanes/coder")), "not yet")
        })
        .await;
    }

    /// Waits for a list or watch of control planes after that, with this in its query; returns when it began.
    async fn until_listed(&self, after: Instant, how: &str) -> Instant {
        until(&format!("control planes to be asked for with {how}"), LIMIT, async || {
            let seen = self.proxy().seen().into_iter().filter(|seen| seen.at > after);
            let mut seen =
                seen.filter(|seen| seen.path.starts_with(CONTROL_PLANES) && seen.path.contains(how));
            seen.next().map(|seen| seen.at).ok_or_else(|| "not yet".to_owned())
        })
        .await
    }

    /// The watches of Services that were opened since then.
    fn watches_since(&self, then: Instant) -> Vec<String> {
        let seen = self.proxy().seen().into_iter();
        let seen = seen.filter(|seen| seen.at > then && seen.path.starts_with(SERVICES));
        seen.map(|seen| seen.path).filter(|path| path.contains("watch=")).collect()
    }
}

/// A conflict is no failure: what somebody else wrote is looked at, and the write is made again, without a word of alarm.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_on_a_write_is_tried_again_and_is_no_failure() {
    let env = FaultEnv::start("conflict").await;
    env.proxy().on_next(2, Fault::Answer(409), |method, path| method == "PATCH" && path.contains(STATUS));
    env.apply_spec(&json!({})).await;
    env.become_ready().await;
    let writes =
        env.proxy().seen().iter().filter(|seen| seen.method == "PATCH" && seen.path.contains(STATUS)).count();
    assert!(writes >= 3, "{writes} writes of the status, of which two were refused");
    let alarms = env.logged("reconcile failed; it is tried again").await;
    assert!(alarms.is_empty(), "{alarms:?}");
}

/// The counterpart: the reason makes the difference, or the test above would prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_on_a_write_is_tried_again_and_is_a_failure() {
    let env = FaultEnv::start("outage").await;
    env.proxy().on_next(1, Fault::Answer(500), |method, path| method == "PATCH" && path.contains(STATUS));
    env.apply_spec(&json!({})).await;
    env.become_ready().await;
    assert_eq!(env.logged("reconcile failed; it is tried again").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_cut_goes_on_and_misses_nothing() {
    let env = FaultEnv::with_a_control_plane("cut").await;
    let cut = Instant::now();
    assert_eq!(env.proxy().cut_watches(|url| url.starts_with(SERVICES)), 1);
    let before = env.delete("service").await;
    env.until_recreated("service", &before).await;
    let opened = env.watches_since(cut);
    assert!(opened.iter().any(|url| url.contains("resourceVersion=")), "it was opened again: {opened:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_too_old_lists_again() {
    let env = FaultEnv::with_a_control_plane("gone").await;
    let expired = Instant::now();
    assert_eq!(env.proxy().expire_watches(|url| url.starts_with(SERVICES)), 1);
    let before = env.delete("service").await;
    env.until_recreated("service", &before).await;
    let opened = env.watches_since(expired);
    assert!(opened.iter().any(|url| url.contains("sendInitialEvents=true")), "it lists: {opened:?}");
}

/// What was told once is told again, old versions first: nothing is undone, and nothing is written but the answer to what
/// is asked for in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_rewound_changes_nothing() {
    let env = FaultEnv::with_a_control_plane("rewound").await;
    env.reconcile(&env.namespace, "coder", "before").await;
    env.journal().begin(None);
    let rewound = Instant::now();
    assert!(env.proxy().rewind_watches(|url| url.contains("/codercontrolplanes")) > 0);
    until("the watch to go on", LIMIT, async || {
        let seen = env.proxy().seen();
        let mut again =
            seen.iter().filter(|seen| seen.at > rewound && seen.path.contains("/codercontrolplanes?"));
        holds(again.any(|seen| seen.path.contains("watch=")), "not yet")
    })
    .await;
    env.reconcile(&env.namespace, "coder", "after").await;
    let points = env.journal().points();
    assert!(points.iter().all(|point| point.mutation.contains(STATUS)), "{points:?}");
    assert_eq!(points.len(), 1, "the request that was handled: {points:?}");
}

/// Nothing but a watch tells the operator that a child is gone: an event that is lost is found by the next list of what there
/// is, and nobody has to ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_dropped_is_made_up_for_within_the_verify_interval() {
    let env = FaultEnv::with_a_control_plane("dropped").await;
    env.reconcile(&env.namespace, "coder", "before").await;
    env.proxy().drop_event(|url, event| url.starts_with(SERVICES) && event["type"] == "DELETED");
    let before = env.delete("service").await;
    env.until_dropped().await;
    env.until_recreated("service", &before).await;
    assert_eq!(condition(&env.become_ready().await, "Ready")["status"], "True");
}

/// The moment in which an account is another one and no watch has told: nothing may be run as it.
#[tokio::test(flavor = "multi_thread")]
async fn no_pod_runs_as_an_account_that_was_replaced_before_the_watch_told() {
    const ACCOUNTS: &str = "/api/v1/serviceaccounts";
    let env = FaultEnv::verified_every("1h", "replaced").await.and_a_control_plane().await;
    env.proxy().drop_event(|url, event| url.starts_with(ACCOUNTS) && event["type"] == "DELETED");
    for words in ["delete serviceaccount/coder", "create serviceaccount coder"] {
        env.cluster.kubectl(&format!("{words} -n {}", env.namespace)).await.expect_ok();
    }
    env.until_dropped().await;
    env.cluster.kubectl(&format!("delete deployment/coder -n {}", env.namespace)).await.expect_ok();
    until("the account to be refused", LIMIT, async || {
        let plane = env.get("codercontrolplane", &env.namespace, "coder").await.unwrap_or_default();
        let ready = condition(&plane, "Ready");
        holds(ready["reason"] == "AccountNotOurs", ready.to_string())
    })
    .await;
    assert_eq!(env.get("deployment", &env.namespace, "coder").await, None);
}

/// The same of a kind that a cluster may lack.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_a_route_that_is_dropped_is_made_up_for_as_well() {
    const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";
    let env = FaultEnv::start("route").await;
    let gateway = json!({ "host": "coder.example.com", "parentRefs": [{ "name": "public" }] });
    env.apply_spec(&json!({ "expose": { "gateway": gateway } })).await;
    env.become_ready().await;
    env.reconcile(&env.namespace, "coder", "before").await;
    env.proxy().drop_event(|url, event| url.starts_with(ROUTES) && event["type"] == "DELETED");
    let before = env.delete("httproute").await;
    env.until_dropped().await;
    env.until_recreated("httproute", &before).await;
}

/// A right that no watch has shown is taken back all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_event_was_dropped_goes_when_its_namespace_is_no_longer_asked_for() {
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/rolebindings";
    let env = FaultEnv::verified_every("1h", "unseen").await;
    let (kept, left) = (env.cluster.namespace("kept").await, env.cluster.namespace("left").await);
    for place in [&kept, &left] {
        let agree = format!("label namespace {place} coder.com/workspaces-from={}", env.namespace);
        env.cluster.kubectl(&agree).await.expect_ok();
    }
    env.proxy().show_only([&env.namespace, &env.installation.namespace, &kept, &left].map(String::as_str));
    let unseen = left.clone();
    env.proxy().drop_event(move |url, event| {
        url.starts_with(BINDINGS) && event["object"]["metadata"]["namespace"] == unseen.as_str()
    });
    env.apply_spec(&json!({ "rbac": { "workspaceNamespaces": [kept, left] } })).await;
    env.become_ready().await;
    env.until_dropped().await;
    env.apply_spec(&json!({ "rbac": { "workspaceNamespaces": [kept] } })).await;
    env.become_ready().await;
    let granted = format!("get role,rolebinding -n {left} -o name");
    until("the rights to be taken back", LIMIT, async || {
        let there = env.cluster.kubectl(&granted).await.expect_ok();
        holds(there.is_empty(), there)
    })
    .await;
}

const CONTROL_PLANES: &str = "/apis/coder.com/v1alpha1/codercontrolplanes";

/// A reconcile takes its object from the watch where it can: what the watch did not tell is found by the next list.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_object_whose_event_was_dropped_is_made_up_for_within_the_verify_interval() {
    let env = FaultEnv::with_a_control_plane("missed").await;
    env.proxy().drop_event(|url, event| {
        url.starts_with(CONTROL_PLANES) && event["object"]["metadata"]["generation"] == 2
    });
    env.apply_spec(&json!({ "replicas": 2 })).await;
    env.until_dropped().await;
    let scaled = |child: &Value| child["spec"]["replicas"] == 2;
    env.until_object("deployment", &env.namespace, "coder", "to be scaled", scaled).await;
    env.become_ready().await;
}

/// The watch goes on showing an object that is gone: nothing is made for it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_for_an_object_whose_deletion_was_dropped() {
    let env = FaultEnv::verified_every("1h", "ghost").await.and_a_control_plane().await;
    env.proxy().drop_event(|url, event| url.starts_with(CONTROL_PLANES) && event["type"] == "DELETED");
    env.delete("codercontrolplane").await;
    env.until_dropped().await;
    env.journal().begin(None);
    // Its Deployment goes, and then somebody else's change concerns it: the first reconcile is over when the second begins.
    let deleted = Instant::now();
    let words = format!("delete deployment/coder -n {} --ignore-not-found", env.namespace);
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_read(deleted).await;
    let labelled = Instant::now();
    env.cluster.kubectl(&format!("label namespace {} looked-at=again", env.namespace)).await.expect_ok();
    env.until_read(labelled).await;
    let points = env.journal().points();
    assert!(points.is_empty(), "{points:?}");
    assert_eq!(env.get("deployment", &env.namespace, "coder").await, None);
}

/// Others look at what the watch shows as well: once a list has found that it is wrong, it begins anew, and from then on
/// there is nothing to tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_missed_a_deletion_lists_again_and_that_is_not_told_for_ever() {
    let env = FaultEnv::with_a_control_plane("relisted").await;
    env.proxy().drop_event(|url, event| url.starts_with(CONTROL_PLANES) && event["type"] == "DELETED");
    let deleted = Instant::now();
    env.delete("codercontrolplane").await;
    env.until_dropped().await;
    let mut listed = env.until_listed(deleted, "sendInitialEvents=true").await;
    let mut told = Vec::new();
    for _ in 0..4 {
        listed = env.until_listed(listed, "limit=").await;
        told.push(env.logged("a watch has missed a change").await.len());
    }
    assert!(told[0] > 0 && told[1..].iter().all(|count| *count == told[1]), "{told:?}");
}

/// What could not be verified is doubted: the next reconcile reads it.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_after_a_list_that_should_verify_it_has_failed() {
    let env = FaultEnv::with_a_control_plane("doubted").await;
    env.proxy().on(Fault::Answer(500), |method, path| {
        method == "GET" && path.starts_with(CONTROL_PLANES) && path.contains("limit=")
    });
    until("a list to fail", LIMIT, async || {
        let failed = env.logged("objects could not be verified; it is tried again").await;
        holds(!failed.is_empty(), "not yet")
    })
    .await;
    let labelled = Instant::now();
    env.cluster.kubectl(&format!("label namespace {} looked-at=again", env.namespace)).await.expect_ok();
    env.until_read(labelled).await;
}
