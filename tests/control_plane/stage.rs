//! One cluster with simulated nodes, one operator and one stand-in for coderd, shared by every test of the suite.
//! Each test works in a namespace of its own.

use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::Coderd;
use support::sentences;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, OperatorOptions, until};
use tokio::sync::{Mutex, OnceCell};

pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
pub const LIMIT: Duration = Duration::from_secs(60);

/// Everything a test stands on.
pub struct Stage {
    pub cluster: &'static Cluster,
    /// Namespace of what was there before us; see `take_over`.
    pub former: String,
    pub installation: Installation<'static>,
    pub coderd: Coderd,
    options: OperatorOptions,
    operator: Mutex<Operator>,
}

/// An Event about a control plane: type, reason, action, and how often it was seen.
pub type Told = (String, String, String, u64);

impl Stage {
    /// The stage, set up by whoever comes first.
    pub async fn shared() -> &'static Self {
        static STAGE: OnceCell<Stage> = OnceCell::const_new();
        STAGE.get_or_init(Self::set).await
    }

    /// A stage nobody else stands on, for a test that stops its operator.
    pub async fn own() -> Self {
        Self::set().await
    }

    async fn set() -> Self {
        let options = ClusterOptions { nodes: 2, audit: true };
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(options).await));
        cluster.kubectl_with_input("apply --server-side -f -", &support::optional_kinds()).await.expect_ok();
        let former = crate::take_over::lay_out(cluster).await;
        let installation = Installation::new(cluster, "operator").await;
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        let mut options = installation.operator("controller").await;
        options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
        let mut operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
        Self { cluster, former, installation, coderd, options, operator: Mutex::new(operator) }
    }

    /// Applies a control plane.
    pub async fn apply(&self, namespace: &str, name: &str, spec: &Value) {
        let manifest = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": name, "namespace": namespace }, "spec": spec });
        self.apply_object(&manifest).await;
    }

    /// Applies any object as a user's tool would.
    pub async fn apply_object(&self, manifest: &Value) {
        let words = "apply --server-side --force-conflicts --field-manager=git -f -";
        self.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    /// An object as it is now.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let words =
            format!("get {kind} {name} -n {namespace} -o json --ignore-not-found --show-managed-fields");
        let text = self.cluster.kubectl(&words).await.expect_ok();
        let object: Option<Value> = (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap());
        if let Some(object) = object.as_ref().filter(|object| object["kind"] == "CoderControlPlane") {
            sentences::check_conditions(object);
        }
        object
    }

    /// Waits until a control plane is as asked, and returns it.
    pub async fn until(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_object("codercontrolplane", namespace, name, what, asked).await
    }

    /// Waits until an object is as asked, and returns it.
    pub async fn until_object(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        what: &str,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("{kind} {name}: {what}"), LIMIT, async || {
            let object = self.get(kind, namespace, name).await.unwrap_or_default();
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, kind: &str, namespace: &str, name: &str) {
        until(&format!("{kind} {name} to be gone"), LIMIT, async || {
            holds(self.get(kind, namespace, name).await.is_none(), "still there")
        })
        .await;
    }

    /// Stops the operator as a rollout of its own Deployment does, and starts it again with more flags.
    pub async fn restart(&self, flags: &[&str]) {
        let mut operator = self.operator.lock().await;
        operator.process().signal("TERM");
        operator.ended(LIMIT).await;
        let mut options = self.options.clone();
        options.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        *operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
    }

    /// Asks for a pass and waits until it is done.
    pub async fn pass(&self, namespace: &str, name: &str, word: &str) -> Value {
        let words = format!("annotate ccp/{name} -n {namespace} --overwrite coder.com/reconcile-at={word}");
        self.cluster.kubectl(&words).await.expect_ok();
        self.until(namespace, name, "the request to be handled", |plane| {
            plane["status"]["lastHandledReconcileAt"] == word
        })
        .await
    }

    /// The Events about a control plane, in order.
    pub async fn told(&self, namespace: &str, name: &str) -> Vec<Told> {
        let words = format!("get events.events.k8s.io -n {namespace} -o json");
        let list: Value = serde_json::from_str(&self.cluster.kubectl(&words).await.expect_ok()).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = |event: &&Value| {
            event["regarding"]["kind"] == "CoderControlPlane" && event["regarding"]["name"] == name
        };
        let told = list["items"].as_array().unwrap().iter().filter(about).map(|event| {
            sentences::check_event(event);
            let count = event["series"]["count"].as_u64().unwrap_or(1);
            (text(&event["type"]), text(&event["reason"]), text(&event["action"]), count)
        });
        let mut told: Vec<Told> = told.collect();
        told.sort();
        told
    }

    /// Waits until an Event was published.
    pub async fn until_told(&self, namespace: &str, name: &str, action: &str, reason: &str) -> Vec<Told> {
        until(&format!("the Event {action} {reason}"), LIMIT, async || {
            let told = self.told(namespace, name).await;
            let found = told.iter().any(|one| one.1 == reason && one.2 == action);
            holds(found, format!("{told:?}")).map(|()| told)
        })
        .await
    }

    /// Waits until a control plane of this generation is ready.
    pub async fn ready(&self, namespace: &str, name: &str) -> Value {
        self.until(namespace, name, "Ready", is_ready).await
    }
}

/// Whether Ready is true for the generation there is.
pub fn is_ready(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let ready = condition(object, "Ready");
    object["status"]["observedGeneration"] == *generation
        && ready["status"] == "True"
        && ready["observedGeneration"] == *generation
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}
