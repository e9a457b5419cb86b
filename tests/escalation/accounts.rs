//! Naming a control plane after an account is not enough to run as it: the attack through the whole system, by an author
//! whose object is stored, with a reconciler that works on it. No webhooks stand before it: whatever admission lets through
//! now or let through once, nothing must come of it.

use serde_json::{Value, json};
use std::time::Duration;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const LIMIT: Duration = Duration::from_secs(60);
const EVIL: &str = "evil.example.com/shell:v1";

struct Scene {
    cluster: Cluster,
    ns: String,
    operator_namespace: String,
    _operator: Operator,
}

impl Scene {
    async fn set() -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
        let installation = Installation::new(&cluster, "operator").await;
        let operator = installation.start(env!("CARGO_BIN_EXE_coder-k8s"), "controller").await;
        let operator_namespace = installation.namespace.clone();
        let ns = cluster.namespace("tenant").await;
        Self { cluster, ns, operator_namespace, _operator: operator }
    }

    async fn kubectl(&self, words: &str) -> String {
        self.cluster.kubectl(words).await.expect_ok()
    }

    async fn apply(&self, object: &Value) {
        let words = "apply --server-side --force-conflicts --field-manager=git -f -";
        self.cluster.kubectl_with_input(words, &object.to_string()).await.expect_ok();
    }

    async fn list(&self, kinds: &str) -> Vec<Value> {
        let list: Value =
            serde_json::from_str(&self.kubectl(&format!("get {kinds} -A -o json")).await).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The author's object: his image, and rights for the account in another namespace.
    fn plane(&self, name: &str, spec: &Value) -> Value {
        let mut whole = json!({ "image": EVIL });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": name, "namespace": self.ns }, "spec": whole })
    }

    async fn until_condition(&self, name: &str, about: &str, reason: &str) -> Value {
        until(&format!("{name}: {about} {reason}"), LIMIT, async || {
            let plane = self.kubectl(&format!("get ccp {name} -n {} -o json", self.ns)).await;
            let plane: Value = serde_json::from_str(&plane).unwrap();
            let conditions = plane["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is = conditions.iter().any(|one| one["type"] == about && one["reason"] == reason);
            holds(is, plane["status"].to_string()).map(|()| plane)
        })
        .await
    }

    /// Asks for a pass and waits until it is done, so that whatever comes of the object is there.
    async fn looked_at(&self, name: &str, word: &str) {
        let ns = &self.ns;
        self.kubectl(&format!("annotate ccp {name} -n {ns} --overwrite coder.com/reconcile-at={word}")).await;
        until("a pass", LIMIT, async || {
            let words = format!("get ccp {name} -n {ns} -o jsonpath={{.status.lastHandledReconcileAt}}");
            let echo = self.kubectl(&words).await;
            holds(echo == word, echo)
        })
        .await;
    }

    /// Everything that runs as an account, and everything that gives it a right.
    async fn used(&self, account: &str) -> Vec<String> {
        let mut used = Vec::new();
        for object in self.list("deployments,replicasets,pods").await {
            let spec = object.pointer("/spec/template/spec").unwrap_or(&object["spec"]);
            if spec["serviceAccountName"] == account && object["metadata"]["namespace"] == self.ns.as_str() {
                used.push(format!("{} runs as it", object["kind"].as_str().unwrap()));
            }
        }
        for binding in self.list("rolebindings").await {
            let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
            let ours = binding["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coder-k8s";
            if ours
                && subjects.iter().any(|one| one["name"] == account && one["namespace"] == self.ns.as_str())
            {
                used.push(format!(
                    "RoleBinding in {} names it",
                    binding["metadata"]["namespace"].as_str().unwrap()
                ));
            }
        }
        used
    }

    async fn account(&self, name: &str) -> Value {
        let words = format!("get serviceaccount {name} -n {} -o json --show-managed-fields", self.ns);
        serde_json::from_str(&self.kubectl(&words).await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_named_after_an_account_runs_nothing_as_it_and_binds_nothing_to_it() {
    let scene = Scene::set().await;
    let ns = &scene.ns;
    scene.kubectl(&format!("create serviceaccount robot -n {ns}")).await;
    let bind = "--clusterrole=admin";
    scene.kubectl(&format!("create rolebinding robot -n {ns} {bind} --serviceaccount={ns}:robot")).await;
    // Labels of ours on an account make it no child of ours.
    scene.kubectl(&format!("create serviceaccount masked -n {ns}")).await;
    let labels = "app.kubernetes.io/managed-by=coder-k8s app.kubernetes.io/name=coder-control-plane \
                  app.kubernetes.io/instance=masked";
    scene.kubectl(&format!("label serviceaccount masked -n {ns} {labels}")).await;
    for name in ["robot", "masked"] {
        let before = scene.account(name).await;
        scene.apply(&scene.plane(name, &json!({ "replicas": 1 }))).await;
        scene.looked_at(name, "once").await;
        scene.looked_at(name, "twice").await;
        assert_eq!(scene.used(name).await, Vec::<String>::new(), "{name}");
        assert_eq!(scene.account(name).await, before, "{name} is left alone");
        let plane = scene.until_condition(name, "Stalled", "AccountNotOurs").await;
        let ready = plane["status"]["conditions"].to_string();
        assert!(ready.contains("set spec.serviceAccount.name"), "the next step is told: {ready}");
    }
    // Named in the spec, its author was asked.
    scene.apply(&scene.plane("robot", &json!({ "serviceAccount": { "name": "robot" } }))).await;
    until("what was asked for", LIMIT, async || {
        let used = scene.used("robot").await;
        holds(used.iter().any(|what| what.starts_with("Deployment")), format!("{used:?}"))
    })
    .await;
    // What runs goes on being worked on, also when the spec says no more which account it is.
    scene.apply(&scene.plane("robot", &json!({ "extraArgs": ["--verbose"] }))).await;
    until("a change of what runs", LIMIT, async || {
        let deployment = scene.kubectl(&format!("get deployment robot -n {ns} -o json")).await;
        holds(deployment.contains("--verbose"), deployment)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_cannot_be_made_is_not_waited_for_by_pods_until_somebody_else_makes_it() {
    let scene = Scene::set().await;
    let ns = &scene.ns;
    let group = "admissionregistration.k8s.io/v1";
    let expression = format!(
        "!request.userInfo.username.startsWith('system:serviceaccount:{}:')",
        scene.operator_namespace
    );
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["serviceaccounts"] });
    scene
        .apply(&json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "accounts" },
            "spec": { "matchConstraints": { "resourceRules": [rule], "namespaceSelector": { "matchLabels": {
                    "kubernetes.io/metadata.name": ns } } },
                "validations": [{ "expression": expression, "message": "no accounts of yours" }] } }))
        .await;
    scene
        .apply(&json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": "accounts" },
            "spec": { "policyName": "accounts", "validationActions": ["Deny"] } }))
        .await;
    let as_operator = format!(
        "create serviceaccount probe -n {ns} --dry-run=server --as=system:serviceaccount:{}:x --as-group=system:masters",
        scene.operator_namespace
    );
    until("the policy to be in force", LIMIT, async || {
        let tried = scene.cluster.kubectl(&as_operator).await;
        holds(tried.stderr.contains("no accounts of yours"), tried.stderr)
    })
    .await;
    scene.apply(&scene.plane("late", &json!({}))).await;
    scene.looked_at("late", "lacking").await;
    assert_eq!(scene.used("late").await, Vec::<String>::new());
    // Somebody else makes it, for purposes of his own.
    scene.kubectl(&format!("create serviceaccount late -n {ns}")).await;
    scene.looked_at("late", "made").await;
    assert_eq!(scene.used("late").await, Vec::<String>::new());
    scene.until_condition("late", "Stalled", "AccountNotOurs").await;
}
