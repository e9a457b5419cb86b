//! The provisioner `builders` of one plane: made, changed, deleted; whether it is well, and that no key was lost or left by
//! what it went through. It runs no pods: what is asked of coderd and of the API server is the same without.

use crate::env::{MatrixEnv, Plane};
use serde_json::{Value, json};
use support::coderd::Role;
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// The Secret of its key.
pub const SECRET: &str = "builders-provisioner-key";

/// The provisioner of a plane.
pub struct Subject<'a> {
    pub env: &'a MatrixEnv,
    pub plane: &'a Plane,
}

impl Subject<'_> {
    /// A control plane that has a token for its operator. It runs no pods either, so that nobody but the provisioner asks
    /// its coderd.
    pub async fn prepare(&self, role: Role) {
        let (env, namespace) = (self.env, &self.plane.namespace);
        let token = self.plane.coderd.token_for(&[role]);
        env.secret(namespace, "operator-token", &json!({ "token": token })).await;
        let access = json!({ "tokenSecretRef": { "name": "operator-token" } });
        env.control_planes.apply(namespace, &json!({ "replicas": 0, "operatorAccess": access })).await;
        env.control_planes.until(namespace, "a control plane", 0, is_ready).await;
    }

    /// Applies it with this besides what it always has.
    pub async fn apply(&self, more: &Value) {
        let mut spec = json!({ "controlPlaneRef": { "name": "coder" }, "replicas": 0 });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.env.provisioners.apply(&self.plane.namespace, &spec).await;
    }

    /// Waits until it is well, at or after a point in its history.
    pub async fn until_well(&self, what: &str, since: usize) {
        self.env.provisioners.until(&self.plane.namespace, what, since, is_well).await;
    }

    /// What it looks like now.
    pub fn now(&self) -> Value {
        self.env.provisioners.states(&self.plane.namespace).pop().unwrap_or_default()
    }

    /// That coderd has exactly one key besides those that were left, that the Secret holds its plaintext, and that no secret
    /// was told.
    pub async fn has_its_key(&self, name: &str, left: usize, secret: &str) {
        let (coderd, namespace) = (&self.plane.coderd, &self.plane.namespace);
        let keys = until(&format!("{name}: one key in use"), LIMIT, async || {
            let keys = coderd.provisioner_keys("default");
            holds(keys.len() == 1 + left, format!("{keys:?}")).map(|()| keys)
        })
        .await;
        let state = self.now();
        let current = state["status"]["key"]["current"]["name"].as_str().unwrap_or_default().to_owned();
        assert!(keys.iter().any(|key| key.name == current), "{name}: {current} is none of {keys:?}");
        let kept = self.env.kept(namespace, secret, "key").await;
        assert_eq!(
            kept,
            coderd.plaintext_of("default", &current),
            "{name}: the Secret holds another plaintext"
        );
        self.told_no_secret(name, kept.as_deref()).await;
        coderd.assert_no_violations();
    }

    /// That it is gone, and so are its keys but for those that were left.
    pub async fn has_gone(&self, name: &str, left: usize) {
        self.env.provisioners.until_gone(&self.plane.namespace).await;
        let keys = self.plane.coderd.provisioner_keys("default");
        assert_eq!(keys.len(), left, "{name}: {keys:?}");
        self.told_no_secret(name, None).await;
        self.plane.coderd.assert_no_violations();
    }

    async fn told_no_secret(&self, name: &str, plaintext: Option<&str>) {
        let namespace = &self.plane.namespace;
        let token = self.env.kept(namespace, "operator-token", "token").await;
        let visible = self.env.visible(namespace).await;
        for secret in plaintext.into_iter().chain(token.as_deref()) {
            assert!(!visible.contains(secret), "{name}: a secret is told");
        }
    }

    /// Waits until an Event of this reason was published.
    pub async fn until_event(&self, reason: &str) {
        until(&format!("{}: the Event {reason}", self.plane.namespace), LIMIT, async || {
            let visible = self.env.visible(&self.plane.namespace).await;
            holds(visible.contains(&format!("\"reason\":\"{reason}\"")), "not yet")
        })
        .await;
    }
}

/// Whether it is ready in its present generation and nothing is left to do about its keys.
pub fn is_well(state: &Value) -> bool {
    let key = &state["status"]["key"];
    is_ready(state)
        && condition(state, "ProvisionerKeyReady")["reason"] == "ProvisionerKeyReady"
        && key["current"]["id"].is_string()
        && key["pending"].is_null()
        && key["retiring"].as_array().is_none_or(Vec::is_empty)
}
