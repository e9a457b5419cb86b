//! Everything that can go wrong between the operator, coderd and its database, through the reconciler: each fault is
//! told by a truthful condition, tried again within bounds, healed when it is over, and costs no token.

mod cell;
mod env;
mod table;

use env::{MatrixEnv, Plane, Wanted};
use serde_json::{Value, json};
use std::time::Duration;
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;
use table::{Broken, Cell, Fault, Step};

/// Runs all cells at the same time.
async fn run(cells: Vec<Cell>) {
    let wanted = cells.iter().map(|cell| Wanted {
        name: cell.name(),
        own_database: matches!(cell.fault, Fault::Database(..)),
        closed: cell.fault == Fault::Database(Step::Connect, Broken::Refused),
    });
    let env: &'static MatrixEnv = Box::leak(Box::new(MatrixEnv::start(wanted.collect()).await));
    let runtime = tokio::runtime::Handle::current();
    // A thread each: statements of the test itself may wait for the operator's.
    let runs = cells.iter().copied().zip(&env.planes).map(|(cell, plane)| {
        let runtime = runtime.clone();
        let named = std::thread::Builder::new().name(cell.name());
        (cell.name(), named.spawn(move || runtime.block_on(cell::run(env, plane, cell))).unwrap())
    });
    let runs: Vec<_> = runs.collect();
    let mut failed = Vec::new();
    for (name, run) in runs {
        // What went wrong was printed where it happened; here it counts that it did not stop the others.
        if tokio::task::block_in_place(|| run.join()).is_err() {
            failed.push(name);
        }
    }
    assert_eq!(failed, Vec::<String>::new(), "of {} cells", cells.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_matrix() {
    run(table::representative()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a busy machine: make test-faults"]
async fn the_whole_matrix() {
    run(table::whole()).await;
}

/// Without a call for this long, a control plane is at rest.
const REST: Duration = Duration::from_secs(4);

/// Two control planes whose databases were mixed up: each writes a token where its coderd never looks, records that it
/// is of no use, and tries again. Its own record must not wake it up.
#[tokio::test(flavor = "multi_thread")]
async fn two_control_planes_with_two_databases_mixed_up_keep_their_pauses_and_come_to_rest() {
    let wanted =
        ["one", "two"].map(|name| Wanted { name: name.to_owned(), own_database: true, closed: false });
    let env = MatrixEnv::start(wanted.into()).await;
    let url = json!([{ "name": "CODER_PG_CONNECTION_URL",
        "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }]);
    let database_of = async |plane: &Plane, other: &Plane| {
        let database = other.url(&env.postgres, "postgres", "disable");
        env.secret(&plane.namespace, "db", &json!({ "url": database })).await;
    };
    let [one, two] = &env.planes[..] else { panic!("two") };
    for (plane, other) in [(one, two), (two, one)] {
        database_of(plane, other).await;
        env.apply(&plane.namespace, &json!({ "extraEnv": url })).await;
    }
    for plane in [one, two] {
        let rejected = |state: &Value| condition(state, "OperatorAccessReady")["reason"] == "TokenRejected";
        env.until(&plane.namespace, "TokenRejected", 0, rejected).await;
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
        let since = env.seen(&plane.namespace);
        database_of(plane, plane).await;
        let proven = |state: &Value| {
            condition(state, "OperatorAccessReady")["reason"] == "TokenProven"
                && condition(state, "Ready")["status"] == "True"
        };
        env.until(&plane.namespace, "access", since, proven).await;
        until(&format!("{} to be at rest", plane.namespace), LIMIT, async || {
            let last = plane.coderd.calls().last().map(|call| call.at).unwrap();
            let reconciles = plane.coderd.count("GET /buildinfo");
            holds(plane.coderd.clock().now().since(last) >= REST, format!("{reconciles} reconciles so far"))
        })
        .await;
    }
}
