//! Brings the children of a provisioner to what they should be and prunes what is no longer asked for. It decides what
//! depends on what: nothing runs, and nothing is granted, under an account that is not in place.

use super::build::Children;
use super::resolve::ResolvedProvisioner;
use crate::controller::attached::apply::Applying;
use crate::controller::attached::apply::{Applied, PodChildren, Work};
use crate::controller::children::exposure::Exposure;
use crate::controller::children::gate::Gate;
use crate::controller::children::grants::{self, NotGranted, Rights};
use crate::controller::children::{Child, drift};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Applies the children as far as nothing forbids it. Taken apart without `..`: a new child has its place here.
pub(super) async fn apply(
    work: &Work<'_>,
    gate: &Gate,
    resolved: &ResolvedProvisioner,
    children: &Children,
) -> Applied {
    let Children { service_account, role, role_binding, deployment, disruption_budget, pod_monitor } =
        children;
    let pods = PodChildren {
        service_account: service_account.as_ref(),
        deployment: deployment.as_ref(),
        disruption_budget: disruption_budget.as_ref(),
        monitor: pod_monitor.as_ref(),
    };
    let mut applying = work.begin(gate, pods).await;
    let running = applying.run().await;
    if let (Some(role), Some(binding)) = (role, role_binding)
        && applying.is_allowed()
        && !gate.withheld.has(role)
        && !gate.withheld.has(binding)
    {
        let binding = still_bound(&applying, binding, running.is_rolled()).await;
        grant(&mut applying, resolved, role, &binding).await;
    }
    applying.finish(running, Exposure::NotRequested).await
}

/// Gives the account its rights.
async fn grant(applying: &mut Applying<'_>, resolved: &ResolvedProvisioner, role: &Child, binding: &Child) {
    let place = &resolved.owner.namespace;
    let rights = Rights { holder: "this provisioner", place, role, binding };
    let (uid, labels) = (applying.work.state.uid, json!(resolved.owner.labels()));
    let is_ours = |live: &Value, _: &Child| drift::is_child_of(live, uid, &labels);
    let problems = &mut applying.problems;
    match grants::apply(applying.applier, rights, is_ours).await {
        Ok(None) => {}
        Ok(Some(note)) => problems.unimportant.push(note),
        Err(NotGranted::Conflict(message)) => problems.conflicts.push(message),
        Err(NotGranted::Refused(message)) => problems.refused.push(message),
        Err(NotGranted::Failed(message)) => problems.failed.push(message),
    }
}

/// The RoleBinding, with the accounts it is bound to now as long as daemons may run as one of them: builds that are
/// under way finish with the rights they began with.
async fn still_bound<'c>(applying: &Applying<'_>, binding: &'c Child, is_rolled: bool) -> Cow<'c, Child> {
    let applier = applying.applier;
    let is_known = applier.snapshot.is_some()
        || applier.cache.is_absent(binding)
        || applier.cache.up_to_date(binding).is_some();
    if is_rolled || is_known {
        return Cow::Borrowed(binding);
    }
    // One that cannot be read now cannot be changed either.
    let live = applier.kube.read(binding.target()).await.ok().flatten();
    let live = live.filter(|live| drift::is_controlled_by(live, applying.work.state.uid));
    match live.and_then(|live| with_accounts_of(&live, &binding.manifest)) {
        Some(manifest) => Cow::Owned(Child::new(binding.kind, &binding.namespace, &binding.name, manifest)),
        None => Cow::Borrowed(binding),
    }
}

/// The manifest of a RoleBinding with the accounts that a live one has besides; none if it has no other.
fn with_accounts_of(live: &Value, manifest: &Value) -> Option<Value> {
    let subjects = |binding: &Value| binding["subjects"].as_array().cloned().unwrap_or_default();
    let home = &manifest["metadata"]["namespace"];
    let is_account = |one: &Value| one["kind"] == "ServiceAccount" && one["namespace"] == *home;
    let wanted = subjects(manifest);
    let former: Vec<Value> = subjects(live)
        .into_iter()
        .filter(|one| is_account(one) && !wanted.iter().any(|wanted| wanted["name"] == one["name"]))
        .collect();
    (!former.is_empty()).then(|| {
        let mut manifest = manifest.clone();
        manifest["subjects"] = json!([wanted, former].concat());
        manifest
    })
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Provisioner;
    use super::*;

    #[test]
    fn a_binding_keeps_the_accounts_of_daemons_that_still_run() {
        let binding = |name: &str| {
            let account = json!({"name": name});
            Provisioner::test().with("serviceAccount", account).children().role_binding.unwrap().manifest
        };
        let (old, new) = (binding("old"), binding("new"));
        let kept = with_accounts_of(&old, &new).unwrap();
        let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "ns"});
        assert_eq!(kept["subjects"], json!([account("new"), account("old")]));
        assert_eq!(with_accounts_of(&new, &new), None);
        let mut foreign = old.clone();
        foreign["subjects"] = json!([{"kind": "User", "name": "eve"}, {"kind": "ServiceAccount", "name": "x", "namespace": "y"}]);
        assert_eq!(with_accounts_of(&foreign, &new), None, "no daemon runs as one of these");
    }
}
