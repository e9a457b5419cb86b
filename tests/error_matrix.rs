//! Everything that can go wrong between the operator, coderd and its database, through the reconciler: each fault is
//! told by a truthful condition, tried again within bounds, healed when it is over, and costs no token.

#[path = "error_matrix/cell.rs"]
mod cell;
#[path = "error_matrix/stage.rs"]
mod stage;
#[path = "error_matrix/table.rs"]
mod table;

use serde_json::json;
use stage::{LIMIT, Stage, Wanted, condition};
use std::time::Duration;
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
    let stage: &'static Stage = Box::leak(Box::new(Stage::set(wanted.collect()).await));
    let runtime = tokio::runtime::Handle::current();
    // A thread each: statements of the test itself may wait for the operator's.
    let runs = cells.iter().copied().zip(&stage.planes).map(|(cell, plane)| {
        let runtime = runtime.clone();
        let named = std::thread::Builder::new().name(cell.name());
        (cell.name(), named.spawn(move || runtime.block_on(cell::run(stage, plane, cell))).unwrap())
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
#[ignore = "takes minutes: make test-faults"]
async fn the_whole_matrix() {
    run(table::whole()).await;
}

/// Without a call for this long, a control plane is at rest.
const REST: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn two_control_planes_with_two_databases_come_to_rest() {
    let wanted = ["one", "two"]
        .map(|name| Wanted { name: name.to_owned(), own_database: true, closed: false })
        .into_iter();
    let stage = Stage::set(wanted.collect()).await;
    let url = json!([{ "name": "CODER_PG_CONNECTION_URL",
        "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }]);
    for plane in &stage.planes {
        let database = plane.url(&stage.postgres, "postgres", "disable");
        stage.secret(&plane.namespace, "db", &json!({ "url": database })).await;
        stage.apply(&plane.namespace, &json!({ "extraEnv": url })).await;
    }
    for plane in &stage.planes {
        let proven = |state: &serde_json::Value| {
            condition(state, "OperatorAccessReady")["reason"] == "TokenProven"
                && condition(state, "Ready")["status"] == "True"
        };
        stage.until(&plane.namespace, "access", 0, proven).await;
    }
    // Their tokens are Secrets of one namespace, which the operator watches: its own writes must not wake it up.
    for plane in &stage.planes {
        let passes = || plane.coderd.count("GET /buildinfo");
        until(&format!("{} to be at rest", plane.namespace), LIMIT, async || {
            let last = plane.coderd.calls().last().map(|call| call.at).unwrap();
            let silence = plane.coderd.clock().now().since(last);
            holds(silence >= REST, format!("{} passes so far", passes()))
        })
        .await;
        assert!(passes() <= 10, "{} passes for one token", passes());
        assert_eq!(plane.proxy.sessions().len(), 1, "all steps go over one connection");
    }
}
