//! The floor under a measurement at scale: a bare client that makes the writes of the operator, with its rights and as
//! many at a time, and nothing else. It reads nothing but two watches and decides nothing: what it writes is given.

use crate::cluster::Cluster;
use crate::fleet::{Fleet, Key, control_planes, key_of};
use crate::installation::Installation;
use crate::process::scratch_folder;
use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// As many as the operator has workers.
const AT_ONCE: usize = 8;
/// What the children are printed for; each control plane puts its own in their place.
const NAME: &str = "name-of-the-control-plane";
const NAMESPACE: &str = "namespace-of-the-control-plane";
const MANAGER: &str = "coder-k8s";

/// What is written for each control plane.
#[derive(Clone)]
pub struct Writes {
    /// Its children, in the order in which they are applied, as text with a name to be replaced.
    children: Vec<String>,
    /// Its status when all is done.
    status: Value,
    /// How often its status is written.
    statuses: usize,
}

impl Writes {
    /// The children that this binary makes of the least spec, and a status of a control plane that is ready.
    pub fn of(binary: &str, status: Value, statuses: usize) -> Self {
        let file = scratch_folder("floor").join("control-plane.json");
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": NAME, "namespace": NAMESPACE }, "spec": {} });
        std::fs::write(&file, object.to_string()).expect("a writable folder");
        let output = Command::new(binary).args(["render", "--children"]).arg(&file).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("YAML is text");
        let children: Vec<Value> = serde_saphyr::from_multiple(&text).expect("the binary writes YAML");
        assert_eq!(children.len(), 5, "account, role, binding, Deployment and Service");
        Self { children: children.iter().map(Value::to_string).collect(), status, statuses }
    }
}

/// Who writes.
#[derive(Clone)]
struct Client {
    operator: kube::Client,
    /// For Roles and RoleBindings.
    grants: kube::Client,
}

/// A control plane and the version of it that was seen last.
struct Begun {
    key: Key,
    version: String,
}

enum Done {
    /// Its children are applied; what remains is to say that it is ready.
    Begun(Begun),
    /// Its last status is written.
    Finished,
}

/// Seconds from the first creation of `size` control planes to the last that is ready. The client follows the cluster for
/// as long as `settle` before, as the operator does: a cluster that was just started is slow, and would lift the floor.
pub async fn measure(
    cluster: &Cluster,
    installation: &Installation,
    writes: Writes,
    size: usize,
    settle: Duration,
    limit: Duration,
) -> f64 {
    let kubeconfig = installation.operator("controller").await.kubeconfig;
    let client = Client {
        operator: cluster.client_of(&kubeconfig).await,
        grants: cluster.client_as(&kubeconfig, &installation.grants_user()).await,
    };
    let writing = tokio::spawn(write(client, writes));
    tokio::time::sleep(settle).await;
    let began = Instant::now();
    let fleet = Fleet::create(cluster, "floor", size).await;
    fleet.ready(cluster, limit, |_| {}).await;
    let time = began.elapsed().as_secs_f64();
    writing.abort();
    match writing.await {
        Err(ended) if ended.is_cancelled() => time,
        ended => panic!("the bare client ended by itself: {ended:?}"),
    }
}

/// Writes for every control plane that comes, until it is aborted.
async fn write(client: Client, writes: Writes) {
    let writes = Arc::new(writes);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let every = |kind: &ApiResource| Api::<DynamicObject>::all_with(client.operator.clone(), kind);
    let config = watcher::Config::default();
    let mut planes = watcher::watcher(every(&control_planes()), config.clone()).boxed();
    let ours = config.labels(&format!("app.kubernetes.io/managed-by={MANAGER}"));
    let mut deployments = watcher::watcher(every(&resource("apps/v1", "Deployment")), ours).boxed();
    let (mut seen, mut available) = (BTreeSet::new(), BTreeSet::new());
    let mut begun: BTreeMap<Key, Begun> = BTreeMap::new();
    let mut tasks: JoinSet<Done> = JoinSet::new();
    loop {
        let ready: Option<Key>;
        tokio::select! {
            Some(event) = planes.next() => {
                let Some(plane) = object(event) else { continue };
                if seen.insert(key_of(&plane)) {
                    let (client, writes, places) = (client.clone(), writes.clone(), places.clone());
                    tasks.spawn(async move {
                        let _place = places.acquire().await.expect("never closed");
                        Done::Begun(begin(&client, &writes, &plane).await)
                    });
                }
                continue;
            }
            Some(event) = deployments.next() => {
                let Some(deployment) = object(event).filter(is_available) else { continue };
                let key = key_of(&deployment);
                available.insert(key.clone());
                ready = Some(key);
            }
            Some(done) = tasks.join_next() => match done.expect("a task that works") {
                Done::Finished => continue,
                Done::Begun(one) => {
                    let key = one.key.clone();
                    begun.insert(key.clone(), one);
                    ready = available.contains(&key).then_some(key);
                }
            },
        }
        if let Some(one) = ready.and_then(|key| begun.remove(&key)) {
            let (client, writes, places) = (client.clone(), writes.clone(), places.clone());
            tasks.spawn(async move {
                let _place = places.acquire().await.expect("never closed");
                describe(&client, one, writes.status.clone()).await;
                Done::Finished
            });
        }
    }
}

/// Makes the children and writes every status but the last.
async fn begin(client: &Client, writes: &Writes, plane: &DynamicObject) -> Begun {
    let (namespace, name) = key_of(plane);
    for child in &writes.children {
        let text = child.replace(NAMESPACE, &namespace).replace(NAME, &name);
        let mut child: Value = serde_json::from_str(&text).expect("names fit into JSON");
        child["metadata"]["ownerReferences"] = json!([{ "apiVersion": "coder.com/v1alpha1",
            "kind": "CoderControlPlane", "name": name, "uid": plane.metadata.uid, "controller": true,
            "blockOwnerDeletion": true }]);
        put(client, &namespace, &child).await;
    }
    let version = plane.metadata.resource_version.clone().unwrap_or_default();
    let mut one = Begun { key: (namespace, name), version };
    for number in 1..writes.statuses {
        let mut status = writes.status.clone();
        status["phase"] = json!("Pending");
        status["conditions"][0]["status"] = json!("False");
        status["conditions"][0]["message"] = json!(format!("step {number}"));
        one = describe(client, one, status).await;
    }
    one
}

async fn put(client: &Client, namespace: &str, child: &Value) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (kind, name) = (text(&child["kind"]), text(&child["metadata"]["name"]));
    let who = if kind.starts_with("Role") { &client.grants } else { &client.operator };
    let resource = resource(&text(&child["apiVersion"]), &kind);
    let api: Api<DynamicObject> = Api::namespaced_with(who.clone(), namespace, &resource);
    let put = if kind == "ServiceAccount" {
        let object = serde_json::from_value(child.clone()).expect("an object");
        api.create(&PostParams::default(), &object).await
    } else {
        api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(child)).await
    };
    put.unwrap_or_else(|error| panic!("{kind} {namespace}/{name}: {error}"));
}

/// Writes a status as the operator does: it fails if the object is another one than was seen.
async fn describe(client: &Client, one: Begun, status: Value) -> Begun {
    let Begun { key: (namespace, name), version } = one;
    let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": version }, "status": status }));
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.operator.clone(), &namespace, &control_planes());
    let written = api.patch_status(&name, &PatchParams::default(), &patch).await;
    let written = written.unwrap_or_else(|error| panic!("status of {namespace}/{name}: {error}"));
    Begun { version: written.metadata.resource_version.unwrap_or_default(), key: (namespace, name) }
}

fn object(event: watcher::Result<Event<DynamicObject>>) -> Option<DynamicObject> {
    match event.expect("a watch that works") {
        Event::Apply(object) | Event::InitApply(object) => Some(object),
        Event::Delete(_) | Event::Init | Event::InitDone => None,
    }
}

fn is_available(deployment: &DynamicObject) -> bool {
    let status = &deployment.data["status"];
    status["availableReplicas"].as_u64() >= Some(1)
        && status["observedGeneration"].as_i64() == deployment.metadata.generation
}

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}
