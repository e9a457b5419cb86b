//! The place of one test: a namespace with a control plane that has a coderd and a token of its own, and what a user does and
//! sees there. It waits and reads; what must hold is asserted by the tests.

use crate::env::{Double, ProvisionerEnv};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::coderd::{Coderd, Role};
use support::daemons::Daemons;
use support::objects::{self, condition, is_observed, is_ready};
use support::sentences;
use support::wait::{holds, until};

/// How long a test waits: many of them wait at the same time.
const LIMIT: Duration = Duration::from_secs(120);
/// How long it waits before it asks again, so that the questions of all of them do not hold up the answer.
const PACE: Duration = Duration::from_millis(100);
/// The provisioner that most tests are about.
pub const NAME: &str = "builders";
/// The Secret of its key.
pub const SECRET: &str = "builders-provisioner-key";
/// Its Deployment.
pub const WORKLOAD: &str = "provisioner-builders";
/// The route by which keys are made.
pub const MAKE: &str = "POST /organizations/{org}/provisionerkeys";
/// The route by which they are deleted.
pub const DELETE: &str = "DELETE /organizations/{org}/provisionerkeys/{key}";

/// Waits until the answer is yes.
pub async fn wait<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    until(what, LIMIT, async || {
        let answer = ask().await;
        if answer.is_err() {
            tokio::time::sleep(PACE).await;
        }
        answer
    })
    .await
}

/// A kind as it is asked for, by its name in lower case.
pub fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version, name, plural) = match kind {
        "coderprovisioner" => ("coder.com", "v1alpha1", "CoderProvisioner", "coderprovisioners"),
        "codercontrolplane" => ("coder.com", "v1alpha1", "CoderControlPlane", "codercontrolplanes"),
        "deployment" => ("apps", "v1", "Deployment", "deployments"),
        "replicaset" => ("apps", "v1", "ReplicaSet", "replicasets"),
        "secret" => ("", "v1", "Secret", "secrets"),
        "service" => ("", "v1", "Service", "services"),
        "serviceaccount" => ("", "v1", "ServiceAccount", "serviceaccounts"),
        "pod" => ("", "v1", "Pod", "pods"),
        "role" => ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
        "rolebinding" => ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
        other => panic!("no test asks for {other}"),
    };
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural);
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// A namespace with a control plane `coder`.
pub struct Site {
    pub env: &'static ProvisionerEnv,
    pub ns: String,
    pub double: Double,
    /// The operator's token of that control plane.
    pub token: String,
    pub client: Client,
    /// The daemons of its pods.
    pub daemons: Daemons,
}

impl Site {
    /// A namespace with nothing in it.
    pub async fn empty(purpose: &str) -> Self {
        Self::with_daemons(purpose, Duration::ZERO).await
    }

    /// The same, in which daemons that have ended are listed that much longer.
    pub async fn with_daemons(purpose: &str, listed_for: Duration) -> Self {
        let env = ProvisionerEnv::shared().await;
        let (ns, double) = (env.cluster.namespace(purpose).await, env.double());
        let token = double.coderd.token_for(&[Role::TemplateAdmin]);
        let client = env.cluster.client().await;
        let daemons = env.daemons(client.clone(), &ns, listed_for);
        Self { env, ns, double, token, client, daemons }
    }

    /// One with a control plane.
    pub async fn new(purpose: &str) -> Self {
        Self::empty(purpose).await.with_control_plane().await
    }

    pub async fn with_control_plane(self) -> Self {
        self.give_token(&self.token).await;
        self.apply_control_plane("coder", &self.double, &json!({})).await;
        self
    }

    /// One with a provisioner whose key is there. Without daemons nobody waits for them.
    pub async fn with_key(purpose: &str) -> Self {
        let site = Self::new(purpose).await;
        site.apply(&json!({ "replicas": 0 })).await;
        site.ready().await;
        site
    }

    pub fn coderd(&self) -> &Arc<Coderd> {
        &self.double.coderd
    }

    /// The Secret with the operator's token.
    pub async fn give_token(&self, token: &str) {
        self.put(&objects::secret(&self.ns, "operator-token", &json!({ "token": token }))).await;
    }

    /// A control plane whose Service leads to this double.
    pub async fn apply_control_plane(&self, name: &str, double: &Double, more: &Value) {
        let mut spec = json!({ "service": { "port": double.port },
            "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.put(&objects::control_plane(&self.ns, name, &spec)).await;
    }

    /// Applies the provisioner with these fields.
    pub async fn apply(&self, more: &Value) {
        self.apply_named(NAME, more).await;
    }

    pub async fn apply_named(&self, name: &str, more: &Value) {
        let mut object = objects::provisioner(&self.ns, name, "coder");
        for (field, value) in more.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.put(&object).await;
    }

    /// Applies an object as a GitOps tool does.
    pub async fn put(&self, manifest: &Value) {
        let kind = manifest["kind"].as_str().unwrap().to_lowercase();
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let applied = api(&self.client, &kind, &self.ns)
            .patch(name, &PatchParams::apply("git").force(), &Patch::Apply(manifest))
            .await;
        applied.unwrap_or_else(|error| panic!("{kind} {name} cannot be applied: {error}"));
    }

    /// Changes something by a merge patch.
    pub async fn patch(&self, kind: &str, name: &str, change: &Value) {
        let patch = Patch::Merge(change);
        let patched = api(&self.client, kind, &self.ns).patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{kind} {name} cannot be patched: {error}"));
    }

    pub async fn annotate(&self, key: &str, value: &str) {
        let change = json!({ "metadata": { "annotations": { key: value } } });
        self.patch("coderprovisioner", NAME, &change).await;
    }

    /// Writes a status as whoever may write it.
    pub async fn patch_status(&self, change: &Value) {
        let (patch, parameters) = (Patch::Merge(json!({ "status": change })), PatchParams::default());
        let provisioners = api(&self.client, "coderprovisioner", &self.ns);
        provisioners.patch_status(NAME, &parameters, &patch).await.expect("the status can be written");
    }

    pub async fn remove(&self, kind: &str, name: &str) {
        let removed = api(&self.client, kind, &self.ns).delete(name, &DeleteParams::default()).await;
        removed.map(drop).unwrap_or_else(|error| panic!("{kind} {name} cannot be deleted: {error}"));
    }

    pub async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let object =
            api(&self.client, kind, &self.ns).get_opt(name).await.expect("the API server answers")?;
        let object = serde_json::to_value(object).expect("an object is JSON");
        if kind.starts_with("coder") {
            sentences::check_conditions(&object);
        }
        Some(object)
    }

    /// Waits until an object is as asked.
    pub async fn until_object(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        wait(&format!("{kind} {}/{name}: {what}", self.ns), async || {
            let object = self.get(kind, name).await.unwrap_or_default();
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until the provisioner is as asked.
    pub async fn until(&self, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        self.until_object("coderprovisioner", NAME, what, asked).await
    }

    pub async fn ready(&self) -> Value {
        self.until("Ready", is_ready).await
    }

    /// Waits until a condition of the provisioner has this reason, in its present generation.
    pub async fn until_reason(&self, about: &str, reason: &str) -> Value {
        self.until(&format!("{about} {reason}"), |object| {
            condition(object, about)["reason"] == reason && is_observed(object)
        })
        .await
    }

    /// Waits until the provisioner is Ready with the key of this number alone.
    pub async fn until_generation(&self, generation: u64) -> Value {
        self.until(&format!("ready with key {generation} alone"), |object| {
            let key = &object["status"]["key"];
            is_ready(object)
                && key["current"]["generation"] == generation
                && key["retiring"].as_array().is_none_or(Vec::is_empty)
        })
        .await
    }

    /// Requests a reconcile of the provisioner and waits until it is done.
    pub async fn reconcile(&self, request: &str) -> Value {
        self.annotate("coder.com/reconcile-at", request).await;
        self.until(&format!("the reconcile {request:?} to be done"), |object| {
            object["status"]["lastHandledReconcileAt"] == request
        })
        .await
    }

    pub async fn until_gone(&self, kind: &str, name: &str) {
        wait(&format!("{kind} {}/{name} to be gone", self.ns), async || {
            let there = self.get(kind, name).await;
            holds(there.is_none(), there.unwrap_or_default()["status"].to_string())
        })
        .await;
    }

    /// The plaintext in a Secret.
    pub async fn plaintext(&self, secret: &str, key: &str) -> Option<String> {
        let secret = self.get("secret", secret).await?;
        String::from_utf8(STANDARD.decode(secret["data"][key].as_str()?).ok()?).ok()
    }

    /// The names of the keys in an organization, oldest first.
    pub fn keys(&self) -> Vec<String> {
        self.coderd().provisioner_keys("default").into_iter().map(|key| key.name).collect()
    }

    /// Waits until coderd has exactly these keys.
    pub async fn until_keys(&self, names: &[&str]) {
        wait(&format!("the keys {names:?}"), async || {
            let keys = self.keys();
            holds(keys == names, format!("{keys:?}"))
        })
        .await;
    }

    /// Keys that were made and deleted so far, whoever asked.
    pub fn made_and_deleted(&self) -> (usize, usize) {
        (self.coderd().count(MAKE), self.coderd().count(DELETE))
    }

    /// The revision of the Deployment: how often its pods were replaced, and one.
    pub async fn revision(&self) -> u32 {
        let deployment = self.get("deployment", WORKLOAD).await.unwrap();
        revision(&deployment)
    }

    /// Waits until an Event about the provisioner says this, and returns what it says.
    pub async fn until_event(&self, reason: &str) -> String {
        wait(&format!("the Event {reason} in {}", self.ns), async || {
            self.event(reason).await.ok_or_else(|| "there is none".to_owned())
        })
        .await
    }

    /// What an Event about the provisioner says, if there is one.
    pub async fn event(&self, reason: &str) -> Option<String> {
        let request = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.ns);
        let request = http::Request::get(request).body(Vec::new()).unwrap();
        let list: Value = self.client.request(request).await.expect("a namespace has Events");
        let events = list["items"].as_array().cloned().unwrap_or_default();
        let is_it = |event: &&Value| event["reason"] == reason && event["regarding"]["name"] == NAME;
        let event = events.iter().find(is_it)?;
        sentences::check_event(event);
        Some(event["note"].as_str().unwrap_or_default().to_owned())
    }
}

/// How often the pods of a Deployment were replaced, and one.
pub fn revision(deployment: &Value) -> u32 {
    let revision = &deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
    revision.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The pod template's checksum of the key.
pub fn checksum(deployment: &Value) -> Option<&str> {
    deployment["spec"]["template"]["metadata"]["annotations"]["checksum/provisioner-key"].as_str()
}
