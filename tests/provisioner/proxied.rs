//! A provisioner whose operator sees the cluster through a fault proxy: what its watches tell can be held back, told again or
//! lost, while its calls are answered.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::ops::Deref;
use support::coderd::Role;
use support::daemons::Daemons;
use support::objects::{is_ready, provisioner};
use support::test_env::LIMIT;
use support::wait::{holds, until};
use support::{Cluster, ClusterOptions, Fault, TestEnv};
use tokio::sync::OnceCell;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

pub const PROVISIONERS: &str = "/apis/coder.com/v1alpha1/coderprovisioners";
pub const CONTROL_PLANES: &str = "/apis/coder.com/v1alpha1/codercontrolplanes";
pub const SECRETS: &str = "/api/v1/secrets";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(|| Cluster::start(ClusterOptions { nodes: 2, ..Default::default() })).await
}

/// One namespace with the control plane `coder`, which is all that the operator is shown.
pub struct Proxied {
    env: TestEnv,
    pub namespace: String,
}

impl Deref for Proxied {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl Proxied {
    pub async fn start(purpose: &str, verify_interval: &str) -> Self {
        let cluster = cluster().await;
        let namespace = cluster.namespace(purpose).await;
        let env = TestEnv::builder(BINARY)
            .in_cluster(cluster)
            .through_fault_proxy(&[&namespace])
            .flag(format!("--verify-interval={verify_interval}"))
            .start()
            .await;
        let token = env.coderd().token_for(&[Role::TemplateAdmin]);
        env.apply_secret(&namespace, "operator-token", &json!({ "token": token })).await;
        let access = json!({ "tokenSecretRef": { "name": "operator-token" } });
        env.apply_control_plane(&namespace, "coder", &json!({ "operatorAccess": access })).await;
        env.ready(&namespace, "coder").await;
        Self { env, namespace }
    }

    /// Applies a provisioner, whose key has its name.
    pub async fn apply_provisioner(&self, name: &str, more: &Value) {
        let mut object = provisioner(&self.namespace, name, "coder");
        for (field, value) in more.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.apply(&object).await;
    }

    /// Waits until a provisioner is as asked.
    pub async fn until_provisioner(&self, name: &str, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        self.until_object("coderprovisioner", &self.namespace, name, what, asked).await
    }

    pub async fn provisioner_ready(&self, name: &str) -> Value {
        self.until_provisioner(name, "Ready", is_ready).await
    }

    /// The daemons of all pods of the namespace.
    pub async fn daemons_here(&self) -> Daemons {
        self.daemons(&self.namespace).await
    }

    /// The plaintext in the Secret of a provisioner.
    pub async fn plaintext(&self, name: &str) -> Option<String> {
        let secret = self.get("secret", &self.namespace, &format!("{name}-provisioner-key")).await?;
        String::from_utf8(STANDARD.decode(secret["data"]["key"].as_str()?).ok()?).ok()
    }

    /// The names of the keys of a provisioner that coderd has.
    pub fn keys(&self, name: &str) -> Vec<String> {
        let keys = self.coderd().provisioner_keys("default").into_iter().map(|key| key.name);
        keys.filter(|key| key.starts_with(name)).collect()
    }

    /// What the watches of these kinds tell is held back until [`support::FaultProxy::release`].
    pub fn hold_back(&self, kinds: &'static [&'static str]) {
        let is_one = |url: &str| kinds.iter().any(|kind| url.split('?').next() == Some(*kind));
        self.proxy().on(Fault::Hold, move |method, url| {
            method == "GET" && url.contains("watch=") && kinds.iter().any(|kind| url.starts_with(kind))
        });
        assert!(self.proxy().cut_watches(is_one) > 0, "the operator watches {kinds:?}");
    }

    /// Something else has the operator look at every provisioner of the namespace.
    pub async fn poke(&self, word: &str) {
        let words = format!("label namespace {} poked={word} --overwrite", self.namespace);
        self.cluster.kubectl(&words).await.expect_ok();
    }

    /// How often coderd was asked to make, and to delete, a key of a provisioner.
    pub fn asked(&self, name: &str) -> (usize, usize) {
        let is_of = |key: &str| key == name || key.starts_with(&format!("{name}-"));
        let calls = self.coderd().mutating_calls();
        let made = calls.iter().filter(|call| {
            call.method == "POST"
                && call.body.as_ref().is_some_and(|body| is_of(body["name"].as_str().unwrap_or_default()))
        });
        let deleted = calls.iter().filter(|call| {
            call.method == "DELETE" && is_of(call.path.rsplit('/').next().unwrap_or_default())
        });
        (made.count(), deleted.count())
    }

    /// Waits until coderd has exactly this key of a provisioner.
    pub async fn until_key(&self, name: &str, key: &str) {
        until(&format!("{key} to be the one key of {name}"), LIMIT, async || {
            let keys = self.keys(name);
            holds(keys == [key], format!("{keys:?}"))
        })
        .await;
    }

    /// Waits until the next event was dropped.
    pub async fn until_dropped(&self) {
        until("the event to be dropped", LIMIT, async || {
            let dropped = self.proxy().dropped();
            holds(dropped.len() == 1, format!("{dropped:?}"))
        })
        .await;
    }
}
