//! Argo CD: operator and instances from Git, by the Applications of the overlay and by those of the examples, by every way of
//! comparing and either way of tracking; then rest, a refused commit, the health of every state that a status can tell, and the
//! written way out.

use crate::coder::Coder;
use crate::page;
use crate::rebuild::nothing_is_left;
use crate::site::{KINDS, LIMIT, Site, TEAM};
use serde_json::{Value, json};
use support::gitops::argocd::{ArgoCd, NAMESPACE};
use support::gitops::rest::Moment;
use support::installation::repository;

/// How many comparisons nobody may write in.
const REFRESHES: usize = 10;

/// What Argo CD is told, of what is shipped.
struct Told {
    /// The folder with its Applications.
    folder: &'static str,
    applications: &'static [&'static str],
    /// The Application of the instances.
    instances: &'static str,
}

/// Beside a CloudNativePG that is there.
const OVERLAY: Told = Told {
    folder: "kustomize/overlays/argocd/applications",
    applications: &["coder-k8s-operator", "coder-instances"],
    instances: "coder-instances",
};
/// CloudNativePG too. The Application of the instances has the name of the control plane: by label tracking that is the dangerous
/// one.
const EXAMPLES: Told = Told {
    folder: "kustomize/examples/argocd",
    applications: &["cloudnative-pg", "coder-operator", "coder"],
    instances: "coder",
};

fn settings(tracking: &str) -> Value {
    json!({ "application.resourceTrackingMethod": tracking })
}

/// A cluster with Argo CD, and what it is told.
struct Followed {
    site: Site,
    argo: ArgoCd,
    told: &'static Told,
    /// Before there was anything.
    empty: Moment,
}

impl Followed {
    /// Everything from Git into an empty cluster.
    async fn installed(told: &'static Told) -> Self {
        let mut site = Site::new(Coder::fresh().await).await;
        if !told.applications.contains(&"cloudnative-pg") {
            site.has_cloud_native_pg().await;
        }
        let empty = Moment::of(&site.cluster).await;
        let argo = ArgoCd::start(&site.cluster, &settings("annotation")).await;
        argo.follow(&repository().join(told.folder), site.git.url()).await;
        site.start_operator().await;
        let followed = Self { site, argo, told, empty };
        let commit = followed.site.take_back();
        followed.synced(&commit).await;
        followed.site.ready().await;
        followed
    }

    /// Waits until every Application is Synced with this commit and Healthy.
    async fn synced(&self, commit: &str) {
        for name in self.told.applications {
            self.argo.synced(name, commit, LIMIT).await;
        }
    }

    /// Comparison after comparison, nothing is different and nobody writes.
    async fn nobody_writes(&self, how: &str) {
        let (argo, names) = (&self.argo, self.told.applications);
        let mut before = Vec::new();
        for name in names {
            argo.refresh(name, LIMIT).await;
            before.push(last_sync(argo, name).await);
        }
        let moment = Moment::of(&self.site.cluster).await;
        for _ in 0..REFRESHES {
            for name in names {
                let object = argo.refresh(name, LIMIT).await;
                assert_eq!(
                    object["status"]["sync"]["status"], "Synced",
                    "{how} {name}: {}",
                    object["status"]
                );
                assert_eq!(
                    object["status"]["health"]["status"], "Healthy",
                    "{how} {name}: {}",
                    object["status"]
                );
                assert!(object["spec"].get("ignoreDifferences").is_none(), "nothing has to be ignored");
            }
        }
        for (number, name) in names.iter().enumerate() {
            assert_eq!(last_sync(argo, name).await, before[number], "{how}: another sync of {name}");
        }
        let asked = moment.requests().iter().filter(|request| request.with_rights_of == argo.user()).count();
        assert!(asked >= REFRESHES, "the audit log shows {asked} requests of Argo CD");
        let (writes, changes) = (moment.writes(), moment.changes().await);
        assert!(writes.is_empty(), "{how}: written in {REFRESHES} refreshes:\n{}", writes.join("\n"));
        assert!(changes.is_empty(), "{how}: changed in {REFRESHES} refreshes:\n{}", changes.join("\n"));
        let count = names.len();
        println!("Argo CD, {how}: {REFRESHES} refreshes of {count} Applications, 0 syncs, 0 writes");
    }

    /// A refused commit shows our message, deletes nothing, and the next good one is taken.
    async fn refused(&self, how: &str) {
        let before = self.site.identities().await;
        let both = json!({ "expose": { "ingress": { "host": "a.example.com" },
            "gateway": { "host": "a.example.com", "parentRefs": [{ "name": "gateway" }] } } });
        self.site.change("Break a rule", &[("CoderControlPlane", "coder", both)]);
        let shown = self
            .argo
            .until(self.told.instances, "our refusal", LIMIT, |object| {
                let status = object["status"].to_string();
                status.contains("denied the request") && status.contains("spec.expose")
            })
            .await;
        println!("Argo CD, {how}, a spec against a rule: {}", words(&shown));
        assert_eq!(self.site.identities().await, before, "a refusal deletes nothing");
        let commit = self.site.take_back();
        self.argo.synced(self.told.instances, &commit, LIMIT).await;
        assert_eq!(self.site.identities().await, before, "nor does what follows");
    }

    /// The other way of tracking, with everything there: nothing of ours may be taken for an orphan.
    async fn tracked_by_label(&self) {
        let before = self.site.identities().await;
        self.argo.configure(&settings("label")).await;
        let commit = self.site.take_back();
        self.synced(&commit).await;
        let plane = self.site.get("codercontrolplane", "coder").await;
        let label = &plane["metadata"]["labels"]["app.kubernetes.io/instance"];
        assert_eq!(*label, self.told.instances, "tracked by label");
        assert_eq!(self.site.identities().await, before, "another way of tracking deletes nothing");
    }

    /// What somebody deletes by hand comes back from Git, by itself.
    async fn heals(&self) {
        let (kind, name) = KINDS[2];
        let before = self.site.get(kind, name).await["metadata"]["uid"].clone();
        let words = format!("delete {kind} {name} -n {TEAM} --timeout=120s");
        self.site.cluster.kubectl(&words).await.expect_ok();
        self.argo
            .until(self.told.instances, "what was deleted by hand to be there again", LIMIT, |object| {
                object["status"]["sync"]["status"] == "Synced" && health_in(object, name) == "Healthy"
            })
            .await;
        let after = self.site.get(kind, name).await["metadata"]["uid"].clone();
        assert!(after.is_string() && after != before, "{after} after {before}");
    }
}

/// What an Application says of its last sync: another one would be told here.
async fn last_sync(argo: &ArgoCd, name: &str) -> Value {
    let status = argo.get(name).await["status"].clone();
    json!([status["history"], status["operationState"]["startedAt"], status["operationState"]["phase"]])
}

/// The place in which an Application tells a refusal.
fn words(object: &Value) -> String {
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
    let mut followed = Followed::installed(&OVERLAY).await;
    followed.nobody_writes("client-side diff, tracking by annotation").await;
    followed.refused("client-side diff").await;
    followed.tracked_by_label().await;
    followed.nobody_writes("client-side diff, tracking by label").await;
    followed.heals().await;
    page::follow(&mut followed.site, "Everything, where Argo CD applies it").await;
    let Followed { site, argo, empty, .. } = followed;
    drop(argo);
    nothing_is_left(&site, &empty, &[NAMESPACE, "argoproj.io"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Argo CD: make test-gitops"]
async fn argo_cd_runs_coder_from_git_with_server_side_diff() {
    let mut followed = Followed::installed(&EXAMPLES).await;
    followed.nobody_writes("the examples as they are shipped, tracking by annotation").await;
    for name in EXAMPLES.applications {
        followed.argo.annotate(name, "argocd.argoproj.io/compare-options=ServerSideDiff=true").await;
    }
    followed.nobody_writes("server-side diff, tracking by annotation").await;
    followed.refused("server-side diff").await;
    followed.tracked_by_label().await;
    let suspended = health_of_the_suspended(&followed).await;
    followed.site.stop_operator().await;
    let rows = suspended + health_of_every_state(&followed).await;
    println!("Argo CD: health is right for {rows} rows of the kstatus table ({} kinds)", KINDS.len());
}

/// Every kind is suspended in Git and taken up again.
async fn health_of_the_suspended(followed: &Followed) -> usize {
    let suspend = json!({ "suspend": true });
    let all =
        [("CoderControlPlane", "coder"), ("CoderProvisioner", "builders"), ("CoderWorkspaceProxy", "sydney")];
    let changes = all.map(|(kind, name)| (kind, name, suspend.clone()));
    followed.site.change("Suspend all", &changes);
    let are = |expected: &'static str| {
        move |object: &Value| KINDS.iter().all(|(_, name)| health_in(object, name) == expected)
    };
    let (argo, instances) = (&followed.argo, followed.told.instances);
    argo.until(instances, "all Suspended", LIMIT, are("Suspended")).await;
    let commit = followed.site.take_back();
    argo.until(instances, "all Healthy again", LIMIT, are("Healthy")).await;
    argo.synced(instances, &commit, LIMIT).await;
    KINDS.len()
}

/// The kstatus table: what a status tells, and the health that Argo CD shall show for it, each time another than before; it
/// begins with a Healthy object.
fn states(generation: &Value) -> Vec<(&'static str, Value, &'static str)> {
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "ForATest", "message": format!("{kind} {status}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation })
    };
    let status =
        |conditions: Vec<Value>| json!({ "observedGeneration": generation, "conditions": conditions });
    let ready = |value: &str| condition("Ready", value);
    vec![
        (
            "an older generation",
            json!({ "observedGeneration": -1, "conditions": [ready("True")] }),
            "Progressing",
        ),
        ("Stalled", status(vec![condition("Stalled", "True"), ready("False")]), "Degraded"),
        ("Reconciling", status(vec![condition("Reconciling", "True"), ready("True")]), "Progressing"),
        ("Ready", status(vec![ready("True"), condition("Stalled", "False")]), "Healthy"),
        ("not Ready", status(vec![ready("False")]), "Progressing"),
        ("Stalled once more", status(vec![ready("False"), condition("Stalled", "True")]), "Degraded"),
        ("Ready unknown", status(vec![ready("Unknown")]), "Progressing"),
        ("Ready once more", status(vec![ready("True")]), "Healthy"),
        ("no condition", status(vec![]), "Progressing"),
        ("Ready in the end", status(vec![ready("True")]), "Healthy"),
    ]
}

/// Writes every state as the operator would, whose process is stopped, and then deletes: a finalizer holds the object.
async fn health_of_every_state(followed: &Followed) -> usize {
    let site = &followed.site;
    let shows = async |what: String, name: &str, expected: &str| {
        let is = |object: &Value| health_in(object, name) == expected;
        followed.argo.until(followed.told.instances, &format!("{what}: {expected}"), LIMIT, is).await;
    };
    let mut rows = 0;
    for (kind, name) in KINDS {
        let live = site.get(kind, name).await;
        let patch = format!("patch {kind} {name} -n {TEAM} --type=merge --patch-file=/dev/stdin");
        let mut before = "Healthy";
        shows(format!("{kind}, as it is"), name, before).await;
        for (what, status, expected) in states(&live["metadata"]["generation"]) {
            assert_ne!(before, expected, "{what} would show nothing");
            let words = format!("{patch} --subresource=status");
            let status = json!({ "status": status }).to_string();
            site.cluster.kubectl_with_input(&words, &status).await.expect_ok();
            shows(format!("{kind}, {what}"), name, expected).await;
            (before, rows) = (expected, rows + 1);
        }
        assert_eq!(before, "Healthy", "so that the next one shows something");
        let finalizer = json!({ "metadata": { "finalizers": ["test.coder.com/held"] } });
        site.cluster.kubectl_with_input(&patch, &finalizer.to_string()).await.expect_ok();
        site.cluster.kubectl(&format!("delete {kind} {name} -n {TEAM} --wait=false")).await.expect_ok();
        shows(format!("{kind}, under deletion"), name, "Progressing").await;
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
