//! Without a GitOps tool: the folders of the examples, applied with kubectl one after the other.

use crate::coder::Coder;
use crate::site::Site;
use support::gitops::rest::Moment;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "one of make test-gitops"]
async fn kubectl_runs_coder_from_the_examples() {
    let mut site = Site::new(Coder::fresh().await).await;
    site.has_cloud_native_pg().await;
    apply(&site, "operator").await;
    site.cluster.crds_established().await;
    site.cluster.forget_discovery();
    let rollout = "rollout status deployment/coder-k8s-operator -n coder-system --timeout=120s";
    site.cluster.kubectl(rollout).await.expect_ok();
    site.start_operator().await;
    apply(&site, "coder").await;
    site.ready().await;

    let moment = Moment::of(&site.cluster).await;
    apply(&site, "operator").await;
    apply(&site, "coder").await;
    let (writes, mut changes) = (moment.writes(), moment.changes().await);
    // These the API server writes anew although the apply says nothing new, whoever applies them.
    changes.retain(|one| !one.starts_with("namespaces ") && !one.starts_with("validatingadmissionpolicies "));
    assert!(writes.is_empty() && changes.is_empty(), "applied once more: {writes:?} {changes:?}");
    println!("kubectl: the examples are Ready, and applying them once more changes none of our objects");
}

async fn apply(site: &Site, example: &str) {
    let folder = site.git.tree().join("kustomize/examples").join(example);
    site.cluster.kubectl(&format!("apply --server-side -k {}", folder.display())).await.expect_ok();
}
