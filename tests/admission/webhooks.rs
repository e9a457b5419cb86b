//! The shipped webhooks on a real API server: what a user reads at `kubectl apply`, and what still works while the
//! operator is down.

mod environment;
mod updates;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::time::Duration;
use support::wait::holds;
use support::{Cluster, Installation, Operator, https, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);

/// An installation whose webhooks look at its own namespace.
async fn admitted(purpose: &str) -> (Installation, Operator, Api<DynamicObject>) {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, purpose).await;
    let operator = installation.start(BINARY, "webhooks").await;
    installation.admit(operator.ports.webhooks, &[installation.namespace.as_str()]).await;
    let planes = control_planes(cluster, &installation.namespace).await;
    // The API server learns of a new webhook by its own watch: admission counts from the first object it defaults.
    until("the webhooks to be in force", LIMIT, async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let probe =
            planes.create(&dry, &object("probe", &json!({}))).await.map_err(|error| error.to_string())?;
        holds(probe.data["spec"]["image"].is_string(), "not defaulted yet")
    })
    .await;
    (installation, operator, planes)
}

async fn control_planes(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane"));
    Api::namespaced_with(cluster.client().await, namespace, &kind)
}

fn manifest(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": { "name": name }, "spec": spec })
}

fn object(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(manifest(name, spec)).unwrap()
}

/// Several problems of several sorts: schema, rules and a rule across fields.
fn broken() -> Value {
    json!({
        "replicas": -1, "service": { "port": 70000 }, "image": "",
        "expose": { "ingress": { "host": "coder.example.com" }, "gateway": { "host": "coder.example.com", "parentRefs": [] } },
    })
}

/// How many reviews the operator answered, by its own count.
async fn reviews(installation: &Installation, operator: &Operator, token: &str) -> f64 {
    let request = http::Request::get("/metrics").header("authorization", format!("Bearer {token}"));
    let name = format!("{}-coder-k8s-webhooks.{}.svc", installation.namespace, installation.namespace);
    let (status, text) =
        https::ask(operator.ports.metrics, &installation.ca().await, &name, request, "").await.unwrap();
    assert_eq!(status, 200, "{text}");
    let counts = text.lines().filter(|line| line.starts_with("coder_k8s_admissions_total"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn defaults_are_visible_and_applying_the_same_again_changes_nothing() {
    let (_installation, _operator, planes) = admitted("defaults").await;
    let apply = PatchParams::apply("gitops").force();
    let first = planes.patch("coder", &apply, &Patch::Apply(manifest("coder", &json!({})))).await.unwrap();
    let spec = &first.data["spec"];
    assert!(spec["image"].as_str().unwrap().starts_with("ghcr.io/coder/coder:v"), "{spec}");
    assert_eq!(
        (&spec["replicas"], &spec["service"]),
        (&json!(1), &json!({ "type": "ClusterIP", "port": 80 }))
    );
    let again =
        async || planes.patch("coder", &apply, &Patch::Apply(manifest("coder", &json!({})))).await.unwrap();
    let second = again().await;
    assert_eq!((&first.data, first.metadata.generation), (&second.data, second.metadata.generation));
    // The API server may rewrite its own bookkeeping once after a creation by apply; from then on nothing is written.
    assert_eq!(second.metadata.resource_version, again().await.metadata.resource_version);
}

#[tokio::test]
async fn a_bad_object_is_refused_once_with_every_cause_and_a_fix() {
    let (_installation, _operator, planes) = admitted("refused").await;
    for dry_run in [false, true] {
        let params = PostParams { dry_run, ..PostParams::default() };
        let error = planes.create(&params, &object("bad", &broken())).await.unwrap_err();
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"), "{status:?}");
        let causes = status.details.unwrap().causes;
        for field in ["spec.replicas", "spec.service.port", "spec.image", "spec.expose"] {
            let told =
                causes.iter().any(|cause| cause.field.starts_with(field) && cause.message.contains("CODER"));
            assert!(told, "{field} is missing in {causes:?}");
        }
    }
    assert!(planes.get_opt("bad").await.unwrap().is_none(), "nothing is stored");
    let error = planes
        .patch("bad", &PatchParams::apply("gitops").force(), &Patch::Apply(manifest("bad", &broken())))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "server-side apply, too: {error}"
    );
}

#[tokio::test]
async fn warnings_reach_the_one_who_applies() {
    let (installation, _operator, _planes) = admitted("warned").await;
    let cluster = Cluster::shared().await;
    let floating = manifest("floating", &json!({ "image": "ghcr.io/coder/coder:latest" })).to_string();
    let words = format!("apply -n {} -f -", installation.namespace);
    let answer = cluster.kubectl_with_input(&words, &floating).await;
    assert!(answer.stderr.contains("Warning:") && answer.stderr.contains("CODER"), "{}", answer.stderr);
    answer.expect_ok();
}

#[tokio::test]
async fn unchanged_specs_metadata_deletes_status_and_scale_never_reach_the_webhook() {
    let (installation, operator, planes) = admitted("spared").await;
    let token = installation.caller("scraper", "get", "/metrics").await;
    let apply = PatchParams::apply("gitops").force();
    let good = manifest("coder", &json!({ "replicas": 1 }));
    planes.patch("coder", &apply, &Patch::Apply(&good)).await.unwrap();
    let before = reviews(&installation, &operator, &token).await;
    assert!(before > 0.0, "creation was reviewed");

    for dry_run in [false, true] {
        let apply = PatchParams { dry_run, ..apply.clone() };
        planes.patch("coder", &apply, &Patch::Apply(&good)).await.unwrap();
    }
    let labelled = json!({ "metadata": { "labels": { "team": "a" } } });
    planes.patch("coder", &PatchParams::default(), &Patch::Merge(&labelled)).await.unwrap();
    let scaled = json!({ "spec": { "replicas": 3 } });
    planes.patch_scale("coder", &PatchParams::default(), &Patch::Merge(&scaled)).await.unwrap();
    let status = json!({ "status": { "observedGeneration": 1 } });
    planes.patch_status("coder", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert!((reviews(&installation, &operator, &token).await - before).abs() < f64::EPSILON);

    // An annotation that acts is a change like any other; taking it away is not.
    let acting =
        |value: Value| json!({ "metadata": { "annotations": { "coder.com/release-external": value } } });
    planes.patch("coder", &PatchParams::default(), &Patch::Merge(acting(json!("true")))).await.unwrap();
    let reviewed = reviews(&installation, &operator, &token).await;
    assert!(reviewed > before, "{reviewed} reviews");
    planes.patch("coder", &PatchParams::default(), &Patch::Merge(acting(Value::Null))).await.unwrap();
    planes.delete("coder", &Default::default()).await.unwrap();
    assert!((reviews(&installation, &operator, &token).await - reviewed).abs() < f64::EPSILON);
}

#[tokio::test]
async fn with_the_operator_down_only_changes_of_a_spec_fail() {
    let (installation, mut operator, planes) = admitted("down").await;
    let apply = PatchParams::apply("gitops").force();
    let good = manifest("coder", &json!({ "replicas": 1 }));
    planes.patch("coder", &apply, &Patch::Apply(&good)).await.unwrap();
    operator.process().kill();

    planes.patch("coder", &apply, &Patch::Apply(&good)).await.expect("the same again");
    let finalized =
        json!({ "metadata": { "finalizers": ["example.com/wait"], "annotations": { "a": "b" } } });
    planes.patch("coder", &PatchParams::default(), &Patch::Merge(&finalized)).await.expect("metadata");
    let changed = manifest("coder", &json!({ "replicas": 2 }));
    let error = planes.patch("coder", &apply, &Patch::Apply(&changed)).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 500), "fails closed: {error}");

    planes.delete("coder", &Default::default()).await.expect("delete");
    let other = json!({ "spec": { "image": "registry.example.com/mine:v2.36.1" } });
    let error = planes.patch("coder", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 500), "also under deletion: {error}");
    let released = json!({ "metadata": { "finalizers": null } });
    planes
        .patch("coder", &PatchParams::default(), &Patch::Merge(&released))
        .await
        .expect("the finalizer goes");
    until("the object to be gone", LIMIT, async || {
        holds(planes.get_opt("coder").await.unwrap().is_none(), "it is still there")
    })
    .await;
    // The emergency brake: a labelled namespace is not looked at.
    let cluster = Cluster::shared().await;
    let brake = format!("label namespace {} coder.com/admission=disabled", installation.namespace);
    cluster.kubectl(&brake).await.expect_ok();
    until("the brake to hold", LIMIT, async || {
        planes
            .create(&PostParams::default(), &object("braked", &json!({})))
            .await
            .map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn objects_from_before_the_webhook_may_stay_as_bad_as_they_are_but_not_get_worse() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "older").await;
    let planes = control_planes(cluster, &installation.namespace).await;
    // Stored without admission; a rule that only the webhook holds refuses it today.
    let old = json!({ "expose": { "ingress": { "host": "coder.example.com",
        "tls": { "wildcardSecretName": "wild" } } } });
    planes.create(&PostParams::default(), &object("old", &old)).await.unwrap();
    let operator = installation.start(BINARY, "webhooks").await;
    installation.admit(operator.ports.webhooks, &[installation.namespace.as_str()]).await;
    until("the rule to be in force", LIMIT, async || {
        let refused =
            planes.create(&PostParams { dry_run: true, ..Default::default() }, &object("new", &old)).await;
        holds(refused.is_err(), "a new one is still taken")
    })
    .await;

    let unrelated = json!({ "spec": { "replicas": 2 } });
    planes
        .patch("old", &PatchParams::default(), &Patch::Merge(&unrelated))
        .await
        .expect("it did not get worse");
    let worse = json!({ "spec": { "image": "" } });
    planes.patch("old", &PatchParams::default(), &Patch::Merge(&worse)).await.expect_err("it got worse");
    planes.delete("old", &Default::default()).await.expect("and it can go");
}
