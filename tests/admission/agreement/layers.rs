//! The layers that hold rules on a real API server, each alone in a namespace of its own, and what each says.
//! It never decides which of them is right.

use http::{Method, Request};
use kube::core::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use support::cluster::kustomize;
use support::installation::repository;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};
use webhooks::Kind;

const LIMIT: Duration = Duration::from_secs(60);

/// Where an object is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing but the plain schema.
    Schema,
    /// The shipped definitions with their CEL.
    Cel,
    /// The shipped policies; definitions without CEL.
    Policies,
    /// The shipped webhooks and a running operator; definitions without CEL.
    Webhooks,
}

impl Place {
    pub const ALL: [Self; 4] = [Self::Schema, Self::Cel, Self::Policies, Self::Webhooks];

    const fn namespace(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Cel => "cel",
            Self::Policies => "policies",
            Self::Webhooks => "webhooks",
        }
    }
}

/// What a place says to an object.
#[derive(Clone, Debug)]
pub enum Answer {
    Allowed,
    Refused { status: u16, codes: BTreeSet<String>, causes: BTreeSet<(String, String)>, message: String },
}

impl Answer {
    fn of(status: &Status) -> Self {
        let told = status.details.iter().flat_map(|details| &details.causes);
        let codes_in = |text: &str| -> Vec<String> {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let code = |word: &&str| {
                word.strip_prefix("CODER").is_some_and(|number| {
                    number.len() == 4 && number.bytes().all(|digit| digit.is_ascii_digit())
                })
            };
            words.filter(code).map(str::to_owned).collect()
        };
        let causes: BTreeSet<(String, String)> = told
            .flat_map(|cause| codes_in(&cause.message).into_iter().map(|code| (cause.field.clone(), code)))
            .collect();
        let mut codes: BTreeSet<String> = codes_in(&status.message).into_iter().collect();
        codes.extend(causes.iter().map(|(_, code)| code.clone()));
        Self::Refused { status: status.code, codes, causes, message: status.message.clone() }
    }

    /// Codes of the rules it refuses for.
    pub fn codes(&self) -> BTreeSet<String> {
        match self {
            Self::Allowed => BTreeSet::new(),
            Self::Refused { codes, .. } => codes.clone(),
        }
    }

    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

/// Two clusters: definitions are one for all namespaces, so CEL alone and CEL absent do not fit into one.
pub struct Layers {
    with_cel: Cluster,
    without: &'static Cluster,
    installation: Installation,
    operator: Operator,
}

/// How objects are sent.
pub struct Desk {
    with_cel: kube::Client,
    without: kube::Client,
}

impl Layers {
    /// The clusters, with definitions that hold no rule yet.
    pub async fn bare() -> Self {
        let (with_cel, without) = tokio::join!(Cluster::start(ClusterOptions::default()), Cluster::shared());
        let installation = Installation::new(without, "operator").await;
        let operator = installation.start(env!("CARGO_BIN_EXE_coder-k8s"), "webhooks").await;
        let layers = Self { with_cel, without, installation, operator };
        for place in Place::ALL {
            let words = format!("create namespace {}", place.namespace());
            layers.cluster(place).kubectl(&words).await.expect_ok();
        }
        for cluster in [&layers.with_cel, layers.without] {
            apply(cluster, without_rules(definitions().await)).await;
            cluster.crds_established().await;
        }
        let desk = layers.desk().await;
        for place in Place::ALL {
            until("definitions without rules", LIMIT, async || {
                let answer = desk.created(place, Kind::Provisioner, &long_name(), true).await;
                holds(answer.allowed(), format!("{place:?}: {answer:?}"))
            })
            .await;
        }
        layers
    }

    /// Puts every layer in force where it belongs.
    pub async fn enforce(&self) {
        apply(&self.with_cel, definitions().await).await;
        let mut policies = documents(&kustomize(&repository().join("policies")).await.expect_ok());
        let only = json!({ "kubernetes.io/metadata.name": Place::Policies.namespace() });
        for binding in policies.iter_mut().filter(|item| item["kind"] == "ValidatingAdmissionPolicyBinding") {
            binding["spec"]["matchResources"] = json!({ "namespaceSelector": { "matchLabels": only } });
        }
        apply(self.without, policies).await;
        self.installation.admit(self.operator.ports.webhooks, &[Place::Webhooks.namespace()]).await;
        let desk = self.desk().await;
        for place in [Place::Cel, Place::Policies, Place::Webhooks] {
            for kind in Kind::ALL {
                until("every rule to be in force", LIMIT, async || {
                    let answer = desk.created(place, kind, &long_name(), true).await;
                    holds(answer.codes().contains("CODER0101"), format!("{place:?}: {answer:?}"))
                })
                .await;
            }
        }
    }

    const fn cluster(&self, place: Place) -> &Cluster {
        match place {
            Place::Cel => &self.with_cel,
            _ => self.without,
        }
    }

    /// Connections for the calling test.
    pub async fn desk(&self) -> Desk {
        Desk { with_cel: self.with_cel.client().await, without: self.without.client().await }
    }
}

/// A name that no kind has room for.
fn long_name() -> Value {
    let name = "n".repeat(100);
    json!({ "apiVersion": "coder.com/v1alpha1", "metadata": { "name": name }, "spec": { "controlPlaneRef": { "name": "coder" } } })
}

fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).expect("kustomize writes YAML")
}

/// The definitions as they are shipped.
async fn definitions() -> Vec<Value> {
    documents(&kustomize(&repository().join("crds")).await.expect_ok())
}

fn without_rules(mut definitions: Vec<Value>) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("x-kubernetes-validations");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    definitions.iter_mut().for_each(strip);
    definitions
}

async fn apply(cluster: &Cluster, items: Vec<Value>) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    cluster.kubectl_with_input("apply --server-side --force-conflicts -f -", &list).await.expect_ok();
}

impl Desk {
    fn client(&self, place: Place) -> &kube::Client {
        match place {
            Place::Cel => &self.with_cel,
            _ => &self.without,
        }
    }

    fn path(place: Place, kind: Kind) -> String {
        format!("/apis/coder.com/v1alpha1/namespaces/{}/{}", place.namespace(), kind.plural())
    }

    async fn send(
        &self,
        place: Place,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, Box<Status>> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        match self.client(place).request(request.body(body).unwrap()).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) => Err(status),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// What a place says to a new object.
    pub async fn created(&self, place: Place, kind: Kind, object: &Value, dry_run: bool) -> Answer {
        let mut object = object.clone();
        object["kind"] = json!(kind.name());
        let path = format!("{}?{}", Self::path(place, kind), if dry_run { "dryRun=All" } else { "" });
        match self.send(place, Method::POST, &path, &object).await {
            Ok(_) => Answer::Allowed,
            Err(status) => Answer::of(&status),
        }
    }

    /// The object a place has under a name.
    pub async fn found(&self, place: Place, kind: Kind, name: &str) -> Value {
        let path = format!("{}/{name}", Self::path(place, kind));
        self.send(place, Method::GET, &path, &Value::Null).await.unwrap()
    }

    /// What a place says to another spec of a stored object, without storing it.
    pub async fn updated(&self, place: Place, kind: Kind, object: Value) -> Answer {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}?dryRun=All", Self::path(place, kind));
        match self.send(place, Method::PUT, &path, &object).await {
            Ok(_) => Answer::Allowed,
            Err(status) => Answer::of(&status),
        }
    }

    /// How many objects of all kinds a place holds.
    pub async fn stored(&self, place: Place) -> usize {
        let mut count = 0;
        for kind in Kind::ALL {
            let list = self.send(place, Method::GET, &Self::path(place, kind), &Value::Null).await.unwrap();
            count += list["items"].as_array().unwrap().len();
        }
        count
    }
}
