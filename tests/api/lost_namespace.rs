//! A watched namespace takes its permissions back, or goes: the operator works on in the others, says what it lacks, and takes
//! nothing that it cannot read for absent.

use crate::namespaced::{apply, get, start};
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::Coderd;
use support::objects::{condition, control_plane, is_ready, text};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const LIMIT: Duration = Duration::from_secs(90);

/// An operator that watches three namespaces, of which the last two take workspaces of the first.
struct Scene {
    cluster: Cluster,
    installation: Installation,
    watched: [String; 3],
    flags: Vec<String>,
    operator: Operator,
    _coderd: Coderd,
}

impl Scene {
    async fn start() -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
        let watched =
            [cluster.namespace("a").await, cluster.namespace("b").await, cluster.namespace("c").await];
        let names = watched.each_ref().map(String::as_str);
        let installation = Installation::namespaced(&cluster, "lost", &names).await;
        for taker in &watched[1..] {
            consent(&cluster, taker, &watched[0]).await;
        }
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        let resolve = format!("--resolve=*.svc.cluster.local={}", coderd.addr());
        let flags = vec![
            resolve,
            "--verify-interval=1s".to_owned(),
            "--orphan-check-interval=1s".to_owned(),
            "--orphan-grace=1s".to_owned(),
        ];
        let mut operator = start(&installation, &names, &flags).await;
        operator.ready(LIMIT).await;
        Self { cluster, installation, watched, flags, operator, _coderd: coderd }
    }

    async fn restart(&mut self) {
        self.operator.process().signal("TERM");
        self.operator.ended(LIMIT).await;
        let names = self.watched.each_ref().map(String::as_str);
        self.operator = start(&self.installation, &names, &self.flags).await;
    }

    /// Applies a control plane whose workspaces run in these namespaces as well.
    async fn apply(&self, namespace: &str, name: &str, workspaces: &[&str], verbose: bool) {
        let verbose = json!([{ "name": "CODER_VERBOSE", "value": verbose.to_string() }]);
        let spec = json!({ "rbac": { "workspaceNamespaces": workspaces }, "extraEnv": verbose });
        apply(&self.cluster, &control_plane(namespace, name, &spec)).await;
    }

    async fn delete(&self, namespace: &str, name: &str) {
        self.cluster.kubectl(&format!("delete ccp {name} -n {namespace} --wait=false")).await.expect_ok();
    }

    async fn until_ready(&self, namespace: &str, name: &str) {
        until(&format!("{namespace}/{name} to be ready"), LIMIT, async || {
            let object = get(&self.cluster, &format!("ccp {name} -n {namespace}")).await;
            holds(is_ready(&object), object["status"]["conditions"].to_string())
        })
        .await;
    }

    async fn until_gone(&self, namespace: &str, name: &str) {
        until(&format!("{namespace}/{name} to be gone"), LIMIT, async || {
            let words = format!("get ccp {name} -n {namespace} --ignore-not-found -o jsonpath={{.status}}");
            let left = self.cluster.kubectl(&words).await.expect_ok();
            holds(left.is_empty(), left)
        })
        .await;
    }

    async fn until_says(&self, name: &str, type_: &str, reason: &str, words: &[&str]) {
        let namespace = &self.watched[0];
        until(&format!("{name} to say {reason} with {words:?}"), LIMIT, async || {
            let object = get(&self.cluster, &format!("ccp {name} -n {namespace}")).await;
            let said = condition(&object, type_);
            let message = text(said, "/message");
            let says = said["reason"] == reason && words.iter().all(|word| message.contains(word));
            holds(says, object["status"]["conditions"].to_string())
        })
        .await;
    }

    async fn until_lacking(&self, words: &[&str]) {
        until(&format!("readiness to lack {words:?}"), LIMIT, async || {
            let (code, told) = self.operator.probe("/readyz?verbose").await?;
            holds(code == 503 && words.iter().all(|word| told.contains(word)), told)
        })
        .await;
    }

    /// The RoleBindings of coderd in a namespace, by the control plane that they are for.
    async fn bound(&self, namespace: &str) -> Vec<String> {
        let words = format!("rolebindings -n {namespace} -l coder.com/control-plane");
        let bindings = get(&self.cluster, &words).await;
        let of = |one: &Value| text(one, "/metadata/labels/coder.com~1control-plane").to_owned();
        bindings["items"].as_array().into_iter().flatten().map(of).collect()
    }

    async fn until_bound(&self, namespace: &str, expected: &[&str]) {
        until(&format!("{expected:?} to have permissions in {namespace}"), LIMIT, async || {
            let bound = self.bound(namespace).await;
            holds(bound == expected, format!("{bound:?}"))
        })
        .await;
    }
}

async fn consent(cluster: &Cluster, taker: &str, from: &str) {
    let words = format!("label namespace {taker} coder.com/workspaces-from={from} --overwrite");
    cluster.kubectl(&words).await.expect_ok();
}

#[tokio::test]
async fn a_namespace_that_takes_its_permissions_back_stops_no_other() {
    let mut scene = Scene::start().await;
    let [a, b, c] = scene.watched.clone();
    scene.apply(&b, "coder", &[], false).await;
    scene.apply(&a, "stays", &[], false).await;
    scene.apply(&a, "concerned", &[&b], false).await;
    for name in ["leaves", "leaves-later", "orphaned"] {
        scene.apply(&a, name, &[&c], false).await;
    }
    for name in ["stays", "concerned", "leaves", "leaves-later", "orphaned"] {
        scene.until_ready(&a, name).await;
    }
    scene.until_ready(&b, "coder").await;
    scene.until_bound(&c, &["leaves", "leaves-later", "orphaned"]).await;
    let binding = format!("delete rolebinding -n {b} {}-coder-k8s-watched", scene.installation.namespace);
    scene.cluster.kubectl(&binding).await.expect_ok();

    scene.delete(&a, "leaves").await;
    scene.until_gone(&a, "leaves").await;
    scene.apply(&a, "stays", &[], true).await;
    scene.until_ready(&a, "stays").await;
    scene.apply(&a, "concerned", &[&b], true).await;
    scene.until_says("concerned", "WorkspaceRBACReady", "NamespaceUnread", &[&b]).await;
    scene.until_ready(&a, "concerned").await;
    let (code, told) = scene.operator.probe("/readyz?verbose").await.unwrap();
    assert_eq!(code, 200, "it was complete once: {told}");
    until("readiness to remark what is lacking", LIMIT, async || {
        let (code, told) = scene.operator.probe("/readyz?verbose").await?;
        let remark = format!("list, watch codercontrolplanes.coder.com in namespace {b}");
        holds(code == 200 && told.contains("[+]permissions ok, but ") && told.contains(&remark), told)
    })
    .await;

    scene.restart().await;
    let lacking = format!("list, watch codercontrolplanes.coder.com in namespace {b}");
    scene.until_lacking(&["permissions waiting: permission to ", &lacking]).await;
    scene.apply(&a, "stays", &[], false).await;
    scene.apply(&a, "new", &[&c], false).await;
    scene.until_ready(&a, "stays").await;
    scene.until_ready(&a, "new").await;
    scene.delete(&a, "leaves-later").await;
    scene.until_gone(&a, "leaves-later").await;
    // Somebody takes the finalizer off: what is left is found all the same.
    let patch = r#"patch ccp orphaned --type=merge -p {"metadata":{"finalizers":null}}"#;
    scene.operator.process().signal("STOP");
    scene.delete(&a, "orphaned").await;
    scene.cluster.kubectl(&format!("{patch} -n {a}")).await.expect_ok();
    scene.operator.process().signal("CONT");
    scene.until_bound(&c, &["new"]).await;
    scene.delete(&a, "concerned").await;
    scene.until_says("concerned", "Ready", "CleanupFailed", &[&b, "--watch-namespace"]).await;
    assert_eq!(scene.bound(&b).await, ["coder", "concerned"], "what cannot be read is not absent");

    scene.installation.mend().await;
    scene.operator.ready(LIMIT).await;
    scene.until_gone(&a, "concerned").await;
    scene.until_bound(&b, &["coder"]).await;
    scene.apply(&b, "coder", &[], true).await;
    scene.apply(&b, "new", &[], false).await;
    scene.until_ready(&b, "coder").await;
    scene.until_ready(&b, "new").await;
}

#[tokio::test]
async fn a_namespace_that_goes_stops_no_other_and_works_when_it_comes_back() {
    let mut scene = Scene::start().await;
    let [a, b, c] = scene.watched.clone();
    scene.apply(&b, "coder", &[], false).await;
    scene.apply(&a, "stays", &[], false).await;
    scene.apply(&a, "leaves", &[&c], false).await;
    scene.apply(&a, "leaves-later", &[&c], false).await;
    for name in ["stays", "leaves", "leaves-later"] {
        scene.until_ready(&a, name).await;
    }
    scene.until_ready(&b, "coder").await;
    scene.cluster.kubectl(&format!("delete namespace {b} --timeout=90s")).await.expect_ok();
    scene.delete(&a, "leaves").await;
    scene.until_gone(&a, "leaves").await;
    scene.apply(&a, "stays", &[], true).await;
    scene.until_ready(&a, "stays").await;

    scene.restart().await;
    scene.until_lacking(&["permissions waiting: permission to ", &format!("in namespace {b}")]).await;
    scene.apply(&a, "new", &[], false).await;
    scene.until_ready(&a, "new").await;
    scene.delete(&a, "leaves-later").await;
    scene.until_gone(&a, "leaves-later").await;
    scene.until_bound(&c, &[]).await;

    scene.cluster.kubectl(&format!("create namespace {b}")).await.expect_ok();
    scene.installation.mend().await;
    scene.operator.ready(LIMIT).await;
    scene.apply(&b, "coder", &[], false).await;
    scene.until_ready(&b, "coder").await;
}
