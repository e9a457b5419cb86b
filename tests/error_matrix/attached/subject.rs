//! The provisioner or workspace proxy of one plane: made, changed, deleted; whether it is well, and that nothing in coderd was lost
//! or left by what it went through. It runs no pods: what is asked of coderd and of the API server is the same without.

use crate::env::{MatrixEnv, Plane};
use crate::followed::Followed;
use serde_json::{Value, json};
use support::coderd::{Coderd, Role};
use support::objects::is_ready;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// What is the same in every cell of a kind.
pub struct SubjectKind {
    /// The objects of this kind.
    pub followed: fn(&MatrixEnv) -> &Followed,
    /// The role that the operator's token needs in coderd.
    pub role: Role,
    /// What its spec has at first besides what every spec has here.
    pub first: fn() -> Value,
    /// Whether it is ready in its present generation and nothing is left to do in coderd.
    pub is_well: fn(&Value) -> bool,
    /// How many of it coderd has, and the plaintext of the one that a status says is in use.
    pub in_coderd: fn(&Coderd, &Value) -> (usize, Option<String>),
    /// The Secret of that plaintext, and the key in it.
    pub secret: (&'static str, &'static str),
    /// Every child of it but that Secret.
    pub children: &'static [(&'static str, &'static str)],
    /// The condition that says whether it is licensed, and what it says of a coderd that cannot be.
    pub entitled: &'static str,
    pub unsupported: &'static str,
}

/// The one of a plane.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub kind: &'static SubjectKind,
    pub env: &'a MatrixEnv,
    pub plane: &'a Plane,
}

impl Subject<'_> {
    /// The objects of its kind.
    pub fn followed(&self) -> &Followed {
        (self.kind.followed)(self.env)
    }

    /// A control plane that has a token for its operator. It runs no pods either, so that nobody but the subject asks its
    /// coderd.
    pub async fn prepare(&self, role: &Role) {
        let (env, namespace) = (self.env, &self.plane.namespace);
        let token = self.plane.coderd.token_for(std::slice::from_ref(role));
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
        self.followed().apply(&self.plane.namespace, &spec).await;
    }

    /// Waits until it is well, at or after a point in its history.
    pub async fn until_well(&self, what: &str, since: usize) {
        self.followed().until(&self.plane.namespace, what, since, self.kind.is_well).await;
    }

    /// What it looks like now.
    pub fn now(&self) -> Value {
        self.followed().states(&self.plane.namespace).pop().unwrap_or_default()
    }

    /// That coderd has exactly one of it besides those that were left, that the Secret holds its plaintext, and that no secret
    /// was told.
    pub async fn has_its_own(&self, name: &str, left: usize, secret: &str) {
        let (coderd, namespace) = (&self.plane.coderd, &self.plane.namespace);
        let plaintext = until(&format!("{name}: one in use"), LIMIT, async || {
            let (count, plaintext) = (self.kind.in_coderd)(coderd, &self.now()["status"]);
            holds(count == 1 + left, format!("{count}")).map(|()| plaintext)
        })
        .await;
        assert!(
            plaintext.is_some(),
            "{name}: coderd does not have what the status says: {}",
            self.now()["status"]
        );
        let kept = self.env.kept(namespace, secret, self.kind.secret.1).await;
        assert_eq!(kept, plaintext, "{name}: the Secret holds another plaintext");
        self.told_no_secret(name, kept.as_deref()).await;
        coderd.assert_no_violations();
    }

    /// That it is gone, and so is what it had in coderd but for what was left.
    pub async fn has_gone(&self, name: &str, left: usize) {
        self.followed().until_gone(&self.plane.namespace).await;
        let (count, _) = (self.kind.in_coderd)(&self.plane.coderd, &Value::Null);
        assert_eq!(count, left, "{name}: what coderd has");
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
