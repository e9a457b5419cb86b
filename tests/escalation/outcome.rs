//! What comes of attacks: authors against everything that is shipped, reconcilers included, on a cluster of its own. What
//! they could not do before they cannot do afterwards, tried with their own credentials and with those of every account
//! that their code runs as.

use super::gains::FOUNDER;
use super::reach::{Author, image_of, reach};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Deref;
use support::cluster::Answer;
use support::postgres::Postgres;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{Cluster, TestEnv, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
/// The namespaces that are worth an attack: the tenant's, another one, and the operator's.
const PLACES: [&str; 3] = ["coder", "team", "coder-system"];
/// May write our objects in `coder`, and nothing else.
const WRITER: &str = "mallory";
/// May run pods there as well.
const RUNNER: &str = "rupert";
/// May do nothing; what he writes to a Git repository is applied by a robot that may do everything.
const COMMITTER: &str = "greta";
const AUTHORS: [&str; 3] = [WRITER, RUNNER, COMMITTER];

fn object(kind: &str, name: &str, spec: &Value) -> String {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": kind, "metadata": { "name": name, "namespace": "coder" },
        "spec": spec })
    .to_string()
}

fn plane(name: &str, spec: &Value) -> String {
    object("CoderControlPlane", name, spec)
}

/// Everything of ours in the tenant's namespace, as it is known to the cluster.
async fn made(cluster: &Cluster) -> Vec<String> {
    let kinds = "deployments,services,serviceaccounts,roles,rolebindings,ingresses,secrets,pods";
    let names = cluster.kubectl(&format!("get {kinds} -n coder -o name")).await.expect_ok();
    let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// What an author wants: his code, the account and the Secret of others, a way in, the node, rights.
fn wishes(author: &str) -> [Value; 9] {
    let image = image_of(author);
    [
        json!({ "image": image }),
        json!({ "image": image, "serviceAccount": { "name": "robot" } }),
        json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] }),
        json!({ "serviceAccount": { "annotations": { "eks.amazonaws.com/role-arn": "r" } } }),
        json!({ "expose": { "ingress": { "host": "c.example.com" } } }),
        json!({ "service": { "type": "NodePort" } }),
        json!({ "securityContext": { "privileged": true } }),
        json!({ "volumes": [{ "name": "n", "hostPath": { "path": "/" } }] }),
        json!({ "rbac": { "extraRules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }] } }),
    ]
}

/// A [`TestEnv`] with all parts of the operator, a control plane of the administrator that runs, and the authors.
struct AuthorsEnv(TestEnv);

impl Deref for AuthorsEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.0
    }
}

impl AuthorsEnv {
    async fn start(flags: Vec<String>) -> Self {
        let env = TestEnv::builder(BINARY)
            .nodes(1)
            .shipped()
            .app("all")
            .without_coderd()
            .flags(flags)
            .admitting(&[])
            .start()
            .await;
        let cluster = &env.cluster;
        for words in [
            "create namespace people",
            "create namespace team",
            "create namespace coder",
            "create secret generic payroll -n coder --from-literal=token=canary",
            "create serviceaccount robot -n coder",
            "create rolebinding robot -n coder --clusterrole=admin --serviceaccount=coder:robot",
        ] {
            cluster.kubectl(words).await.expect_ok();
        }
        for name in AUTHORS {
            cluster.kubectl(&format!("create serviceaccount {name} -n people")).await.expect_ok();
        }
        let objects =
            "get,list,create,update,patch,delete codercontrolplanes.coder.com,coderprovisioners.coder.com";
        for (name, lines) in [(WRITER, vec![objects]), (RUNNER, [&[objects][..], &FOUNDER].concat())] {
            for (number, line) in lines.into_iter().enumerate() {
                let (verbs, resources) = line.split_once(' ').unwrap();
                let role = format!("{name}-{number}");
                for words in [
                    format!("create role {role} -n coder --verb={verbs} --resource={resources}"),
                    format!(
                        "create rolebinding {role} -n coder --role={role} --serviceaccount=people:{name}"
                    ),
                ] {
                    cluster.kubectl(&words).await.expect_ok();
                }
            }
        }
        let env = Self(env);
        env.sent(COMMITTER, &plane("coder", &json!({ "replicas": 1 }))).await.expect_ok();
        env.reconciled("coder").await;
        env
    }

    /// Runs kubectl as an author. What the committer writes is sent by a robot that is cluster-admin.
    async fn by(&self, author: &str, words: &str, input: &str) -> Answer {
        let mut words = words.to_owned();
        if author != COMMITTER {
            let kubeconfig = self.cluster.kubeconfig_for("people", author, &self.cluster.url()).await;
            words = format!("{words} --kubeconfig={}", kubeconfig.display());
        }
        self.cluster.kubectl_with_input(&words, input).await
    }

    async fn sent(&self, author: &str, object: &str) -> Answer {
        self.by(author, "apply --server-side --force-conflicts -f -", object).await
    }

    /// Waits until the operator has looked at the object as it is now.
    async fn reconciled(&self, name: &str) {
        let plane = self.get("codercontrolplane", "coder", name).await.expect("it is stored");
        let version = plane["metadata"]["resourceVersion"].as_str().unwrap();
        self.reconcile("coder", name, &format!("at-{version}")).await;
    }

    /// Deletes a control plane and waits for the end of its pods: whoever asks what they can do finds none without an account.
    async fn remove(&self, name: &str) {
        self.cluster.kubectl(&format!("delete ccp {name} -n coder")).await.expect_ok();
        let pods = format!("get pods -n coder -l app.kubernetes.io/instance={name} -o name");
        until(&format!("the pods of {name} to be gone"), LIMIT, async || {
            let pods = self.cluster.kubectl(&pods).await.expect_ok();
            holds(pods.trim().is_empty(), pods)
        })
        .await;
    }

    async fn reach(&self, author: &'static str) -> BTreeSet<String> {
        reach(&Author { cluster: &self.cluster, name: author }, &PLACES).await
    }

    async fn reaches(&self) -> Vec<BTreeSet<String>> {
        let mut all = Vec::new();
        for author in AUTHORS {
            all.push(self.reach(author).await);
        }
        all
    }

    /// Nobody can do anything that he could not do before.
    async fn nothing_gained(&self, attack: &str, before: &[BTreeSet<String>]) {
        for (author, before) in AUTHORS.into_iter().zip(before) {
            let after = self.reach(author).await;
            let gained: Vec<&String> = after.difference(before).collect();
            assert!(gained.is_empty(), "{attack}: {author} can now {gained:?}\n{}", self.log().await);
        }
    }

    /// Sends every wish of somebody who may only write objects, as a new object, over a stored one, and over one that is
    /// being deleted.
    async fn wished_in_vain(&self) {
        for spec in wishes(WRITER) {
            for (way, name) in [("create", "mine"), ("apply --server-side --force-conflicts", "coder")] {
                let sent = self.by(WRITER, &format!("{way} -f -"), &plane(name, &spec)).await;
                let refused = sent.expect_refused();
                assert!(refused.contains("(CODER05"), "{way} {spec}: {refused}");
            }
        }
        let hold =
            r#"patch ccp coder -n coder --type=merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#;
        self.cluster.kubectl(hold).await.expect_ok();
        self.by(WRITER, "delete ccp coder -n coder --wait=false", "").await.expect_ok();
        for spec in wishes(WRITER) {
            let change = json!({ "spec": spec }).to_string();
            let words = format!("patch ccp coder -n coder --type=merge -p {change}");
            let refused = self.by(WRITER, &words, "").await.expect_refused();
            assert!(refused.contains("(CODER05"), "under deletion {spec}: {refused}");
        }
    }
}

/// The attacks of somebody who may only write our objects: nothing comes of any of them.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_of_an_attack_and_the_author_can_do_no_more_than_before() {
    let env = AuthorsEnv::start(Vec::new()).await;
    let cluster = &env.cluster;
    let (before, reaches) = (made(cluster).await, env.reaches().await);
    assert_eq!(reaches[0], BTreeSet::new(), "he starts with nothing");

    env.wished_in_vain().await;
    // The operator has been through all of it once an object that came later is there.
    env.sent(COMMITTER, &plane("later", &json!({ "replicas": 0 }))).await.expect_ok();
    env.reconciled("later").await;
    let after: Vec<String> = made(cluster).await.into_iter().filter(|name| !name.contains("later")).collect();
    assert_eq!(after, before);
    env.nothing_gained("every wish", &reaches).await;
}

/// The attacks of authors whose objects are stored, because they may run pods or because a robot may do everything.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_have_an_object_stored_gains_nothing_by_what_comes_of_it() {
    let env = AuthorsEnv::start(Vec::new()).await;
    let cluster = &env.cluster;
    let before = env.reaches().await;
    let runs = "POST /api/v1/namespaces/coder/pods".to_owned();
    assert!(before[1].contains(&runs) && before[2].is_empty(), "{before:?}");

    // An object that is named after an account of somebody else.
    for author in [RUNNER, COMMITTER] {
        env.sent(author, &plane("robot", &json!({ "image": image_of(author) }))).await.expect_ok();
        env.reconciled("robot").await;
        env.nothing_gained("named after an account", &before).await;
        env.remove("robot").await;
    }

    // Whoever may run pods runs them by our objects too, and gets neither a way in nor rights by them.
    let refusals = ["(CODER0510)", "(CODER0502)"];
    let mut refused = 0;
    for spec in wishes(RUNNER) {
        let answer = env.sent(RUNNER, &plane("mine", &spec)).await;
        if answer.ok {
            env.reconciled("mine").await;
        } else {
            refused += 1;
            assert!(refusals.iter().any(|code| answer.stderr.contains(code)), "{spec}: {}", answer.stderr);
        }
    }
    assert_eq!(refused, 3, "ingress, node port and rules are not his");
    env.nothing_gained("what he may run", &before).await;
    env.remove("mine").await;

    // Where the webhooks are switched off the policy asks, and what passes it widens nothing.
    cluster.kubectl("label namespace coder coder.com/admission=disabled").await.expect_ok();
    until("the policy to be in force", LIMIT, async || {
        let answer = env.sent(WRITER, &plane("coder", &json!({ "image": image_of(WRITER) }))).await;
        holds(answer.stderr.contains("CODER0511"), answer.stderr)
    })
    .await;
    for author in [WRITER, RUNNER] {
        for spec in wishes(author) {
            let refused = env.sent(author, &plane("coder", &spec)).await.expect_refused();
            assert!(refused.contains("CODER0511"), "{author} {spec}: {refused}");
        }
    }
    for spec in wishes(COMMITTER) {
        env.sent(COMMITTER, &plane("coder", &spec)).await.expect_ok();
        env.reconciled("coder").await;
        env.nothing_gained(&format!("without webhooks: {spec}"), &before).await;
    }

    // The same try finds what there is to find: with the webhooks back the robot, who may do everything, was asked.
    cluster.kubectl("label namespace coder coder.com/admission-").await.expect_ok();
    let asked = json!({ "image": image_of(COMMITTER), "serviceAccount": { "name": "robot" } });
    env.sent(COMMITTER, &plane("coder", &asked)).await.expect_ok();
    until("the pods to run as the account that is named", LIMIT, async || {
        let reach = env.reach(COMMITTER).await;
        holds(reach.contains("GET /api/v1/namespaces/coder/secrets"), format!("{reach:?}"))
    })
    .await;
}

const DATABASE: &str = "CODER_PG_CONNECTION_URL";

/// A token of our own exists only while something needs it, nobody of the tenant reads it, and what a thief took of it is
/// worth nothing once it is not needed.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_nothing_needs_a_token_for_makes_nobody_powerful_in_coderd() {
    let postgres = Postgres::start();
    let env = AuthorsEnv::start(vec![format!("--resolve={}", postgres.resolve_rule())]).await;
    let cluster = &env.cluster;
    let database = postgres.coderd_database("v2.36.1");
    let url = postgres.url("postgres", &database, "sslmode=disable");
    env.apply_secret("coder", "db", &json!({ "url": url })).await;
    let before = env.reaches().await;
    let key = json!({ "name": DATABASE, "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } });
    let spec = json!({ "image": image_of(RUNNER), "extraEnv": [key] });
    let live = || postgres.sql(&database, "SELECT count(*) FROM api_keys WHERE expires_at > now()");
    let tokens = "get secrets -n coder-system -o name";
    let recorded = async || cluster.kubectl(tokens).await.expect_ok().contains("operator-token");

    env.sent(RUNNER, &plane("mine", &spec)).await.expect_ok();
    env.reconciled("mine").await;
    assert_eq!(
        (postgres.sql(&database, "SELECT username FROM users").as_str(), recorded().await),
        ("", false)
    );
    env.nothing_gained("what he may run", &before).await;

    let provisioner =
        object("CoderProvisioner", "builders", &json!({ "controlPlaneRef": { "name": "mine" } }));
    env.sent(WRITER, &provisioner).await.expect_refused();
    env.sent(RUNNER, &provisioner).await.expect_ok();
    until("a token", LIMIT, async || holds(live() == "1" && recorded().await, live())).await;
    assert_eq!(postgres.sql(&database, "SELECT rbac_roles FROM users"), "{template-admin}");
    env.nothing_gained("what he may run", &before).await;
    let thief = postgres.sql(&database, "SELECT id FROM api_keys");

    env.by(RUNNER, "delete coderprovisioner builders -n coder", "").await.expect_ok();
    until("the token to be gone", LIMIT, async || holds(live() == "0" && !recorded().await, live())).await;
    let left = format!("SELECT count(*) FROM api_keys WHERE id = '{thief}' AND expires_at > now()");
    assert_eq!(postgres.sql(&database, &left), "0");
    assert_eq!(postgres.sql(&database, "SELECT rbac_roles FROM users"), "{}");
}
