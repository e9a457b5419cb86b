//! The three kinds on a real API server, through the commands users type.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use support::cluster::kustomize;
use support::installation::repository;
use support::{Cluster, Installation};

const KINDS: [(&str, &str, &str); 3] = [
    ("CoderControlPlane", "codercontrolplanes", "ccp"),
    ("CoderProvisioner", "coderprovisioners", "cprov"),
    ("CoderWorkspaceProxy", "coderworkspaceproxies", "cwsp"),
];

async fn namespace(purpose: &str) -> (&'static Cluster, String) {
    let cluster = Cluster::shared().await;
    (cluster, Installation::new(cluster, purpose).await.namespace)
}

#[tokio::test]
async fn every_sample_is_accepted_without_a_warning() {
    let (cluster, namespace) = namespace("samples").await;
    let samples = kustomize(&repository().join("kustomize/samples")).await.expect_ok();
    let words = format!("apply --server-side --validate=strict -n {namespace} -f -");
    let answer = cluster.kubectl_with_input(&words, &samples).await;
    assert_eq!(answer.stderr, "", "no warnings");
    let accepted = answer.expect_ok();
    let files = std::fs::read_dir(repository().join("kustomize/samples")).unwrap().count() - 1;
    assert_eq!(accepted.lines().count(), files, "{accepted}");

    // What was written is what is stored: nothing was pruned and nothing was defaulted into the spec.
    let again =
        cluster.kubectl_with_input(&format!("diff --server-side -n {namespace} -f -"), &samples).await;
    assert!(again.ok, "{}", again.stdout);
}

#[tokio::test]
async fn explain_teaches_every_kind_down_to_the_field() {
    let (cluster, _) = namespace("explain").await;
    for (_, plural, _) in KINDS {
        let spec = cluster.kubectl(&format!("explain {plural}.spec")).await.expect_ok();
        assert!(spec.contains("replicas") && spec.contains("DESCRIPTION"), "{spec}");
    }
    let expose = cluster.kubectl("explain codercontrolplane.spec.expose.ingress").await.expect_ok();
    assert!(expose.contains("-required-"), "{expose}");
}

#[tokio::test]
async fn get_wide_shows_the_columns_and_the_category_lists_all_kinds() {
    let (cluster, namespace) = namespace("columns").await;
    let samples = kustomize(&repository().join("kustomize/samples")).await.expect_ok();
    cluster.kubectl_with_input(&format!("apply -n {namespace} -f -"), &samples).await.expect_ok();
    let wide = cluster.kubectl(&format!("get ccp,cprov,cwsp -n {namespace} -o wide")).await.expect_ok();
    let headers: Vec<&str> = wide.lines().filter(|line| line.starts_with("NAME")).collect();
    assert_eq!(headers.len(), 3, "{wide}");
    for header in headers {
        for column in ["READY", "REASON", "SUSPENDED", "REPLICAS", "MESSAGE", "PHASE", "AGE"] {
            assert!(header.contains(column), "{column} is missing in {header}");
        }
    }
    let header = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let narrow = header(&cluster.kubectl(&format!("get cprov -n {namespace}")).await.expect_ok());
    let wide = header(&cluster.kubectl(&format!("get cprov -n {namespace} -o wide")).await.expect_ok());
    for column in ["CONTROL PLANE", "KEY", "DAEMONS"] {
        assert!(narrow.contains(column) && wide.contains(column), "{column} is missing in {narrow}");
    }
    for column in ["ORGANIZATION", "IMAGE", "PENDING JOBS", "KEY AGE"] {
        assert!(!narrow.contains(column) && wide.contains(column), "{column} is not only in {wide}");
    }
    cluster
        .kubectl(&format!("patch ccp coder -n {namespace} --type=merge -p {{\"spec\":{{\"suspend\":true}}}}"))
        .await
        .expect_ok();
    let narrow = cluster.kubectl(&format!("get ccp -n {namespace}")).await.expect_ok();
    let (header, row) = narrow.split_once('\n').unwrap();
    assert!(header.contains("SUSPENDED") && row.contains("true"), "{narrow}");
    let category = cluster.kubectl(&format!("get coder -n {namespace} -o name")).await.expect_ok();
    for (kind, _, _) in KINDS {
        assert!(category.contains(&format!("{}.coder.com/", kind.to_lowercase())), "{category}");
    }
}

#[tokio::test]
async fn scale_changes_replicas_of_every_kind() {
    let (cluster, namespace) = namespace("scale").await;
    for (kind, plural, short) in KINDS {
        let spec = match kind {
            "CoderProvisioner" => r#"{"controlPlaneRef":{"name":"coder"}}"#,
            "CoderWorkspaceProxy" => {
                r#"{"primaryAccessURL":"https://coder.example.com","proxySessionTokenSecretRef":{"name":"token"}}"#
            }
            _ => "{}",
        };
        let object = format!(
            r#"{{"apiVersion":"coder.com/v1alpha1","kind":"{kind}","metadata":{{"name":"x"}},"spec":{spec}}}"#
        );
        cluster.kubectl_with_input(&format!("apply -n {namespace} -f -"), &object).await.expect_ok();
        cluster.kubectl(&format!("scale {short}/x -n {namespace} --replicas=2")).await.expect_ok();
        let stored =
            cluster.kubectl(&format!("get {plural}/x -n {namespace} -o jsonpath={{.spec.replicas}}")).await;
        assert_eq!(stored.expect_ok(), "2");
    }
}

#[tokio::test]
async fn an_object_nobody_reconciled_yet_is_not_taken_for_a_ready_one() {
    let (cluster, namespace) = namespace("unseen").await;
    let object =
        r#"{"apiVersion":"coder.com/v1alpha1","kind":"CoderControlPlane","metadata":{"name":"bare"}}"#;
    cluster.kubectl_with_input(&format!("apply -n {namespace} -f -"), object).await.expect_ok();
    let stored = cluster.kubectl(&format!("get ccp/bare -n {namespace} -o json")).await.expect_ok();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored["status"], serde_json::json!({ "observedGeneration": -1 }));
    assert_eq!(stored["spec"], serde_json::json!({}), "the one default of a spec is to exist");
}

#[tokio::test]
async fn conditions_are_a_map_by_type_so_that_two_writers_do_not_erase_each_other() {
    let (cluster, namespace) = namespace("conditions").await;
    let object = r#"{"apiVersion":"coder.com/v1alpha1","kind":"CoderControlPlane","metadata":{"name":"x"}}"#;
    cluster.kubectl_with_input(&format!("apply -n {namespace} -f -"), object).await.expect_ok();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane"));
    let api = Api::<DynamicObject>::namespaced_with(cluster.client().await, &namespace, &kind);
    for condition in ["Ready", "LicenseApplied"] {
        let status = serde_json::json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": { "name": "x" },
            "status": { "conditions": [{ "type": condition, "status": "True", "reason": "Test", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
        });
        api.patch_status("x", &PatchParams::apply(condition), &Patch::Apply(&status)).await.unwrap();
    }
    let stored = api.get("x").await.unwrap();
    assert_eq!(stored.data["status"]["conditions"].as_array().unwrap().len(), 2);
}
