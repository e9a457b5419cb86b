//! `make bench-scale`: what 100, 300 and 1,000 control planes cost, and whether ten times as many cost ten times as much.
//! Each size has a cluster, a coderd and an operator of its own; the operator is idle before the first is created. Right
//! after it, on another cluster, a bare client makes as many writes: the floor that the time is measured by.
//!
//!   cargo run -p support --bin bench-scale -- target/release/coder-k8s [SIZE...]

use serde_json::Value;
use std::time::{Duration, Instant};
use support::coderd::Coderd;
use support::figures::{Figure, report};
use support::floor::{self, Writes};
use support::memory::{peak, processor_time, resident};
use support::{Cluster, ClusterOptions, Fleet, Installation, Operator};

/// The first is what the others are measured by; it is measured before, between and after them, and the median counts:
/// the machine may be busier at one time than at another.
const SIZES: [usize; 3] = [100, 300, 1000];
const LIMIT: Duration = Duration::from_secs(900);
/// Long enough for the work of a start, or of the last rollouts, to end: memory is read when nothing happens any more.
const SETTLE: Duration = Duration::from_secs(5);
/// Pods that fit on a simulated node, with room for those that are being replaced.
const PODS_ON_A_NODE: usize = 100;
/// How far above the line a figure may be: the cluster shares the processors with the operator, and runs differ.
const TOLERANCE: f64 = 1.1;
/// How much longer than the bare client the operator may take.
const ABOVE_THE_FLOOR: f64 = 1.5;
/// Objects that are written for each control plane, each once; what is more are writes of its status.
const CHILDREN: usize = 5;

/// What a size cost in all.
struct Cost {
    size: usize,
    /// Seconds from the first creation to the last that is ready.
    time: f64,
    /// The same of a bare client that makes the same writes.
    floor: f64,
    /// Seconds of processor time of the operator meanwhile.
    processor: f64,
    writes: f64,
    reads: f64,
    /// Megabytes above idle, when all is quiet again.
    growth: f64,
    /// Megabytes above idle, at the worst moment.
    peak: f64,
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let binary = words.next().expect("usage: bench-scale PATH-OF-CODER-K8S [SIZE...]");
    let given: Vec<usize> = words.map(|word| word.parse().expect("a number of control planes")).collect();
    let sizes = if given.is_empty() { SIZES.to_vec() } else { given };
    let (&small, larger) = sizes.split_first().expect("a size");
    let mut baselines = vec![measure(&binary, small).await];
    let mut costs = Vec::new();
    for size in larger {
        costs.push(measure(&binary, *size).await);
        baselines.push(measure(&binary, small).await);
    }
    let rows = figures(small, &baselines);
    let others = costs.iter().flat_map(|cost| figures_of(cost, small, &baselines));
    report("bench-scale", &rows.into_iter().chain(others).collect::<Vec<_>>());
}

/// What the operator costs, and then the floor.
async fn measure(binary: &str, size: usize) -> Cost {
    let (mut cost, status) = measure_operator(binary, size).await;
    println!("--> {size} control planes: starting a cluster for the bare client");
    let cluster = Cluster::start(options(size)).await;
    let installation = Installation::new(&cluster, "operator").await;
    let statuses = (cost.writes as usize / size).saturating_sub(CHILDREN).max(1);
    let writes = Writes::of(binary, status, statuses);
    cost.floor = floor::measure(&cluster, &installation, writes, size, SETTLE, LIMIT).await;
    println!("    ready after {:.1} s, {statuses} statuses each", cost.floor);
    cost
}

/// The audit log is written for both: it costs the API server time.
fn options(size: usize) -> ClusterOptions {
    ClusterOptions { nodes: size.div_ceil(PODS_ON_A_NODE) + 1, audit: true, ..Default::default() }
}

/// What it costs, and what it said of one of them in the end.
async fn measure_operator(binary: &str, size: usize) -> (Cost, Value) {
    println!("--> {size} control planes: starting a cluster, a coderd and the operator");
    let cluster = Cluster::start(options(size)).await;
    let installation = Installation::new(&cluster, "operator").await;
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let mut options = installation.operator("controller").await;
    options.flags.push(format!("--resolve=*.svc.cluster.local={}", coderd.addr()));
    let mut operator = Operator::start(binary, &options).await;
    operator.ready(Duration::from_secs(60)).await;
    tokio::time::sleep(SETTLE).await;
    let (idle, used) = (resident(operator.id()), processor_time(operator.id()));
    let asked = cluster.requests_of(&installation.user()).len();

    let began = Instant::now();
    let fleet = Fleet::create(&cluster, "plane", size).await;
    println!("    created within {:.1} s", began.elapsed().as_secs_f64());
    let tenth = size.div_ceil(10);
    let tell = |ready: usize| {
        if ready.is_multiple_of(tenth) || ready == size {
            println!("    {ready} of {size} ready after {:.1} s", began.elapsed().as_secs_f64());
        }
    };
    fleet.ready(&cluster, LIMIT, tell).await;
    let time = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let requests = cluster.requests_of(&installation.user()).split_off(asked);
    // Leases follow the clock, and Events are not writes of an object.
    let counted =
        requests.iter().filter(|request| !["leases", "events"].contains(&request.resource.as_str()));
    let (reads, writes): (Vec<_>, Vec<_>) = counted.partition(|request| request.is_read());
    let cost = Cost {
        size,
        time,
        floor: f64::NAN,
        processor: processor_time(operator.id()) - used,
        writes: writes.len() as f64,
        reads: reads.len() as f64,
        growth: resident(operator.id()) - idle,
        peak: peak(operator.id()) - idle,
    };
    (cost, fleet.some_status(&cluster).await)
}

/// A figure of a cost: name, unit and how it is read.
type Aspect = (&'static str, &'static str, fn(&Cost) -> f64);

const ASPECTS: [Aspect; 6] = [
    ("time to settle", "s", |cost| cost.time),
    ("processor time", "s", |cost| cost.processor),
    ("writes", "", |cost| cost.writes),
    ("reads", "", |cost| cost.reads),
    ("memory growth", "MB", |cost| cost.growth),
    ("memory growth, peak", "MB", |cost| cost.peak),
];

fn name(size: usize, aspect: &str) -> String {
    format!("{size} control planes: {aspect}")
}

fn median(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The figures of the size that others are measured by.
fn figures(size: usize, costs: &[Cost]) -> Vec<Figure> {
    let figure = |(aspect, unit, of): Aspect| Figure::baseline(&name(size, aspect), median(costs, of), unit);
    let mut figures: Vec<Figure> = ASPECTS.into_iter().map(figure).collect();
    figures.push(above_the_floor(size, median(costs, |cost| cost.time), median(costs, |cost| cost.floor)));
    figures
}

/// The time beside that of a bare client.
fn above_the_floor(size: usize, time: f64, floor: f64) -> Figure {
    Figure::against(&name(size, "settled, by a bare client"), time, "s", floor, ABOVE_THE_FLOOR)
}

/// The figures of a size beside what it would cost if each control plane cost what it does among few.
fn figures_of(cost: &Cost, small: usize, baselines: &[Cost]) -> Vec<Figure> {
    let factor = cost.size as f64 / small as f64;
    let figure = |(aspect, unit, of): Aspect| {
        let linear = median(baselines, of) * factor;
        Figure::against(&name(cost.size, aspect), of(cost), unit, linear, TOLERANCE)
    };
    let mut figures: Vec<Figure> = ASPECTS.into_iter().map(figure).collect();
    figures.push(above_the_floor(cost.size, cost.time, cost.floor));
    figures
}
