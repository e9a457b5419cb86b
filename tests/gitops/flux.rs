//! Flux: CRDs, operator and instances from Git, then rest, refusals, an outage of the operator, and pruning.

use crate::coder::Coder;
use crate::site::{KINDS, LIMIT, Site};
use serde_json::{Value, json};
use support::audit::Request;
use support::gitops::flux::Flux;
use support::gitops::rest::Moment;
use support::installation::repository;
use support::objects::{condition, is_ready};
use support::wait::{holds, until};

/// How many intervals nobody may write in.
const INTERVALS: usize = 10;

/// What Flux is told, of what is shipped.
pub struct Told {
    /// The folder with its Kustomizations.
    folder: &'static str,
    /// The Kustomizations of the operator and of the instances.
    operator: &'static str,
    pub instances: &'static str,
}

/// Definitions, operator and instances one after the other, beside a CloudNativePG that is there.
pub const OVERLAY: Told = Told {
    folder: "kustomize/overlays/flux/sync",
    operator: "coder-k8s-operator",
    instances: "coder-instances",
};
/// Everything of the examples, CloudNativePG too.
pub const EXAMPLES: Told =
    Told { folder: "kustomize/examples/flux", operator: "coder-operator", instances: "coder" };

/// Everything from Git into the empty cluster of a site. Only the operator's process is started, as a kubelet would.
pub async fn install(site: &mut Site, told: &Told) -> Flux {
    let flux = Flux::start(&site.cluster).await;
    flux.bootstrapped(site.git.url()).await;
    flux.follow(&repository().join(told.folder), site.git.url()).await;
    site.start_operator().await;
    let commit = site.take_back();
    flux.applied(told.instances, &commit, LIMIT).await;
    for (kind, name) in KINDS {
        let object = site.get(kind, name).await;
        assert!(is_ready(&object), "wait: true means Ready, but {kind} has {}", object["status"]);
    }
    // The pods of the operator, which wait: true has waited for as well.
    let operator = flux.applied(told.operator, &commit, LIMIT).await;
    assert!(operator["status"]["inventory"].to_string().contains("coder-k8s-operator_apps_Deployment"));
    let deployment = site.get_in("coder-system", "deployment", "coder-k8s-operator").await;
    assert_eq!(deployment["status"]["availableReplicas"], deployment["spec"]["replicas"]);
    flux
}

/// How often Flux has asked since then what its apply of the control plane would change: once an interval.
fn intervals_since(moment: &Moment, flux: &Flux) -> usize {
    let of_plane = |request: &&Request| request.is_dry_run() && request.resource == "codercontrolplanes";
    let asked = moment.requests();
    asked.iter().filter(of_plane).filter(|request| request.with_rights_of == flux.user()).count()
}

/// Waits for that many further intervals, as the audit log tells them.
async fn further_intervals(moment: &Moment, flux: &Flux, count: usize) -> usize {
    until(&format!("{count} further intervals"), LIMIT, async || {
        flux.reconciled(OVERLAY.instances, 1, LIMIT).await;
        let seen = intervals_since(moment, flux);
        holds(seen >= count, format!("{seen} so far")).map(|()| seen)
    })
    .await
}

/// Interval after interval, Flux asks what its apply would change, and nobody writes anything.
async fn nobody_writes(site: &Site, flux: &Flux, when: &str) {
    further_intervals(&Moment::of(&site.cluster).await, flux, 2).await;
    let moment = Moment::of(&site.cluster).await;
    let seen = further_intervals(&moment, flux, INTERVALS).await;
    let (writes, changes) = (moment.writes(), moment.changes().await);
    assert!(writes.is_empty(), "{when}: written in {seen} intervals:\n{}", writes.join("\n"));
    assert!(changes.is_empty(), "{when}: changed in {seen} intervals:\n{}", changes.join("\n"));
    println!("Flux, {when}: {seen} further intervals, 0 writes, 0 changed objects");
}

/// What Flux says of a commit that is refused; nothing may be deleted or changed by it.
async fn refusal(site: &Site, flux: &Flux, what: &str, spec: &Value) -> String {
    let before = site.identities().await;
    let live = site.get("codercontrolplane", "coder").await["spec"].clone();
    let commit = site.change(what, &[("CoderControlPlane", "coder", spec.clone())]);
    let message = flux.refused(OVERLAY.instances, &commit, LIMIT).await;
    flux.reconciled(OVERLAY.instances, 2, LIMIT).await;
    assert_eq!(site.identities().await, before, "after {what}");
    assert_eq!(site.get("codercontrolplane", "coder").await["spec"], live, "after {what}");
    let commit = site.take_back();
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    println!("Flux, {what}: {message}");
    message
}

/// By a rule and by the schema, without force and with it.
async fn refusals(site: &Site, flux: &Flux) {
    let both = json!({ "expose": { "ingress": { "host": "a.example.com" },
        "gateway": { "host": "a.example.com", "parentRefs": [{ "name": "gateway" }] } } });
    for force in [false, true] {
        flux.set(OVERLAY.instances, &json!({ "force": force })).await;
        let message = refusal(site, flux, "a spec against a rule", &both).await;
        assert!(message.contains("Forbidden") && message.contains("spec.expose"), "{message}");
        let message = refusal(site, flux, "a spec against the schema", &json!({ "replicas": -1 })).await;
        assert!(message.contains("Forbidden") && message.contains("spec.replicas"), "{message}");
    }
}

/// Without an operator: what is unchanged stays green, and a change waits without harm, also with force.
async fn outage(site: &mut Site, flux: &Flux) {
    site.stop_operator().await;
    let commit = site.take_back();
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    further_intervals(&Moment::of(&site.cluster).await, flux, INTERVALS).await;
    let object = flux.get(OVERLAY.instances).await;
    assert_eq!(condition(&object, "Ready")["status"], "True", "{}", object["status"]);

    let before = site.identities().await;
    let commit = site.change("schema", &[("CoderControlPlane", "coder", json!({ "replicas": -1 }))]);
    let message = flux.refused(OVERLAY.instances, &commit, LIMIT).await;
    println!("Flux, a spec against the schema while no operator runs, with force: {message}");
    assert!(message.contains("failed calling webhook"), "{message}");
    flux.reconciled(OVERLAY.instances, 2, LIMIT).await;
    assert_eq!(
        site.identities().await,
        before,
        "an error of the schema deletes nothing while no operator runs"
    );
    let commit = site.take_back();
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    site.start_operator().await;
    site.ready().await;
    assert_eq!(site.identities().await, before, "another operator restarts no pod");
}

/// What leaves Git leaves the cluster and coderd.
async fn pruning(site: &Site, flux: &Flux) {
    assert_eq!(site.coder.registered(), (vec!["builders".to_owned()], vec!["sydney".to_owned()]));
    let moment = Moment::of(&site.cluster).await;
    let commit = site.without(&["provisioner", "workspace-proxy"]);
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    until("provisioner and proxy to be gone", LIMIT, async || {
        let left = site.identities().await;
        let gone = left.iter().all(|one| !one.contains("Provisioner") && !one.contains("Proxy"));
        holds(gone && site.coder.registered() == (vec![], vec![]), format!("{left:?}"))
    })
    .await;
    // What finds no write at rest finds these.
    let (writes, pruned) = (moment.writes(), "delete coderprovisioners");
    let seen = writes.iter().any(|write| write.starts_with(pruned) && write.ends_with(&flux.user()));
    assert!(seen && !moment.changes().await.is_empty(), "{}", writes.join("\n"));
    let commit = site.without(&["provisioner", "workspace-proxy", "control-plane"]);
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    until("everything of the instances to be gone", LIMIT, async || {
        let left = site.identities().await;
        holds(left.is_empty(), format!("{left:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flux: make test-gitops"]
async fn flux_runs_coder_from_git() {
    let mut site = Site::new(Coder::fresh().await).await;
    site.has_cloud_native_pg().await;
    let flux = install(&mut site, &OVERLAY).await;
    nobody_writes(&site, &flux, "installed").await;
    refusals(&site, &flux).await;
    outage(&mut site, &flux).await;
    nobody_writes(&site, &flux, "after refusals and an outage").await;
    pruning(&site, &flux).await;
}
