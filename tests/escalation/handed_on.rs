//! What the operator itself may do is handed on to nobody: a robot that is cluster-admin for authors of little trust asks
//! for it by `extraRules`, and whoever came of it tries with real credentials. The account that Roles are written as is
//! the cap, and an administrator moves it.

use http::Request;
use serde_json::{Value, json};
use std::ops::Deref;
use support::objects::condition;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, objects, until};

/// An account for which nobody asks anything: what it may do, everybody may.
const BYSTANDER: &str = "bystander";

/// A [`TestEnv`] with admission and reconcilers, a namespace with a robot, and one that agreed to hold its workspaces.
struct RobotEnv {
    env: TestEnv,
    robot: kube::Client,
    home: String,
    team: String,
}

impl Deref for RobotEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl RobotEnv {
    async fn start() -> Self {
        let builder = TestEnv::builder(env!("CARGO_BIN_EXE_coder-k8s")).app("all").without_coderd();
        let env = builder.admitting(&[]).start().await;
        let cluster = &env.cluster;
        let (home, team) = (cluster.namespace("robots").await, cluster.namespace("team").await);
        for words in [
            format!("label namespace {team} coder.com/workspaces-from={home}"),
            format!("create serviceaccount robot -n {home}"),
            format!("create serviceaccount {BYSTANDER} -n {home}"),
            format!(
                "create clusterrolebinding robot --clusterrole=cluster-admin --serviceaccount={home}:robot"
            ),
        ] {
            cluster.kubectl(&words).await.expect_ok();
        }
        let robot = cluster.client_of(&cluster.kubeconfig_for(&home, "robot", &cluster.url()).await).await;
        Self { env, robot, home, team }
    }

    /// Applies the control plane as the robot does for whoever writes to its Git repository.
    async fn apply_as_robot(&self, extra: &Value) {
        let spec = json!({ "rbac": { "workspaceNamespaces": [self.team], "extraRules": extra } });
        let plane = objects::control_plane(&self.home, "coder", &spec);
        let path = format!("/apis/coder.com/v1alpha1/namespaces/{}/codercontrolplanes/coder", self.home);
        let request = Request::patch(format!("{path}?fieldManager=git&force=true"))
            .header("content-type", "application/apply-patch+yaml");
        let request = request.body(plane.to_string().into_bytes()).unwrap();
        self.robot.request::<Value>(request).await.expect("a cluster-admin may ask for anything");
    }

    /// Waits until what is asked for now was looked at, and returns what is said of the rights of coderd.
    async fn looked_at(&self) -> Value {
        self.until_said("the change to be looked at", |_| true).await
    }

    async fn until_said(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let said = |plane: &Value| {
            let said = condition(plane, "WorkspaceRBACReady");
            said.is_object() && said["observedGeneration"] == plane["metadata"]["generation"] && wanted(said)
        };
        let plane = self.until(&self.home, "coder", what, said).await;
        condition(&plane, "WorkspaceRBACReady").clone()
    }

    /// Requests a reconcile once the API server knows whether an account of the operator may do something.
    async fn once(&self, account: &str, question: &str, expected: &str) {
        let user = format!("system:serviceaccount:{}:{account}", self.installation.namespace);
        until(&format!("{account} {question}: {expected}"), LIMIT, async || {
            let answer = self.cluster.kubectl(&format!("auth can-i {question} --as={user}")).await;
            holds(answer.stdout.trim() == expected, answer.stdout)
        })
        .await;
        let words = format!(
            "annotate ccp coder -n {} --overwrite coder.com/reconcile-at={account}-{expected}",
            self.home
        );
        self.cluster.kubectl(&words).await.expect_ok();
    }

    /// Every Role and RoleBinding of coderd, by uid and version.
    async fn grants(&self) -> Vec<String> {
        let mut all = Vec::new();
        for place in [&self.home, &self.team] {
            let words = format!("get role,rolebinding -n {place} -o json");
            let list: Value = serde_json::from_str(&self.cluster.kubectl(&words).await.expect_ok()).unwrap();
            let line = |one: &Value| {
                format!(
                    "{place} {} {} {}",
                    one["kind"], one["metadata"]["uid"], one["metadata"]["resourceVersion"]
                )
            };
            all.extend(list["items"].as_array().unwrap().iter().map(line));
        }
        all
    }

    /// What the account that came of it can do of what was asked for, with its own credentials, and what a bystander can.
    async fn gained(&self) -> Vec<String> {
        let mut gained = Vec::new();
        for account in ["coder", BYSTANDER] {
            let kubeconfig = self.cluster.kubeconfig_for(&self.home, account, &self.cluster.url()).await;
            let client = self.cluster.client_of(&kubeconfig).await;
            for place in [&self.home, &self.team] {
                let ingresses = format!("/apis/networking.k8s.io/v1/namespaces/{place}/ingresses");
                let roles = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{place}/roles");
                for request in [
                    Request::get(format!("/api/v1/namespaces/{place}/secrets")),
                    Request::get(format!("/api/v1/namespaces/{place}/secrets/payroll")),
                    Request::delete(format!("{ingresses}/shop")),
                    Request::get(&roles),
                ] {
                    let request = request.body(Vec::new()).unwrap();
                    let what = format!("{account}: {} {}", request.method(), request.uri());
                    match client.request::<Value>(request).await {
                        Err(kube::Error::Api(status)) if status.code == 403 => {}
                        Err(kube::Error::Api(status)) if status.code == 404 => gained.push(what),
                        Ok(_) => gained.push(what),
                        Err(error) => panic!("{what}: {error}"),
                    }
                }
            }
        }
        gained
    }
}

/// Everything that is asked for here the operator holds in every namespace, and coderd is to have none of it.
fn of_the_operator() -> Value {
    json!([
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] },
        { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["delete"] },
    ])
}

#[tokio::test]
async fn a_cluster_admin_robot_hands_on_nothing_that_the_operator_holds_and_may_not_give() {
    let env = RobotEnv::start().await;
    let cluster = &env.cluster;
    env.apply_as_robot(&json!([])).await;
    let said = env.looked_at().await;
    assert_eq!(said["status"], "True", "{said}");
    let before = env.grants().await;
    assert_eq!(before.len(), 4, "{before:?}");

    env.apply_as_robot(&of_the_operator()).await;
    let said = env.looked_at().await;
    assert_eq!(env.gained().await, Vec::<String>::new(), "{said}");
    assert_eq!(env.grants().await, before, "what was granted stays as it is");
    let account = format!("{}/{}", env.installation.namespace, env.installation.grants_account);
    assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("Refused")), "{said}");
    let message = said["message"].as_str().unwrap();
    for words in ["secrets", &format!("ServiceAccount {account}"), "spec.rbac.extraRules"] {
        assert!(message.contains(words), "{words}: {message}");
    }

    // As the message says.
    let (name, subject) = ("wider", account.replace('/', ":"));
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": of_the_operator() });
    cluster.kubectl_with_input("apply -f -", &role.to_string()).await.expect_ok();
    let bind = format!("create clusterrolebinding {name} --clusterrole={name} --serviceaccount={subject}");
    cluster.kubectl(&bind).await.expect_ok();
    env.once(&env.installation.grants_account, &format!("list secrets -n {}", env.team), "yes").await;
    env.until_said("what the administrator allows", |said| said["status"] == "True").await;
    // By uid: what was there is still the same object.
    let uids = |grants: &[String]| -> Vec<String> {
        grants.iter().map(|one| one.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    assert_eq!(uids(&env.grants().await), uids(&before));
    let gained = env.gained().await;
    assert_eq!(gained.len(), 6, "list, get and delete in both namespaces, and for coderd alone: {gained:?}");
    assert!(gained.iter().all(|one| one.starts_with("coder: ") && !one.contains("roles")), "{gained:?}");
}

#[tokio::test]
async fn without_that_account_nothing_is_taken_away_and_the_message_says_what_is_lacking() {
    let env = RobotEnv::start().await;
    let cluster = &env.cluster;
    env.apply_as_robot(&json!([])).await;
    assert_eq!(env.looked_at().await["status"], "True");
    let before = env.grants().await;

    let installation = &env.installation;
    let (namespace, grants) = (&installation.namespace, &installation.grants_account);
    let pods = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let lacking = async |what: &str| -> String {
        let said = env.until_said(what, |said| said["status"] == "False").await;
        assert_eq!(said["reason"], "Refused", "{said}");
        assert_eq!(env.grants().await, before, "what was granted stays as it is");
        said["message"].as_str().unwrap().to_owned()
    };
    // The account may not write Roles: an overlay without its ClusterRoleBinding.
    cluster.kubectl(&format!("delete clusterrolebinding {grants}")).await.expect_ok();
    env.once(grants, &format!("patch roles -n {}", env.team), "no").await;
    env.apply_as_robot(&pods).await;
    let message = lacking("the account to be refused").await;
    for words in [format!("ServiceAccount {namespace}/{grants}"), "ClusterRole coder-k8s-grants".to_owned()] {
        assert!(message.contains(&words), "{words}: {message}");
    }
    // The operator may not act as the account: an overlay without the rule of its Role.
    let role = format!("get role {namespace}-coder-k8s-operator -n {namespace} -o json");
    let mut role: Value = serde_json::from_str(&cluster.kubectl(&role).await.expect_ok()).unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    let count = rules.len();
    rules.retain(|rule| rule["verbs"] != json!(["impersonate"]));
    assert_eq!(rules.len(), count - 1);
    cluster.kubectl_with_input("replace -f -", &role.to_string()).await.expect_ok();
    let operator = &installation.service_account;
    env.once(operator, &format!("impersonate serviceaccounts/{grants} -n {namespace}"), "no").await;
    let message = until("the operator to be refused", LIMIT, async || {
        let message = lacking("the refusal").await;
        holds(message.contains("may not act as"), message.clone()).map(|()| message)
    })
    .await;
    for words in [format!("ServiceAccount {namespace}/{grants}"), "Role coder-k8s-operator".to_owned()] {
        assert!(message.contains(&words), "{words}: {message}");
    }
    // A namespace that refuses cannot be obeyed now; it is once the manifests are whole again.
    let refuse = format!("label namespace {} --overwrite coder.com/workspaces-from=none", env.team);
    cluster.kubectl(&refuse).await.expect_ok();
    env.installation.mend().await;
    until("the grant to be revoked", LIMIT, async || {
        let left = env.grants().await.into_iter().filter(|one| one.starts_with(&env.team)).count();
        holds(left == 0, format!("{left} left"))
    })
    .await;
    assert_eq!(env.gained().await, Vec::<String>::new());
}
