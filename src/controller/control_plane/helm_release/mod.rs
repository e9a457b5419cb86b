//! Takes over what a release of Coder's Helm chart has under the names of a control plane, if an annotation asks for it.
//! What comes next is decided in `step`; it never touches what is not of the release that is named, and never runs while
//! admission is disabled.

mod step;

use super::build::Children;
use super::dereference::Dereferenced;
use super::gate::Gate;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::running_values;
use super::subject::{Object, Subject};
use crate::controller::children::apply::{ChildState, Problems};
use crate::controller::children::helm::{self, Release, Whose};
use crate::controller::children::{Child, ChildKind, drift};
use crate::controller::workload::rollout::{Rollout, rollout};
use crate::kubernetes::events::{EventDraft, Severity};
use crate::kubernetes::{CallError, KindName, Target};
use crds::well_known::annotation::ADOPT_HELM_RELEASE;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use step::{Seen, Step, next};

const REPLICA_SET: KindName = ["apps/v1", "ReplicaSet", "replicasets"];
const ENDPOINT_SLICE: KindName = ["discovery.k8s.io/v1", "EndpointSlice", "endpointslices"];
/// On an EndpointSlice: the Service that it is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Objects of a list that are read in one reconcile: anybody can make objects with these labels.
const MOST: usize = 50;

/// How far the release is taken over.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// The Deployment of the release still has the name of ours.
    pub(super) holds_deployment: bool,
    /// Service, Ingress and HTTPRoute stay as they are.
    pub(super) holds_fronts: bool,
    /// What is going on, for a person.
    pub(super) told: Option<String>,
    /// Why nothing is taken over although it is asked for.
    pub(super) refused: Option<String>,
    /// What could not be done this time.
    pub(super) failed: Option<CallError>,
    /// The release that was taken over, once nothing of it is left.
    pub(super) finished: Option<String>,
}

impl Adoption {
    /// Notes what stands in its way, and returns what is said of an account that is refused.
    pub(super) fn judge(&mut self, account: Option<String>, problems: &mut Problems) -> Option<String> {
        if let Some(error) = self.failed.take() {
            // What is not ours yet would be, had this not failed.
            problems.conflicts.clear();
            problems.note(&ChildState::of_call(&error));
            return None;
        }
        if let Some(why) = &self.refused {
            // It says more than what is left alone because of it.
            problems.conflicts.insert(0, why.clone());
        }
        account.map(|account| self.refused.clone().unwrap_or(account))
    }
}

/// The release that an object asks to take over, unless that was done.
pub(super) fn asked_for(object: &Object) -> Option<&str> {
    let name = object.annotation(ADOPT_HELM_RELEASE)?;
    (object.status.adopted_helm_release.as_deref() != Some(name)).then_some(name)
}

/// A child, and the live object of its name.
struct Named<'a> {
    child: &'a Child,
    live: Option<Value>,
    whose: Whose,
}

impl Reconciler {
    /// Does what is next.
    pub(super) async fn adopt(
        &self,
        subject: &Subject,
        children: &Children,
        read: &Dereferenced,
        gate: &Gate,
    ) -> Adoption {
        let Some(name) = asked_for(&subject.object).filter(|_| gate.snapshot.is_none()) else {
            return Adoption::default();
        };
        if gate.admission_disabled {
            return refused("admission is disabled in this namespace");
        }
        let Some(release) = Release::named(name, &subject.object.key.namespace) else {
            return refused("its value is not the name of a Helm release");
        };
        match self.next_of(subject, children, read, release).await {
            Ok(adoption) => adoption,
            // Nobody knows how far it is: what users are led to stays.
            Err(error) => Adoption {
                holds_deployment: true,
                holds_fronts: true,
                told: Some(format!("Helm release {name} is being taken over")),
                failed: Some(error),
                ..Adoption::default()
            },
        }
    }

    async fn next_of(
        &self,
        subject: &Subject,
        children: &Children,
        read: &Dereferenced,
        release: Release<'_>,
    ) -> Result<Adoption, CallError> {
        let (uid, workload) = (&subject.object.uid, &children.deployment.name);
        let mut named = Vec::new();
        for child in children.all().filter(|child| has_a_name_of_charts(child)) {
            let live = self.kube.read(child.target()).await?;
            let whose = release.whose(live.as_ref(), child, uid);
            named.push(Named { child, live, whose });
        }
        let replica_sets = self.replica_sets(release, workload).await?;
        let seen = seen(subject, children, read, &named, !replica_sets.is_empty());
        let step = next(&seen);
        let done = self.take(subject, children, release, &step, &named, &replica_sets).await;
        if let Err(why) = &done
            && step == Step::LetGo
            && why.is_refused()
            && !why.is_outdated()
        {
            return Ok(refused(&why.to_string()));
        }
        let told = match &step {
            Step::Nothing { is_in_place } => {
                let finished = is_in_place.then(|| release.name.to_owned());
                return Ok(Adoption { finished, ..Adoption::default() });
            }
            Step::Refuse(why) => return Ok(refused(why)),
            Step::LetGo | Step::AwaitGone => "its Deployment goes first, its pods run on",
            Step::Start => "its pods serve until all of this object are available",
            Step::Lead => "users are being led to the pods of this object",
            Step::RemovePods => "its pods are being removed",
        };
        // Gone since this reconcile began: the next one begins without it.
        let is_outdated = seen.deployment == Whose::Nobodys && read.deployment.live.is_some();
        Ok(Adoption {
            holds_deployment: step.holds_deployment() || is_outdated,
            // What could not be taken over is not ours to change either.
            holds_fronts: step.holds_fronts() || (step == Step::Lead && done.is_err()),
            told: Some(format!("Helm release {} is being taken over: {told}", release.name)),
            failed: done.err(),
            ..Adoption::default()
        })
    }

    /// Acts.
    async fn take(
        &self,
        subject: &Subject,
        children: &Children,
        release: Release<'_>,
        step: &Step,
        named: &[Named<'_>],
        replica_sets: &[Value],
    ) -> Result<(), CallError> {
        if matches!(step, Step::Nothing { .. } | Step::Refuse(_) | Step::AwaitGone) {
            return Ok(());
        }
        if *step == Step::LetGo {
            // Whoever would refuse ours is asked while theirs is still there.
            let rehearsed = rehearsal(&children.deployment);
            self.kube.rehearse_create(children.deployment.target(), &rehearsed).await?;
        }
        let taken =
            named.iter().filter(|one| one.whose == Whose::OfRelease && is_taken_with(one.child, step));
        for Named { child, live, .. } in taken {
            if let Some(patch) = live.as_ref().and_then(|live| helm::taking_over(live, child)) {
                self.kube.patch(child.target(), patch).await?;
            }
        }
        match step {
            Step::LetGo => self.let_deployment_go(subject, children, release, named).await,
            Step::RemovePods => self.remove_pods(subject, children, release, replica_sets).await,
            _ => Ok(()),
        }
    }

    /// Deletes the Deployment of the release, as it was read, and leaves its pods running.
    async fn let_deployment_go(
        &self,
        subject: &Subject,
        children: &Children,
        release: Release<'_>,
        named: &[Named<'_>],
    ) -> Result<(), CallError> {
        let mut live = named.iter().filter(|one| one.child.kind == ChildKind::Deployment);
        let Some(live) = live.next().and_then(|one| one.live.as_ref()) else { return Ok(()) };
        let target = children.deployment.target();
        if self
            .kube
            .remove_but_not_dependents(target, text(live, "uid"), text(live, "resourceVersion"))
            .await?
        {
            let note = format!(
                "Deployment {} of Helm release {} was deleted without its pods; they run until all of this object are available",
                children.deployment.name, release.name
            );
            self.tell(subject, Reason::AdoptingHelmRelease, note).await;
        }
        Ok(())
    }

    /// Deletes what is left of the pods of the release, once everybody who is led by the Service is led to ours.
    async fn remove_pods(
        &self,
        subject: &Subject,
        children: &Children,
        release: Release<'_>,
        replica_sets: &[Value],
    ) -> Result<(), CallError> {
        let slices = self.endpoint_slices(&children.serving.service).await?;
        if !lead_past(&slices, replica_sets) {
            return Ok(());
        }
        let mut removed = true;
        for live in replica_sets {
            let (uid, version) = (text(live, "uid"), text(live, "resourceVersion").to_owned());
            let target = Target::of(REPLICA_SET, release.namespace, text(live, "name"));
            removed &= self.kube.remove_version(target, uid, Some(version)).await?;
        }
        if !removed {
            return Ok(());
        }
        let note = format!(
            "Helm release {0} was taken over, and its pods were removed; never uninstall it, but remove its record: kubectl \
             delete secret -n {1} -l owner=helm,name={0}",
            release.name, release.namespace
        );
        self.tell(subject, Reason::HelmReleaseAdopted, note).await;
        Ok(())
    }

    async fn tell(&self, subject: &Subject, reason: Reason, note: String) {
        let (severity, action) = (Severity::Normal, "AdoptHelmRelease".to_owned());
        let draft = EventDraft { severity, reason: reason.as_str().to_owned(), action, note };
        self.writer().publish(&subject.object, &[draft]).await;
    }

    /// The ReplicaSets that the Deployment of the release left behind.
    async fn replica_sets(&self, release: Release<'_>, workload: &str) -> Result<Vec<Value>, CallError> {
        let all = Target::of(REPLICA_SET, release.namespace, "");
        let begin = format!("{workload}-");
        let mut found = self.labelled(all, &release.pods_selector(), &begin).await?;
        found.retain(|one| release.left(one, workload));
        Ok(found)
    }

    async fn endpoint_slices(&self, service: &Child) -> Result<Vec<Value>, CallError> {
        let all = Target::of(ENDPOINT_SLICE, &service.namespace, "");
        self.labelled(all, &format!("{SERVICE_NAME}={}", service.name), "").await
    }

    /// The objects with these labels whose names begin so, each as it is now. It fails where there are too many to look at:
    /// what is not seen must not be taken for something that is not there.
    async fn labelled(&self, all: Target<'_>, selector: &str, begin: &str) -> Result<Vec<Value>, CallError> {
        let mut names: Vec<String> = Vec::new();
        let note = |one: ObjectMeta| names.extend(one.name.filter(|name| name.starts_with(begin)));
        self.kube.labelled_metadata(all, selector, note).await?;
        if names.len() > MOST {
            let operation = format!("list {} {}/{begin}", all.kind, all.namespace);
            return Err(CallError::TooLarge { operation, limit: format!("{MOST} objects") });
        }
        let mut objects = Vec::new();
        for name in &names {
            objects.extend(self.kube.read(Target { name, ..all }).await?);
        }
        Ok(objects)
    }
}

fn refused(why: &str) -> Adoption {
    let refused = Some(format!("the annotation {ADOPT_HELM_RELEASE} takes nothing over: {why}"));
    Adoption { refused, ..Adoption::default() }
}

/// Roles and RoleBindings have names with a hash, which no chart gives.
fn has_a_name_of_charts(child: &Child) -> bool {
    !matches!(child.kind, ChildKind::Role | ChildKind::RoleBinding)
}

/// Whether users are led to pods by it.
fn is_front(child: &Child) -> bool {
    matches!(child.kind, ChildKind::Service | ChildKind::Ingress | ChildKind::HttpRoute)
}

/// Whether an object of the release becomes ours with this step. Its Deployment never does: the selector cannot change.
fn is_taken_with(child: &Child, step: &Step) -> bool {
    child.kind != ChildKind::Deployment && (!is_front(child) || !step.holds_fronts())
}

fn seen(
    subject: &Subject,
    children: &Children,
    read: &Dereferenced,
    named: &[Named<'_>],
    has_pods: bool,
) -> Seen {
    let of = |kind: ChildKind| named.iter().find(move |one| one.child.kind == kind);
    let deployment = of(ChildKind::Deployment);
    let live = deployment.and_then(|one| one.live.as_ref());
    let is_ours = live.is_some_and(|live| drift::is_controlled_by(live, &subject.object.uid));
    let service = of(ChildKind::Service).filter(|one| one.whose == Whose::Ours);
    let whose = |front: bool| {
        let rest = named.iter().filter(move |one| one.child.kind != ChildKind::Deployment);
        rest.filter(move |one| is_front(one.child) == front).map(|one| one.whose.clone()).collect()
    };
    let theirs = of(ChildKind::Service).and_then(|one| one.live.as_ref());
    Seen {
        deployment: deployment.map_or(Whose::Nobodys, |one| one.whose.clone()),
        is_going: live.is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null()),
        fronts: whose(true),
        others: whose(false),
        leads_to_ours: service
            .is_some_and(|one| one.live.as_ref().is_some_and(|live| helm::leads_to(live, one.child))),
        is_available: is_ours && matches!(rollout(live), Rollout::Complete(_)),
        has_pods,
        obstacle: obstacle(subject, children, read, live)
            .or_else(|| another_chart(live))
            .or_else(|| another_type(&children.serving.service, theirs)),
    }
}

/// Why our pods could not take the place of those that run.
fn obstacle(
    subject: &Subject,
    children: &Children,
    read: &Dereferenced,
    runs: Option<&Value>,
) -> Option<String> {
    if let Some(lower) = running_values::downgrade(&subject.object.value, runs) {
        return Some(lower.to_string());
    }
    if children.deployment.manifest["spec"]["replicas"] == 0 {
        return Some(
            "spec.replicas is 0, so that nothing could take its place; set it to 1 or more".to_owned(),
        );
    }
    let missing = read.contents.missing.first()?;
    Some(format!("its pods could not start: {missing}"))
}

/// Says that a Deployment is of another chart than Coder's, whatever the release is called.
fn another_chart(live: Option<&Value>) -> Option<String> {
    let chart = live?["metadata"]["labels"]["helm.sh/chart"].as_str().unwrap_or_default();
    let is_coders = chart
        .strip_prefix("coder-")
        .is_some_and(|version| version.starts_with(|one: char| one.is_ascii_digit()));
    (!is_coders)
        .then(|| "its Deployment is not of Coder's chart, as the label helm.sh/chart would say".to_owned())
}

/// Says that the Service would get another type: a load balancer would lose its address.
fn another_type(ours: &Child, live: Option<&Value>) -> Option<String> {
    let type_of = |service: &Value| service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let (wanted, there) = (type_of(&ours.manifest), type_of(live?));
    (wanted != there).then(|| {
        format!("its Service is of type {there}, and that of this object of type {wanted}; set spec.service.type to {there}")
    })
}

/// Our Deployment under a name that is free, to ask whether it could be made.
fn rehearsal(deployment: &Child) -> Value {
    let mut manifest = deployment.wanted();
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), json!(format!("{}-", deployment.name)));
    }
    manifest
}

/// Whether these slices lead to somebody who is ready, and to no pod of these ReplicaSets.
fn lead_past(slices: &[Value], replica_sets: &[Value]) -> bool {
    let endpoints = || slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let is_theirs = |endpoint: &Value| {
        let name = endpoint["targetRef"]["name"].as_str().unwrap_or_default();
        replica_sets.iter().any(|one| {
            let rest = name.strip_prefix(text(one, "name"));
            rest.and_then(|rest| rest.strip_prefix('-')).is_some_and(|rest| !rest.contains('-'))
        })
    };
    endpoints().any(|endpoint| endpoint["conditions"]["ready"] != false) && !endpoints().any(is_theirs)
}

fn text<'a>(live: &'a Value, field: &str) -> &'a str {
    live["metadata"][field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lead_past_pods_that_no_endpoint_names() {
        let slice = |pods: &[(&str, bool)]| {
            let endpoints: Vec<Value> = pods
                .iter()
                .map(|(name, ready)| json!({ "conditions": { "ready": ready }, "targetRef": { "name": name } }))
                .collect();
            json!({ "endpoints": endpoints })
        };
        let theirs = [json!({ "metadata": { "name": "coder-old" } })];
        assert!(lead_past(&[slice(&[("coder-new-x", true)])], &theirs));
        assert!(!lead_past(&[slice(&[("coder-new-x", true)]), slice(&[("coder-old-x", false)])], &theirs));
        assert!(!lead_past(&[slice(&[("coder-new-x", false)])], &theirs), "nobody is ready");
        assert!(!lead_past(&[], &theirs), "not yet");
        assert!(lead_past(&[slice(&[("coder-old-other-x", true)])], &theirs), "another ReplicaSet");
    }
}
