//! Writes the bundle into the targets that lack it, each on its own: one that fails does not hold up the others.
//! Against another writer of the same field it slows down and says so, instead of writing as fast as it can.

use crate::kubernetes::{CallError, Kube};
use crate::serving::injection::{self, Target};
use crate::serving::metrics::{Metrics, Named};
use crate::serving::own_certificates::Targets;
use kube::ResourceExt;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A rotation writes each target three times at most within this time; more is a contest.
const WINDOW: Duration = Duration::from_secs(60);
const FAIR: usize = 6;
/// The pause between two writes of a contested target.
const CONTESTED_PAUSE: Duration = Duration::from_secs(30);

/// Keeps count of what was written when.
pub(super) struct Injector {
    kube: Kube,
    metrics: Metrics,
    writes: BTreeMap<(&'static str, String), Vec<Instant>>,
}

/// What a round of injection came to.
pub(super) struct Injected {
    /// The first failure, if any.
    pub outcome: Result<(), CallError>,
    /// A target that just turned out to be contested.
    pub contested: Option<String>,
    /// When a contested target is due again.
    pub again_after: Duration,
}

impl Injector {
    /// An injector without a past.
    pub(super) fn new(kube: Kube, metrics: Metrics) -> Self {
        Self { kube, metrics, writes: BTreeMap::new() }
    }

    /// Writes the bundle wherever it is missing.
    pub(super) async fn inject(&mut self, targets: &Targets, bundle: &str) -> Injected {
        let mut injected = Injected { outcome: Ok(()), contested: None, again_after: Duration::MAX };
        self.write_kind("MutatingWebhookConfiguration", targets.mutating.all(), bundle, &mut injected).await;
        self.write_kind("ValidatingWebhookConfiguration", targets.validating.all(), bundle, &mut injected)
            .await;
        self.write_kind("APIService", targets.api_services.all(), bundle, &mut injected).await;
        injected
    }

    async fn write_kind<T>(
        &mut self,
        kind: &'static str,
        targets: Vec<Arc<T>>,
        bundle: &str,
        injected: &mut Injected,
    ) where
        T: Target + Clone + Debug + DeserializeOwned + Serialize,
    {
        for target in targets {
            let Some(patch) = injection::patch(target.as_ref(), self.kube.namespace(), bundle) else {
                continue;
            };
            let name = target.name_any();
            let writes = self.writes.entry((kind, name.clone())).or_default();
            match turn(writes, Instant::now()) {
                Turn::Now { contested } => {
                    if contested {
                        injected.contested = Some(format!("{kind} {name}"));
                    }
                }
                Turn::After(pause) => {
                    injected.again_after = injected.again_after.min(pause);
                    continue;
                }
            }
            match self.kube.everywhere::<T>().patch(&name, patch).await {
                Ok(_) => {
                    self.metrics.injections.get_or_create(&Named { name: kind }).inc();
                    tracing::info!(kind, name, "CA bundle injected");
                }
                // It changed or went since we read it; the watch brings it again if it is still there.
                Err(error) if error.is_outdated() || error.is_not_found() => {}
                Err(error) => {
                    self.metrics.failed_injections.get_or_create(&Named { name: kind }).inc();
                    injected.outcome = Err(error);
                }
            }
        }
    }
}

/// Whether a target may be written.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// Yes, and whether it has just become contested.
    Now { contested: bool },
    /// Not before this pause is over.
    After(Duration),
}

/// Notes a write, unless the target was written too often and too recently.
fn turn(writes: &mut Vec<Instant>, now: Instant) -> Turn {
    writes.retain(|moment| now.duration_since(*moment) < WINDOW);
    if let Some(last) = writes.last()
        && writes.len() >= FAIR
        && now.duration_since(*last) < CONTESTED_PAUSE
    {
        return Turn::After(CONTESTED_PAUSE - now.duration_since(*last));
    }
    writes.push(now);
    Turn::Now { contested: writes.len() == FAIR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contest_is_noticed_once_and_then_fought_slowly() {
        let (start, mut writes) = (Instant::now(), Vec::new());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let turns: Vec<Turn> = (0..6).map(|number| turn(&mut writes, at(number * 10))).collect();
        assert!(turns[..5].iter().all(|turn| *turn == Turn::Now { contested: false }));
        assert_eq!(turns[5], Turn::Now { contested: true });
        assert!(matches!(turn(&mut writes, at(60)), Turn::After(pause) if pause > Duration::from_secs(29)));
        assert!(matches!(turn(&mut writes, at(31_000)), Turn::Now { .. }));
    }

    #[test]
    fn an_old_contest_is_forgotten() {
        let start = Instant::now();
        let mut writes = vec![start; FAIR];
        assert_eq!(turn(&mut writes, start + WINDOW), Turn::Now { contested: false });
        assert_eq!(writes.len(), 1);
    }
}
