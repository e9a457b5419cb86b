//! An operator that verifies once an hour: what must not wait for the timer, and what is not asked in every reconcile.

use crate::one_double::{BINARY, OneDouble};
use serde_json::{Value, json};
use std::sync::Arc;
use support::cluster::pki::{Ca, Pair};
use support::coderd::Role;
use support::objects::{is_ready, text};
use support::test_env::TestEnv;
use tokio::sync::OnceCell;

static RARELY: OnceCell<Arc<OneDouble>> = OnceCell::const_new();

async fn rarely() -> Arc<OneDouble> {
    let start = async || {
        let builder = TestEnv::builder(BINARY).nodes(2).flag("--verify-interval=1h").coderd_with_tls();
        Arc::new(OneDouble { env: builder.start().await })
    };
    RARELY.get_or_init(start).await.clone()
}

/// Requests a reconcile and waits until it is done.
async fn reconcile(env: &OneDouble, ns: &str, request: &str) -> Value {
    let words =
        format!("annotate coderprovisioner/builders -n {ns} --overwrite coder.com/reconcile-at={request}");
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_provisioner(ns, "builders", &format!("the reconcile {request}"), |object| {
        object["status"]["lastHandledReconcileAt"] == request
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_counted_for_who_may_see_them_and_not_asked_for_by_anybody_else() {
    let env = rarely().await;
    let ns = env.control_plane("jobs").await;
    let organization = env.coderd().add_organization(&ns);
    env.apply_provisioner(&ns, "builders", &json!({ "organizationName": ns })).await;
    let daemons = env.daemons(&ns).await;
    env.until_provisioner(&ns, "builders", "ready", is_ready).await;
    for number in 0..3 {
        reconcile(&env, &ns, &format!("hidden-{number}")).await;
    }
    let path = format!("/api/v2/organizations/{organization}/provisionerjobs");
    let asked = || env.coderd().calls().iter().filter(|call| call.path.starts_with(&path)).count();
    assert_eq!(asked(), 1, "template-admin is not shown jobs, and is not asked for again");

    // Another token, by another Secret: it may see them.
    let token = env.coderd().token_for(&[Role::OrganizationAdmin(ns.clone())]);
    env.apply_secret(&ns, "mine", &json!({ "token": token })).await;
    let bootstrap = json!({ "credentialsSecretRef": { "name": "mine", "key": "token" } });
    let job = env.coderd().add_pending_job(&ns, &[]);
    env.apply_provisioner(&ns, "builders", &json!({ "organizationName": ns, "bootstrap": bootstrap })).await;
    env.until_provisioner(&ns, "builders", "one job", |object| object["status"]["pendingJobs"] == 1).await;
    env.coderd().remove_pending_job(job);
    let none = reconcile(&env, &ns, "none").await;
    assert_eq!(none["status"]["pendingJobs"], 0);
    let version = |object: &Value| text(object, "/metadata/resourceVersion").to_owned();
    let before = env.get("coderprovisioner", &ns, "builders").await.unwrap();
    let calls = asked();
    // A status that says the same is not written, so that it asks for no further reconcile.
    env.cluster
        .kubectl(&format!("annotate secret builders-provisioner-key -n {ns} touched=yes"))
        .await
        .expect_ok();
    env.until_provisioner(&ns, "builders", "looked at again", |_| asked() > calls).await;
    let after = env.get("coderprovisioner", &ns, "builders").await.unwrap();
    assert_eq!(version(&after), version(&before));
    drop(daemons);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_ca_of_the_control_plane_rolls_the_daemons_and_a_renewed_certificate_does_not() {
    let env = rarely().await;
    let ns = env.cluster.namespace("certificates").await;
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let host = format!("coder.{ns}.svc.cluster.local");
    let serve = async |ca: &Ca| {
        let pair: Pair = ca.server(&[host.as_str()]);
        env.coderd().present(&host, &pair);
        let data = json!({ "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca.certificate });
        env.apply_secret(&ns, "tls", &data).await;
    };
    serve(&first).await;
    let token = env.coderd().token_for(&[Role::TemplateAdmin]);
    env.apply_secret(&ns, "operator-token", &json!({ "token": token })).await;
    let spec = json!({ "tls": { "secretNames": ["tls"] },
        "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.ready(&ns, "coder").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let daemons = env.daemons(&ns).await;
    env.until_provisioner(&ns, "builders", "ready", is_ready).await;
    let template = async || {
        let deployment = env.get("deployment", &ns, "provisioner-builders").await.unwrap();
        deployment["spec"]["template"].clone()
    };
    let before = template().await;
    let checksum = text(&before, "/metadata/annotations/coder.com~1trust-checksum").to_owned();
    assert!(!checksum.is_empty(), "{before}");
    serve(&first).await;
    reconcile(&env, &ns, "renewed").await;
    assert_eq!(template().await, before, "the CA is the same");
    serve(&second).await;
    env.until_object("deployment", &ns, "provisioner-builders", "another checksum", |object| {
        let annotations = &object["spec"]["template"]["metadata"]["annotations"];
        annotations["coder.com/trust-checksum"].as_str().is_some_and(|now| !now.is_empty() && now != checksum)
    })
    .await;
    drop(daemons);
}
