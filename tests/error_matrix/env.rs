//! One environment and one PostgreSQL for many control planes, each with a coderd, a way to the database and
//! a namespace of its own; and the history of every status, so that what was said for a moment counts, too.

use futures::StreamExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use support::cluster::pki::Ca;
use support::coderd::{Coderd, DatabaseToken};
use support::database_proxy::DatabaseProxy;
use support::postgres::Postgres;
use support::test_env::LIMIT;
use support::{Cluster, ClusterOptions, TestEnv, objects, sentences, until};
use tokio_util::task::AbortOnDropHandle;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const RELEASE: &str = "v2.36.1";

/// Everything the statuses said so far, by namespace.
type History = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// A [`TestEnv`] with everything the cells stand on.
pub struct MatrixEnv {
    pub postgres: Arc<Postgres>,
    pub planes: Vec<Plane>,
    env: TestEnv,
    client: kube::Client,
    history: History,
    _watch: AbortOnDropHandle<()>,
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

impl MatrixEnv {
    /// Sets everything up; the operator is told where each coderd and database is.
    pub async fn start(wanted: Vec<Wanted>) -> Self {
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
        let watch = tokio::spawn(follow(control_planes(client.clone(), None), history.clone()));
        Self { postgres, planes, env, client, history, _watch: AbortOnDropHandle::new(watch) }
    }

    /// Applies the control plane of a namespace.
    pub async fn apply(&self, namespace: &str, spec: &Value) {
        let manifest = objects::control_plane(namespace, "coder", spec);
        let planes = control_planes(self.client.clone(), Some(namespace));
        planes.patch("coder", &PatchParams::apply("git").force(), &Patch::Apply(manifest)).await.unwrap();
    }

    /// Requests a reconcile.
    pub async fn request_reconcile(&self, namespace: &str, word: &str) {
        let patch = json!({ "metadata": { "annotations": { "coder.com/reconcile-at": word } } });
        let planes = control_planes(self.client.clone(), Some(namespace));
        planes.patch("coder", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
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
        let secret =
            secrets(self.client.clone(), &self.env.installation.namespace).get_opt(&name).await.unwrap()?;
        let kept = secret.data["data"]["token"].as_str().filter(|kept| !kept.is_empty())?;
        let bytes: k8s_openapi::ByteString = serde_json::from_value(kept.into()).unwrap();
        Some(String::from_utf8(bytes.0).unwrap())
    }

    /// Everything that was told of a control plane: all its states, and the Events.
    pub async fn visible(&self, namespace: &str) -> String {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"));
        let events = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind);
        let events = events.list(&Default::default()).await.unwrap().items;
        assert!(!events.is_empty(), "{namespace}: nothing was told");
        events.iter().for_each(|event| sentences::check_event(&event.data));
        let events = serde_json::to_string(&events).unwrap();
        let history = self.history.lock().unwrap();
        let states =
            history.get(namespace).into_iter().flatten().inspect(|state| sentences::check_conditions(state));
        let states = states.map(|state| state["status"].to_string());
        states.chain([events]).collect()
    }

    /// How many states of a control plane were seen so far.
    pub fn seen(&self, namespace: &str) -> usize {
        self.history.lock().unwrap().get(namespace).map_or(0, Vec::len)
    }

    /// Waits until a control plane was, at or after a point in its history, as asked.
    pub async fn until(
        &self,
        namespace: &str,
        what: &str,
        since: usize,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("{namespace}: {what}"), LIMIT, async || {
            let history = self.history.lock().unwrap();
            let states = history.get(namespace).map(Vec::as_slice).unwrap_or_default();
            let found = states.get(since..).unwrap_or_default().iter().find(|state| asked(state)).cloned();
            found.ok_or_else(|| states.last().map(|state| state["status"].to_string()).unwrap_or_default())
        })
        .await
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

fn control_planes(client: kube::Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane");
    let kind = ApiResource::from_gvk_with_plural(&kind, "codercontrolplanes");
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

fn secrets(client: kube::Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    Api::namespaced_with(client, namespace, &kind)
}

async fn follow(planes: Api<DynamicObject>, history: History) {
    let watch = watcher(planes, watcher::Config::default());
    // A pause after each failure: without one, this would never yield when the client is gone, and the runtime never end.
    let mut states = watch.default_backoff().applied_objects().boxed();
    while let Some(state) = states.next().await {
        // A watch that fails is begun again by itself.
        let Ok(state) = state.map(|state| serde_json::to_value(state).unwrap()) else { continue };
        let namespace = state["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        history.lock().unwrap().entry(namespace).or_default().push(state);
    }
}
