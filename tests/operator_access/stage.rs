//! One cluster, one operator, one PostgreSQL with coderd's schema and one stand-in for coderd that knows the tokens of
//! the databases. Each test works in a namespace and a database of its own.

use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Duration;
use support::coderd::{Coderd, DatabaseToken};
use support::postgres::Postgres;
use support::sentences;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};
use tokio::sync::OnceCell;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
pub const LIMIT: Duration = Duration::from_secs(60);
const RELEASE: &str = "v2.36.1";
/// A name behind which nobody listens.
pub const NOBODY: &str = "gone.team.svc.cluster.local";
/// An address that the operator is told not to dial.
pub const DENIED: &str = "127.0.0.9";

/// Control planes with a coderd of their own, for tests that change how it behaves.
const ALONE: [&str; 5] = ["redirected", "flaky", "ending", "stopped", "hostile"];

/// The namespace of a control plane named `coder`, and its own coderd.
pub struct Alone {
    pub namespace: String,
    pub coderd: Coderd,
}

/// Everything a test stands on.
pub struct Stage {
    pub cluster: &'static Cluster,
    pub installation: Installation<'static>,
    pub coderd: Coderd,
    pub postgres: Postgres,
    alone: Vec<Alone>,
    databases: Mutex<Vec<String>>,
    operator: Operator,
}

impl Stage {
    /// The stage, set up by whoever comes first.
    pub async fn shared() -> &'static Self {
        static STAGE: OnceCell<Stage> = OnceCell::const_new();
        static FOLLOWED: std::sync::Once = std::sync::Once::new();
        let stage = STAGE.get_or_init(Self::set).await;
        FOLLOWED.call_once(|| {
            std::thread::spawn(move || {
                loop {
                    stage.followed();
                    // A real coderd reads its database at each call; PostgreSQL tells nobody of a commit, so we look.
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        });
        stage
    }

    async fn set() -> Self {
        let options = ClusterOptions { nodes: 2, ..Default::default() };
        let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(options).await));
        let postgres = Postgres::start();
        let installation = Installation::new(cluster, "operator").await;
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        let mut options = installation.operator("controller").await;
        options.flags.push(format!("--resolve={}", postgres.resolve_rule()));
        options.flags.push(format!("--resolve={NOBODY}=127.0.0.1:1"));
        options.flags.extend(crate::strangers::started());
        options.flags.push(format!("--deny-cidr=192.0.2.0/24,{DENIED}/32"));
        let mut alone = Vec::new();
        for purpose in ALONE {
            let namespace = cluster.namespace(purpose).await;
            let own = Coderd::builder().api_rate_limit(None).start().await;
            options.flags.extend(resolved(&format!("coder.{namespace}"), &own));
            alone.push(Alone { namespace, coderd: own });
        }
        options.flags.extend(resolved("*", &coderd));
        let mut operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
        let databases = Mutex::default();
        Self { cluster, installation, coderd, postgres, alone, databases, operator }
    }

    /// What the operator has logged so far.
    pub fn log(&self) -> String {
        self.operator.log()
    }

    /// Every token in every database.
    fn tokens(&self) -> Vec<DatabaseToken> {
        let databases = self.databases.lock().unwrap().clone();
        databases.iter().flat_map(|name| self.postgres.coderd_tokens(name).unwrap()).collect()
    }

    /// Lets the doubles know the databases as they are now.
    pub fn followed(&self) {
        let tokens = self.tokens();
        for coderd in self.alone.iter().map(|alone| &alone.coderd).chain([&self.coderd]) {
            coderd.follow_database(&tokens);
        }
    }

    /// A control plane with a coderd of its own; each purpose is for one test.
    pub fn alone(&self, purpose: &str) -> &Alone {
        let at = ALONE.iter().position(|known| *known == purpose).expect("one of the list");
        &self.alone[at]
    }

    /// Asks for a pass and waits until it is done.
    pub async fn pass(&self, namespace: &str, word: &str) -> Value {
        let words = format!(
            "annotate codercontrolplane coder -n {namespace} --overwrite coder.com/reconcile-at={word}"
        );
        self.cluster.kubectl(&words).await.expect_ok();
        let handled = |plane: &Value| plane["status"]["lastHandledReconcileAt"] == word;
        self.until(namespace, "the request to be handled", handled).await
    }

    /// A fresh database, and its URL.
    pub fn database(&self) -> (String, String) {
        let name = self.postgres.coderd_database(RELEASE);
        self.databases.lock().unwrap().push(name.clone());
        let url = self.postgres.url("postgres", &name, "sslmode=disable");
        (name, url)
    }

    /// How many tokens a database has that still live.
    pub fn live_tokens(&self, database: &str) -> String {
        self.postgres.sql(database, "SELECT count(*) FROM api_keys WHERE expires_at > now()")
    }

    pub async fn apply(&self, namespace: &str, spec: &Value) {
        self.apply_object(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": namespace }, "spec": spec }))
            .await;
    }

    pub async fn apply_object(&self, manifest: &Value) {
        let words = "apply --server-side --force-conflicts --field-manager=git -f -";
        self.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    /// Gives the control plane of a namespace a provisioner, for which the operator needs a token.
    pub async fn needed(&self, namespace: &str) {
        self.apply_object(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "builders", "namespace": namespace },
            "spec": { "controlPlaneRef": { "name": "coder" } } }))
            .await;
    }

    pub async fn secret(&self, namespace: &str, name: &str, data: &Value) {
        self.apply_object(&json!({ "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": namespace }, "stringData": data }))
            .await;
    }

    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let words = format!("get {kind} {name} -n {namespace} -o json --ignore-not-found");
        let text = self.cluster.kubectl(&words).await.expect_ok();
        let object: Option<Value> = (!text.trim().is_empty()).then(|| serde_json::from_str(&text).unwrap());
        if let Some(object) = object.as_ref().filter(|object| object["kind"] == "CoderControlPlane") {
            sentences::check_conditions(object);
        }
        object
    }

    /// The Events of this action: type, reason, and how often.
    pub async fn told(&self, namespace: &str, action: &str) -> Vec<String> {
        let words = format!("get events.events.k8s.io -n {namespace} -o json");
        let list: Value = serde_json::from_str(&self.cluster.kubectl(&words).await.expect_ok()).unwrap();
        let events = list["items"].as_array().unwrap().iter().filter(|event| event["action"] == action);
        let events = events.inspect(|event| sentences::check_event(event));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let count = |event: &Value| event["series"]["count"].as_u64().unwrap_or(1);
        let told = events
            .map(|event| format!("{} {} x{}", text(&event["type"]), text(&event["reason"]), count(event)));
        let mut told: Vec<String> = told.collect();
        told.sort();
        told
    }

    /// The Secret with the operator's own token.
    pub async fn record(&self, namespace: &str) -> Option<Value> {
        let name = format!("{namespace}.coder.operator-token");
        self.get("secret", &self.installation.namespace, &name).await
    }

    /// Waits until the control plane is as asked, and returns it.
    pub async fn until(&self, namespace: &str, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        until(&format!("the control plane: {what}"), LIMIT, async || {
            let object = self.get("codercontrolplane", namespace, "coder").await.unwrap_or_default();
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until a condition has this reason.
    pub async fn until_reason(&self, namespace: &str, about: &str, reason: &str) -> Value {
        self.until(namespace, &format!("{about} {reason}"), |object| {
            condition(object, about)["reason"] == reason
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
        })
        .await
    }
}

/// The rules that lead a Service's name to a double, with TLS and without.
fn resolved(service: &str, coderd: &Coderd) -> [String; 2] {
    let host = format!("{service}.svc.cluster.local");
    [format!("--resolve={host}:443={}", coderd.tls_addr()), format!("--resolve={host}={}", coderd.addr())]
}

/// A condition of an object.
pub fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}
