//! A crash campaign: records undisturbed runs of a workload, plans a death at every write, runs each plan and compares
//! what is left in the end. What the workloads are, and of which operator, is for the suite to say.

mod cluster_state;
mod coderds;
mod end_state;
mod invariants;
mod plan;
mod run;
mod sabotage;

pub use cluster_state::Kind;
pub use end_state::EndState;
pub use plan::{Plan, Planned, plans, representative};

use crate::cluster::{Cluster, ClusterOptions};
use crate::fault_proxy::Point;
use crate::installation::Installation;
use crate::postgres::Postgres;
use crate::test_env::LIMIT;
use crate::wait::{holds, within};
use run::WorkloadRun;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Recordings that a plan rests on.
const RECORDINGS: usize = 2;
/// Runs in which a point must be reached at least once.
const TRIES: usize = 3;
/// A point that is not reached within this time after the change is not reached.
const REACHED_WITHIN: Duration = Duration::from_secs(60);
const RELEASE: &str = "v2.36.1";

/// The object a campaign is about.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its kind.
    pub kind: Kind,
    /// Its name; its namespace is another in each run.
    pub name: &'static str,
}

/// What a campaign tests: an operator, and the object that its workloads are about.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The operator.
    pub binary: &'static str,
    /// What it works on.
    pub subject: Subject,
    /// Names that are derived from the subject's namespace and do not contain it, and what they are in every run.
    pub names: fn(&str) -> Vec<(String, String)>,
    /// The address of the operator's user in coderd, by the subject's uid.
    pub email: fn(&str) -> String,
    /// More flags of the operator.
    pub flags: &'static [&'static str],
    /// Names of the first provisioner keys that its workloads make.
    pub key_names: &'static [&'static str],
    /// What may differ in the end after a plan.
    pub tolerance: fn(&Plan) -> Tolerance,
    /// What it has in coderds, if its subject is attached to control planes.
    pub attached: Option<Attached>,
}

/// What a subject has in coderds. Its pods dial there as daemons and proxies do, and what must hold for what it has there is
/// checked in every run.
#[derive(Debug, Clone, Copy)]
pub struct Attached {
    /// Control planes, each with a coderd of its own. Manifests say `{token:NAME}` for the token of one.
    pub control_planes: &'static [&'static str],
    /// What it makes there.
    pub makes: Makes,
}

/// What a subject makes in coderd.
#[derive(Debug, Clone, Copy)]
pub enum Makes {
    /// Provisioner keys.
    Keys {
        /// Organizations of each coderd besides the default one.
        organizations: &'static [&'static str],
        /// Keys of others in each coderd: organization and name.
        of_others: &'static [(&'static str, &'static str)],
    },
    /// Registrations of workspace proxies.
    Proxies {
        /// Proxies of others in each coderd.
        of_others: &'static [&'static str],
        /// One more of others in each coderd, which a workload may take over.
        adoptable: &'static str,
        /// How often tokens are replaced in a workload of this name, if nobody dies in it.
        replacements: fn(&str) -> usize,
    },
}

/// What may differ in the end from an undisturbed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tolerance {
    /// Nothing.
    Nothing,
    /// The number of the key, in its name and beside it: a plaintext was lost, and its key was replaced by the next one.
    KeyNumber,
    /// That, and how often pods were rolled out: there were fewer keys on the way.
    Rollouts,
    /// That the token of a proxy was replaced once more: one was lost. Nothing in the end tells it.
    Token,
}

/// Whether a subject is as it should be; none is one that is not there.
pub type Expectation = fn(Option<&Value>) -> bool;

/// What happens in a workload.
#[derive(Debug, Clone)]
pub enum Change {
    /// These manifests are applied.
    Apply(Vec<Value>),
    /// The subject is deleted.
    Delete,
    /// Its namespace is deleted.
    DeleteNamespace,
    /// An object in its namespace, by kind and name, is changed by a merge patch.
    Patch(Kind, &'static str, Value),
    /// An object in its namespace, by kind and name, is deleted.
    DeleteObject(Kind, &'static str),
}

/// When what there is before a change is done, and writes begin to count.
#[derive(Debug, Clone, Copy)]
pub enum Prepared {
    /// From the start: there is nothing yet.
    Nothing,
    /// When the subject is so.
    Subject(Expectation),
    /// When another object in its namespace is so, whether there is a subject or not.
    Other(Subject, Expectation),
}

/// A second change.
#[derive(Debug, Clone)]
pub struct Then {
    /// When it happens.
    pub when: Expectation,
    /// Whether it also happens as soon as the operator is dead: the next one finds it.
    pub while_dead: bool,
    /// What happens.
    pub change: Change,
}

/// Something that an operator does in many steps. Manifests say `{home}` for the subject's namespace, `{operator}` for the
/// operator's, the name of each other namespace in braces, and `{database}` for the URL of coderd's database.
#[derive(Debug, Clone)]
pub struct Workload {
    /// What it is called; part of a namespace's name.
    pub name: &'static str,
    /// What further namespaces are called in every run.
    pub other_namespaces: &'static [&'static str],
    /// What there is before.
    pub before: Vec<Value>,
    /// When that is done.
    pub prepared: Prepared,
    /// What happens.
    pub change: Change,
    /// What happens then.
    pub then: Option<Then>,
    /// When that is done.
    pub done: Expectation,
}

/// What all runs share.
struct Environment {
    cluster: Cluster,
    postgres: Arc<Postgres>,
    database: String,
    client: kube::Client,
    target: Target,
}

/// A cluster, a database server and some installations of the operator, each for one run at a time.
pub struct Campaign {
    environment: Environment,
    installations: Vec<Installation>,
}

/// What an undisturbed run was.
struct Recording {
    points: Vec<Point>,
    end: EndState,
}

/// What is known of a workload before anybody is killed.
pub struct Recorded {
    /// What follows from it.
    pub planned: Planned,
    end: EndState,
}

/// How a plan ended that did not fail.
enum Outcome {
    Converged(Duration),
    NotReached,
}

/// Whether a point may be in no further run through nobody's fault: how often a status is written depends on how a rollout is
/// seen, and what is written at all while a namespace goes on what its controller deletes first.
fn may_be_missed(plan: &Plan, workload: &Workload) -> bool {
    plan.point.is_of_status() || matches!(workload.change, Change::DeleteNamespace)
}

impl Campaign {
    /// Sets up everything for that many runs at the same time.
    pub async fn start(target: Target, parallel_runs: usize) -> &'static Self {
        let options = ClusterOptions { nodes: 2, optional_kinds: true, ..Default::default() };
        let cluster = Cluster::start(options).await;
        let postgres = Arc::new(Postgres::start());
        let database = postgres.coderd_database(RELEASE);
        let client = cluster.client().await;
        let mut installations = Vec::new();
        for _ in 0..parallel_runs {
            installations.push(Installation::new(&cluster, "operator").await);
        }
        let environment = Environment { cluster, postgres, database, client, target };
        Box::leak(Box::new(Self { environment, installations }))
    }

    /// Records each workload undisturbed and makes its plans.
    ///
    /// # Panics
    /// If an undisturbed run fails, or two of them end differently: then nothing can be compared.
    pub async fn record(&'static self, workloads: &'static [Workload]) -> BTreeMap<&'static str, Recorded> {
        let jobs = workloads.iter().flat_map(|workload| [workload; RECORDINGS]).collect();
        let runs = self
            .in_parallel(jobs, |installation, workload| Box::pin(self.undisturbed(installation, workload)))
            .await;
        let mut recordings: BTreeMap<&str, Vec<Recording>> = BTreeMap::new();
        for (workload, run) in runs {
            let recording = run.unwrap_or_else(|why| panic!("{}, undisturbed: {why}", workload.name));
            recordings.entry(workload.name).or_default().push(recording);
        }
        let differing = recordings.iter().filter_map(|(name, recordings)| {
            let differences = recordings[1].end.difference(&recordings[0].end);
            (!differences.is_empty()).then(|| format!("{name}:\n{}", differences.join("\n")))
        });
        let differing: Vec<String> = differing.collect();
        assert!(differing.is_empty(), "two undisturbed runs differ:\n{}", differing.join("\n"));
        let recorded = recordings.into_iter().map(|(name, recordings)| {
            let (points, mut ends): (Vec<Vec<Point>>, Vec<EndState>) =
                recordings.into_iter().map(|one| (one.points, one.end)).unzip();
            (name, Recorded { planned: plans(name, &points), end: ends.remove(0) })
        });
        recorded.collect()
    }

    /// Runs plans and prints how many converged, and which points were never reached.
    ///
    /// # Panics
    /// If one does not converge, or its point is never reached and must be.
    pub async fn run(
        &'static self,
        workloads: &'static [Workload],
        recorded: &'static BTreeMap<&'static str, Recorded>,
        chosen: Vec<Plan>,
    ) {
        let began = Instant::now();
        let total = chosen.len();
        let workload =
            |plan: &Plan| workloads.iter().find(|one| one.name == plan.workload).expect("its workload");
        let jobs: Vec<(Plan, &'static Workload)> =
            chosen.into_iter().map(|plan| (plan.clone(), workload(&plan))).collect();
        let runs = self
            .in_parallel(jobs, |installation, (plan, workload)| {
                Box::pin(async move {
                    let tried =
                        self.tried(installation, workload, plan.clone(), &recorded[workload.name].end).await;
                    // Whoever waits for hundreds of others to end learns of it at once.
                    tried.inspect_err(|why| println!("FAILED {plan}:\n{why}\n"))
                })
            })
            .await;
        let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        let mut failed = Vec::new();
        for ((plan, workload), run) in runs {
            match run {
                Ok(Outcome::Converged(time)) => times.entry(plan.workload).or_default().push(time),
                Ok(Outcome::NotReached) if may_be_missed(&plan, workload) => {
                    println!("not reached in {TRIES} runs, and left out: {plan}");
                }
                Ok(Outcome::NotReached) => {
                    failed.push(format!("{plan}:\nin {TRIES} runs it was never reached"))
                }
                Err(why) => failed.push(format!("{plan}:\n{why}")),
            }
        }
        for (workload, mut times) in times {
            times.sort();
            let (count, median) = (times.len(), times[times.len() / 2]);
            println!("{workload}: {count} plans converged, half of them within {median:.1?}");
        }
        println!("{total} plans in {:.0?}", began.elapsed());
        assert!(failed.is_empty(), "{} of {total} plans failed:\n\n{}", failed.len(), failed.join("\n\n"));
    }

    /// Runs jobs, each with an installation of its own for that time; their results come in no order.
    async fn in_parallel<J, T>(
        &'static self,
        jobs: Vec<J>,
        run: impl Fn(&'static Installation, J) -> futures::future::LocalBoxFuture<'static, T>,
    ) -> Vec<(J, T)>
    where
        J: Clone,
    {
        let waiting = Mutex::new(VecDeque::from(jobs));
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let workers = self.installations.iter().map(|installation| {
            let (next, run) = (&next, &run);
            async move {
                let mut results = Vec::new();
                while let Some(job) = next() {
                    let result = run(installation, job.clone()).await;
                    results.push((job, result));
                }
                results
            }
        });
        futures::future::join_all(workers).await.into_iter().flatten().collect()
    }

    async fn undisturbed(
        &'static self,
        installation: &'static Installation,
        workload: &'static Workload,
    ) -> Result<Recording, String> {
        let run = WorkloadRun::prepare(&self.environment, installation, workload).await;
        let recording = async {
            run.run_up_to_change(None).await?;
            run.make_changes().await?;
            run.until_done().await?;
            run.until_quiet().await?;
            let points = run.journal.points();
            run.until_settled().await?;
            let end = run.end_state().await?;
            run.until_steady(LIMIT).await?;
            run.check_invariants(Tolerance::Nothing).await?;
            Ok(Recording { points, end })
        };
        let recording = recording.await;
        let recording = match recording {
            Ok(recording) => Ok(recording),
            Err(why) => Err(run.explained(why).await),
        };
        run.clean_up().await;
        recording
    }

    /// Runs a plan until its point is reached.
    async fn tried(
        &'static self,
        installation: &'static Installation,
        workload: &'static Workload,
        plan: Plan,
        expected: &'static EndState,
    ) -> Result<Outcome, String> {
        for _ in 0..TRIES {
            let run = WorkloadRun::prepare(&self.environment, installation, workload).await;
            let outcome = match disturbed(&run, &plan, expected).await {
                Ok(outcome) => Ok(outcome),
                Err(why) => Err(run.explained(why).await),
            };
            run.clean_up().await;
            if let Outcome::Converged(time) = outcome? {
                return Ok(Outcome::Converged(time));
            }
        }
        Ok(Outcome::NotReached)
    }
}

/// Runs a workload, kills its operator as planned, starts another and waits until everything is as it should be.
async fn disturbed(run: &WorkloadRun<'_>, plan: &Plan, expected: &EndState) -> Result<Outcome, String> {
    let began = Instant::now();
    run.run_up_to_change(Some((plan.point.clone(), plan.timing))).await?;
    let (changed, reached) = futures::join!(run.make_changes(), run.killed_within(REACHED_WITHIN));
    changed?;
    if !reached {
        return Ok(Outcome::NotReached);
    }
    run.until_done().await?;
    run.until_settled().await?;
    let tolerated = |state: EndState| run.tolerant(state, plan);
    let expected = tolerated(expected.clone());
    within("the same end as undisturbed", LIMIT, async || {
        let difference = tolerated(run.end_state().await?).difference(&expected);
        holds(difference.is_empty(), format!("(- expected, + found)\n{}", difference.join("\n")))
    })
    .await?;
    run.until_steady(LIMIT).await?;
    run.check_invariants((run.environment.target.tolerance)(plan)).await?;
    Ok(Outcome::Converged(began.elapsed()))
}
