//! Somebody who may write statuses, or name the keys of others in an annotation: no key of others is deleted, and no token
//! goes where a status says.

use serde_json::{Value, json};
use std::ops::Deref;
use support::TestEnv;
use support::coderd::{Coderd, Role};
use support::objects::{is_ready, provisioner};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
/// An address of the thief's.
const ELSEWHERE: &str = "coderd.thief.example.com";

/// A [`TestEnv`] with the control plane `coder` in each of two namespaces, which share a coderd, and provisioners of them.
struct KeysEnv {
    env: TestEnv,
    /// What listens at the address of the thief.
    elsewhere: Coderd,
    /// Where the victim is, and a neighbour.
    home: String,
    /// Where the thief is.
    other: String,
}

impl Deref for KeysEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl KeysEnv {
    async fn start() -> Self {
        let elsewhere = Coderd::builder().api_rate_limit(None).start().await;
        let flag = format!("--resolve={ELSEWHERE}={}", elsewhere.addr());
        let env = TestEnv::builder(BINARY).nodes(1).flag(flag).start().await;
        let [home, other] = [env.cluster.namespace("home").await, env.cluster.namespace("other").await];
        for namespace in [&home, &other] {
            let token = env.coderd().token_for(&[Role::TemplateAdmin]);
            env.apply_secret(namespace, "operator-token", &json!({ "token": token })).await;
            let access = json!({ "tokenSecretRef": { "name": "operator-token" } });
            let spec = json!({ "replicas": 0, "operatorAccess": access });
            env.apply_control_plane(namespace, "coder", &spec).await;
        }
        let env = Self { env, elsewhere, home, other };
        env.made(&env.home, "victim").await;
        env.made(&env.home, "neighbour").await;
        env.made(&env.other, "thief").await;
        env
    }

    /// A provisioner that is ready with its key.
    async fn made(&self, namespace: &str, name: &str) {
        let mut object = provisioner(namespace, name, "coder");
        object["spec"]["replicas"] = json!(0);
        self.apply(&object).await;
        self.until_object("coderprovisioner", namespace, name, "Ready", is_ready).await;
    }

    async fn status(&self, namespace: &str, name: &str) -> Value {
        self.get("coderprovisioner", namespace, name).await.expect("it is there")["status"].clone()
    }

    /// Writes a part of a status, as somebody may whom RBAC lets.
    async fn forge(&self, kind: &str, namespace: &str, name: &str, part: &str, value: &Value) {
        let patch = json!([{ "op": "add", "path": format!("/status/{part}"), "value": value }]);
        let patch = serde_json::to_string(&patch).expect("a patch");
        let words = format!("patch {kind} {name} -n {namespace} --subresource=status --type=json -p {patch}");
        self.cluster.kubectl(&words).await.expect_ok();
    }

    async fn annotate(&self, namespace: &str, name: &str, annotation: &str) {
        let words = format!("annotate coderprovisioner {name} -n {namespace} --overwrite {annotation}");
        self.cluster.kubectl(&words).await.expect_ok();
    }

    /// Waits until the operator has looked at it twice: a step that one reconcile leaves is done in the next.
    async fn looked_at(&self, namespace: &str, name: &str, word: &str) {
        for word in [format!("{word}-1"), format!("{word}-2")] {
            self.annotate(namespace, name, &format!("coder.com/reconcile-at={word}")).await;
            let handled = |object: &Value| object["status"]["lastHandledReconcileAt"] == word.as_str();
            self.until_object("coderprovisioner", namespace, name, "to be looked at", handled).await;
        }
    }

    /// The names of all keys in coderd.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.coderd().provisioner_keys("default").into_iter().map(|key| key.name).collect();
        names.sort();
        names
    }

    /// The names of the keys that coderd was asked to delete.
    fn deleted(&self) -> Vec<String> {
        let calls = self.coderd().calls_to("DELETE /organizations/{org}/provisionerkeys/{key}");
        calls.iter().map(|call| call.path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
    }
}

/// Records that name the key of the victim, as far as they can be made of what everybody reads in statuses.
fn forgeries(victim: &Value, own: &Value) -> Vec<(&'static str, Value)> {
    let (theirs, mine) = (&victim["key"]["current"], &own["key"]["current"]);
    let with = |entry: &Value, field: &str, value: Value| {
        let mut entry = entry.clone();
        entry[field] = value;
        entry
    };
    let record = |field: &str, value: Value| with(&own["key"], field, value);
    let named = with(&with(mine, "name", theirs["name"].clone()), "id", theirs["id"].clone());
    let mut unknown = with(&named, "attempted", json!(true));
    unknown.as_object_mut().expect("an entry").remove("id");
    vec![
        ("the whole record of the victim", victim["key"].clone()),
        ("their key on its way out", record("retiring", json!([theirs]))),
        ("their key on its way out, sealed as the own one", record("retiring", json!([named]))),
        ("their key on its way out, without an id", record("retiring", json!([unknown.clone()]))),
        ("their key in use", record("current", theirs.clone())),
        ("their key under way", record("pending", unknown)),
        ("their key without a seal", record("retiring", json!([with(theirs, "seal", json!(""))]))),
        ("their Secret", record("secrets", victim["key"]["secrets"].clone())),
        ("a number without end", record("generation", json!(i64::MAX))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_record_deletes_no_key_of_others() {
    let env = KeysEnv::start().await;
    assert_eq!(env.names(), ["neighbour", "thief", "victim"]);
    let victim = env.status(&env.home, "victim").await;
    let secret = "victim-provisioner-key";
    let kept = env.get("secret", &env.home, secret).await.expect("it is there");
    for (namespace, name) in [(&env.home, "neighbour"), (&env.other, "thief")] {
        let own = env.status(namespace, name).await;
        for (number, (what, record)) in forgeries(&victim, &own).into_iter().enumerate() {
            env.forge("coderprovisioner", namespace, name, "key", &record).await;
            env.looked_at(namespace, name, &format!("{name}-{number}")).await;
            assert_eq!(env.deleted(), Vec::<String>::new(), "{what}, by {name}");
            assert_eq!(env.names(), ["neighbour", "thief", "victim"], "{what}, by {name}");
            let current = &env.status(namespace, name).await["key"]["current"]["name"];
            assert_eq!(current, name, "{what}: its own key stays in use");
        }
    }
    assert_eq!(env.get("secret", &env.home, secret).await, Some(kept), "nobody touched the Secret");
    env.looked_at(&env.home, "victim", "victim").await;
    assert_eq!(env.status(&env.home, "victim").await["key"], victim["key"]);
    env.coderd().assert_no_violations();
}

/// Whoever may run pods may ask for a key to be taken over; one that an object here has recorded is not free.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_provisioner_is_adopted_by_nobody() {
    let env = KeysEnv::start().await;
    for (namespace, name) in [(&env.home, "neighbour"), (&env.other, "thief")] {
        for key in ["victim", "VICTIM"] {
            env.annotate(namespace, name, &format!("coder.com/adopt-key={key}")).await;
            env.looked_at(namespace, name, &format!("{name}-{key}")).await;
            assert_eq!((env.deleted(), env.names().len()), (Vec::new(), 3), "{key} by {name}");
        }
    }
    // The counterpart: one that nobody here has recorded is taken over, and goes.
    env.coderd().add_provisioner_key("default", "stray", &[]);
    env.annotate(&env.other, "thief", "coder.com/adopt-key=stray").await;
    until("the stray key to be gone", LIMIT, async || {
        let names = env.names();
        holds(names == ["neighbour", "thief", "victim"], format!("{names:?}"))
    })
    .await;
    assert_eq!(env.deleted(), ["stray"]);
}

/// A status is what was observed, and no address.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_goes_where_a_status_says() {
    let env = KeysEnv::start().await;
    let url = json!(format!("http://{ELSEWHERE}"));
    for (number, (kind, name, part)) in
        [("coderprovisioner", "thief", "controlPlaneURL"), ("codercontrolplane", "coder", "url")]
            .into_iter()
            .enumerate()
    {
        env.forge(kind, &env.other, name, part, &url).await;
        env.looked_at(&env.other, "thief", &format!("url-{number}")).await;
    }
    let secret = json!({ "name": "operator-token", "key": "token", "namespace": env.home });
    env.forge("codercontrolplane", &env.other, "coder", "operatorTokenSecretRef", &secret).await;
    env.looked_at(&env.other, "thief", "token").await;
    // A new key takes every call there is.
    let patch = r#"patch coderprovisioner thief --type=merge -p {"spec":{"tags":{"zone":"eu"}}} -n"#;
    env.cluster.kubectl(&format!("{patch} {}", env.other)).await.expect_ok();
    until("another key", LIMIT, async || {
        let names = env.names();
        holds(names == ["neighbour", "thief-2", "victim"], format!("{names:?}"))
    })
    .await;
    let calls: Vec<String> = env.elsewhere.calls().into_iter().map(|call| call.route).collect();
    assert_eq!(calls, Vec::<String>::new(), "nobody was asked there");
}
