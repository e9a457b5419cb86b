//! Looks for pods whose daemons coderd does not hear of, and deletes one of them at most. Which one is decided in `zombies`; here
//! it is held back while anything about the pods, the key or the license is not as it should be, or not known.

use super::build::{CONTAINER, DAEMON_NAME};
use super::key::steps::Wait;
use super::observe::{External, rolled};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::resolve::owner;
use super::zombies::{self, Look, Pod, Silence, WINDOW, Zombie};
use crate::controller::attached::apply::Applied;
use crate::controller::object::{Object, Subject};
use crate::controller::workload::{rollout, running};
use crate::kubernetes::events::{EventDraft, Severity};
use crate::kubernetes::{CallError, KindName, Target};
use crds::CoderProvisioner;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

const POD: KindName = ["v1", "Pod", "pods"];
/// Pods that are looked at.
const MOST_PODS: u32 = 500;

/// What became of pods whose daemons coderd does not hear of.
#[derive(Debug, Default)]
pub(super) struct SilentPods {
    /// What is said of them.
    pub(super) told: Vec<String>,
    /// When to look again, if there are any.
    pub(super) again: Option<Duration>,
}

/// The daemons that coderd lists, if pods may be judged by that: the rollout to the key in use is complete and no other key is
/// on its way in or out, the license covers them, and coderd told.
fn listed<'a>(external: &'a External, applied: &Applied) -> Option<&'a BTreeSet<String>> {
    let keyed = external.keyed.as_ref().filter(|keyed| keyed.error.is_none() && !keyed.is_cut)?;
    let is_settled = matches!(keyed.wait, None | Some(Wait::Elsewhere));
    let proven = keyed.proven.as_ref().filter(|_| is_settled && external.is_entitled && !external.is_news)?;
    let runs_with_it = rolled(applied).is_some_and(|rolled| rolled.with == *proven);
    keyed.daemons.as_ref().filter(|_| runs_with_it)
}

impl Reconciler {
    /// Deletes at most one pod whose daemon is lost.
    pub(super) async fn replace_silent_pod(
        &self,
        subject: &Subject<CoderProvisioner>,
        applied: &Applied,
        external: &External,
    ) -> SilentPods {
        let object = &subject.object;
        let before = self.silence(&object.key, &object.uid);
        let Some(daemons) = listed(external, applied) else {
            self.note_silence(&object.key, &object.uid, before.broken());
            return SilentPods::default();
        };
        match self.judge_pods(subject, applied, daemons, &before).await {
            Ok(silent) => silent,
            Err(error) => {
                self.note_silence(&object.key, &object.uid, before.broken());
                SilentPods { told: vec![error.to_string()], again: None }
            }
        }
    }

    async fn judge_pods(
        &self,
        subject: &Subject<CoderProvisioner>,
        applied: &Applied,
        daemons: &BTreeSet<String>,
        before: &Silence,
    ) -> Result<SilentPods, CallError> {
        let (object, owner) = (&subject.object, owner(&subject.complete));
        let container = applied.deployment.as_ref().and_then(|live| running::container(live, CONTAINER));
        let called_by = container.and_then(|container| zombies::called_by(container, DAEMON_NAME));
        let ready = rollout::ready_replicas(applied.deployment.as_ref());
        let called_by = called_by.filter(|by| zombies::is_worth_a_look(ready, &owner.workload, *by, daemons));
        let Some(called_by) = called_by else {
            self.note_silence(&object.key, &object.uid, before.broken());
            return Ok(SilentPods::default());
        };
        let workload = owner.workload.as_str();
        let (namespace, keep) = (&object.key.namespace, |pod: &Value| Pod::of(pod, workload));
        let pods = self.kube.some_pods(namespace, &owner.selector_text(), MOST_PODS, keep).await?;
        let quiet = SignedDuration::try_from(self.verify_interval).unwrap_or(WINDOW).min(WINDOW);
        let now = Timestamp::now();
        let judged = zombies::judge(before, &Look { pods: &pods, called_by, daemons, quiet, now });
        // Before it is done: a deletion that fails is not tried at once.
        self.note_silence(&object.key, &object.uid, judged.silence);
        let mut told: Vec<String> = zombies::told(&judged.zombies).into_iter().collect();
        if let Some(zombie) = &judged.delete
            && let Err(error) = self.delete_pod(object, zombie).await
        {
            told.push(error.to_string());
        }
        Ok(SilentPods { told, again: judged.again })
    }

    /// Deletes a pod: its daemon finishes a build it may still work on.
    async fn delete_pod(&self, object: &Object<CoderProvisioner>, pod: &Zombie) -> Result<(), CallError> {
        let target = Target::of(POD, &object.key.namespace, &pod.name);
        if self.kube.remove_version(target, &pod.uid, None).await? {
            tracing::warn!(
                pod = pod.name,
                "coderd does not hear of the daemon of a pod that is ready; it was deleted"
            );
            self.writer().publish(object, &[replaced(&pod.name)]).await;
        }
        Ok(())
    }
}

/// What there is to tell of a pod that was deleted.
fn replaced(pod: &str) -> EventDraft {
    EventDraft {
        severity: Severity::Warning,
        reason: Reason::PodReplaced.to_string(),
        action: "Daemon".to_owned(),
        note: format!(
            "pod {pod} was ready and coderd had not heard of its daemon for more than three minutes; it was deleted, and another \
             takes its place"
        ),
    }
}
