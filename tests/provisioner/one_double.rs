//! An environment with one double of coderd for all control planes, for tests that need no more: its keys are told apart by the
//! namespace in their names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;
use support::coderd::Role;
use support::objects::{condition, is_observed, is_ready};
use support::test_env::TestEnv;
use support::wait::{holds, until};
use tokio::sync::OnceCell;

/// The operator under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

/// The environment that most tests of the suite share.
pub struct OneDouble {
    pub env: TestEnv,
}

static SHARED: OnceCell<Arc<OneDouble>> = OnceCell::const_new();

impl std::ops::Deref for OneDouble {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl OneDouble {
    pub async fn shared() -> Arc<Self> {
        SHARED
            .get_or_init(async || {
                let builder = TestEnv::builder(BINARY).nodes(2).flag("--verify-interval=10s");
                Arc::new(Self { env: builder.start().await })
            })
            .await
            .clone()
    }

    /// A namespace with a control plane that has a token for its operator.
    pub async fn control_plane(&self, purpose: &str) -> String {
        let ns = self.cluster.namespace(purpose).await;
        let token = self.coderd().token_for(&[Role::TemplateAdmin]);
        self.apply_secret(&ns, "operator-token", &json!({ "token": token })).await;
        let spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
        self.apply_control_plane(&ns, "coder", &spec).await;
        self.ready(&ns, "coder").await;
        ns
    }

    /// Applies a provisioner of the control plane, whose key is named after the namespace: one double has the keys of all.
    pub async fn apply_provisioner(&self, namespace: &str, name: &str, more: &Value) {
        let mut object = support::objects::provisioner(namespace, name, "coder");
        object["spec"]["key"] = json!({ "name": namespace });
        for (field, value) in more.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.apply(&object).await;
    }

    pub async fn until_provisioner(
        &self,
        namespace: &str,
        name: &str,
        what: &str,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_object("coderprovisioner", namespace, name, what, asked).await
    }

    pub async fn provisioner_ready(&self, namespace: &str, name: &str) -> Value {
        self.until_provisioner(namespace, name, "Ready", is_ready).await
    }

    pub async fn until_provisioner_reason(
        &self,
        namespace: &str,
        name: &str,
        about: &str,
        reason: &str,
    ) -> Value {
        self.until_provisioner(namespace, name, &format!("{about} {reason}"), |object| {
            condition(object, about)["reason"] == reason && is_observed(object)
        })
        .await
    }

    /// The plaintext in a Secret.
    pub async fn plaintext(&self, namespace: &str, secret: &str, key: &str) -> Option<String> {
        let secret = self.get("secret", namespace, secret).await?;
        let encoded = secret["data"][key].as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    }

    /// The names of the keys that coderd has whose name begins with that of the namespace.
    pub fn keys(&self, namespace: &str) -> Vec<String> {
        let keys = self.coderd().provisioner_keys("default").into_iter().map(|key| key.name);
        keys.filter(|name| name.starts_with(namespace)).collect()
    }

    /// Waits until coderd has exactly these keys of the namespace.
    pub async fn until_keys(&self, namespace: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| format!("{namespace}{name}")).collect();
        until(&format!("the keys {names:?}"), support::test_env::LIMIT, async || {
            let keys = self.keys(namespace);
            holds(keys == names, format!("{keys:?}"))
        })
        .await;
    }
}

/// Requests a reconcile of `builders` and waits until it is done.
pub async fn reconcile(env: &OneDouble, ns: &str, request: &str) {
    let words =
        format!("annotate coderprovisioner/builders -n {ns} --overwrite coder.com/reconcile-at={request}");
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_provisioner(ns, "builders", &format!("the reconcile {request}"), |object| {
        object["status"]["lastHandledReconcileAt"] == request
    })
    .await;
}
