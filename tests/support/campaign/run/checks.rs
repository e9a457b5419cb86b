//! What is checked of a run when it is at rest: that nothing is written any more, and everything that must hold in coderd.
//! What may differ from an undisturbed run is decided by the target.

use super::WorkloadRun;
use crate::campaign::end_state::EndState;
use crate::campaign::invariants::without_data;
use crate::campaign::{Change, Plan, Target, Tolerance, cluster_state};
use crate::fault_proxy::Point;
use crate::operator::Operator;
use crate::wait::{holds, within};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::Value;
use std::sync::PoisonError;
use std::time::Duration;

impl WorkloadRun<'_> {
    /// I8: waits for a reconcile in which nothing is written but that it was done. Where there is nothing to reconcile,
    /// nothing is written at all.
    pub(in crate::campaign) async fn until_steady(&self, limit: Duration) -> Result<(), String> {
        if self.invariants.is_none() || self.subject().await?.is_none() {
            return Ok(());
        }
        let status = format!("/{}/status", self.environment.target.subject.name);
        let mut number = 0;
        within("I8: a reconcile that writes nothing", limit, async || {
            let before = self.journal.points().len();
            number += 1;
            self.reconcile(&self.environment.target.subject, &format!("steady-{number}")).await?;
            let points = self.journal.points();
            let written = &points[before..];
            let is_steady = written.len() == 1 && written[0].mutation.ends_with(&status);
            let texts: Vec<String> = written.iter().map(Point::to_string).collect();
            holds(is_steady, format!("it writes {}", texts.join(", ")))
        })
        .await
    }

    /// Whether everything held that must hold at any instant, and in the end.
    ///
    /// # Errors
    /// With everything that did not.
    pub(in crate::campaign) async fn check_invariants(&self, tolerance: Tolerance) -> Result<(), String> {
        let Some(invariants) = &self.invariants else { return Ok(()) };
        let client = &self.environment.client;
        let subject = self.subject().await?;
        if !matches!(self.workload.change, Change::DeleteNamespace) {
            let plaintext = self.plaintext(subject.as_ref()).await;
            invariants.judge_end(&self.coderds, subject.as_ref(), plaintext.as_deref());
        }
        invariants.judge_replacements(self.workload.name, usize::from(tolerance == Tolerance::Token));
        self.coderds.iter().for_each(|coderd| invariants.judge_coderd(coderd));
        for object in cluster_state::objects_in(client, &self.namespaces).await? {
            let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
            let is_secret = object["kind"] == "Secret";
            let shown = if is_secret { without_data(object) } else { object };
            invariants.judge_text(&name, &shown.to_string());
        }
        let events = cluster_state::events_in(client, &self.namespaces[0]).await?;
        invariants.judge_text("an Event", &events);
        for log in self.all_logs().await {
            invariants.judge_text("the log of the operator", &log);
        }
        let broken = invariants.broken();
        holds(broken.is_empty(), format!("what must always hold did not:\n{}", broken.join("\n")))
    }

    /// What the Secret of a subject holds, as its status names it.
    async fn plaintext(&self, subject: Option<&Value>) -> Option<String> {
        let reference = &subject?["status"][self.invariants.as_ref()?.secret_reference()];
        let secrets: Api<Secret> = Api::namespaced(self.environment.client.clone(), &self.namespaces[0]);
        let mut data = secrets.get_opt(reference["name"].as_str()?).await.ok()??.data?;
        String::from_utf8(data.remove(reference["key"].as_str()?)?.0).ok()
    }

    pub(super) async fn all_logs(&self) -> Vec<String> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        logs.extend(self.operator.lock().await.as_ref().map(Operator::log));
        logs
    }

    /// A state without what may differ after a plan.
    pub(in crate::campaign) fn tolerant(&self, state: EndState, plan: &Plan) -> EndState {
        let Target { key_names, tolerance, .. } = self.environment.target;
        match tolerance(plan) {
            Tolerance::Nothing | Tolerance::Token => state,
            Tolerance::KeyNumber => state.without_key_numbers(key_names),
            Tolerance::Rollouts => state.without_key_numbers(key_names).without_rollouts(),
        }
    }
}
