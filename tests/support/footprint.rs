//! `make footprint`: idle memory, binary size and time to true readiness of the release build in `--app=all`.
//!
//!   cargo run -p support --bin footprint -- target/release/coder-k8s

use std::time::{Duration, Instant};
use support::figures::{Figure, report};
use support::operator::Ports;
use support::{Cluster, ClusterOptions, Installation, Operator, ports};

const ROUNDS: usize = 7;
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for start-up work to end: memory is read when nothing happens any more.
const SETTLE: Duration = Duration::from_secs(5);
const MEGABYTE: f64 = 1_000_000.0;

#[tokio::main]
async fn main() {
    let binary = std::env::args().nth(1).expect("usage: footprint PATH-OF-CODER-K8S");
    println!("--> starting a cluster");
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let installation = Installation::shipped(&cluster).await;
    let options = installation.operator("all").await;

    println!("--> the first start makes the CA; {ROUNDS} more find it");
    let first = start(&binary, &options).await.1;
    let mut later = Vec::new();
    let mut idle = Vec::new();
    for round in 1..=ROUNDS {
        let (operator, time) = start(&binary, &options).await;
        tokio::time::sleep(SETTLE).await;
        later.push(time);
        idle.push(resident(operator.id()));
        println!("    {round}/{ROUNDS}: ready after {time:.0} ms, {:.1} MB idle", idle[idle.len() - 1]);
    }
    let size = std::fs::metadata(&binary).expect("the binary exists").len() as f64 / MEGABYTE;
    report(
        "footprint",
        &[
            Figure::at_most("idle memory, --app=all (median)", median(&mut idle), "MB", 16.0),
            Figure::at_most("stripped binary", size, "MB", 16.0),
            Figure::at_most("exec to ready, CA exists (median)", median(&mut later), "ms", 150.0),
            Figure::at_most("exec to ready, first start of all", first, "ms", 500.0),
        ],
    );
}

/// Starts the operator and returns it with the milliseconds to the first true `/readyz`.
async fn start(binary: &str, options: &support::OperatorOptions) -> (Operator, f64) {
    let began = Instant::now();
    // On chosen ports: reading them from the log would blur what is measured.
    let [probes, webhooks, aggregated, mcp, metrics] = ports::free();
    let operator = Operator::start_on(binary, options, Ports { probes, webhooks, aggregated, mcp, metrics });
    while began.elapsed() < LIMIT {
        if operator.probe("/readyz").await.is_ok_and(|(status, _)| status == 200) {
            return (operator, began.elapsed().as_secs_f64() * 1000.0);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("not ready within {LIMIT:?}: {}", operator.log());
}

/// Resident memory in megabytes, as the kernel counts it.
fn resident(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel says VmRSS");
    let kibibytes: f64 =
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number");
    kibibytes * 1024.0 / MEGABYTE
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
