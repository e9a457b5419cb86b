//! What most suites stand on: a cluster, an installation of the operator, a double of coderd and the running operator,
//! and the ways in which a user looks at them. It applies, reads and waits; it never decides what a test asserts.

mod builder;
mod read;

pub use builder::TestEnvBuilder;

use crate::cluster::Cluster;
use crate::coderd::Coderd;
use crate::daemons::Daemons;
use crate::fault_proxy::{FaultProxy, Journal};
use crate::installation::Installation;
use crate::objects::{self, condition, is_observed, is_ready};
use crate::operator::{Operator, OperatorOptions};
use crate::sentences;
use crate::wait::{holds, until};
use read::Reader;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a test waits for something to come true, unless it says otherwise.
pub const LIMIT: Duration = Duration::from_secs(60);

/// An Event: type, reason, action, and how often it was seen.
pub type Event = (String, String, String, u64);

/// A running operator and everything around it. It ends when this is dropped.
pub struct TestEnv {
    // Ends first: without its cluster it would only complain.
    operator: Mutex<Operator>,
    /// The cluster.
    pub cluster: Cluster,
    /// The operator's manifests in it.
    pub installation: Installation,
    coderd: Option<Arc<Coderd>>,
    faults: Option<Faults>,
    binary: &'static str,
    options: OperatorOptions,
    limit: Duration,
    reader: Reader,
}

/// What stands between the operator and the API server, and what is written through it.
struct Faults {
    proxy: FaultProxy,
    journal: Arc<Journal>,
}

impl TestEnv {
    /// An environment to describe, for this binary of the operator.
    pub fn builder(binary: &'static str) -> TestEnvBuilder {
        TestEnvBuilder::new(binary)
    }

    /// The double of coderd that every Service leads to.
    ///
    /// # Panics
    /// If the environment is without one.
    pub fn coderd(&self) -> &Coderd {
        self.coderd.as_ref().expect("an environment with a coderd")
    }

    /// Dials that double for the pods of the provisioners of a namespace, as daemons do.
    pub async fn daemons(&self, namespace: &str) -> Daemons {
        // It ends with this environment, not with whoever still dials.
        let coderd = self.coderd.as_ref().map(Arc::downgrade).unwrap_or_default();
        let client = self.cluster.client().await;
        Daemons::follow(client, namespace, Duration::ZERO, move |_| coderd.upgrade())
    }

    /// The proxy between the operator and the API server.
    ///
    /// # Panics
    /// If the environment is without one.
    pub fn proxy(&self) -> &FaultProxy {
        &self.faults.as_ref().expect("an environment with a fault proxy").proxy
    }

    /// What the operator writes through that proxy.
    ///
    /// # Panics
    /// If the environment is without one.
    pub fn journal(&self) -> &Journal {
        &self.faults.as_ref().expect("an environment with a fault proxy").journal
    }

    /// Applies any object as a user's GitOps tool would.
    pub async fn apply(&self, manifest: &Value) {
        let words = "apply --server-side --force-conflicts --field-manager=git -f -";
        self.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    /// Applies a control plane.
    pub async fn apply_control_plane(&self, namespace: &str, name: &str, spec: &Value) {
        self.apply(&objects::control_plane(namespace, name, spec)).await;
    }

    /// Applies a Secret.
    pub async fn apply_secret(&self, namespace: &str, name: &str, data: &Value) {
        self.apply(&objects::secret(namespace, name, data)).await;
    }

    /// An object as it is now. What one of our kinds says of itself has to be written for people.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let object = self.reader.get(&self.cluster.client().await, kind, namespace, name).await;
        let is_ours = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("Coder"));
        if let Some(object) = object.as_ref().filter(is_ours) {
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
        until(&format!("{kind} {namespace}/{name}: {what}"), self.limit, async || {
            let object = self.get(kind, namespace, name).await.unwrap_or_default();
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until an object is gone.
    pub async fn until_gone(&self, kind: &str, namespace: &str, name: &str) {
        until(&format!("{kind} {namespace}/{name} to be gone"), self.limit, async || {
            holds(self.get(kind, namespace, name).await.is_none(), "still there")
        })
        .await;
    }

    /// Waits until a control plane is ready in its present generation.
    pub async fn ready(&self, namespace: &str, name: &str) -> Value {
        self.until(namespace, name, "Ready", is_ready).await
    }

    /// Waits until a condition of a control plane has this reason, in its present generation.
    pub async fn until_reason(&self, namespace: &str, name: &str, about: &str, reason: &str) -> Value {
        self.until(namespace, name, &format!("{about} {reason}"), |object| {
            condition(object, about)["reason"] == reason && is_observed(object)
        })
        .await
    }

    /// Requests a reconcile of a control plane by an annotation, and waits until it is done.
    pub async fn reconcile(&self, namespace: &str, name: &str, request: &str) -> Value {
        let words = format!(
            "annotate codercontrolplane/{name} -n {namespace} --overwrite coder.com/reconcile-at={request}"
        );
        self.cluster.kubectl(&words).await.expect_ok();
        self.until(namespace, name, &format!("the reconcile {request:?} to be done"), |object| {
            object["status"]["lastHandledReconcileAt"] == request
        })
        .await
    }

    /// The Events of a namespace that are chosen, in order. Each has to be written for people.
    pub async fn events(&self, namespace: &str, chosen: impl Fn(&Value) -> bool) -> Vec<Event> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let list =
            read::ask(&self.cluster.client().await, &path).await.expect("a namespace has a list of Events");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = list["items"].as_array().expect("a list has items").iter();
        let events = events.filter(|event| chosen(event)).map(|event| {
            sentences::check_event(event);
            let count = event["series"]["count"].as_u64().unwrap_or(1);
            (text(&event["type"]), text(&event["reason"]), text(&event["action"]), count)
        });
        let mut events: Vec<Event> = events.collect();
        events.sort();
        events
    }

    /// The Events about a control plane, in order.
    pub async fn events_about(&self, namespace: &str, name: &str) -> Vec<Event> {
        self.events(namespace, |event| {
            let kind = event["regarding"]["kind"].as_str().unwrap_or_default();
            kind.starts_with("Coder") && event["regarding"]["name"] == name
        })
        .await
    }

    /// Waits until an Event about a control plane was published, and returns all about it.
    pub async fn until_event(&self, namespace: &str, name: &str, action: &str, reason: &str) -> Vec<Event> {
        until(&format!("the Event {action} {reason}"), self.limit, async || {
            let events = self.events_about(namespace, name).await;
            let found = events.iter().any(|event| event.1 == reason && event.2 == action);
            holds(found, format!("{events:?}")).map(|()| events)
        })
        .await
    }

    /// Everything that the operator which runs now has logged.
    pub async fn log(&self) -> String {
        self.operator.lock().await.log()
    }

    /// Its log lines with this message, as JSON.
    pub async fn logged(&self, message: &str) -> Vec<Value> {
        self.operator.lock().await.logged(message)
    }

    /// Stops the operator as a rollout of its own Deployment does, and starts it again with more flags.
    pub async fn restart(&self, flags: &[&str]) {
        let mut operator = self.operator.lock().await;
        operator.process().signal("TERM");
        operator.ended(self.limit).await;
        let mut options = self.options.clone();
        options.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        *operator = Operator::start(self.binary, &options).await;
        operator.ready(self.limit).await;
    }
}
