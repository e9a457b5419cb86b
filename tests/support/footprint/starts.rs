//! What a start costs in each mode that runs: time to true readiness, and what is resident when nothing happens any more.
//! Every process leads all it can, as one does that works: a replica that waits for its turn holds less.

use super::{LIMIT, SETTLE, median, start, stop};
use support::figures::Figure;
use support::memory::resident;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, OperatorOptions, until};

const ROUNDS: usize = 7;
const IDLE: f64 = 20.0;
const LATER: f64 = 150.0;
const FIRST: f64 = 500.0;
/// The roles of `kustomize/components/split-roles`, and how many duties each leads: the CA, and the controller its reconciles.
const ROLES: [(&str, usize); 2] = [("controller", 2), ("webhooks", 1)];

/// Of the one process that does everything.
pub async fn of_all(binary: &str, options: &OperatorOptions) -> Vec<Figure> {
    println!("--> the first start makes the CA; {ROUNDS} more find it");
    let (operator, first) = start(binary, options).await;
    stop(operator).await;
    let [idle, later] = rounds(binary, options, 2).await;
    vec![
        Figure::at_most("idle memory, --app=all (median)", idle, "MB", IDLE),
        Figure::at_most("exec to ready, CA exists (median)", later, "ms", LATER),
        Figure::at_most("exec to ready, first start of all", first, "ms", FIRST),
    ]
}

/// Of each role with the account of its own, on a cluster that nothing else has touched. Either runs alone.
pub async fn of_roles(binary: &str) -> Vec<Figure> {
    println!("--> starting a cluster with an account for each role");
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let mut installation = Installation::split(&cluster, "roles").await;
    let mut figures = Vec::new();
    for (role, duties) in ROLES {
        println!("--> --app={role}: one start, and {ROUNDS} more");
        installation.service_account = installation.account_of(role);
        let options = installation.operator(role).await;
        // Whoever comes first makes the CA.
        let (operator, _) = start(binary, &options).await;
        stop(operator).await;
        let [idle, later] = rounds(binary, &options, duties).await;
        figures.push(Figure::at_most(&format!("idle memory, --app={role} (median)"), idle, "MB", IDLE));
        figures.push(Figure::at_most(&format!("exec to ready, --app={role} (median)"), later, "ms", LATER));
    }
    figures
}

/// Idle megabytes and milliseconds to ready, the medians of some starts.
async fn rounds(binary: &str, options: &OperatorOptions, duties: usize) -> [f64; 2] {
    let (mut idle, mut later) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let (operator, time) = start(binary, options).await;
        until("a start to lead", LIMIT, async || {
            let led = operator.logged("started leading").len();
            holds(led == duties, format!("{led} of {duties} duties are led"))
        })
        .await;
        tokio::time::sleep(SETTLE).await;
        later.push(time);
        idle.push(resident(operator.id()));
        println!("    {round}/{ROUNDS}: ready after {time:.0} ms, {:.1} MB idle", idle[idle.len() - 1]);
        stop(operator).await;
    }
    [median(&mut idle), median(&mut later)]
}
