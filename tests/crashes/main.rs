//! The operator dies at every write it makes, in three ways, and the next one brings a control plane, a provisioner with its keys or
//! a workspace proxy with its registration to the same end as if nothing had happened; and what else can come between it and the API
//! server is healed.

mod faults;
mod workloads;

use std::collections::BTreeMap;
use support::campaign::{Campaign, Plan, Recorded, Target, Workload, representative};
use support::fault_proxy::CrashTiming;
use workloads::{control_plane, provisioner, workspace_proxy};

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

/// Runs the plans that are chosen of each workload.
async fn campaign(target: Target, workloads: Vec<Workload>, chosen: impl Fn(Vec<Plan>) -> Vec<Plan>) {
    let workloads: &'static [Workload] = Box::leak(workloads.into_boxed_slice());
    let campaign = Campaign::start(target, PARALLEL_RUNS).await;
    let recorded = recorded(campaign, workloads).await;
    let plans: Vec<Plan> = recorded.values().flat_map(|one| chosen(one.planned.plans.clone())).collect();
    campaign.run(workloads, recorded, plans).await;
}

/// `CRASH_PLANS=words` runs only the plans whose description contains the words.
fn words() -> String {
    std::env::var("CRASH_PLANS").unwrap_or_default()
}

/// Those that may have such a plan: others need not be recorded.
fn asked_for(all: Vec<Workload>) -> Vec<Workload> {
    let words = words();
    let name = words.split_once(':').map(|(name, _)| name);
    all.into_iter().filter(|workload| name.is_none_or(|name| workload.name == name)).collect()
}

fn described(plans: Vec<Plan>) -> Vec<Plan> {
    let words = words();
    plans.into_iter().filter(|plan| plan.to_string().contains(&words)).collect()
}

fn named(all: Vec<Workload>, names: &[&str]) -> Vec<Workload> {
    all.into_iter().filter(|workload| names.contains(&workload.name)).collect()
}

/// What `make test` has time for: the workloads in which most can be lost, at points as far apart as they can be.
#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_campaign_converges() {
    let workloads = named(control_plane::all(), &["token", "deletion"]);
    campaign(control_plane::TARGET, workloads, |plans| representative(plans, 3)).await;
}

/// The same of provisioners: the plaintext of the first key is lost, and a rotation is cut off.
#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_provisioners_campaign_converges() {
    let workloads = named(provisioner::all(), &["rotate-tags"]);
    campaign(provisioner::TARGET, workloads, |plans| with_losses(plans, "POST", 3)).await;
}

/// The same of workspace proxies: a token is lost on its way to the Secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_representative_part_of_the_workspace_proxies_campaign_converges() {
    let workloads = named(workspace_proxy::all(), &["rotate-token"]);
    campaign(workspace_proxy::TARGET, workloads, |plans| with_losses(plans, "coderd PATCH", 3)).await;
}

/// So many plans as far apart as they can be, and those in which the answer to such a request is lost.
fn with_losses(plans: Vec<Plan>, request: &str, count: usize) -> Vec<Plan> {
    let is_made =
        |plan: &Plan| plan.point.mutation.contains(request) && plan.timing == CrashTiming::AnswerLost;
    let lost: Vec<Plan> = plans.iter().filter(|plan| is_made(plan)).cloned().collect();
    [lost, representative(plans, count)].concat()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-faults"]
async fn every_plan_of_the_control_planes_campaign_converges() {
    campaign(control_plane::TARGET, asked_for(control_plane::all()), described).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-faults"]
async fn every_plan_of_the_provisioners_campaign_converges() {
    campaign(provisioner::TARGET, asked_for(provisioner::all()), described).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-faults"]
async fn every_plan_of_the_workspace_proxies_campaign_converges() {
    campaign(workspace_proxy::TARGET, asked_for(workspace_proxy::all()), described).await;
}

/// Breaks everything that must hold in one run of a workload, and expects that each of it is noticed.
async fn is_noticed(target: Target, workload: Vec<Workload>) {
    let workloads: &'static [Workload] = Box::leak(workload.into_boxed_slice());
    let noticed = Campaign::start(target, 1).await.sabotaged(&workloads[0]).await.join("\n");
    for number in 1..=10 {
        assert!(noticed.contains(&format!("I{number}: ")), "I{number} was broken; noticed:\n{noticed}");
    }
}

/// What must hold for keys is checked in every run of that campaign; this shows that each of it would be noticed.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_must_never_happen_to_a_key_is_noticed() {
    is_noticed(provisioner::TARGET, named(provisioner::all(), &["rotate-tags"])).await;
}

/// The same for the registration of a workspace proxy.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_must_never_happen_to_a_registration_is_noticed() {
    is_noticed(workspace_proxy::TARGET, named(workspace_proxy::all(), &["change-appearance"])).await;
}
