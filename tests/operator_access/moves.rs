//! What belongs to a control plane stays there while admission is disabled in the namespace, even where the operator has a
//! token of its own for both coderds: pods that run would read what is made for another one. It moves once the label is off.

use crate::env::OperatorAccessEnv;
use serde_json::{Value, json};
use support::coderd::Coderd;
use support::objects::text;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// What moves.
const MOVED: &str = "movers";
/// What needs the control plane that it moves to, before and after.
const NEIGHBOUR: &str = "settlers";

/// A kind that belongs to a control plane.
struct Attached {
    kind: &'static str,
    /// Where in its status the name stands under which coderd knows it.
    record: &'static str,
    secret: &'static str,
    deployment: &'static str,
    /// The variable that leads its pods to their control plane.
    address: &'static str,
    /// The names of all of its sort in a coderd.
    names: fn(&Coderd) -> Vec<String>,
}

const PROVISIONER: Attached = Attached {
    kind: "CoderProvisioner",
    record: "/status/key/current/name",
    secret: "movers-provisioner-key",
    deployment: "provisioner-movers",
    address: "CODER_URL",
    names: |coderd| coderd.provisioner_keys("default").into_iter().map(|key| key.name).collect(),
};
const PROXY: Attached = Attached {
    kind: "CoderWorkspaceProxy",
    record: "/status/registration/current/name",
    secret: "movers-proxy-token",
    deployment: "wsproxy-movers",
    address: "CODER_PRIMARY_ACCESS_URL",
    names: |coderd| coderd.workspace_proxies().into_iter().map(|proxy| proxy.name).collect(),
};

/// A namespace with two control planes, each with a database and a coderd of its own.
struct Move {
    env: &'static OperatorAccessEnv,
    attached: Attached,
    ns: &'static str,
    /// The coderd of the control plane `coder`; that of `other` is the one that most tests share.
    first: &'static Coderd,
}

impl Move {
    async fn start(purpose: &str, attached: Attached) -> Self {
        let env = OperatorAccessEnv::shared().await;
        let alone = env.alone(purpose);
        let (ns, first) = (alone.namespace.as_str(), &alone.coderd);
        for name in ["coder", "other"] {
            let (_, url) = env.database();
            let database = format!("db-{name}");
            env.apply_secret(ns, &database, &json!({ "url": url })).await;
            let url = json!({ "secretKeyRef": { "name": database, "key": "url" } });
            let spec = json!({ "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "valueFrom": url }] });
            env.apply_control_plane(ns, name, &spec).await;
        }
        let started = Self { env, attached, ns, first };
        for (name, of) in [(MOVED, "coder"), (NEIGHBOUR, "other")] {
            started.belongs(name, of).await;
            started.until_made(name).await;
        }
        started
    }

    async fn belongs(&self, name: &str, to: &str) {
        let spec = json!({ "controlPlaneRef": { "name": to }, "replicas": 0 });
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": self.attached.kind,
            "metadata": { "name": name, "namespace": self.ns }, "spec": spec });
        self.env.apply(&object).await;
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        self.env.get(kind, self.ns, name).await.unwrap_or_default()
    }

    async fn until(&self, name: &str, what: &str, asked: impl Fn(&Value) -> bool) -> Value {
        self.env.until_object(&self.attached.kind.to_lowercase(), self.ns, name, what, asked).await
    }

    async fn until_made(&self, name: &str) {
        let record = self.attached.record;
        self.until(name, "recorded", |object| text(object, record) == name).await;
        let deployment = self.attached.deployment.replace(MOVED, name);
        self.env.until_object("deployment", self.ns, &deployment, "there", |one| !one.is_null()).await;
    }

    /// Has it looked at twice: a step that one reconcile leaves is done in the next.
    async fn looked_at(&self) -> Value {
        let mut object = Value::Null;
        for word in ["once", "twice"] {
            let kind = self.attached.kind.to_lowercase();
            let words =
                format!("annotate {kind} {MOVED} -n {} --overwrite coder.com/reconcile-at={word}", self.ns);
            self.env.cluster.kubectl(&words).await.expect_ok();
            let handled = |object: &Value| object["status"]["lastHandledReconcileAt"] == word;
            object = self.until(MOVED, "looked at", handled).await;
        }
        object
    }

    async fn label(&self, word: &str) {
        let words = format!("label namespace {} coder.com/admission{word}", self.ns);
        self.env.cluster.kubectl(&words).await.expect_ok();
    }

    /// Whether each of the two coderds knows it.
    fn is_known(&self) -> (bool, bool) {
        let knows = |coderd: &Coderd| (self.attached.names)(coderd).iter().any(|name| name == MOVED);
        (knows(self.first), knows(self.env.coderd()))
    }

    /// Where its pods go.
    async fn address(&self) -> String {
        let deployment = self.get("deployment", self.attached.deployment).await;
        let env = deployment.pointer("/spec/template/spec/containers/0/env").and_then(Value::as_array);
        let of = env.into_iter().flatten().find(|one| one["name"] == self.attached.address);
        of.map(|one| text(one, "/value").to_owned()).unwrap_or_default()
    }
}

async fn stays_while_admission_is_disabled_and_moves_afterwards(purpose: &str, attached: Attached) {
    let moved = Move::start(purpose, attached).await;
    let secret = moved.get("secret", moved.attached.secret).await["data"].clone();
    let template = moved.get("deployment", moved.attached.deployment).await["spec"]["template"].clone();
    assert_eq!((moved.is_known(), secret.is_object()), ((true, false), true));

    moved.label("=disabled").await;
    moved.belongs(MOVED, "other").await;
    let object = moved.looked_at().await;
    assert_eq!(moved.is_known(), (true, false), "nothing is made elsewhere: {}", object["status"]);
    assert_eq!(moved.get("secret", moved.attached.secret).await["data"], secret);
    let live = moved.get("deployment", moved.attached.deployment).await;
    assert_eq!(live["spec"]["template"], template, "its pods stay where they are");

    moved.label("-").await;
    until("it to move", LIMIT, async || {
        let known = moved.is_known();
        holds(known == (false, true), format!("{known:?}"))
    })
    .await;
    let ours = format!("http://other.{}.svc.cluster.local", moved.ns);
    let address = moved.address().await;
    assert!(address.starts_with(&ours), "{address}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_stays_while_admission_is_disabled_and_moves_afterwards() {
    stays_while_admission_is_disabled_and_moves_afterwards("moved-daemons", PROVISIONER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_stays_while_admission_is_disabled_and_moves_afterwards() {
    stays_while_admission_is_disabled_and_moves_afterwards("moved-proxy", PROXY).await;
}
