//! A namespace under the shipped webhooks, people with exactly the rights a case gives them, and what they send.
//! It never decides what must be refused.

use http::{Method, Request};
use kube::core::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::test_env::LIMIT;
use support::wait::holds;
use support::{Cluster, TestEnv, until};
use tokio::sync::OnceCell;
use webhooks::Kind;

/// Members may write our kinds in the tenant's namespace, read a Secret of their own, and nothing else.
const AUTHORS: &str = "authors";
/// The Secret authors may read: without credentials of its own no proxy can be written at all.
const OWN_SECRET: &str = "mine";
/// Namespaces of others.
const TEAMS: [&str; 2] = ["team-a", "team-b"];

/// One namespace in which people write objects, while the webhooks of a real operator look at them.
pub struct Tenant {
    pub namespace: String,
    /// Another namespace, whose label keeps the webhooks out.
    pub unguarded: String,
    // It runs as long as this process.
    _env: TestEnv,
}

/// Someone who sends requests.
#[derive(Clone, Debug)]
pub enum Person {
    /// Everything is allowed.
    Administrator,
    /// A member of [`AUTHORS`] and of more groups.
    Author { name: String, groups: Vec<String> },
}

/// How an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Create,
    Apply,
    /// Over the one that is stored.
    Update,
}

/// Fields and codes of a denial.
pub type Causes = BTreeSet<(String, String)>;

static NUMBERS: AtomicUsize = AtomicUsize::new(0);

/// A name nothing else has.
pub fn fresh(prefix: &str) -> String {
    format!("{prefix}-{}", NUMBERS.fetch_add(1, Ordering::Relaxed))
}

impl Tenant {
    /// The one all cases share.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Tenant> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let [namespace, unguarded] =
            [cluster.namespace("tenant").await, cluster.namespace("unguarded").await];
        cluster
            .kubectl(&format!("label namespace {unguarded} coder.com/admission=disabled"))
            .await
            .expect_ok();
        for team in TEAMS {
            cluster.kubectl(&format!("create namespace {team}")).await.expect_ok();
        }
        let env = TestEnv::builder(env!("CARGO_BIN_EXE_coder-k8s"))
            .in_cluster(cluster)
            .app("webhooks")
            .without_coderd()
            .admitting(&[&namespace, &unguarded])
            .start()
            .await;
        let tenant = Self { namespace, unguarded, _env: env };
        let writing = "create,update,patch,get codercontrolplanes,coderprovisioners,coderworkspaceproxies";
        let scaling = "get,patch codercontrolplanes/scale";
        let own = format!("get secrets {OWN_SECRET}");
        for desk in [tenant.desk().await, tenant.unguarded_desk().await] {
            for line in [format!("{writing}.coder.com"), format!("{scaling}.coder.com"), own.clone()] {
                desk.grant(&json!({ "kind": "Group", "name": AUTHORS }), &line).await;
            }
        }
        let desk = tenant.desk().await;
        // The API server learns of a new webhook by its own watch.
        until("the webhooks to be in force", LIMIT, async || {
            let probe = object(Kind::ControlPlane, "probe", &json!({}));
            let answer = desk.send(&Person::Administrator, Way::Create, true, &probe).await;
            let answer = answer.map_err(|error| error.to_string())?;
            holds(answer["spec"]["image"].is_string(), "not defaulted yet")
        })
        .await;
        tenant
    }

    /// A connection for the calling test.
    pub async fn desk(&self) -> Desk<'_> {
        Desk { namespace: &self.namespace, client: Cluster::shared().await.client().await }
    }

    /// The same for the namespace that the webhooks do not look at.
    pub async fn unguarded_desk(&self) -> Desk<'_> {
        Desk { namespace: &self.unguarded, client: Cluster::shared().await.client().await }
    }
}

/// An object of the tenant; what the kind cannot do without is added.
pub fn object(kind: Kind, name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    let connected =
        ["controlPlaneRef", "bootstrap", "primaryAccessURL"].iter().any(|key| !spec[key].is_null());
    match kind {
        Kind::Provisioner => {
            if spec["controlPlaneRef"].is_null() {
                spec["controlPlaneRef"] = json!({ "name": "coder" });
            }
            // One with privileges names its image, by CODER0225: here it is who may give them that counts.
            if spec["image"].is_null() {
                spec["image"] = json!("registry.example.com/daemon:v1");
            }
        }
        Kind::WorkspaceProxy if !connected => {
            let credentials = json!({ "name": OWN_SECRET });
            spec["bootstrap"] =
                json!({ "coderURL": "https://coder.example.com", "credentialsSecretRef": credentials });
        }
        _ => {}
    }
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": kind.name(), "metadata": { "name": name }, "spec": spec })
}

/// What a test sends and asks.
pub struct Desk<'a> {
    namespace: &'a str,
    client: kube::Client,
}

/// One line of rights: `get,list secrets,configmaps payroll @team-a`; `@*` for all namespaces.
struct Grant<'a> {
    verbs: Vec<&'a str>,
    resources: Vec<&'a str>,
    group: &'a str,
    name: Option<&'a str>,
    namespace: &'a str,
}

impl<'a> Grant<'a> {
    fn read(line: &'a str, own: &'a str) -> Self {
        let (line, namespace) = line.split_once(" @").unwrap_or((line, own));
        let mut words = line.split(' ');
        let (verbs, resources) = (words.next().unwrap(), words.next().unwrap());
        let (resources, group) = resources.split_once('.').unwrap_or((resources, ""));
        Self {
            verbs: verbs.split(',').collect(),
            resources: resources.split(',').collect(),
            group,
            name: words.next(),
            namespace,
        }
    }
}

impl Desk<'_> {
    /// A person who may write our kinds and has these rights besides, once the API server knows of them.
    pub async fn person(&self, rights: &[&str]) -> Person {
        let name = fresh("person");
        for line in rights {
            self.grant(&json!({ "kind": "User", "name": name }), line).await;
        }
        Person::Author { name, groups: Vec::new() }
    }

    /// A person who holds what the built-in ClusterRole `edit` is put together from, in this namespace.
    pub async fn editor(&self) -> Person {
        let name = fresh("editor");
        let subject = json!({ "kind": "User", "name": name });
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings", self.namespace);
        for part in ["system:aggregate-to-edit", "system:aggregate-to-view"] {
            let role =
                json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": part });
            let binding = json!({ "kind": "RoleBinding", "metadata": { "name": fresh("editor") },
                "roleRef": role, "subjects": [subject] });
            self.post(&path, &binding).await;
        }
        for verb in ["create", "list"] {
            let attributes = json!({ "verb": verb, "group": "apps", "resource": "deployments",
                "namespace": self.namespace });
            until("a role to be known", LIMIT, async || self.may(&subject, &attributes).await).await;
        }
        Person::Author { name, groups: Vec::new() }
    }

    /// Gives a subject the rights of a line.
    pub async fn grant(&self, subject: &Value, line: &str) {
        let Grant { verbs, resources, group, name, namespace } = Grant::read(line, self.namespace);
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let (place, role, binding) = match namespace {
            "*" => (rbac.to_owned(), "ClusterRole", "ClusterRoleBinding"),
            _ => (format!("{rbac}/namespaces/{namespace}"), "Role", "RoleBinding"),
        };
        let called = json!({ "name": fresh("right") });
        let mut rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": resources });
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        let role_ref =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": called["name"] });
        let subjects = json!([subject]);
        for object in [
            json!({ "kind": role, "metadata": called, "rules": [rule] }),
            json!({ "kind": binding, "metadata": called, "roleRef": role_ref, "subjects": subjects }),
        ] {
            let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
            self.post(&format!("{place}/{plural}"), &object).await;
        }
        let (resource, subresource) = resources[0].split_once('/').unwrap_or((resources[0], ""));
        let place = if namespace == "*" { "default" } else { namespace };
        let attributes = json!({ "verb": verbs[0], "group": group, "resource": resource,
            "subresource": subresource, "namespace": place, "name": name.unwrap_or_default() });
        until("a right to be known", LIMIT, async || self.may(subject, &attributes).await).await;
    }

    async fn may(&self, subject: &Value, attributes: &Value) -> Result<(), String> {
        let who = match subject["kind"].as_str().unwrap() {
            "Group" => json!({ "user": "somebody", "groups": [subject["name"]] }),
            "ServiceAccount" => {
                let [namespace, name] = ["namespace", "name"].map(|key| subject[key].as_str().unwrap());
                json!({ "user": format!("system:serviceaccount:{namespace}:{name}") })
            }
            _ => json!({ "user": subject["name"] }),
        };
        let mut spec = who;
        spec["resourceAttributes"] = attributes.clone();
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.post(reviews, &json!({ "spec": spec })).await;
        holds(answer["status"]["allowed"] == json!(true), format!("{attributes} is not allowed yet"))
    }

    async fn post(&self, path: &str, object: &Value) -> Value {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn path(&self, object: &Value) -> String {
        let kind = Kind::from_name(object["kind"].as_str().unwrap()).unwrap();
        format!("/apis/coder.com/v1alpha1/namespaces/{}/{}", self.namespace, kind.plural())
    }

    /// Sends an object as somebody.
    pub async fn send(
        &self,
        person: &Person,
        way: Way,
        dry_run: bool,
        object: &Value,
    ) -> Result<Value, kube::Error> {
        let (all, name) = (self.path(object), object["metadata"]["name"].as_str().unwrap());
        let dry = if dry_run { "dryRun=All" } else { "" };
        let (method, path, content) = match way {
            Way::Create => (Method::POST, format!("{all}?{dry}"), "application/json"),
            Way::Update => (Method::PUT, format!("{all}/{name}?{dry}"), "application/json"),
            Way::Apply => (
                Method::PATCH,
                format!("{all}/{name}?fieldManager=git&{dry}"),
                "application/apply-patch+yaml",
            ),
        };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.client.request(as_person(person, request).body(object.to_string().into_bytes()).unwrap()).await
    }

    /// Stores an object as the administrator and returns it as it is stored.
    pub async fn stored(&self, kind: Kind, name: &str, spec: &Value) -> Result<Value, String> {
        let sent = self.send(&Person::Administrator, Way::Create, false, &object(kind, name, spec)).await;
        sent.map_err(|error| format!("an administrator may store it: {error}"))
    }

    /// An object that is being deleted and held by a finalizer.
    pub async fn held_in_deletion(&self, kind: Kind, spec: &Value) -> Value {
        let mut held = object(kind, &fresh("held"), spec);
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let stored = self.send(&Person::Administrator, Way::Create, false, &held).await;
        stored.unwrap_or_else(|error| panic!("an administrator may store it: {error}"));
        let path = format!("{}/{}", self.path(&held), held["metadata"]["name"].as_str().unwrap());
        let request = Request::delete(path).body(Vec::new()).unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{error}"));
        let held = self.found(&held).await.unwrap_or_default();
        assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
        held
    }

    /// Tries as somebody to give the namespace a label, or to take it away, through itself or one of its subresources.
    pub async fn try_label(
        &self,
        person: &Person,
        subresource: &str,
        (key, value): (&str, Option<&str>),
    ) -> Result<Value, kube::Error> {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        let found = self.client.request(Request::get(&path).body(Vec::new()).unwrap()).await;
        let mut namespace: Value = found.unwrap_or_else(|error| panic!("{error}"));
        let labels = namespace["metadata"]["labels"].as_object_mut().unwrap();
        match value {
            Some(value) => drop(labels.insert(key.to_owned(), value.into())),
            None => drop(labels.remove(key)),
        }
        let request = Request::put(format!("{path}{subresource}?dryRun=All"));
        let request = request.header("content-type", "application/json");
        let body = namespace.to_string().into_bytes();
        self.client.request(as_person(person, request).body(body).unwrap()).await
    }

    /// Creates a namespace on trial, as somebody.
    pub async fn try_namespace(&self, person: &Person, labels: &Value) -> Result<Value, kube::Error> {
        let namespace = json!({ "metadata": { "name": fresh("labelled"), "labels": labels } });
        let request = Request::post("/api/v1/namespaces?dryRun=All");
        let request = request.header("content-type", "application/json");
        let body = namespace.to_string().into_bytes();
        self.client.request(as_person(person, request).body(body).unwrap()).await
    }

    /// Scales a control plane as somebody.
    pub async fn scale(&self, person: &Person, name: &str, replicas: i32) -> Result<Value, kube::Error> {
        let path =
            format!("/apis/coder.com/v1alpha1/namespaces/{}/codercontrolplanes/{name}/scale", self.namespace);
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let body = json!({ "spec": { "replicas": replicas } }).to_string().into_bytes();
        self.client.request(as_person(person, request).body(body).unwrap()).await
    }

    /// What is stored under the name of an object.
    pub async fn found(&self, object: &Value) -> Option<Value> {
        let path = format!("{}/{}", self.path(object), object["metadata"]["name"].as_str().unwrap());
        match self.client.request(Request::get(path).body(Vec::new()).unwrap()).await {
            Ok(found) => Some(found),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn as_person(person: &Person, mut request: http::request::Builder) -> http::request::Builder {
    if let Person::Author { name, groups } = person {
        request = request.header("impersonate-user", name).header("impersonate-group", AUTHORS);
        for group in groups {
            request = request.header("impersonate-group", group);
        }
    }
    request
}

/// The causes of a denial by our webhook: 403 Forbidden, each with its field and the code of a rule, said in the text.
pub fn causes<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> Result<Causes, String> {
    let status: Box<Status> = match answer {
        Err(kube::Error::Api(status)) => status,
        other => return Err(format!("no denial but {other:?}")),
    };
    if (status.code, status.reason.as_str()) != (403, "Forbidden") {
        return Err(format!("another denial: {status:?}"));
    }
    let mut causes = Causes::new();
    for cause in status.details.iter().flat_map(|details| &details.causes) {
        let code = cause.message.rsplit_once("(").map_or("", |(_, code)| code.trim_end_matches(')'));
        holds(
            status.message.contains(&cause.field) && status.message.contains(code),
            format!("{code} of {} is not in the text: {}", cause.field, status.message),
        )?;
        causes.insert((cause.field.clone(), code.to_owned()));
    }
    holds(!causes.is_empty(), format!("a denial without causes: {}", status.message))?;
    Ok(causes)
}
