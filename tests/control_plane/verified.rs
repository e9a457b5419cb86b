//! What the watches have shown is verified by lists: one for each kind of child, however many kinds of ours have such children.

use crate::shared::BINARY;
use std::collections::BTreeMap;
use support::test_env::LIMIT;
use support::wait::{holds, until};
use support::{Cluster, TestEnv};

/// The lists of a verification are paged, unlike those with which watches begin.
const PAGED: &str = "limit=";
const CONTROL_PLANES: &str = "/apis/coder.com/v1alpha1/codercontrolplanes";

#[tokio::test(flavor = "multi_thread")]
async fn children_of_every_kind_are_verified_by_one_list_a_kind() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("verified").await;
    let builder = TestEnv::builder(BINARY).in_cluster(cluster).through_fault_proxy(&[&namespace]);
    let env = builder.flag("--verify-interval=1s").start().await;
    let lists = || {
        let seen =
            env.proxy().seen().into_iter().filter(|seen| seen.method == "GET" && seen.path.contains(PAGED));
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for path in seen.filter_map(|seen| seen.path.split('?').next().map(str::to_owned)) {
            *counts.entry(path).or_default() += 1;
        }
        counts
    };
    // Control planes are listed once a second by themselves: whatever is listed as often is listed once a round.
    until("a few verifications", LIMIT, async || {
        let counts = lists();
        let rounds = counts.get(CONTROL_PLANES).copied().unwrap_or_default();
        holds(rounds >= 6 && counts.contains_key("/apis/apps/v1/deployments"), format!("{counts:?}"))
    })
    .await;
    let counts = lists();
    let rounds = counts[CONTROL_PLANES];
    for path in ["/api/v1/services", "/api/v1/serviceaccounts", "/apis/apps/v1/deployments"] {
        let count = counts.get(path).copied().unwrap_or_default();
        assert!(
            count >= 1 && count <= rounds + 1,
            "{path} was listed {count} times in {rounds} rounds: {counts:?}"
        );
    }
}
