//! One environment and one PostgreSQL for many control planes, each with a coderd, a way to the database and a namespace of
//! its own; and the history of every status of ours, so that what was said for a moment counts, too.

use crate::followed::{Followed, History};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use std::sync::Arc;
use support::cluster::pki::Ca;
use support::coderd::{Coderd, DatabaseToken};
use support::database_proxy::DatabaseProxy;
use support::fault_proxy::FaultProxy;
use support::postgres::Postgres;
use support::{Cluster, ClusterOptions, TestEnv, objects, sentences};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const RELEASE: &str = "v2.36.1";

/// A [`TestEnv`] with everything the cells stand on.
pub struct MatrixEnv {
    pub postgres: Arc<Postgres>,
    pub planes: Vec<Plane>,
    /// The control plane `coder` of each namespace.
    pub control_planes: Followed,
    /// The provisioner `builders` of each namespace, where there is one.
    pub provisioners: Followed,
    /// The workspace proxy `eu` of each namespace, where there is one.
    pub workspace_proxies: Followed,
    env: TestEnv,
    client: kube::Client,
}

/// How the operator reaches the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Directly,
    ThroughFaultProxy,
}

/// One control plane named `coder`, and what belongs to it alone.
pub struct Plane {
    pub namespace: String,
    pub coderd: Arc<Coderd>,
    pub proxy: DatabaseProxy,
    pub database: String,
    host: String,
    history: History,
}

/// What a plane is to be.
pub struct Wanted {
    pub name: String,
    /// A database of its own, since its faults would strike others, too.
    pub own_database: bool,
    /// Its database refuses connections until it is healed.
    pub closed: bool,
}

impl Wanted {
    /// One that needs no database.
    pub fn with_nothing(name: String) -> Self {
        Self { name, own_database: false, closed: false }
    }
}

impl MatrixEnv {
    /// Sets everything up; the operator is told where each coderd and database is.
    pub async fn start(wanted: Vec<Wanted>, reach: Reach) -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
        let ca = Ca::new("error-matrix");
        let postgres = Arc::new(Postgres::start_with_tls(&ca, &["*.team.svc.cluster.local"]));
        let shared = postgres.coderd_database(RELEASE);
        let mut builder = TestEnv::builder(BINARY)
            .in_cluster(&cluster)
            .without_coderd()
            .flag("--coder-request-timeout=10s");
        let mut planes = Vec::new();
        let history = History::default();
        for one in wanted {
            let plane = Plane::start(&cluster, &postgres, &shared, one, &history).await;
            let (namespace, host) = (&plane.namespace, &plane.host);
            let coderd = plane.coderd.addr();
            builder = builder
                .flag(format!("--resolve=coder.{namespace}.svc.cluster.local={coderd}"))
                .flag(format!("--resolve={host}={}", plane.proxy.address()));
            planes.push(plane);
        }
        if reach == Reach::ThroughFaultProxy {
            let namespaces: Vec<&str> = planes.iter().map(|plane| plane.namespace.as_str()).collect();
            builder = builder.through_fault_proxy(&namespaces);
        }
        // Something that needs a token of every control plane, and that none of them is less ready without. Nothing serves
        // it, and nothing is asked for it: without a Service it counts as the API server's own.
        let aggregated = json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1alpha1.aggregation.coder.com", "labels": { "coder.com/inject-ca": "true" } },
            "spec": { "group": "aggregation.coder.com", "version": "v1alpha1", "groupPriorityMinimum": 100,
                "versionPriority": 100 } });
        let words = "apply --server-side -f -";
        cluster.kubectl_with_input(words, &aggregated.to_string()).await.expect_ok();
        let client = cluster.client().await;
        let env = builder.start().await;
        let control_planes = Followed::begin(&client, "CoderControlPlane", "coder", history);
        let provisioners = Followed::begin(&client, "CoderProvisioner", "builders", History::default());
        let workspace_proxies = Followed::begin(&client, "CoderWorkspaceProxy", "eu", History::default());
        Self { postgres, planes, control_planes, provisioners, workspace_proxies, env, client }
    }

    /// What stands between the operator and the API server, where something does.
    pub fn proxy(&self) -> &FaultProxy {
        self.env.proxy()
    }

    /// The operator's log lines with this message.
    pub async fn logged(&self, message: &str) -> Vec<Value> {
        self.env.logged(message).await
    }

    /// An object as it is now.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        self.env.get(kind, namespace, name).await
    }

    /// Makes a Secret.
    pub async fn secret(&self, namespace: &str, name: &str, data: &Value) {
        let manifest = objects::secret(namespace, name, data);
        let secrets = secrets(self.client.clone(), namespace);
        secrets.patch(name, &PatchParams::apply("git").force(), &Patch::Apply(manifest)).await.unwrap();
    }

    /// The operator's token for a namespace's control plane, as it is kept.
    pub async fn token(&self, namespace: &str) -> Option<String> {
        let name = crds::names::control_plane::operator_token_secret(namespace, "coder");
        self.kept(&self.env.installation.namespace, &name, "token").await
    }

    /// What a Secret keeps under a key.
    pub async fn kept(&self, namespace: &str, name: &str, key: &str) -> Option<String> {
        let secret = secrets(self.client.clone(), namespace).get_opt(name).await.unwrap()?;
        let kept = secret.data["data"][key].as_str().filter(|kept| !kept.is_empty())?;
        let bytes: k8s_openapi::ByteString = serde_json::from_value(kept.into()).unwrap();
        Some(String::from_utf8(bytes.0).unwrap())
    }

    /// Everything that was told in a namespace: all states of our objects, and the Events.
    pub async fn visible(&self, namespace: &str) -> String {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"));
        let events = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind);
        let events = events.list(&Default::default()).await.unwrap().items;
        assert!(!events.is_empty(), "{namespace}: nothing was told");
        events.iter().for_each(|event| sentences::check_event(&event.data));
        let events = serde_json::to_string(&events).unwrap();
        let mut states = self.control_planes.states(namespace);
        states.extend(self.provisioners.states(namespace));
        states.extend(self.workspace_proxies.states(namespace));
        states.iter().for_each(sentences::check_conditions);
        let states = states.iter().map(|state| state["status"].to_string());
        states.chain([events]).collect()
    }
}

impl Plane {
    async fn start(
        cluster: &Cluster,
        postgres: &Arc<Postgres>,
        shared: &str,
        wanted: Wanted,
        history: &History,
    ) -> Self {
        let namespace = cluster.namespace(&wanted.name).await;
        let database =
            if wanted.own_database { postgres.coderd_database(RELEASE) } else { shared.to_owned() };
        let coderd = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
        let followed =
            (postgres.clone(), coderd.clone(), database.clone(), history.clone(), namespace.clone());
        let follow = Arc::new(move || {
            let (postgres, coderd, database, history, namespace) = &followed;
            coderd.follow_database(&postgres.living_coderd_tokens_of(database, &email(history, namespace)));
        });
        let proxy = DatabaseProxy::start(postgres.port(), wanted.closed, follow);
        let host = format!("{namespace}.team.svc.cluster.local");
        Self { namespace, coderd, proxy, database, host, history: history.clone() }
    }

    /// The URL of its database for this user.
    pub fn url(&self, postgres: &Postgres, user: &str, sslmode: &str) -> String {
        let parameters = format!("sslmode={sslmode}");
        postgres.url(user, &self.database, &parameters).replace(support::postgres::HOST, &self.host)
    }

    /// Lets its coderd know the database as it is now; for sessions whose commits nobody can see.
    pub fn follow(&self, postgres: &Postgres) {
        self.coderd.follow_database(&self.tokens(postgres));
    }

    /// Its operator's tokens that live.
    pub fn tokens(&self, postgres: &Postgres) -> Vec<DatabaseToken> {
        postgres.living_coderd_tokens_of(&self.database, &email(&self.history, &self.namespace))
    }
}

/// The address of the operator's user for a namespace's control plane; nobody's before there is one.
fn email(history: &History, namespace: &str) -> String {
    let history = history.lock().unwrap();
    let uid = history.get(namespace).and_then(|states| states.last()?["metadata"]["uid"].as_str());
    format!("{}@coder-k8s.invalid", crds::names::control_plane::operator_user(uid.unwrap_or_default()))
}

fn secrets(client: kube::Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    Api::namespaced_with(client, namespace, &kind)
}
