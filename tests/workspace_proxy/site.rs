//! What the tests of this suite share: a cluster with nodes, our operator, doubles of coderd; and the place of one test, a namespace
//! with a control plane that has a coderd and a token of its own. It waits and reads; what must hold is asserted by the tests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::coderd::{Coderd, RegisteredProxy, Role};
use support::objects::{self, condition, is_observed, is_ready};
use support::wait::{holds, until};
use support::{Cluster, ClusterOptions, TestEnv, sentences};
use tokio::sync::OnceCell;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const DOUBLES: usize = 80;
const FIRST_PORT: u16 = 8100;
/// The first doubles have an address in another namespace that the operator may dial.
const OUTSIDE: usize = 4;
/// How long a test waits: many of them wait at the same time.
const LIMIT: Duration = Duration::from_secs(120);
const PACE: Duration = Duration::from_millis(100);
/// The proxy that most tests are about.
pub const NAME: &str = "eu";
/// The Secret of its token.
pub const SECRET: &str = "eu-proxy-token";
/// Its Deployment and Service.
pub const WORKLOAD: &str = "wsproxy-eu";

/// A double of coderd, which every Service with this port leads to.
#[derive(Clone)]
pub struct Double {
    pub port: u16,
    pub coderd: Arc<Coderd>,
}

impl Double {
    /// Its address in another namespace.
    fn elsewhere(&self) -> String {
        format!("http://coder.elsewhere.svc.cluster.local:{}", self.port)
    }
}

struct Env {
    env: TestEnv,
    doubles: Vec<Double>,
    taken: AtomicUsize,
    taken_outside: AtomicUsize,
}

static SHARED: OnceCell<Env> = OnceCell::const_new();

async fn start() -> Env {
    let mut doubles = Vec::new();
    for port in (FIRST_PORT..).take(DOUBLES) {
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        doubles.push(Double { port, coderd: Arc::new(coderd) });
    }
    let cluster =
        Cluster::start(ClusterOptions { nodes: 2, optional_kinds: true, ..Default::default() }).await;
    let services = doubles
        .iter()
        .map(|double| format!("--resolve=*.svc.cluster.local:{}={}", double.port, double.coderd.addr()));
    let allowed = doubles.iter().take(OUTSIDE).map(|double| format!("--allow-url={}", double.elsewhere()));
    let flags = services.chain(allowed);
    let builder = TestEnv::builder(BINARY).in_cluster(&cluster).flags(flags);
    let env = builder.flag("--verify-interval=4s").start().await;
    Env { env, doubles, taken: AtomicUsize::new(OUTSIDE), taken_outside: AtomicUsize::new(0) }
}

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
fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version, name, plural) = match kind {
        "coderworkspaceproxy" => ("coder.com", "v1alpha1", "CoderWorkspaceProxy", "coderworkspaceproxies"),
        "codercontrolplane" => ("coder.com", "v1alpha1", "CoderControlPlane", "codercontrolplanes"),
        "deployment" => ("apps", "v1", "Deployment", "deployments"),
        "httproute" => ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
        "ingress" => ("networking.k8s.io", "v1", "Ingress", "ingresses"),
        "configmap" => ("", "v1", "ConfigMap", "configmaps"),
        "secret" => ("", "v1", "Secret", "secrets"),
        "service" => ("", "v1", "Service", "services"),
        "serviceaccount" => ("", "v1", "ServiceAccount", "serviceaccounts"),
        "validatingadmissionpolicy" => {
            ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
        }
        "validatingadmissionpolicybinding" => (
            "admissionregistration.k8s.io",
            "v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ),
        other => panic!("no test asks for {other}"),
    };
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural);
    if group.starts_with("admissionregistration") {
        return Api::all_with(client.clone(), &resource);
    }
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// A namespace with a control plane `coder`.
pub struct Site {
    pub ns: String,
    pub double: Double,
    pub client: Client,
}

impl Site {
    /// A namespace with nothing in it but a token of an owner.
    pub async fn empty(purpose: &str) -> Self {
        let shared = SHARED.get_or_init(start).await;
        let number = shared.taken.fetch_add(1, Ordering::Relaxed);
        Self::with(purpose, shared.doubles.get(number).expect("there are doubles for all tests").clone())
            .await
    }

    /// The same with a coderd that the operator may dial in another namespace, and the address that it has there.
    pub async fn outside(purpose: &str) -> (Self, String) {
        let shared = SHARED.get_or_init(start).await;
        let number = shared.taken_outside.fetch_add(1, Ordering::Relaxed);
        let double = shared.doubles.iter().take(OUTSIDE).nth(number);
        let double = double.expect("there are doubles outside for all tests").clone();
        let url = double.elsewhere();
        (Self::with(purpose, double).await, url)
    }

    async fn with(purpose: &str, double: Double) -> Self {
        let shared = SHARED.get_or_init(start).await;
        let env = &shared.env;
        let (ns, client) = (env.cluster.namespace(purpose).await, env.cluster.client().await);
        let site = Self { ns, double, client };
        let token = site.coderd().token_for(&[Role::Owner]);
        site.put(&objects::secret(&site.ns, "operator-token", &json!({ "token": token }))).await;
        site
    }

    /// One with a control plane.
    pub async fn new(purpose: &str) -> Self {
        let site = Self::empty(purpose).await;
        site.apply_control_plane("coder", &site.double).await;
        site
    }

    /// One with a proxy that is ready.
    pub async fn with_proxy(purpose: &str) -> Self {
        let site = Self::new(purpose).await;
        site.apply(&json!({})).await;
        site.comes().await;
        site.ready().await;
        site
    }

    pub fn another_double(&self) -> Double {
        let shared = SHARED.get().expect("it was started");
        let number = shared.taken.fetch_add(1, Ordering::Relaxed);
        shared.doubles.get(number).expect("there are doubles for all tests").clone()
    }

    pub fn coderd(&self) -> &Arc<Coderd> {
        &self.double.coderd
    }

    /// A control plane whose Service leads to this double.
    pub async fn apply_control_plane(&self, name: &str, double: &Double) {
        let spec = json!({ "service": { "port": double.port },
            "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
        self.put(&objects::control_plane(&self.ns, name, &spec)).await;
    }

    /// Applies the proxy of the control plane with these fields.
    pub async fn apply(&self, more: &Value) {
        let mut spec = json!({ "controlPlaneRef": { "name": "coder" } });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.apply_spec(NAME, &spec).await;
    }

    pub async fn apply_spec(&self, name: &str, spec: &Value) {
        self.put(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": { "name": name, "namespace": self.ns }, "spec": spec }))
            .await;
    }

    /// A spec that registers the proxy at an address, with the token of an owner.
    pub fn bootstrap(url: &str) -> Value {
        json!({ "bootstrap": { "coderURL": url, "credentialsSecretRef": { "name": "operator-token" } } })
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

    /// Makes an object as the older operator does: by a create in its name.
    pub async fn create(&self, kind: &str, manifest: Value) {
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        let parameters = PostParams { field_manager: Some("coder-k8s".to_owned()), ..Default::default() };
        let made = api(&self.client, kind, &self.ns).create(&parameters, &object).await;
        made.map(drop).unwrap_or_else(|error| panic!("{kind}: {error}"));
    }

    /// Makes the Secret of a token as the older operator does: it is the object's, and nothing else says whose token it has.
    pub async fn create_token(&self, token: &str) {
        let object = self.get("coderworkspaceproxy", NAME).await.expect("the object is there");
        let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy", "name": NAME,
            "uid": object["metadata"]["uid"], "controller": true }]);
        let metadata = json!({ "name": SECRET, "namespace": self.ns, "ownerReferences": owner });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
            "stringData": { "token": token } });
        self.create("secret", secret).await;
    }

    pub async fn patch(&self, kind: &str, name: &str, change: &Value) {
        let patch = Patch::Merge(change);
        let patched = api(&self.client, kind, &self.ns).patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{kind} {name} cannot be patched: {error}"));
    }

    /// Has the API server refuse changes of the token's Secret for which `unless`, an expression of a policy, does not hold.
    /// Returns when it does so.
    pub async fn refuse_writes(&self, unless: &str) {
        let name = format!("{}-refuses", self.ns);
        let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["UPDATE"] }]);
        let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": self.ns } });
        self.put(
            &json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": name }, "spec": { "failurePolicy": "Fail",
                "matchConstraints": { "namespaceSelector": here, "resourceRules": rules },
                "validations": [{ "expression": format!("object.metadata.name != '{SECRET}' || ({unless})"),
                    "message": "nobody changes it" }] } }),
        )
        .await;
        self.put(&json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Deny"] } }))
            .await;
        wait("the policy to be in force", async || {
            let change = Patch::Merge(json!({ "metadata": { "annotations": { "try": "it" } } }));
            let secrets = api(&self.client, "secret", &self.ns);
            let tried = secrets.patch(SECRET, &PatchParams::default(), &change).await;
            holds(tried.is_err(), "it is changed".to_owned())
        })
        .await;
    }

    /// Lets them be changed again.
    pub async fn allow_writes(&self) {
        self.remove("validatingadmissionpolicybinding", &format!("{}-refuses", self.ns)).await;
    }

    /// Changes what a status says, as somebody does who may.
    pub async fn patch_status(&self, change: &Value) {
        let proxies = api(&self.client, "coderworkspaceproxy", &self.ns);
        let patched = proxies.patch_status(NAME, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.map(drop).unwrap_or_else(|error| panic!("the status cannot be patched: {error}"));
    }

    pub async fn annotate(&self, key: &str, value: &str) {
        let change = json!({ "metadata": { "annotations": { key: value } } });
        self.patch("coderworkspaceproxy", NAME, &change).await;
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

    /// Waits until the proxy is as asked.
    pub async fn until(&self, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        self.until_named(NAME, what, asked).await
    }

    /// Waits until an object of another kind is as asked.
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

    pub async fn until_named(&self, name: &str, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        wait(&format!("{}/{name}: {what}", self.ns), async || {
            let object = self.get("coderworkspaceproxy", name).await.unwrap_or_default();
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    pub async fn ready(&self) -> Value {
        self.until("Ready", is_ready).await
    }

    /// Waits until a condition of the proxy has this reason, in its present generation.
    pub async fn until_reason(&self, about: &str, reason: &str) -> Value {
        let is_it = |object: &Value| condition(object, about)["reason"] == reason && is_observed(object);
        self.until(&format!("{about} {reason}"), is_it).await
    }

    pub async fn until_gone(&self, kind: &str, name: &str) {
        wait(&format!("{kind} {}/{name} to be gone", self.ns), async || {
            let there = self.get(kind, name).await;
            holds(there.is_none(), there.unwrap_or_default()["status"].to_string())
        })
        .await;
    }

    /// The token in a Secret.
    pub async fn token(&self, secret: &str) -> Option<String> {
        let secret = self.get("secret", secret).await?;
        String::from_utf8(STANDARD.decode(secret["data"]["token"].as_str()?).ok()?).ok()
    }

    /// Waits until the Secret holds a token that coderd accepts, and lets the proxy come with it.
    pub async fn comes(&self) -> String {
        wait(&format!("the token of {} to work", self.ns), async || {
            let token = self.token(SECRET).await.ok_or("there is none")?;
            let came = self.coderd().proxy_comes(&token, "http://wsproxy-eu");
            came.map(|_| token).map_err(|refused| format!("{refused:?}"))
        })
        .await
    }

    /// The only proxy in coderd.
    pub fn only(&self) -> RegisteredProxy {
        let all = self.coderd().workspace_proxies();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        self.coderd().workspace_proxies().into_iter().map(|proxy| proxy.name).collect()
    }

    /// How often pods were replaced, and one.
    pub async fn revision(&self) -> u32 {
        let deployment = self.get("deployment", WORKLOAD).await.unwrap();
        let revision = &deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        revision.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Waits until an Event about the proxy says this, and returns what it says.
    pub async fn until_event(&self, reason: &str) -> String {
        let request = format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.ns);
        wait(&format!("the Event {reason} in {}", self.ns), async || {
            let request = http::Request::get(&request).body(Vec::new()).unwrap();
            let list: Value = self.client.request(request).await.expect("a namespace has Events");
            let events = list["items"].as_array().cloned().unwrap_or_default();
            let is_it = |event: &&Value| event["reason"] == reason && event["regarding"]["name"] == NAME;
            let event = events.iter().find(is_it).ok_or("there is none")?;
            sentences::check_event(event);
            Ok(event["note"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }
}
