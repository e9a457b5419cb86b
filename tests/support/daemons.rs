//! The processes of provisioner and workspace proxy pods, which no simulated node runs: whoever follows a namespace dials for its
//! pods, each at the coderd of its environment, with the key or token that its Secret held when the pod started, and hangs up when
//! the pod ends. It is no kinder to an operator than real processes are: one that has no key yet, or is refused, tries again.

use crate::coderd::{Coderd, KeyDeletion};
use crate::objects::text;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How soon a daemon tries again that has no key, or was refused: a kubelet is slower.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the API server may take to say whether a pod is there.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Which coderd answers at an address; none if nobody does.
type Directory = dyn Fn(&str) -> Option<Arc<Coderd>> + Send + Sync;

/// What runs in a pod.
#[derive(Clone, Copy)]
enum Process {
    Daemon,
    Proxy,
}

impl Process {
    /// What its pods carry.
    fn selector(self) -> &'static str {
        match self {
            Self::Daemon => "app.kubernetes.io/name=coder-provisioner",
            Self::Proxy => "app.kubernetes.io/name=coder-workspace-proxy",
        }
    }

    /// The variables with its coderd and with what it shows there.
    fn variables(self) -> [&'static str; 2] {
        match self {
            Self::Daemon => ["CODER_URL", "CODER_PROVISIONER_DAEMON_KEY"],
            Self::Proxy => ["CODER_PRIMARY_ACCESS_URL", "CODER_PROXY_SESSION_TOKEN"],
        }
    }

    /// Whether coderd lets the process of a pod in.
    fn is_let_in(self, coderd: &Coderd, plaintext: &str, pod: &str) -> bool {
        match self {
            Self::Daemon => coderd.connect_daemon(plaintext, pod).is_ok(),
            Self::Proxy => coderd.proxy_comes(plaintext, &format!("http://{pod}")).is_ok(),
        }
    }
}

/// Dials for the pods of every provisioner, or every workspace proxy, in a namespace, until it is dropped.
pub struct Daemons {
    task: JoinHandle<()>,
    users: KeyUsers,
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Daemons {
    /// Follows the pods of a namespace. `coderd_at` says which double answers at the `CODER_URL` of a pod.
    ///
    /// coderd goes on to list a daemon that has ended for three minutes, and an operator has to wait for that; here it takes
    /// `listed_for`, in which the operator sees the same. Only that time is shorter: the clock of the double is not moved,
    /// which keys are dated by.
    pub fn follow(
        client: Client,
        namespace: &str,
        listed_for: Duration,
        coderd_at: impl Fn(&str) -> Option<Arc<Coderd>> + Send + Sync + 'static,
    ) -> Self {
        Self::begin(Process::Daemon, client, namespace, listed_for, Box::new(coderd_at))
    }

    /// The same for the pods of workspace proxies: each comes to coderd once, with its token.
    pub fn follow_proxies(
        client: Client,
        namespace: &str,
        coderd_at: impl Fn(&str) -> Option<Arc<Coderd>> + Send + Sync + 'static,
    ) -> Self {
        Self::begin(Process::Proxy, client, namespace, Duration::ZERO, Box::new(coderd_at))
    }

    fn begin(
        process: Process,
        client: Client,
        namespace: &str,
        listed_for: Duration,
        coderd_at: Box<Directory>,
    ) -> Self {
        let users = KeyUsers {
            dialled: Arc::default(),
            pods: Api::namespaced(client.clone(), namespace),
            runtime: Handle::current(),
        };
        let follower = Follower {
            secrets: Api::namespaced(client, namespace),
            users: users.clone(),
            process,
            coderd_at,
            listed_for,
            started: BTreeMap::new(),
        };
        Self { task: tokio::spawn(follower.run()), users }
    }

    /// Who uses which key.
    pub fn users(&self) -> KeyUsers {
        self.users.clone()
    }
}

/// Who uses which key: the pods whose daemons are connected.
#[derive(Clone)]
pub struct KeyUsers {
    /// The plaintext that each connected pod was started with.
    dialled: Arc<Mutex<BTreeMap<String, String>>>,
    pods: Api<Pod>,
    runtime: Handle,
}

impl KeyUsers {
    fn dialled(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plaintext that each connected pod was started with, by the pod's name.
    pub fn plaintexts(&self) -> BTreeMap<String, String> {
        self.dialled().clone()
    }

    /// Objects to the deletion of a key with which a Ready pod was started that nobody has asked to end: for
    /// [`Coderd::on_key_deletion`]. Whether it is Ready is asked of the API server, since who follows may be a moment late.
    ///
    /// # Errors
    /// If there is such a pod.
    pub fn object_to(&self, deletion: &KeyDeletion) -> Result<(), String> {
        let started = self.plaintexts().into_iter().filter(|(_, plaintext)| deletion.had(plaintext));
        let ready: Vec<String> = started.map(|(pod, _)| pod).filter(|pod| self.is_known_ready(pod)).collect();
        if ready.is_empty() {
            return Ok(());
        }
        Err(format!("key {} is deleted while the Ready pod {} uses it", deletion.key.name, ready.join(", ")))
    }

    /// The Ready pods that were started with such a plaintext and that nobody has asked to end.
    pub async fn ready_with(&self, is_such: impl Fn(&str) -> bool) -> Vec<String> {
        let mut ready = Vec::new();
        for (pod, _) in self.plaintexts().into_iter().filter(|(_, plaintext)| is_such(plaintext)) {
            if self.is_ready(&pod).await {
                ready.push(pod);
            }
        }
        ready
    }

    /// Whether a pod is Ready, and not on its way out. An API server that does not answer is no proof that it is gone.
    async fn is_ready(&self, pod: &str) -> bool {
        let found = self.pods.get_opt(pod).await;
        found.map_or(true, |pod| pod.is_some_and(|pod| is_ready(&pod)))
    }

    /// The same, called by the thread of a double, which waits for the answer.
    fn is_known_ready(&self, pod: &str) -> bool {
        let (answer, answered) = std::sync::mpsc::channel();
        let (users, pod) = (self.clone(), pod.to_owned());
        self.runtime.spawn(async move {
            // Nobody waits any more if the test is over.
            let _ = answer.send(users.is_ready(&pod).await);
        });
        answered.recv_timeout(ANSWERED_WITHIN).unwrap_or(true)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|one| one.type_ == "Ready" && one.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

/// A pod that has started.
struct Started {
    url: String,
    secret: String,
    data_key: String,
    /// Where it is connected, once it is.
    connected: Option<Weak<Coderd>>,
}

impl Started {
    /// What the environment of a running pod says; none of one that does not run.
    fn read(pod: &Pod, process: Process) -> Option<Self> {
        let object = serde_json::to_value(pod).expect("a pod is JSON");
        let runs =
            object["status"]["phase"] == "Running" && object["metadata"]["deletionTimestamp"].is_null();
        let variables = object["spec"]["containers"][0]["env"].as_array().filter(|_| runs)?;
        let variable = |name: &str| variables.iter().find(|one| one["name"] == name);
        let [url, shown] = process.variables();
        let (url, key) = (variable(url)?, variable(shown)?);
        let reference = |field: &str| text(key, &format!("/valueFrom/secretKeyRef/{field}")).to_owned();
        let url = text(url, "/value").to_owned();
        Some(Self { url, secret: reference("name"), data_key: reference("key"), connected: None })
    }
}

struct Follower {
    process: Process,
    secrets: Api<Secret>,
    users: KeyUsers,
    coderd_at: Box<Directory>,
    listed_for: Duration,
    /// By the name of the pod.
    started: BTreeMap<String, Started>,
}

impl Follower {
    async fn run(mut self) {
        let config = watcher::Config::default().labels(self.process.selector());
        let mut events = pin!(watcher::watcher(self.users.pods.clone(), config));
        let mut listed = BTreeSet::new();
        loop {
            let is_waiting = self.started.values().any(|pod| pod.connected.is_none());
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(AGAIN), if is_waiting => {
                    self.dial().await;
                    continue;
                }
            };
            match event {
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(pod))) => {
                    listed.insert(self.seen(&pod));
                }
                Some(Ok(Event::InitDone)) => {
                    let gone = self.started.keys().filter(|name| !listed.contains(*name)).cloned();
                    let gone: Vec<String> = gone.collect();
                    gone.iter().for_each(|name| self.ended(name));
                }
                Some(Ok(Event::Apply(pod))) => drop(self.seen(&pod)),
                Some(Ok(Event::Delete(pod))) => self.ended(pod.metadata.name.as_deref().unwrap_or_default()),
                // The API server ends with the test, and a watch begins anew; neither is to be asked without a pause.
                Some(Err(_)) => tokio::time::sleep(AGAIN).await,
                None => return,
            }
            self.dial().await;
        }
    }

    /// Notes what became of a pod; returns its name.
    fn seen(&mut self, pod: &Pod) -> String {
        let name = pod.metadata.name.clone().unwrap_or_default();
        match Started::read(pod, self.process) {
            Some(started) => drop(self.started.entry(name.clone()).or_insert(started)),
            None => self.ended(&name),
        }
        name
    }

    /// Hangs up for a pod that has ended.
    fn ended(&mut self, name: &str) {
        self.users.dialled().remove(name);
        let connected = self.started.remove(name).and_then(|pod| pod.connected);
        let Some(coderd) = connected.and_then(|coderd| coderd.upgrade()) else { return };
        // Another database knows nothing of it.
        if !coderd.daemons().iter().any(|daemon| daemon.name == name && daemon.connected) {
            return;
        }
        coderd.disconnect_daemon(name);
        if self.listed_for.is_zero() {
            return coderd.forget_daemon(name);
        }
        let (name, coderd, listed_for) = (name.to_owned(), Arc::downgrade(&coderd), self.listed_for);
        tokio::spawn(async move {
            tokio::time::sleep(listed_for).await;
            if let Some(coderd) = coderd.upgrade() {
                coderd.forget_daemon(&name);
            }
        });
    }

    /// Dials for every pod that is not connected.
    async fn dial(&mut self) {
        let waiting = self.started.iter_mut().filter(|(_, pod)| pod.connected.is_none());
        for (name, pod) in waiting {
            let Some(plaintext) = plaintext(&self.secrets, &pod.secret, &pod.data_key).await else {
                continue;
            };
            let Some(coderd) = (self.coderd_at)(&pod.url) else { continue };
            if self.process.is_let_in(&coderd, &plaintext, name) {
                self.users.dialled().insert(name.clone(), plaintext);
                pod.connected = Some(Arc::downgrade(&coderd));
            }
        }
    }
}

/// What a Secret holds now.
async fn plaintext(secrets: &Api<Secret>, secret: &str, data_key: &str) -> Option<String> {
    let mut data = secrets.get_opt(secret).await.ok()??.data?;
    String::from_utf8(data.remove(data_key)?.0).ok().filter(|text| !text.is_empty())
}

/// Which of several doubles a `CODER_URL` leads to, by the first part of its host: the name of the control plane's Service.
pub fn by_service(url: &str) -> &str {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    host.split(['.', ':', '/']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn pod(phase: &str, deleted: Value) -> Pod {
        let env = json!([
            { "name": "CODER_URL", "value": "http://coder.home.svc.cluster.local" },
            { "name": "CODER_PROVISIONER_DAEMON_KEY", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
        ]);
        from_value(json!({ "metadata": { "name": "p", "deletionTimestamp": deleted },
            "spec": { "containers": [{ "name": "provisioner", "env": env }] },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": "True" }] } }))
        .unwrap()
    }

    #[test]
    fn a_pod_that_runs_says_whom_it_dials_with_what() {
        let started = Started::read(&pod("Running", Value::Null), Process::Daemon).unwrap();
        assert_eq!((started.secret.as_str(), started.data_key.as_str()), ("s", "k"));
        assert_eq!(by_service(&started.url), "coder");
        assert_eq!(by_service("https://other:8443/x"), "other");
        assert!(Started::read(&pod("Pending", Value::Null), Process::Daemon).is_none());
    }

    #[test]
    fn a_pod_on_its_way_out_has_hung_up() {
        let going = pod("Running", json!("2026-01-01T00:00:00Z"));
        assert!(Started::read(&going, Process::Daemon).is_none() && !is_ready(&going));
        assert!(is_ready(&pod("Running", Value::Null)));
    }
}
