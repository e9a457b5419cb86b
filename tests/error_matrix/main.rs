//! Everything that can go wrong between the operator, coderd and its database, through the reconciler: each fault is
//! told by a truthful condition, tried again within bounds, healed when it is over, and costs no token.

mod attached;
mod cell;
mod env;
mod followed;
mod provisioner;
mod table;
mod tries;
mod workspace_proxy;

use attached::subject::SubjectKind;
use env::{MatrixEnv, Plane, Reach, Wanted};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;
use table::{Broken, Cell, Fault, Step};
use tokio::sync::Semaphore;

/// Cells of provisioners or workspace proxies under way at the same time: the operator works on eight objects of a kind at once, and those that
/// time out keep it waiting.
const AT_ONCE: usize = 28;

/// Runs all cells, so many at the same time, each on a plane of its own.
async fn run<C: Send + 'static, F: Future<Output = ()>>(
    cells: Vec<C>,
    at_once: usize,
    reach: Reach,
    wanted: impl Fn(&C) -> Wanted,
    cell: impl Fn(&'static MatrixEnv, &'static Plane, C) -> F + Copy + Send + 'static,
) {
    let wanted: Vec<Wanted> = cells.iter().map(wanted).collect();
    let names: Vec<String> = wanted.iter().map(|one| one.name.clone()).collect();
    let env: &'static MatrixEnv = Box::leak(Box::new(MatrixEnv::start(wanted, reach).await));
    let runtime = tokio::runtime::Handle::current();
    let places = Arc::new(Semaphore::new(at_once));
    // A thread each: statements of the test itself may wait for the operator's.
    let runs = cells.into_iter().zip(names).zip(&env.planes).map(|((one, name), plane)| {
        let (runtime, places) = (runtime.clone(), places.clone());
        let run = move || {
            runtime.block_on(async {
                let _place = places.acquire().await;
                cell(env, plane, one).await;
            });
        };
        (name.clone(), std::thread::Builder::new().name(name).spawn(run).unwrap())
    });
    let runs: Vec<_> = runs.collect();
    let (mut failed, count) = (Vec::new(), runs.len());
    for (name, run) in runs {
        // What went wrong was printed where it happened; here it counts that it did not stop the others.
        if tokio::task::block_in_place(|| run.join()).is_err() {
            failed.push(name);
        }
    }
    println!("{count} cells");
    assert_eq!(failed, Vec::<String>::new(), "of {count} cells");
}

async fn run_cells(cells: Vec<Cell>) {
    let wanted = |cell: &Cell| Wanted {
        name: cell.name(),
        own_database: matches!(cell.fault, Fault::Database(..)),
        closed: cell.fault == Fault::Database(Step::Connect, Broken::Refused),
    };
    run(cells, usize::MAX >> 4, Reach::Directly, wanted, cell::run).await;
}

async fn run_attached(kind: &'static SubjectKind, cells: Vec<attached::Cell>, reach: Reach) {
    let wanted = |cell: &attached::Cell| Wanted::with_nothing(cell.name());
    run(cells, AT_ONCE, reach, wanted, move |env, plane, cell| attached::run(kind, env, plane, cell)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_matrix() {
    run_cells(table::representative()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn the_whole_matrix() {
    run_cells(table::whole()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_calls_and_writes_of_provisioners() {
    run_attached(&provisioner::KIND, provisioner::representative(), Reach::ThroughFaultProxy).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn every_call_of_a_provisioner_with_every_fault() {
    run_attached(&provisioner::KIND, provisioner::calls(), Reach::Directly).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn every_write_of_a_provisioner_with_every_fault() {
    run_attached(&provisioner::KIND, provisioner::writes(), Reach::ThroughFaultProxy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_calls_and_writes_of_workspace_proxies() {
    run_attached(&workspace_proxy::KIND, workspace_proxy::representative(), Reach::ThroughFaultProxy).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn every_call_of_a_workspace_proxy_with_every_fault() {
    run_attached(&workspace_proxy::KIND, workspace_proxy::calls(), Reach::Directly).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn every_write_of_a_workspace_proxy_with_every_fault() {
    run_attached(&workspace_proxy::KIND, workspace_proxy::writes(), Reach::ThroughFaultProxy).await;
}

/// Without a call for this long, a control plane is at rest.
const REST: Duration = Duration::from_secs(4);

/// Two control planes whose databases were mixed up: each writes a token where its coderd never looks, records that it
/// is of no use, and tries again. Its own record must not wake it up.
#[tokio::test(flavor = "multi_thread")]
async fn two_control_planes_with_two_databases_mixed_up_keep_their_pauses_and_come_to_rest() {
    let wanted =
        ["one", "two"].map(|name| Wanted { name: name.to_owned(), own_database: true, closed: false });
    let env = MatrixEnv::start(wanted.into(), Reach::Directly).await;
    let url = json!([{ "name": "CODER_PG_CONNECTION_URL",
        "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }]);
    let database_of = async |plane: &Plane, other: &Plane| {
        let database = other.url(&env.postgres, "postgres", "disable");
        env.secret(&plane.namespace, "db", &json!({ "url": database })).await;
    };
    let [one, two] = &env.planes[..] else { panic!("two") };
    for (plane, other) in [(one, two), (two, one)] {
        database_of(plane, other).await;
        env.control_planes.apply(&plane.namespace, &json!({ "extraEnv": url })).await;
    }
    for plane in [one, two] {
        let rejected = |state: &Value| condition(state, "OperatorAccessReady")["reason"] == "TokenRejected";
        env.control_planes.until(&plane.namespace, "TokenRejected", 0, rejected).await;
        let first = plane.coderd.calls_to("GET /users/me")[0].at;
        until("enough time to count", LIMIT, async || {
            let (passed, tries) =
                (plane.coderd.clock().now().since(first), plane.coderd.count("GET /users/me"));
            holds(passed >= 2 * REST && tries >= 2, format!("{tries} tries in {passed:?}"))
        })
        .await;
        let tries = plane.coderd.count("GET /users/me");
        assert!(tries <= 8, "{tries} tries of one token");
    }
    for plane in [one, two] {
        let since = env.control_planes.seen(&plane.namespace);
        database_of(plane, plane).await;
        let proven = |state: &Value| {
            condition(state, "OperatorAccessReady")["reason"] == "TokenProven"
                && condition(state, "Ready")["status"] == "True"
        };
        env.control_planes.until(&plane.namespace, "access", since, proven).await;
        until(&format!("{} to be at rest", plane.namespace), LIMIT, async || {
            let last = plane.coderd.calls().last().map(|call| call.at).unwrap();
            let reconciles = plane.coderd.count("GET /buildinfo");
            holds(plane.coderd.clock().now().since(last) >= REST, format!("{reconciles} reconciles so far"))
        })
        .await;
    }
}
