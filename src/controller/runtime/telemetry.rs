//! What is counted and logged of the reconciles of a kind: how each ended, how long it took, what waits, and what
//! conditions say. It tells; nothing here changes what is done, or when.

use super::queue::Queue;
use super::schedule::{Action, Namespaced};
use crate::serving::metrics::{
    Backlog, Metrics, OfKind, Reconcile, ReconcileResult, ShownConditions, ShownQueue, Truth,
};
use crds::well_known::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use std::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// The telemetry of one kind. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Telemetry {
    kind: &'static str,
    metrics: Metrics,
}

impl Telemetry {
    /// The telemetry of a kind. Its counters are there from the start: the first failure is a change from zero.
    pub(crate) fn new(kind: &'static str, metrics: Metrics) -> Self {
        for result in ReconcileResult::ALL {
            let _ = metrics.reconciles.get_or_create(&Reconcile { kind, result });
        }
        Self { kind, metrics }
    }

    /// Runs a reconcile under a span that says which object it is about, and counts it.
    pub(crate) async fn observed(
        &self,
        namespace: &str,
        name: &str,
        reconcile: impl Future<Output = Action>,
    ) -> Action {
        // The highest level: a filter that lets any line pass must not take away what the line is about.
        let span = tracing::error_span!("reconcile", kind = self.kind, namespace, name, generation = Empty);
        async {
            let mut observed = Observed { telemetry: self, began: Instant::now(), result: None };
            let action = reconcile.await;
            observed.result = Some(result(action));
            action
        }
        .instrument(span)
        .await
    }

    /// Shows what waits in a queue, and what the conditions of those objects say that exist by this word, until both are
    /// dropped.
    pub(crate) fn show<K: Ord + Clone + Namespaced + Send + 'static>(
        &self,
        queue: &Queue<K>,
        exists: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> (ShownQueue, ShownConditions) {
        let queue = queue.clone();
        let look = move |now| {
            let waiting = queue.waiting(now);
            Backlog { due: waiting.due, oldest: waiting.oldest }
        };
        (self.metrics.queues.show(self.kind, look), self.metrics.conditions.show(self.kind, exists))
    }

    /// Takes over what the status of an object says. Conditions that we do not know are of others: their number has no
    /// bound.
    pub(crate) fn conditions(&self, namespace: &str, name: &str, conditions: &[Condition]) {
        let known = conditions.iter().filter_map(|one| {
            let type_ = condition::ALL.into_iter().find(|known| *known == one.type_)?;
            Some((type_, truth(&one.status)))
        });
        self.metrics.conditions.report(self.kind, namespace, name, known);
    }
}

/// Adds the generation to every further line of the reconcile that is under way.
pub(crate) fn of_generation(generation: i64) {
    Span::current().record("generation", generation);
}

fn result(action: Action) -> ReconcileResult {
    match action {
        Action::AwaitChange => ReconcileResult::Settled,
        Action::RequeueAfter(_) => ReconcileResult::Requeued,
        Action::BackOff(_) => ReconcileResult::Failed,
    }
}

fn truth(status: &str) -> Truth {
    match status {
        "True" => Truth::True,
        "False" => Truth::False,
        _ => Truth::Unknown,
    }
}

/// A reconcile under way.
struct Observed<'a> {
    telemetry: &'a Telemetry,
    began: Instant,
    result: Option<ReconcileResult>,
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        let result = self.result.or_else(|| std::thread::panicking().then_some(ReconcileResult::Panicked));
        // One that is cut because the process ends has no result.
        let Some(result) = result else { return };
        let Telemetry { kind, metrics } = self.telemetry;
        metrics.reconciles.get_or_create(&Reconcile { kind, result }).inc();
        let duration = metrics.reconcile_duration.get_or_create(&OfKind { kind });
        duration.observe(self.began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::runtime::workers::Workers;
    use serde_json::{from_value, json};
    use std::time::Duration;

    fn telemetry() -> Telemetry {
        Telemetry::new("Thing", Metrics::new("1", "abc", true))
    }

    fn count(telemetry: &Telemetry, result: &str) -> u64 {
        let text = telemetry.metrics.text();
        let series = format!(r#"coder_k8s_reconcile_total{{kind="Thing",result="{result}"}} "#);
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn every_reconcile_is_counted_once_by_its_end() {
        let telemetry = telemetry();
        for action in
            [Action::AwaitChange, Action::RequeueAfter(Duration::ZERO), Action::BackOff(Duration::ZERO)]
        {
            assert_eq!(telemetry.observed("team", "one", async move { action }).await, action);
        }
        let panics = telemetry.clone();
        let panicked =
            tokio::spawn(async move { panics.observed("team", "one", async { panic!("a defect") }).await });
        assert!(panicked.await.is_err());
        let cut = telemetry.observed("team", "one", std::future::pending());
        assert!(tokio::time::timeout(Duration::from_millis(1), cut).await.is_err());
        for result in ["settled", "requeued", "failed", "panicked"] {
            assert_eq!(count(&telemetry, result), 1, "{result}");
        }
        let measured = r#"coder_k8s_reconcile_duration_seconds_count{kind="Thing"} 4"#;
        assert!(telemetry.metrics.text().contains(measured));
    }

    #[test]
    fn conditions_of_others_are_not_shown() {
        let telemetry = telemetry();
        let _shown = telemetry.show(&Queue::<u32>::with(&Workers::default()), |_, _| true);
        let condition = |type_: &str, status: &str| {
            let time = "2026-01-01T00:00:00Z";
            json!({ "type": type_, "status": status, "reason": "x", "message": "x", "lastTransitionTime": time })
        };
        let conditions =
            json!([condition("Ready", "True"), condition("Theirs", "True"), condition("Stalled", "?")]);
        let conditions: Vec<Condition> = from_value(conditions).unwrap();
        telemetry.conditions("team", "one", &conditions);
        let text = telemetry.metrics.text();
        for (type_, status, expected) in
            [("Ready", "True", true), ("Theirs", "True", false), ("Stalled", "Unknown", true)]
        {
            let labels = format!(r#"name="one",type="{type_}",status="{status}""#);
            assert_eq!(text.contains(&labels), expected, "{labels}");
        }
    }
}
