//! Naming a control plane after an account is not enough to run as it: the attack through the whole system, by an author
//! whose object is stored, with a reconciler that works on it. No webhooks stand before it: whatever admission lets through
//! now or let through once, nothing must come of it.

use serde_json::{Value, json};
use std::ops::Deref;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, objects, until};

const EVIL: &str = "evil.example.com/shell:v1";

/// A [`TestEnv`] and a namespace in it whose objects somebody with few rights writes.
struct TenantEnv {
    env: TestEnv,
    ns: String,
}

impl Deref for TenantEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl TenantEnv {
    async fn start() -> Self {
        let env = TestEnv::builder(env!("CARGO_BIN_EXE_coder-k8s")).nodes(1).without_coderd().start().await;
        let ns = env.cluster.namespace("tenant").await;
        Self { env, ns }
    }

    async fn kubectl(&self, words: &str) -> String {
        self.cluster.kubectl(words).await.expect_ok()
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
        objects::control_plane(&self.ns, name, &whole)
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
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_named_after_an_account_runs_nothing_as_it_and_binds_nothing_to_it() {
    let env = TenantEnv::start().await;
    let ns = &env.ns;
    env.kubectl(&format!("create serviceaccount robot -n {ns}")).await;
    let bind = "--clusterrole=admin";
    env.kubectl(&format!("create rolebinding robot -n {ns} {bind} --serviceaccount={ns}:robot")).await;
    // Labels of ours on an account make it no child of ours.
    env.kubectl(&format!("create serviceaccount masked -n {ns}")).await;
    let labels = "app.kubernetes.io/managed-by=coder-k8s app.kubernetes.io/name=coder-control-plane \
                  app.kubernetes.io/instance=masked";
    env.kubectl(&format!("label serviceaccount masked -n {ns} {labels}")).await;
    for name in ["robot", "masked"] {
        let before = env.get("serviceaccount", ns, name).await;
        env.apply(&env.plane(name, &json!({ "replicas": 1 }))).await;
        env.reconcile(ns, name, "once").await;
        env.reconcile(ns, name, "twice").await;
        assert_eq!(env.used(name).await, Vec::<String>::new(), "{name}");
        assert_eq!(env.get("serviceaccount", ns, name).await, before, "{name} is left alone");
        let plane = env.until_reason(ns, name, "Stalled", "AccountNotOurs").await;
        let ready = plane["status"]["conditions"].to_string();
        assert!(ready.contains("set spec.serviceAccount.name"), "the next step is told: {ready}");
    }
    // Named in the spec, its author was asked.
    env.apply(&env.plane("robot", &json!({ "serviceAccount": { "name": "robot" } }))).await;
    until("what was asked for", LIMIT, async || {
        let used = env.used("robot").await;
        holds(used.iter().any(|what| what.starts_with("Deployment")), format!("{used:?}"))
    })
    .await;
    // What runs goes on being worked on, also when the spec says no more which account it is.
    env.apply(&env.plane("robot", &json!({ "extraArgs": ["--verbose"] }))).await;
    until("a change of what runs", LIMIT, async || {
        let deployment = env.kubectl(&format!("get deployment robot -n {ns} -o json")).await;
        holds(deployment.contains("--verbose"), deployment)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_cannot_be_made_is_not_waited_for_by_pods_until_somebody_else_makes_it() {
    let env = TenantEnv::start().await;
    let ns = &env.ns;
    let group = "admissionregistration.k8s.io/v1";
    let expression = format!(
        "!request.userInfo.username.startsWith('system:serviceaccount:{}:')",
        env.installation.namespace
    );
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["serviceaccounts"] });
    env.apply(
        &json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": { "name": "accounts" },
            "spec": { "matchConstraints": { "resourceRules": [rule], "namespaceSelector": { "matchLabels": {
                    "kubernetes.io/metadata.name": ns } } },
                "validations": [{ "expression": expression, "message": "no accounts of yours" }] } }),
    )
    .await;
    env.apply(&json!({ "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": "accounts" },
            "spec": { "policyName": "accounts", "validationActions": ["Deny"] } }))
        .await;
    let as_operator = format!(
        "create serviceaccount probe -n {ns} --dry-run=server --as=system:serviceaccount:{}:x --as-group=system:masters",
        env.installation.namespace
    );
    until("the policy to be in force", LIMIT, async || {
        let tried = env.cluster.kubectl(&as_operator).await;
        holds(tried.stderr.contains("no accounts of yours"), tried.stderr)
    })
    .await;
    env.apply(&env.plane("late", &json!({}))).await;
    env.reconcile(ns, "late", "lacking").await;
    assert_eq!(env.used("late").await, Vec::<String>::new());
    // Somebody else makes it, for purposes of his own.
    env.kubectl(&format!("create serviceaccount late -n {ns}")).await;
    env.reconcile(ns, "late", "made").await;
    assert_eq!(env.used("late").await, Vec::<String>::new());
    env.until_reason(ns, "late", "Stalled", "AccountNotOurs").await;
}
