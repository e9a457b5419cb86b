//! What others store and what is admitted in great numbers and sizes: peak memory while it comes and of a start among it,
//! admissions meanwhile, and what is left a minute after it is gone.
//!
//! Compared is one process with itself, which works on an ordinary control plane as every operator does: before the first
//! object came, and a minute after the last was deleted. What the first control plane of a process takes is a row of its own.

use super::{LIMIT, SECRET_BYTES, SETTLE, start, stop};
use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, NamespaceResourceScope};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::{Duration, Instant};
use support::figures::Figure;
use support::memory::{peak, resident};
use support::wait::holds;
use support::{Cluster, Installation, Operator, OperatorOptions, until};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The container has 128Mi.
const PEAK: f64 = 96.0;
/// With one control plane, which nothing is wrong with.
const IDLE: f64 = 20.0;
/// How much more may be resident a minute later than before.
const LEFT: f64 = 4.0;
const A_MINUTE: Duration = Duration::from_secs(60);
/// `timeoutSeconds` of the shipped webhook configurations, in milliseconds: of the shorter one.
const DEADLINE: f64 = 3_000.0;

const OBJECTS: usize = 300;
/// The API server takes 262,144 bytes of annotations.
const ANNOTATION: usize = 250_000;
const ACCOUNTS: usize = 100;
/// The API server takes a uid of any length, and who wrote it repeats it.
const UID: usize = 650_000;
const PLANES: usize = 50;
/// Namespaces of the control planes: reconciles of one do not run all at once.
const HOMES: usize = 10;
/// Namespaces with provisioners, which are all that are reconciled at once: two of each.
const SERVED: usize = 4;
/// Secrets that a control plane serves with and that are read.
const CERTIFICATES: usize = 8;

/// Every row.
pub async fn figures(cluster: &Cluster, installation: &Installation, binary: &str) -> Vec<Figure> {
    let options = installation.operator("all").await;
    let mut figures = Vec::new();
    for kind in [Kind::ConfigMaps, Kind::Secrets, Kind::Accounts, Kind::ControlPlanes, Kind::Provisioners] {
        figures.extend(among(cluster, installation, binary, &options, kind).await);
    }
    figures
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ConfigMaps,
    Secrets,
    /// Of somebody else, with our label.
    Accounts,
    ControlPlanes,
    /// Of control planes that serve with Secrets as large as there can be.
    Provisioners,
}

impl Kind {
    fn words(self) -> String {
        match self {
            Self::ConfigMaps => format!("{OBJECTS} ConfigMaps of 250 kB of annotations"),
            Self::Secrets => format!("{OBJECTS} Secrets of 250 kB of annotations"),
            Self::Accounts => format!("{ACCOUNTS} ServiceAccounts with our label and an owner of 650 kB"),
            Self::ControlPlanes => format!("{PLANES} largest control planes"),
            Self::Provisioners => {
                format!("{} provisioners, each trusting {CERTIFICATES} Secrets of 1 MB", 2 * SERVED)
            }
        }
    }
}

async fn among(
    cluster: &Cluster,
    installation: &Installation,
    binary: &str,
    options: &OperatorOptions,
    kind: Kind,
) -> Vec<Figure> {
    println!("--> {} come", kind.words());
    let mut homes = Vec::new();
    for _ in 0..HOMES {
        homes.push(cluster.namespace("lists").await);
    }
    let operator = leading(binary, options).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    // The schemas are read with the first review, and stay.
    Admissions::start(cluster, &homes[0]).await.slowest().await;
    tokio::time::sleep(SETTLE).await;
    let alone = resident(operator.id());
    ordinary(cluster).await;
    tokio::time::sleep(SETTLE).await;
    let before = resident(operator.id());
    let admissions = Admissions::start(cluster, &homes[0]).await;
    create(cluster, &homes, kind).await;
    settled(cluster, &homes, kind).await;
    let slowest = admissions.slowest().await;
    let running = peak(operator.id());
    delete(cluster, &homes, kind).await;
    println!("    they are gone; a minute passes");
    tokio::time::sleep(A_MINUTE).await;
    let after = resident(operator.id());

    // Somebody must be there to admit them when they come again.
    create(cluster, &homes, kind).await;
    stop(operator).await;
    let operator = leading(binary, options).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    let admissions = Admissions::start(cluster, &homes[0]).await;
    tokio::time::sleep(SETTLE * 2).await;
    let slowest = slowest.max(admissions.slowest().await);
    let started = peak(operator.id());
    delete(cluster, &homes, kind).await;
    stop(operator).await;
    println!(
        "    {before:.1} MB before, {running:.1} MB at most while they came, {after:.1} MB after; {started:.1} MB at most of \
         a start among them; slowest admission {slowest:.0} ms"
    );
    println!("    {:.1} MB of it with the first control plane", before - alone);
    let row = |what: &str, value, unit, limit| {
        Figure::at_most(&format!("{}: {what}", kind.words()), value, unit, limit)
    };
    let idle = Figure::at_most("idle memory with one control plane", before, "MB", IDLE);
    let mut figures: Vec<Figure> = (kind == Kind::ConfigMaps).then_some(idle).into_iter().collect();
    figures.extend([
        row("peak while they come", running, "MB", PEAK),
        row("peak of a start among them", started, "MB", PEAK),
        row("slowest admission meanwhile", slowest, "ms", DEADLINE),
        row("left a minute after they are gone", after - before, "MB", LEFT),
    ]);
    figures
}

/// An ordinary control plane, worked on once.
async fn ordinary(cluster: &Cluster) {
    let namespace = cluster.namespace("ordinary").await;
    let planes = control_planes(cluster, &namespace).await;
    planes.create(&PostParams::default(), &plane("coder", json!({}))).await.expect("it is admitted");
    until("an ordinary control plane to be reconciled", LIMIT, async || {
        let live = planes.get("coder").await.map_err(|error| error.to_string())?;
        holds(live.data["status"]["observedGeneration"] == 1, live.data["status"].to_string())
    })
    .await;
}

async fn leading(binary: &str, options: &OperatorOptions) -> Operator {
    let (operator, _) = start(binary, options).await;
    until("a start to lead", LIMIT, async || {
        let led = operator.logged("started leading").len();
        holds(led == 2, format!("{led} of 2 duties are led"))
    })
    .await;
    operator
}

/// Somebody who goes on creating a control plane, which nothing comes of.
struct Admissions {
    enough: CancellationToken,
    asking: JoinHandle<f64>,
}

impl Admissions {
    async fn start(cluster: &Cluster, namespace: &str) -> Self {
        let enough = CancellationToken::new();
        let planes = control_planes(cluster, namespace).await;
        let stop = enough.clone();
        let asking = tokio::spawn(async move {
            let (mut slowest, mut count) = (0f64, 0);
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            while !stop.is_cancelled() || count == 0 {
                let began = Instant::now();
                let asked = planes.create(&dry_run, &plane("asked", json!({}))).await;
                asked.expect("an admission is answered within its deadline");
                slowest = slowest.max(began.elapsed().as_secs_f64() * 1000.0);
                count += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            slowest
        });
        Self { enough, asking }
    }

    /// Milliseconds that the slowest one took.
    async fn slowest(self) -> f64 {
        self.enough.cancel();
        self.asking.await.expect("every admission was answered")
    }
}

async fn create(cluster: &Cluster, homes: &[String], kind: Kind) {
    match kind {
        Kind::ConfigMaps => create_annotated::<ConfigMap>(cluster, &homes[0]).await,
        Kind::Secrets => create_annotated::<Secret>(cluster, &homes[0]).await,
        Kind::Accounts => {
            let accounts = Api::<ServiceAccount>::namespaced(cluster.client().await, &homes[0]);
            for number in 0..ACCOUNTS {
                let created = accounts.create(&PostParams::default(), &owned(number)).await;
                created.expect("an account of any owner is taken");
            }
        }
        Kind::ControlPlanes => {
            for (number, home) in (0..PLANES).zip(homes.iter().cycle()) {
                let planes = control_planes(cluster, home).await;
                let large = plane(&format!("large-{number}"), largest(number));
                let created = planes.create(&PostParams::default(), &large).await;
                created.expect("the largest control plane is admitted");
            }
        }
        Kind::Provisioners => {
            for home in &homes[..SERVED] {
                create_served(cluster, home).await;
            }
        }
    }
}

/// A control plane that serves with Secrets as large as there can be, and two provisioners of it.
async fn create_served(cluster: &Cluster, home: &str) {
    let (client, params) = (cluster.client().await, PostParams::default());
    let names: Vec<String> = (0..CERTIFICATES).map(|number| format!("served-{number}")).collect();
    for name in &names {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.clone());
        secret.data = Some([("ca.crt".to_owned(), ByteString(vec![b'x'; SECRET_BYTES]))].into());
        let secrets = Api::<Secret>::namespaced(client.clone(), home);
        secrets.create(&params, &secret).await.expect("the Secret can be created");
    }
    let served =
        plane("served", json!({ "operatorAccess": { "disabled": true }, "tls": { "secretNames": names } }));
    control_planes(cluster, home).await.create(&params, &served).await.expect("it is admitted");
    let provisioners = provisioners(cluster, home).await;
    for name in ["first", "second"] {
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": name }, "spec": { "controlPlaneRef": { "name": "served" } } });
        let object = serde_json::from_value(object).expect("a provisioner");
        provisioners.create(&params, &object).await.expect("it is admitted");
    }
}

/// An account with our label and an owner that nobody knows.
fn owned(number: usize) -> ServiceAccount {
    serde_json::from_value(json!({ "metadata": { "name": format!("of-others-{number}"),
        "labels": { "app.kubernetes.io/managed-by": "coder-k8s" },
        "ownerReferences": [{ "apiVersion": "example.com/v1", "kind": "Unknown", "name": "unknown", "controller": true,
            "uid": "u".repeat(UID) }] } }))
    .expect("a ServiceAccount")
}

/// As large as it may be, in bytes or in values; the values are of a type that takes much room.
fn largest(number: usize) -> Value {
    if number.is_multiple_of(2) {
        return json!({ "operatorAccess": { "disabled": true }, "extraArgs": vec!["x".repeat(32_500); 4] });
    }
    let sources = vec![json!({}); 5_900];
    json!({ "operatorAccess": { "disabled": true }, "volumes": [{ "name": "v", "projected": { "sources": sources } }] })
}

async fn create_annotated<K>(cluster: &Cluster, namespace: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Default
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let objects = Api::<K>::namespaced(cluster.client().await, namespace);
    let creations = (0..OBJECTS).map(|number| {
        let (objects, mut object) = (objects.clone(), K::default());
        object.meta_mut().name = Some(format!("of-others-{number}"));
        object.annotations_mut().insert("theirs".to_owned(), "x".repeat(ANNOTATION));
        async move { objects.create(&PostParams::default(), &object).await.map(drop) }
    });
    let created: Vec<_> = stream::iter(creations).buffer_unordered(4).collect().await;
    created.into_iter().collect::<Result<Vec<()>, _>>().expect("the object can be created");
}

/// Waits until everything was looked at.
async fn settled(cluster: &Cluster, homes: &[String], kind: Kind) {
    for home in homes {
        let objects = match kind {
            Kind::ControlPlanes => control_planes(cluster, home).await,
            Kind::Provisioners => provisioners(cluster, home).await,
            Kind::ConfigMaps | Kind::Secrets | Kind::Accounts => {
                return tokio::time::sleep(SETTLE).await;
            }
        };
        until("every object to be looked at", LIMIT * 4, async || {
            let all = objects.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let fresh = |one: &&DynamicObject| one.data["status"]["observedGeneration"] != json!(1);
            let left = all.items.iter().filter(fresh).count();
            holds(left == 0, format!("{left} of {home} were not looked at"))
        })
        .await;
    }
}

async fn delete(cluster: &Cluster, homes: &[String], kind: Kind) {
    let (all, params) = (ListParams::default(), DeleteParams::default());
    for home in homes {
        match kind {
            Kind::ConfigMaps => {
                let objects = Api::<ConfigMap>::namespaced(cluster.client().await, home);
                objects.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
            }
            Kind::Secrets => {
                let objects = Api::<Secret>::namespaced(cluster.client().await, home);
                objects.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
            }
            Kind::Accounts => {
                let objects = Api::<ServiceAccount>::namespaced(cluster.client().await, home);
                objects.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
            }
            Kind::ControlPlanes => {
                let objects = control_planes(cluster, home).await;
                objects.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
            }
            Kind::Provisioners => {
                let (objects, planes) =
                    (provisioners(cluster, home).await, control_planes(cluster, home).await);
                let secrets = Api::<Secret>::namespaced(cluster.client().await, home);
                objects.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
                planes.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
                secrets.delete_collection(&params, &all).await.map(drop).expect("they can be deleted");
            }
        }
    }
}

async fn provisioners(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderProvisioner");
    let resource = ApiResource::from_gvk_with_plural(&kind, "coderprovisioners");
    Api::namespaced_with(cluster.client().await, namespace, &resource)
}

async fn control_planes(cluster: &Cluster, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane");
    let resource = ApiResource::from_gvk_with_plural(&kind, "codercontrolplanes");
    Api::namespaced_with(cluster.client().await, namespace, &resource)
}

fn plane(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": name }, "spec": spec }))
    .expect("a control plane")
}
