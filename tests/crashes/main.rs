//! The operator dies at every write it makes, in three ways, and the next one brings a control plane to the same end as
//! if nothing had happened; and what else can come between it and the API server is healed.

mod faults;
mod workloads;

use std::collections::BTreeMap;
use support::campaign::{Campaign, Plan, Recorded, Workload, representative};
use support::fault_proxy::CrashTiming;

/// Runs at the same time: most of a run is waiting, for a rollout and for processes to start.
const PARALLEL_RUNS: usize = 4;

async fn recorded(
    campaign: &'static Campaign,
    workloads: &'static [Workload],
) -> &'static BTreeMap<&'static str, Recorded> {
    let recorded: &'static _ = Box::leak(Box::new(campaign.record(workloads).await));
    for workload in workloads {
        let planned = &recorded[workload.name].planned;
        println!("{}: {} plans", workload.name, planned.plans.len());
        for plan in planned.plans.iter().step_by(CrashTiming::ALL.len()) {
            println!("  {}", plan.point);
        }
        for point in &planned.left_out {
            println!("  not in every recording, and left out: {point}");
        }
    }
    recorded
}

fn leaked(workloads: Vec<Workload>) -> &'static [Workload] {
    Box::leak(workloads.into_boxed_slice())
}

/// What `make test` has time for: the workloads in which most can be lost, at points as far apart as they can be.
#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_campaign_converges() {
    let chosen = |workload: &Workload| ["token", "deletion"].contains(&workload.name);
    let workloads = leaked(workloads::all().into_iter().filter(chosen).collect());
    let campaign = Campaign::start(workloads::TARGET, PARALLEL_RUNS).await;
    let recorded = recorded(campaign, workloads).await;
    let some = recorded.values().flat_map(|one| representative(one.planned.plans.clone(), 3));
    campaign.run(workloads, recorded, some.collect()).await;
}

/// `CRASH_PLANS=words` runs only the plans whose description contains the words.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-faults"]
async fn every_plan_of_the_campaign_converges() {
    let words = std::env::var("CRASH_PLANS").unwrap_or_default();
    let workloads = leaked(workloads::all());
    let campaign = Campaign::start(workloads::TARGET, PARALLEL_RUNS).await;
    let recorded = recorded(campaign, workloads).await;
    let plans = recorded.values().flat_map(|one| one.planned.plans.clone());
    let plans: Vec<Plan> = plans.filter(|plan| plan.to_string().contains(&words)).collect();
    assert!(!plans.is_empty(), "no plan is described by {words:?}");
    campaign.run(workloads, recorded, plans).await;
}
