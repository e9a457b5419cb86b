//! One run of a workload: namespaces, a coderd, the proxies around an operator, and the operator itself, killed and
//! started again at will. It says what there is in the end; it never judges it.

use super::end_state::EndState;
use super::{Change, Environment, Expectation, Workload, cluster_state};
use crate::coderd::Coderd;
use crate::database_proxy::DatabaseProxy;
use crate::fault_proxy::{CrashTiming, FaultProxy, Journal, Point};
use crate::installation::Installation;
use crate::operator::{Operator, OperatorOptions};
use crate::test_env::LIMIT;
use crate::wait::{holds, within};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Without a write for this long, an undisturbed run is at rest.
const REST: Duration = Duration::from_millis(1500);

/// Everything that belongs to one run alone.
pub(super) struct WorkloadRun<'a> {
    environment: &'a Environment,
    workload: &'a Workload,
    /// The namespaces of this run: that of the subject first.
    namespaces: Vec<String>,
    operator_namespace: String,
    /// What is called otherwise in each run, and what it is in every run.
    names: Vec<(String, String)>,
    pub(super) journal: Arc<Journal>,
    coderd: Arc<Coderd>,
    uid: OnceLock<String>,
    options: OperatorOptions,
    operator: Option<Operator>,
    _proxies: (FaultProxy, FaultProxy, DatabaseProxy),
}

impl<'a> WorkloadRun<'a> {
    /// Namespaces, coderd and proxies; no operator yet.
    pub(super) async fn prepare(
        environment: &'a Environment,
        installation: &Installation,
        workload: &'a Workload,
    ) -> Self {
        let home = environment.cluster.namespace(workload.name).await;
        let operator_namespace = installation.namespace.clone();
        cluster_state::reset_operator_namespace(&environment.client, &operator_namespace).await;
        let mut names = (environment.target.names)(&home);
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
        let journal = Arc::new(Journal::new(names.clone()));
        let coderd = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
        let (postgres, database, follower) =
            (environment.postgres.clone(), environment.database.clone(), coderd.clone());
        let follow = Arc::new(move || {
            // A database that does not answer any more has nothing to be followed.
            if let Ok(tokens) = postgres.coderd_tokens(&database) {
                follower.follow_database(&tokens);
            }
        });
        let to_api_server = FaultProxy::recording(&environment.cluster, journal.clone()).await;
        to_api_server.show_only(namespaces.iter().chain([&operator_namespace]).map(String::as_str));
        let to_coderd = FaultProxy::before_coderd(coderd.addr(), journal.clone()).await;
        let to_database =
            DatabaseProxy::recording(environment.postgres.port(), false, follow, journal.clone());
        let mut options = installation.operator_through("controller", &to_api_server.url()).await;
        let host = crate::postgres::HOST;
        options.flags.push(format!("--resolve={host}={}", to_database.address()));
        options.flags.push(format!("--resolve=*.svc.cluster.local={}", to_coderd.address()));
        Self {
            environment,
            workload,
            namespaces,
            operator_namespace,
            names,
            journal,
            coderd,
            uid: OnceLock::new(),
            options,
            operator: None,
            _proxies: (to_api_server, to_coderd, to_database),
        }
    }

    /// Starts an operator, which leads at once: nobody holds the Lease.
    pub(super) async fn start_operator(&mut self) {
        cluster_state::delete_leases(&self.environment.client, &self.operator_namespace).await;
        self.operator = Some(Operator::start(self.environment.target.binary, &self.options).await);
    }

    /// Runs the workload up to its change; what is written from then on counts, and is fatal where it is planned to be.
    pub(super) async fn run_up_to_change(
        &mut self,
        planned: Option<(Point, CrashTiming)>,
    ) -> Result<(), String> {
        // Without a state to prepare, what an operator writes when it first starts is part of the workload.
        if self.workload.prepared.is_none() {
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
        if let Some(prepared) = self.workload.prepared {
            self.until_subject("the beginning", prepared).await?;
            self.reconcile("prepared").await?;
            self.journal.begin(planned);
        }
        self.make_change().await
    }

    /// Kills the operator with SIGKILL.
    pub(super) fn kill_operator(&mut self) {
        if let Some(mut operator) = self.operator.take() {
            operator.process().kill();
        }
    }

    /// What the workload is about.
    async fn make_change(&self) -> Result<(), String> {
        match &self.workload.change {
            Change::Apply(manifests) => {
                for manifest in manifests {
                    self.apply(manifest).await?;
                }
                Ok(())
            }
            Change::Delete => {
                let (name, parameters) = (self.environment.target.subject.name, DeleteParams::default());
                let deleted = self.subjects().delete(name, &parameters).await;
                deleted.map(drop).map_err(|error| error.to_string())
            }
        }
    }

    /// Waits until the workload is done.
    pub(super) async fn until_done(&self) -> Result<(), String> {
        self.until_subject("the end", self.workload.done).await
    }

    /// Waits until an undisturbed operator writes nothing any more.
    pub(super) async fn until_quiet(&self) -> Result<(), String> {
        within("the operator to be at rest", LIMIT, async || {
            let quiet = self.journal.quiet();
            holds(quiet.is_some_and(|quiet| quiet >= REST), format!("the last write was {quiet:?} ago"))
        })
        .await
    }

    /// Requests one more reconcile and waits until it is done: what is in order stays so. Of a subject that is gone everything
    /// goes that it owned; that is for the garbage collector.
    pub(super) async fn until_settled(&self) -> Result<(), String> {
        match self.workload.change {
            Change::Apply(_) => self.reconcile("settled").await,
            Change::Delete => self.until_garbage_collected().await,
        }
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

    /// Requests a reconcile of the subject and waits until it is done.
    async fn reconcile(&self, request: &str) -> Result<(), String> {
        let patch = json!({ "metadata": { "annotations": { "coder.com/reconcile-at": request } } });
        let name = self.environment.target.subject.name;
        let asked = self.subjects().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        asked.map_err(|error| error.to_string())?;
        within(&format!("the reconcile {request} to be done"), LIMIT, async || {
            let subject = self.subject().await?.unwrap_or_default();
            holds(subject["status"]["lastHandledReconcileAt"] == request, subject["status"].to_string())
        })
        .await
    }

    async fn until_subject(&self, what: &str, expected: Expectation) -> Result<(), String> {
        within(&format!("{what} of {}", self.workload.name), LIMIT, async || {
            let subject = self.subject().await?;
            let status = subject.as_ref().map_or(Value::Null, |subject| subject["status"].clone());
            holds(expected(subject.as_ref()), status.to_string())
        })
        .await
    }

    fn subjects(&self) -> Api<DynamicObject> {
        cluster_state::api(
            &self.environment.client,
            &self.environment.target.subject.kind,
            &self.namespaces[0],
        )
    }

    async fn subject(&self) -> Result<Option<Value>, String> {
        let found = self.subjects().get_opt(self.environment.target.subject.name).await;
        let found = found.map_err(|error| error.to_string())?;
        let found = found.map(|object| serde_json::to_value(object).expect("an object is JSON"));
        if let Some(uid) = found.as_ref().and_then(|object| object["metadata"]["uid"].as_str()) {
            self.uid.get_or_init(|| uid.to_owned());
        }
        Ok(found)
    }

    /// Applies a manifest in which namespaces and the database's URL are called as in every run.
    async fn apply(&self, manifest: &Value) -> Result<(), String> {
        let url = self.environment.postgres.url("postgres", &self.environment.database, "sslmode=disable");
        let own = self
            .names
            .iter()
            .fold(manifest.to_string(), |text, (name, placeholder)| text.replace(placeholder, name));
        let manifest: Value = serde_json::from_str(&own.replace("{database}", &url)).expect("JSON");
        cluster_state::apply(&self.environment.client, &manifest, &self.namespaces[0]).await
    }

    /// Everything there is now.
    pub(super) async fn end_state(&self) -> Result<EndState, String> {
        let client = &self.environment.client;
        let mut objects = cluster_state::objects_in(client, &self.namespaces).await?;
        objects.extend(cluster_state::operator_secrets(client, &self.operator_namespace).await?);
        let state = EndState::of(&objects, &self.names);
        let users = match self.uid.get() {
            Some(uid) => self.users(&(self.environment.target.email)(uid)),
            None => "nobody's".to_owned(),
        };
        let licenses = self.coderd.licenses().into_iter().map(|(_, uuid)| uuid.to_string());
        let licenses = licenses.collect::<Vec<_>>().join(" ");
        Ok(state
            .with("operator's users in the database: roles, living tokens", &users)
            .with("licenses", &licenses))
    }

    fn users(&self, email: &str) -> String {
        let statement = format!(
            "SELECT u.rbac_roles, count(k.id) FILTER (WHERE k.expires_at > now()) FROM users u \
             LEFT JOIN api_keys k ON k.user_id = u.id WHERE u.email = '{email}' GROUP BY u.id, u.rbac_roles"
        );
        self.environment.postgres.sql(&self.environment.database, &statement)
    }

    /// What the operator logged last, for whoever reads of a failure.
    pub(super) fn log_tail(&self) -> String {
        let log = self.operator.as_ref().map(Operator::log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Ends the operator and removes what the run left, so that the cluster stays small; nobody waits for it.
    pub(super) async fn clean_up(mut self) {
        self.kill_operator();
        let name = self.environment.target.subject.name;
        // It may be gone, and then there is nothing to let go.
        let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        drop(self.subjects().patch(name, &PatchParams::default(), &release).await);
        cluster_state::delete_namespaces(&self.environment.client, &self.namespaces).await;
    }
}
