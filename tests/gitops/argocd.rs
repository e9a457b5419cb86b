//! Argo CD: CRDs, operator and instances from Git, by either way of comparing and either way of tracking; then rest, a refused
//! commit, and the health of every state that a status can tell.

use crate::coder::Coder;
use crate::site::{CRDS, INSTANCES, KINDS, LIMIT, OPERATOR, Site, TEAM};
use serde_json::{Value, json};
use support::gitops::argocd::ArgoCd;
use support::gitops::rest::Moment;
use support::installation::repository;

/// How many comparisons nobody may write in.
const REFRESHES: usize = 10;
/// The Application of the instances has the name of the control plane: by label tracking that is the dangerous one.
const INSTANCES_APP: &str = "coder";
const APPLICATIONS: [(&str, &str); 3] = [("crds", CRDS), ("operator", OPERATOR), (INSTANCES_APP, INSTANCES)];

/// How Argo CD judges our kinds, as it is shipped.
fn health() -> String {
    let shipped = repository().join("kustomize/overlays/argocd/health/health.lua");
    std::fs::read_to_string(shipped).expect("a health check")
}

fn settings(tracking: &str) -> Value {
    let mut settings = json!({ "application.resourceTrackingMethod": tracking });
    for kind in ["CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy"] {
        settings[format!("resource.customizations.health.coder.com_{kind}")] = health().into();
    }
    settings
}

/// Everything from Git into an empty cluster.
async fn installed(annotations: &Value, tracking: &str) -> (Site, ArgoCd) {
    let mut site = Site::new(Coder::fresh().await).await;
    let argo = ArgoCd::start(&site.cluster, site.git.url(), &settings(tracking)).await;
    for (name, path) in APPLICATIONS {
        argo.application(name, path, annotations).await;
    }
    site.start_operator().await;
    let commit = site.take_back();
    for (name, _) in APPLICATIONS {
        argo.synced(name, &commit, LIMIT).await;
    }
    site.ready().await;
    (site, argo)
}

/// What an Application says of its last sync: another one would be told here.
async fn last_sync(argo: &ArgoCd, name: &str) -> Value {
    let status = argo.get(name).await["status"].clone();
    json!([status["history"], status["operationState"]["startedAt"], status["operationState"]["phase"]])
}

/// Comparison after comparison, nothing is different and nobody writes.
async fn nobody_writes(site: &Site, argo: &ArgoCd, how: &str) {
    let mut before = Vec::new();
    for (name, _) in APPLICATIONS {
        argo.refresh(name, LIMIT).await;
        before.push(last_sync(argo, name).await);
    }
    let moment = Moment::of(&site.cluster).await;
    for _ in 0..REFRESHES {
        for (name, _) in APPLICATIONS {
            let object = argo.refresh(name, LIMIT).await;
            assert_eq!(object["status"]["sync"]["status"], "Synced", "{how} {name}: {}", object["status"]);
            assert_eq!(object["status"]["health"]["status"], "Healthy", "{how} {name}: {}", object["status"]);
            assert!(object["spec"].get("ignoreDifferences").is_none(), "nothing has to be ignored");
        }
    }
    for (number, (name, _)) in APPLICATIONS.into_iter().enumerate() {
        assert_eq!(last_sync(argo, name).await, before[number], "{how}: another sync of {name}");
    }
    let asked = moment.requests().iter().filter(|request| request.with_rights_of == argo.user()).count();
    assert!(asked >= REFRESHES, "the audit log shows {asked} requests of Argo CD");
    let (writes, changes) = (moment.writes(), moment.changes().await);
    assert!(writes.is_empty(), "{how}: written in {REFRESHES} refreshes:\n{}", writes.join("\n"));
    assert!(changes.is_empty(), "{how}: changed in {REFRESHES} refreshes:\n{}", changes.join("\n"));
    println!("Argo CD, {how}: {REFRESHES} refreshes of 3 Applications, 0 syncs, 0 writes");
}

/// A refused commit shows our message, deletes nothing, and the next good one is taken.
async fn refused(site: &Site, argo: &ArgoCd, how: &str) {
    let before = site.identities().await;
    let both = json!({ "expose": { "ingress": { "host": "a.example.com" },
        "gateway": { "host": "a.example.com", "parentRefs": [{ "name": "gateway" }] } } });
    site.change("Break a rule", "CoderControlPlane", "coder", &both);
    let shown = argo
        .until(INSTANCES_APP, "our refusal", LIMIT, |object| {
            let status = object["status"].to_string();
            status.contains("denied the request") && status.contains("spec.expose")
        })
        .await;
    println!("Argo CD, {how}, a spec against a rule: {}", told(&shown));
    assert_eq!(site.identities().await, before, "a refusal deletes nothing");
    let commit = site.take_back();
    argo.synced(INSTANCES_APP, &commit, LIMIT).await;
    assert_eq!(site.identities().await, before, "nor does what follows");
}

/// What somebody deletes by hand comes back from Git, by itself.
async fn heals(site: &Site, argo: &ArgoCd) {
    let (kind, name) = KINDS[2];
    let before = site.get(kind, name).await["metadata"]["uid"].clone();
    site.cluster.kubectl(&format!("delete {kind} {name} -n {TEAM} --timeout=120s")).await.expect_ok();
    argo.until(INSTANCES_APP, "what was deleted by hand to be there again", LIMIT, |object| {
        object["status"]["sync"]["status"] == "Synced" && health_in(object, name) == "Healthy"
    })
    .await;
    let after = site.get(kind, name).await["metadata"]["uid"].clone();
    assert!(after.is_string() && after != before, "{after} after {before}");
}

/// The place in which an Application tells a refusal.
fn told(object: &Value) -> String {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut places = vec![status["operationState"]["message"].clone()];
    places.extend(conditions.map(|condition| condition["message"].clone()));
    let resources = status["operationState"]["syncResult"]["resources"].as_array().into_iter().flatten();
    places.extend(resources.map(|resource| resource["message"].clone()));
    let ours = places.iter().find(|place| place.to_string().contains("spec.expose"));
    ours.map(Value::to_string).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Argo CD: make test-gitops"]
async fn argo_cd_runs_coder_from_git_with_client_side_diff() {
    let (site, argo) = installed(&json!({}), "annotation").await;
    nobody_writes(&site, &argo, "client-side diff, tracking by annotation").await;
    refused(&site, &argo, "client-side diff").await;
    // The other way of tracking, with everything there: nothing of ours may be taken for an orphan.
    let before = site.identities().await;
    argo.configure(&settings("label")).await;
    let commit = site.take_back();
    for (name, _) in APPLICATIONS {
        argo.synced(name, &commit, LIMIT).await;
    }
    let plane = site.get("codercontrolplane", "coder").await;
    assert_eq!(plane["metadata"]["labels"]["app.kubernetes.io/instance"], INSTANCES_APP, "tracked by label");
    assert_eq!(site.identities().await, before, "another way of tracking deletes nothing");
    nobody_writes(&site, &argo, "client-side diff, tracking by label").await;
    heals(&site, &argo).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Argo CD: make test-gitops"]
async fn argo_cd_runs_coder_from_git_with_server_side_diff() {
    let server_side = json!({ "argocd.argoproj.io/compare-options": "ServerSideDiff=true" });
    let (mut site, argo) = installed(&server_side, "annotation").await;
    nobody_writes(&site, &argo, "server-side diff, tracking by annotation").await;
    refused(&site, &argo, "server-side diff").await;
    site.stop_operator().await;
    let rows = health_of_every_state(&site, &argo).await;
    println!("Argo CD: health is right for {rows} rows of the kstatus table ({} kinds)", KINDS.len());
}

/// The kstatus table: what a status tells, and the health that Argo CD shall show for it.
fn states(generation: &Value) -> Vec<(&'static str, Value, &'static str)> {
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "ForATest", "message": format!("{kind} {status}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation })
    };
    let status =
        |conditions: Vec<Value>| json!({ "observedGeneration": generation, "conditions": conditions });
    let ready = |value: &str| condition("Ready", value);
    vec![
        ("Ready", status(vec![ready("True")]), "Healthy"),
        (
            "an older generation",
            json!({ "observedGeneration": -1, "conditions": [ready("True")] }),
            "Progressing",
        ),
        ("Stalled", status(vec![condition("Stalled", "True"), ready("False")]), "Degraded"),
        ("Reconciling", status(vec![condition("Reconciling", "True"), ready("True")]), "Progressing"),
        ("Ready once more", status(vec![ready("True"), condition("Stalled", "False")]), "Healthy"),
        ("not Ready", status(vec![ready("False")]), "Progressing"),
        ("Stalled once more", status(vec![ready("False"), condition("Stalled", "True")]), "Degraded"),
        ("Ready unknown", status(vec![ready("Unknown")]), "Progressing"),
        ("Ready a third time", status(vec![ready("True")]), "Healthy"),
        ("no condition", status(vec![]), "Progressing"),
    ]
}

/// Writes every state as the operator would, whose process is stopped, and then deletes: a finalizer holds the object.
async fn health_of_every_state(site: &Site, argo: &ArgoCd) -> usize {
    let mut rows = 0;
    for (kind, name) in KINDS {
        let live = site.get(kind, name).await;
        for (what, status, expected) in states(&live["metadata"]["generation"]) {
            let patch = json!({ "status": { "observedGeneration": status["observedGeneration"], "conditions": status["conditions"] } });
            let words = format!(
                "patch {kind} {name} -n {TEAM} --subresource=status --type=merge --patch-file=/dev/stdin"
            );
            site.cluster.kubectl_with_input(&words, &patch.to_string()).await.expect_ok();
            argo.until(INSTANCES_APP, &format!("{kind}, {what}: {expected}"), LIMIT, |object| {
                health_in(object, name) == expected
            })
            .await;
            rows += 1;
        }
        let finalizer = json!({ "metadata": { "finalizers": ["test.coder.com/held"] } });
        let words = format!("patch {kind} {name} -n {TEAM} --type=merge --patch-file=/dev/stdin");
        let ready = json!({ "status": states(&live["metadata"]["generation"])[0].1 });
        let status = format!("{words} --subresource=status");
        site.cluster.kubectl_with_input(&status, &ready.to_string()).await.expect_ok();
        site.cluster.kubectl_with_input(&words, &finalizer.to_string()).await.expect_ok();
        argo.until(INSTANCES_APP, "Healthy before it is deleted", LIMIT, |object| {
            health_in(object, name) == "Healthy"
        })
        .await;
        site.cluster.kubectl(&format!("delete {kind} {name} -n {TEAM} --wait=false")).await.expect_ok();
        argo.until(INSTANCES_APP, &format!("{kind}, under deletion: Progressing"), LIMIT, |object| {
            health_in(object, name) == "Progressing"
        })
        .await;
        rows += 1;
    }
    rows
}

/// The health of one of our objects.
fn health_in<'a>(application: &'a Value, name: &str) -> &'a str {
    let resources = application["status"]["resources"].as_array().into_iter().flatten();
    let mut ours = resources.filter(|one| one["group"] == "coder.com" && one["name"] == name);
    ours.next().and_then(|one| one["health"]["status"].as_str()).unwrap_or_default()
}
