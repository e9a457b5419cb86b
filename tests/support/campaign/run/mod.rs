//! One run of a workload: namespaces, a coderd, the proxies around an operator, and the operator itself, killed and
//! started again at will. It says what there is in the end; it never judges it.

mod checks;
mod set_up;

use super::coderds::RunCoderd;
use super::end_state::EndState;
use super::invariants::Invariants;
use super::{Change, Environment, Expectation, Makes, Prepared, Subject, Workload, cluster_state};
use crate::daemons::Daemons;
use crate::database_proxy::DatabaseProxy;
use crate::fault_proxy::{CrashTiming, FaultProxy, Journal, Point};
use crate::installation::Installation;
use crate::operator::{Operator, OperatorOptions};
use crate::test_env::LIMIT;
use crate::wait::{holds, within};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use set_up::{coderds, database, leading_to, processes};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// Without a write for this long, an undisturbed run is at rest.
const REST: Duration = Duration::from_millis(1500);

/// Everything that belongs to one run alone.
pub(super) struct WorkloadRun<'a> {
    pub(super) environment: &'a Environment,
    workload: &'a Workload,
    /// The namespaces of this run: that of the subject first.
    namespaces: Vec<String>,
    operator_namespace: String,
    /// What is called otherwise in each run, and what it is in every run.
    names: Vec<(String, String)>,
    pub(super) journal: Arc<Journal>,
    pub(super) coderds: Vec<RunCoderd>,
    pub(super) invariants: Option<Arc<Invariants>>,
    uid: OnceLock<String>,
    pub(super) options: OperatorOptions,
    operator: Mutex<Option<Operator>>,
    /// What operators logged that are dead.
    logs: std::sync::Mutex<Vec<String>>,
    /// Whether everything has happened that the workload is about.
    changed: watch::Sender<bool>,
    _processes: Option<Daemons>,
    _proxies: (FaultProxy, DatabaseProxy),
}

impl<'a> WorkloadRun<'a> {
    /// Namespaces, coderds and proxies; no operator yet.
    pub(super) async fn prepare(
        environment: &'a Environment,
        installation: &Installation,
        workload: &'a Workload,
    ) -> Self {
        let target = &environment.target;
        let home = environment.cluster.namespace(workload.name).await;
        let operator_namespace = installation.namespace.clone();
        cluster_state::reset_operator_namespace(&environment.client, &operator_namespace).await;
        let mut names = (target.names)(&home);
        names.extend([
            (home.clone(), "{home}".to_owned()),
            (operator_namespace.clone(), "{operator}".to_owned()),
        ]);
        let mut namespaces = vec![home];
        for role in workload.other_namespaces {
            let namespace = environment.cluster.namespace(role).await;
            names.push((namespace.clone(), format!("{{{role}}}")));
            namespaces.push(namespace);
        }
        let journal = Arc::new(Journal::default());
        let coderds = coderds(target, &journal).await;
        names.extend(coderds.iter().flat_map(RunCoderd::names));
        journal.know(names.clone());
        let to_api_server = FaultProxy::recording(&environment.cluster, journal.clone()).await;
        to_api_server.show_only(namespaces.iter().chain([&operator_namespace]).map(String::as_str));
        let to_database = database(environment, &coderds[0].double, &journal);
        let mut options = installation.operator_through("controller", &to_api_server.url()).await;
        options.flags.extend(target.flags.iter().map(|flag| (*flag).to_owned()));
        options.flags.push(format!("--resolve={}={}", crate::postgres::HOST, to_database.address()));
        options.flags.extend(leading_to(&coderds, &namespaces[0]));
        let subjects = cluster_state::api(&environment.client, &target.subject.kind, &namespaces[0]);
        let makes = target.attached.map(|attached| attached.makes);
        let processes = makes.map(|makes| processes(environment, &namespaces[0], &coderds, makes));
        let users = makes.zip(processes.as_ref().map(Daemons::users));
        let invariants = users
            .map(|(makes, users)| Invariants::new(subjects, target.subject.name, makes, users, &coderds));
        if let Some(invariants) = &invariants {
            to_api_server.inspect(invariants.at_api_server());
            coderds.iter().for_each(|one| one.proxy.inspect(invariants.at_coderd(one.control_plane)));
        }
        Self {
            environment,
            workload,
            namespaces,
            operator_namespace,
            names,
            journal,
            coderds,
            invariants,
            uid: OnceLock::new(),
            options,
            operator: Mutex::default(),
            logs: std::sync::Mutex::default(),
            changed: watch::Sender::new(false),
            _processes: processes,
            _proxies: (to_api_server, to_database),
        }
    }

    /// Starts an operator, which leads at once: nobody holds the Lease.
    async fn start_operator(&self) {
        cluster_state::delete_leases(&self.environment.client, &self.operator_namespace).await;
        let operator = Operator::start(self.environment.target.binary, &self.options).await;
        *self.operator.lock().await = Some(operator);
    }

    /// Runs the workload up to its change; what is written from then on counts, and is fatal where it is planned to be.
    pub(super) async fn run_up_to_change(&self, planned: Option<(Point, CrashTiming)>) -> Result<(), String> {
        // Without a state to prepare, what an operator writes when it first starts is part of the workload.
        if matches!(self.workload.prepared, Prepared::Nothing) {
            self.journal.begin(planned.clone());
        }
        for manifest in &self.workload.before {
            self.apply(manifest).await?;
        }
        // One that dies before it listens never will: what happens then happens without it.
        let journal = self.journal.clone();
        tokio::select! {
            () = journal.reached() => {}
            () = self.start_operator() => {}
        }
        let (object, prepared) = match self.workload.prepared {
            Prepared::Nothing => return Ok(()),
            Prepared::Subject(prepared) => (self.environment.target.subject, prepared),
            Prepared::Other(object, prepared) => (object, prepared),
        };
        self.until(&object, "the beginning", prepared).await?;
        self.reconcile(&object, "prepared").await?;
        self.journal.begin(planned);
        Ok(())
    }

    /// Kills the operator with SIGKILL.
    pub(super) async fn kill_operator(&self) {
        if let Some(mut operator) = self.operator.lock().await.take() {
            operator.process().kill();
            self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(operator.log());
        }
    }

    /// Returns when the workload is done and nothing is written any more, or after this time at the latest.
    async fn over_within(&self, limit: Duration) {
        let over = async {
            // The sender lives as long as we do.
            drop(self.changed.subscribe().wait_for(|changed| *changed).await);
            self.until_done().await?;
            self.until_quiet().await
        };
        // Why it is not over is for whoever finds that the point was not reached.
        drop(tokio::time::timeout(limit, over).await);
    }

    /// Kills the operator at its point and starts another; returns whether the point was reached at all.
    pub(super) async fn killed_within(&self, limit: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.journal.reached() => {}
            () = self.over_within(limit) => return false,
        }
        self.kill_operator().await;
        if self.workload.then.as_ref().is_some_and(|then| then.while_dead) {
            // The sender lives as long as we do.
            drop(self.changed.subscribe().wait_for(|changed| *changed).await);
        }
        self.journal.reopen();
        self.start_operator().await;
        true
    }

    /// What the workload is about.
    pub(super) async fn make_changes(&self) -> Result<(), String> {
        let made = self.make_all_changes().await;
        self.changed.send_replace(true);
        made
    }

    async fn make_all_changes(&self) -> Result<(), String> {
        self.make(&self.workload.change).await?;
        let Some(then) = &self.workload.then else { return Ok(()) };
        let came_true = self.until_subject("the second change", then.when);
        if then.while_dead {
            tokio::select! {
                () = self.journal.reached() => {}
                came_true = came_true => came_true?,
            }
        } else {
            came_true.await?;
        }
        self.make(&then.change).await
    }

    async fn make(&self, change: &Change) -> Result<(), String> {
        let (client, home) = (&self.environment.client, &self.namespaces[0]);
        let deletion = DeleteParams::default();
        match change {
            Change::Apply(manifests) => {
                for manifest in manifests {
                    self.apply(manifest).await?;
                }
                return Ok(());
            }
            Change::Delete => {
                let name = self.environment.target.subject.name;
                self.subjects().delete(name, &deletion).await.map(drop)
            }
            Change::DeleteNamespace => {
                cluster_state::delete_namespaces(client, std::slice::from_ref(home)).await;
                Ok(())
            }
            Change::Patch(kind, name, patch) => {
                let (objects, patch) = (cluster_state::api(client, kind, home), Patch::Merge(patch));
                objects.patch(name, &PatchParams::default(), &patch).await.map(drop)
            }
            Change::DeleteObject(kind, name) => {
                cluster_state::api(client, kind, home).delete(name, &deletion).await.map(drop)
            }
        }
        .map_err(|error| error.to_string())
    }

    /// Waits until the workload is done.
    pub(super) async fn until_done(&self) -> Result<(), String> {
        self.until_subject("the end", self.workload.done).await
    }

    /// Waits until an undisturbed operator writes nothing any more.
    pub(super) async fn until_quiet(&self) -> Result<(), String> {
        within("the operator to be at rest", LIMIT, async || {
            let quiet = self.journal.quiet();
            holds(quiet.is_some_and(|quiet| quiet >= REST), format!("the last write was {quiet:?} ago"))?;
            // What was so for a moment only, before a rollout began, is not done.
            let subject = self.subject().await?;
            holds((self.workload.done)(subject.as_ref()), "it is not done any more")
        })
        .await
    }

    /// Requests one more reconcile and waits until it is done: what is in order stays so. Of a subject that is gone everything
    /// goes that it owned; that is for the garbage collector.
    pub(super) async fn until_settled(&self) -> Result<(), String> {
        match self.workload.change {
            Change::Delete => self.until_garbage_collected().await,
            Change::DeleteNamespace => self.until_namespace_gone().await,
            _ => self.reconcile(&self.environment.target.subject, "settled").await,
        }
    }

    async fn until_namespace_gone(&self) -> Result<(), String> {
        within("the namespace to be gone", LIMIT, async || {
            let home = self.namespaces[..1].to_vec();
            let left = cluster_state::objects_in(&self.environment.client, &home).await?;
            let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
            holds(left.is_empty(), left.iter().map(name).collect::<Vec<_>>().join(", "))
        })
        .await
    }

    async fn until_garbage_collected(&self) -> Result<(), String> {
        let uid = self.uid.get().cloned().unwrap_or_default();
        within("everything that it owned to be gone", LIMIT, async || {
            let objects = cluster_state::objects_in(&self.environment.client, &self.namespaces).await?;
            let owners = |object: &Value| object["metadata"]["ownerReferences"].to_string();
            let left = objects.iter().find(|object| owners(object).contains(&uid));
            holds(
                left.is_none(),
                left.map(|object| object["metadata"]["name"].to_string()).unwrap_or_default(),
            )
        })
        .await
    }

    /// Requests a reconcile of an object and waits until it is done.
    async fn reconcile(&self, object: &Subject, request: &str) -> Result<(), String> {
        let patch = json!({ "metadata": { "annotations": { "coder.com/reconcile-at": request } } });
        let objects = self.objects(&self.environment.client, object);
        let asked = objects.patch(object.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        asked.map_err(|error| error.to_string())?;
        within(&format!("the reconcile {request} to be done"), LIMIT, async || {
            let status = self.read(object).await?.unwrap_or_default()["status"].clone();
            holds(status["lastHandledReconcileAt"] == request, status.to_string())
        })
        .await
    }

    async fn until(&self, object: &Subject, what: &str, expected: Expectation) -> Result<(), String> {
        within(&format!("{what} of {}", self.workload.name), LIMIT, async || {
            let found = self.read(object).await?;
            let status = found.as_ref().map_or(Value::Null, |found| found["status"].clone());
            holds(expected(found.as_ref()), status.to_string())
        })
        .await
    }

    async fn until_subject(&self, what: &str, expected: Expectation) -> Result<(), String> {
        self.until(&self.environment.target.subject, what, expected).await
    }

    /// The objects that are like one, as a client sees them.
    pub(super) fn objects(&self, client: &kube::Client, object: &Subject) -> Api<DynamicObject> {
        cluster_state::api(client, &object.kind, &self.namespaces[0])
    }

    fn subjects(&self) -> Api<DynamicObject> {
        self.objects(&self.environment.client, &self.environment.target.subject)
    }

    async fn read(&self, object: &Subject) -> Result<Option<Value>, String> {
        let found = self.objects(&self.environment.client, object).get_opt(object.name).await;
        let found = found.map_err(|error| error.to_string())?;
        let found = found.map(|object| serde_json::to_value(object).expect("an object is JSON"));
        let uid = found.as_ref().and_then(|found| found["metadata"]["uid"].as_str());
        if let Some(uid) = uid.filter(|_| object.name == self.environment.target.subject.name) {
            self.uid.get_or_init(|| uid.to_owned());
        }
        Ok(found)
    }

    pub(super) async fn subject(&self) -> Result<Option<Value>, String> {
        self.read(&self.environment.target.subject).await
    }

    /// Applies a manifest in which namespaces and the database's URL are called as in every run.
    async fn apply(&self, manifest: &Value) -> Result<(), String> {
        let url = self.environment.postgres.url("postgres", &self.environment.database, "sslmode=disable");
        let tokens = self.coderds.iter().map(|one| (&one.token, format!("{{token:{}}}", one.control_plane)));
        let names = self.names.iter().map(|(name, placeholder)| (name, placeholder.clone())).chain(tokens);
        let own =
            names.fold(manifest.to_string(), |text, (name, placeholder)| text.replace(&placeholder, name));
        let manifest: Value = serde_json::from_str(&own.replace("{database}", &url)).expect("JSON");
        cluster_state::apply(&self.environment.client, &manifest, &self.namespaces[0]).await
    }

    /// Everything there is now.
    pub(super) async fn end_state(&self) -> Result<EndState, String> {
        let client = &self.environment.client;
        let mut objects = cluster_state::objects_in(client, &self.namespaces).await?;
        objects.extend(cluster_state::operator_secrets(client, &self.operator_namespace).await?);
        let mut names = self.names.clone();
        let makes = self.environment.target.attached.map(|attached| attached.makes);
        if makes.is_some() {
            names.extend(control_plane_uids(&objects));
        }
        let mut state = EndState::of(&objects, &names);
        let users = match self.uid.get() {
            Some(uid) => self.users(&(self.environment.target.email)(uid)),
            None => "nobody's".to_owned(),
        };
        for coderd in &self.coderds {
            let name = coderd.control_plane;
            let licenses = coderd.double.licenses().into_iter().map(|(_, uuid)| uuid.to_string());
            state = state.with(&format!("licenses of {name}"), &licenses.collect::<Vec<_>>().join(" "));
            state = match makes {
                Some(Makes::Keys { .. }) => state.with(&format!("keys of {name}"), &coderd.described_keys()),
                Some(Makes::Proxies { .. }) => {
                    state.with(&format!("proxies of {name}"), &coderd.described_proxies())
                }
                None => state,
            };
        }
        Ok(state.with("operator's users in the database: roles, living tokens", &users))
    }

    fn users(&self, email: &str) -> String {
        let statement = format!(
            "SELECT u.rbac_roles, count(k.id) FILTER (WHERE k.expires_at > now()) FROM users u \
             LEFT JOIN api_keys k ON k.user_id = u.id WHERE u.email = '{email}' GROUP BY u.id, u.rbac_roles"
        );
        self.environment.postgres.sql(&self.environment.database, &statement)
    }

    /// A failure with what the operator logged last, and what was broken, for whoever reads of it.
    pub(super) async fn explained(&self, why: String) -> String {
        let logs = self.all_logs().await;
        let lines = logs.last().map(|log| log.lines().filter(|line| !line.contains("\"DEBUG\"")));
        let lines: Vec<&str> = lines.into_iter().flatten().collect();
        let mut broken = self.invariants.as_ref().map(|one| one.broken()).unwrap_or_default();
        broken.retain(|one| !why.contains(one.as_str()));
        let last = &lines[lines.len().saturating_sub(12)..];
        [vec![why.as_str()], broken.iter().map(String::as_str).collect(), last.to_vec()].concat().join("\n")
    }

    /// Ends the operator and removes what the run left, so that the cluster stays small; nobody waits for it.
    pub(super) async fn clean_up(self) {
        self.kill_operator().await;
        if self.invariants.is_some() {
            // They were told, or the run did not count.
            self.coderds.iter().for_each(|one| drop(one.double.take_violations()));
        }
        let name = self.environment.target.subject.name;
        // It may be gone, and then there is nothing to let go.
        let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        drop(self.subjects().patch(name, &PatchParams::default(), &release).await);
        cluster_state::delete_namespaces(&self.environment.client, &self.namespaces).await;
    }
}

/// What the uid of each control plane is in every run.
fn control_plane_uids(objects: &[Value]) -> Vec<(String, String)> {
    let control_planes = objects.iter().filter(|object| object["kind"] == "CoderControlPlane");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    control_planes
        .map(|one| (text(&one["metadata"]["uid"]), format!("{{{}:uid}}", text(&one["metadata"]["name"]))))
        .collect()
}
