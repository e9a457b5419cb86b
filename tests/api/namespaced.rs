//! An operator with Roles in two namespaces and nothing outside: it works there, says what it lacks, and asks for nothing else.

use crate::rights::{granted, is_used_elsewhere, run_a_control_plane, used};
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::Coderd;
use support::objects::{condition, control_plane, is_ready};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);

/// An operator of this installation that watches these namespaces.
pub(crate) async fn start(installation: &Installation, watched: &[&str], flags: &[String]) -> Operator {
    let mut options = installation.operator("controller").await;
    options.flags = watched.iter().map(|namespace| format!("--watch-namespace={namespace}")).collect();
    options.flags.extend_from_slice(flags);
    Operator::start(BINARY, &options).await
}

pub(crate) async fn apply(cluster: &Cluster, object: &Value) {
    cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
}

pub(crate) async fn get(cluster: &Cluster, words: &str) -> Value {
    serde_json::from_str(&cluster.kubectl(&format!("get {words} -o json")).await.expect_ok()).unwrap()
}

/// Every request that left the namespaces of an operator: neither there nor about them, and no question about itself.
fn outside(cluster: &Cluster, installation: &Installation, watched: &[&str]) -> Vec<String> {
    let home = installation.namespace.as_str();
    let is_inside = |request: &support::audit::Request| {
        let place = if request.resource == "namespaces" { &request.name } else { &request.namespace };
        place == home || watched.contains(&place.as_str()) || request.resource == "selfsubjectrulesreviews"
    };
    // Discovery belongs to nobody.
    let requests = cluster.requests_of(&installation.user()).into_iter();
    let requests = requests.filter(|request| !request.resource.is_empty());
    requests.filter(|request| !is_inside(request)).map(|request| request.uri).collect()
}

#[tokio::test]
async fn control_planes_of_watched_namespaces_become_ready_and_nothing_else_is_touched() {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, audit: true, ..Default::default() }).await;
    let [a, b, c] =
        [cluster.namespace("a").await, cluster.namespace("b").await, cluster.namespace("c").await];
    let installation = Installation::namespaced(&cluster, "namespaced", &[&a, &b]).await;
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let resolve = format!("--resolve=*.svc.cluster.local={}", coderd.addr());
    for namespace in [&a, &b, &c] {
        apply(&cluster, &control_plane(namespace, "coder", &json!({}))).await;
    }
    let elsewhere = json!({ "rbac": { "workspaceNamespaces": [c] } });
    apply(&cluster, &control_plane(&a, "beyond", &elsewhere)).await;
    let mut operator = start(&installation, &[&a, &b], &[resolve, "--verify-interval=1s".to_owned()]).await;
    operator.ready(LIMIT).await;
    for namespace in [&a, &b] {
        until(&format!("the control plane of {namespace}"), LIMIT, async || {
            let object = get(&cluster, &format!("ccp coder -n {namespace}")).await;
            holds(is_ready(&object), object["status"]["conditions"].to_string())
        })
        .await;
    }
    until("what is said of a namespace that is not watched", LIMIT, async || {
        let object = get(&cluster, &format!("ccp beyond -n {a}")).await;
        let said = condition(&object, "WorkspaceRBACReady");
        let told = said["message"].as_str().unwrap_or_default();
        holds(said["reason"] == "NamespaceUnread" && told.contains("--watch-namespace"), said.to_string())
    })
    .await;
    let ignored = get(&cluster, &format!("ccp coder -n {c}")).await;
    assert_eq!(ignored["status"]["conditions"], Value::Null, "nobody looks there");
    assert_eq!(get(&cluster, &format!("deployments -n {c}")).await["items"], json!([]));
    assert_eq!(outside(&cluster, &installation, &[&a, &b]), [""; 0]);
    let (_, refused) = used(&cluster, &installation.user());
    assert_eq!(refused, [""; 0], "it tried what it may not do");
}

#[tokio::test]
async fn a_missing_permission_is_named_by_readiness_until_it_is_there() {
    let cluster = Cluster::shared().await;
    let [a, b] = [cluster.namespace("a").await, cluster.namespace("b").await];
    let installation = Installation::namespaced(cluster, "lacking", &[&a, &b]).await;
    let binding = format!("rolebinding -n {b} {}-coder-k8s-watched", installation.namespace);
    cluster.kubectl(&format!("delete {binding}")).await.expect_ok();
    let mut operator = start(&installation, &[&a, &b], &[]).await;
    let says = async |words: &[&str]| {
        until(&format!("readiness to say {words:?}"), LIMIT, async || {
            let (code, text) = operator.probe("/readyz?verbose").await?;
            holds(code == 503 && words.iter().all(|word| text.contains(word)), text)
        })
        .await;
    };
    says(&["permissions waiting: permission to list, watch codercontrolplanes.coder.com in namespace ", &b])
        .await;
    says(&[
        "CoderControlPlane waiting: its first list: ",
        "cannot watch resource",
        &format!("namespace \"{b}\""),
    ])
    .await;
    installation.mend().await;
    operator.ready(LIMIT).await;
}

#[tokio::test]
async fn the_roles_of_watched_namespaces_allow_what_is_done_there_and_no_more() {
    let options = ClusterOptions { audit: true, optional_kinds: true, ..Default::default() };
    let cluster = Cluster::start(options).await;
    let [home, team] = [cluster.namespace("plane").await, cluster.namespace("team").await];
    let installation = Installation::namespaced(&cluster, "rights", &[&home, &team]).await;
    let flags =
        ["--leaf-lifetime=2s", "--ca-propagation=1s", "--ca-retirement-margin=1s", "--verify-interval=1s"];
    let mut operator = start(&installation, &[&home, &team], &flags.map(str::to_owned)).await;
    operator.ready(LIMIT).await;
    let rotate =
        format!("annotate secret coder-k8s-ca -n {} coder.com/rotate-ca=now", installation.namespace);
    cluster.kubectl(&rotate).await.expect_ok();
    let handed_on = run_a_control_plane(&cluster, &home, &team).await;
    let is_idle = |right: &&String| !is_used_elsewhere(right) && !right.ends_with("events.k8s.io/events");
    for (account, user, handed_on) in [
        (&installation.service_account, installation.user(), Default::default()),
        (&installation.grants_account, installation.grants_user(), handed_on),
    ] {
        let granted = granted(&cluster, &installation, account).await;
        until("every granted right to be used", LIMIT, async || {
            let used = &used(&cluster, &user).0 | &handed_on;
            let idle: Vec<_> = granted.difference(&used).filter(is_idle).collect();
            holds(idle.is_empty(), format!("granted to {account} but never used: {idle:?}"))
        })
        .await;
        let (used, refused) = used(&cluster, &user);
        assert_eq!(refused, [""; 0], "{account} tried what it may not do");
        assert_eq!(used.difference(&granted).collect::<Vec<_>>(), Vec::<&String>::new(), "{account}");
    }
    assert_eq!(outside(&cluster, &installation, &[&home, &team]), [""; 0]);
}

#[tokio::test]
async fn an_admin_of_the_namespaces_applies_the_overlay_only_if_he_may_escalate_and_bind_there() {
    // The controller manager puts together what `admin` may do.
    let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kustomize/overlays/namespaced");
    let places = ["coder-system", "coder"];
    let run = async |words: String| cluster.kubectl(&words).await.expect_ok();
    for place in places {
        run(format!("create namespace {place}")).await;
        run(format!("create rolebinding owner --clusterrole=admin --user=owner -n {place}")).await;
    }
    let apply = format!("apply --server-side --as=owner -k {folder}");
    until("admin alone to be refused", LIMIT, async || {
        let answer = cluster.kubectl(&apply).await;
        let is_escalation = answer.stderr.contains("attempting to grant RBAC permissions not currently held");
        holds(!answer.ok && is_escalation, answer.stderr)
    })
    .await;
    let rights = "--verb=escalate,bind --resource=roles.rbac.authorization.k8s.io";
    for place in places {
        run(format!("create role escalate {rights} -n {place}")).await;
        run(format!("create rolebinding escalate --role=escalate --user=owner -n {place}")).await;
    }
    until("whoever may escalate to apply it", LIMIT, async || {
        let answer = cluster.kubectl(&apply).await;
        holds(answer.ok, answer.stderr)
    })
    .await;
}
