//! Takes back the keys of a provisioner that is being deleted, then lets it go; what holds it is told on it. Which key goes and
//! when is decided in `key::ending`. Daemons finish their builds first.

use super::key::ending::{self, EndStep, Ending};
use super::key::homes::Homes;
use super::key::lists::Keys;
use super::key::record::{Home, Key, Record};
use super::key::seen::Sight;
use super::key::steps::{Left, Unrecorded};
use super::key::store::RecordStore;
use super::key::stored;
use super::key::work::{KeyError, KeyWork};
use super::key_event::KeyEvent;
use super::observe::{desired, left_elsewhere, organization_name, place, told_place};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::resolve::owner;
use crate::coderd::client::{Deletion, Organization};
use crate::coderd::{Client, Error, Operation};
use crate::control_plane_access::control_planes::{self, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::reach::within;
use crate::control_plane_access::unreached::Unreached;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::ending::{DeleteKind, hold, let_go};
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::secret::{Content, Secrets};
use crate::controller::children::{ChildKind, drift};
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, Origin, ReconciledKind, complete};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::workload::pods::is_of_deployment;
use crate::kubernetes::events::EventDraft;
use crate::kubernetes::{CallError, Target};
use crds::well_known::annotation;
use crds::{CoderProvisioner, CoderProvisionerSpec};
use jiff::SignedDuration;
use k8s_openapi::jiff::Timestamp;
use ring::hmac;
use serde_json::{Value, from_value};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How much longer than their grace period pods are waited for: on a node that is gone they never end.
const OVERTIME: SignedDuration = SignedDuration::from_secs(60);
/// How soon it is looked whether pods are gone.
const SOON: Duration = Duration::from_secs(5);
/// Keys that are named when nobody knows whose they are.
const MOST_NAMED: usize = 16;
/// Steps of an end in one reconcile: each key takes two.
const MOST_STEPS: usize = 24;

/// Where an end stands.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The finalizer may go.
    LetGo(Vec<Left>),
    /// Pods are on their way out: what is waited for.
    Stopping(String),
    /// It is held, and why.
    Held(String),
    /// There was no time for all of it, but for a part.
    Late,
}

impl DeleteKind<CoderProvisioner> for Reconciler {
    fn note_going(&self, key: &ObjectKey) {
        // Nobody counts for it any more, and an autoscaler would follow a number of before.
        self.jobs.forget(key);
    }

    fn named(object: &Object<CoderProvisioner>) -> Vec<EventDraft> {
        told(&named(object))
    }

    fn held(why: &str) -> String {
        // The way out comes first: a long cause is cut.
        format!(
            "the provisioner key cannot be deleted yet; to leave it in coderd, set the annotation \
             coder.com/release-external: \"true\". Cause: {why}"
        )
    }

    async fn delete(
        &self,
        object: &Object<CoderProvisioner>,
        sealing: &hmac::Key,
    ) -> Result<Action, CallError> {
        let sealer = Sealer { key: sealing, uid: &object.uid };
        let mut store =
            RecordStore::new(&self.kube, CoderProvisioner::NAME, &object.key, object.value.clone(), sealer);
        let end = self.end(object, &mut store).await;
        let object: Object<CoderProvisioner> =
            Object::new(object.key.clone(), Origin::Read, store.object().clone());
        match end {
            Ok(End::LetGo(all)) => let_go(self, &object, &told(&all)).await,
            Ok(End::Stopping(working)) => {
                self.tell_held(&object, Reason::Stopping, &stopping(&working)).await?;
                Ok(Action::RequeueAfter(SOON))
            }
            Ok(End::Held(why)) => hold(self, &object, &why).await,
            // Somebody else was faster: what they wrote is looked at next time.
            Err(KeyError::Kubernetes(error)) if error.is_outdated() => Err(error),
            Ok(End::Late) => {
                hold(self, &object, "there was no time for all of its keys").await?;
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            Err(error) => hold(self, &object, &error.to_string()).await,
        }
    }
}

impl Reconciler {
    async fn end(
        &self,
        object: &Object<CoderProvisioner>,
        store: &mut RecordStore<'_>,
    ) -> Result<End, KeyError> {
        let is_released = self.is_released(object).await?;
        let time = TimeLimit { until: Deadline::from(Instant::now()).until(), reserved: Duration::ZERO };
        let namespace = &object.key.namespace;
        let mut homes = Homes::new(Coderds::new(&self.access, &self.control_planes, namespace, time));
        let mut unrecorded = if is_released {
            Unrecorded::Nothing
        } else {
            self.reach_for_end(object, &store.record, store.sealer(), &mut homes).await?
        };
        let working = if is_released { None } else { self.working(object).await? };
        let is_unrecorded = object.value["status"]["key"].is_null();
        let (mut tried, mut has_moved) = (BTreeSet::new(), false);
        for _ in 0..MOST_STEPS {
            let sights = sights(&mut homes, &store.record, is_released).await;
            let ending = Ending {
                record: &store.record,
                unrecorded: &unrecorded,
                sights: &sights,
                has_pods: working.is_some(),
                is_released,
            };
            match ending::next(&ending) {
                EndStep::Stop => {
                    self.stop(object).await?;
                    return Ok(End::Stopping(working.unwrap_or_default()));
                }
                EndStep::Delete(key) => {
                    let draft = self.delete_for_end(&mut homes, store, &key, &mut tried).await?;
                    has_moved |= draft.is_some();
                    self.writer().publish(object, draft.as_slice()).await;
                }
                EndStep::Record(record, told) => {
                    store.save(*record).await?;
                    has_moved = true;
                    unrecorded = Unrecorded::Nothing;
                    let drafts: Vec<EventDraft> =
                        told.iter().map(|left| KeyEvent::Left(left).draft()).collect();
                    self.writer().publish(object, &drafts).await;
                }
                EndStep::Blocked => return Ok(blocked(time.left().is_zero(), has_moved, homes.told())),
                EndStep::LetGo(mut left) => {
                    left.extend(store.take_unproven().into_iter().map(Left::Unproven));
                    // Of a key that only the older operator knew nothing may be left to find it by.
                    let is_unknown = is_unrecorded && !has_moved && left.is_empty();
                    left.extend(is_unknown.then(|| named(object)).into_iter().flatten());
                    return Ok(End::LetGo(left));
                }
            }
        }
        Ok(End::Late)
    }

    /// Deletes a key; one that coderd still lists afterwards, or cannot delete, is left behind. One that fails keeps no other
    /// from being tried.
    async fn delete_for_end(
        &self,
        homes: &mut Homes<'_>,
        store: &mut RecordStore<'_>,
        key: &Key,
        tried: &mut BTreeSet<Key>,
    ) -> Result<Option<EventDraft>, KeyError> {
        let asked = match tried.insert(key.clone()) {
            true => homes.delete(key).await,
            false => Ok(Deletion::Impossible),
        };
        Ok(match asked {
            Ok(Deletion::Deleted) => Some(KeyEvent::Deleted(&key.name).draft()),
            Ok(Deletion::NotThere) => None,
            Ok(Deletion::Impossible) => {
                store.save(store.record.without(key)).await?;
                Some(KeyEvent::Left(&Left::behind(key)).draft())
            }
            Err(why) => {
                homes.fail(&key.home, &why);
                None
            }
        })
    }

    /// Reaches the control plane of the spec with the credentials of the spec, and finds out what its Secret holds that is
    /// not recorded. One that cannot be reached may still hold a key, if there is a plaintext.
    async fn reach_for_end(
        &self,
        object: &Object<CoderProvisioner>,
        record: &Record,
        sealer: Sealer<'_>,
        homes: &mut Homes<'_>,
    ) -> Result<Unrecorded, KeyError> {
        let Ok(complete) = complete::<CoderProvisioner>(&object.value, &self.config) else {
            return Ok(Unrecorded::Nothing);
        };
        let (owner, place) = (owner(&complete), place(&complete));
        let secrets = Secrets { kube: &self.kube, owner: &owner, mark: annotation::KEY_OF };
        let is_recorded = record.keys().next().is_some();
        let found = if is_recorded { Content::Nothing } else { secrets.read(&place).await?.content };
        let is_unknown = matches!(found, Content::Plaintext(..));
        let unknown = if is_unknown { Unrecorded::Unknown } else { Unrecorded::Nothing };
        let name = complete.spec.control_plane_ref.name.trim();
        let control_plane = match control_planes::named(&self.control_planes, &object.key.namespace, name) {
            Found::There(control_plane) => control_plane,
            // With the control plane its coderd is gone; a watch alone does not say so.
            Found::Gone if self.is_control_plane_gone(object, name).await? => return Ok(Unrecorded::Nothing),
            Found::Gone => return Ok(unknown),
            Found::Unreadable(_) | Found::Unlisted => return Ok(unknown),
        };
        let reference =
            complete.spec.bootstrap.as_ref().and_then(|bootstrap| bootstrap.credentials_secret_ref.as_ref());
        let credentials = Credentials::of_bootstrap(&object.key.namespace, reference);
        let limit = homes.time().left() * 2 / 3;
        let reached = match self.access.reach_within(limit, &control_plane, credentials).await {
            Ok(reached) => reached,
            Err(Unreached::Going { .. }) => return Ok(Unrecorded::Nothing),
            Err(unreached) => {
                let uid = control_plane.metadata.uid.clone().unwrap_or_default();
                homes.fail_control_plane(&uid, &unreached);
                return Ok(unknown);
            }
        };
        let uid = control_plane.metadata.uid.clone().unwrap_or_default();
        let deployment = match reached.deployment() {
            Ok(deployment) => deployment.to_owned(),
            Err(untold) => {
                homes.fail_control_plane(&uid, &untold);
                return Ok(unknown);
            }
        };
        homes.know(&uid, &deployment, &reached.client);
        if !is_unknown {
            return Ok(Unrecorded::Nothing);
        }
        let asked = organization_of(&reached.client, &complete, &found);
        let Some(organization) = within(homes.time().left(), Operation::Organization, asked).await? else {
            return Ok(Unrecorded::Nothing);
        };
        let home = Home { control_plane: uid, deployment, organization: organization.id };
        let desired = desired(object, &complete, home, place);
        let namespace = &object.key.namespace;
        let coderds = Coderds::new(&self.access, &self.control_planes, namespace, homes.time());
        let mut known = Homes::new(coderds);
        known.know(&desired.home.control_plane, &desired.home.deployment, &reached.client);
        let created = complete.metadata.creation_timestamp.as_ref();
        let rival = self.rival(object, created, &desired, &organization);
        let mut work = KeyWork::for_end(secrets, known, &reached.client, &desired);
        (work.claimed, work.of_others) = (rival.is_some(), self.of_others(object, &desired.home, sealer.key));
        work.told_place = told_place(object);
        work.left_elsewhere = left_elsewhere(object, &complete);
        work.unrecorded(record).await
    }

    /// What may still use a key: the Deployment, or one of its pods. One that is being stopped has as long as its grace period
    /// says, and a minute. A pod that somebody gave our labels uses none.
    async fn working(&self, object: &Object<CoderProvisioner>) -> Result<Option<String>, CallError> {
        // Names and labels come from the metadata: a spec that cannot be read lets no pod lose its key.
        let metadata = from_value(object.value["metadata"].clone()).unwrap_or_default();
        let owner =
            owner(&CoderProvisioner { metadata, spec: CoderProvisionerSpec::default(), status: None });
        if self.deployment(object, &owner.workload).await?.is_some() {
            return Ok(Some(format!("the pods of Deployment {}", owner.workload)));
        }
        let now = Timestamp::now();
        let working = |pod: &Value| {
            let is_ours = is_of_deployment(&pod["metadata"], &owner.workload) && is_working(pod, now);
            is_ours.then(|| format!("pod {}", pod["metadata"]["name"].as_str().unwrap_or_default()))
        };
        let found = self.kube.some_pods(&object.key.namespace, &owner.selector_text(), 1, working).await?;
        Ok(found.into_iter().next())
    }

    async fn deployment(
        &self,
        object: &Object<CoderProvisioner>,
        name: &str,
    ) -> Result<Option<Value>, CallError> {
        let target = Target::of(ChildKind::Deployment.names(), &object.key.namespace, name);
        Ok(self.kube.read(target).await?.filter(|live| drift::is_controlled_by(live, &object.uid)))
    }

    /// Stops the daemons: each finishes the build it works on.
    async fn stop(&self, object: &Object<CoderProvisioner>) -> Result<(), CallError> {
        let name = crds::names::provisioner::workload(&object.key.name);
        let Some(live) = self.deployment(object, &name).await? else { return Ok(()) };
        let target = Target::of(ChildKind::Deployment.names(), &object.key.namespace, &name);
        self.kube.remove(target, live["metadata"]["uid"].as_str().unwrap_or_default()).await
    }
}

/// The organization of a plaintext of which nothing is recorded: the one that the spec names or, where coderd has none of that
/// name any more, the one that the key itself is in. None if coderd does not know the key: there is nothing to delete.
async fn organization_of(
    client: &Client,
    complete: &CoderProvisioner,
    found: &Content,
) -> Result<Option<Organization>, Error> {
    let named = client.organization(organization_name(complete)).await;
    match (named, found) {
        (Ok(organization), _) => Ok(Some(organization)),
        (Err(Error::NotFoundOrForbidden { .. }), Content::Plaintext(plaintext, _)) => {
            let Some(key) = client.identify_provisioner_key(plaintext).await? else { return Ok(None) };
            client.organization_by_id(key.organization_id).await.map(Some)
        }
        (Err(error), _) => Err(error),
    }
}

/// Where an end stands that a coderd holds up. One that took all the time and let nothing be done is asked again later each time,
/// not at once: a worker is not its own.
fn blocked(is_over: bool, has_moved: bool, why: Option<String>) -> End {
    match is_over && has_moved {
        true => End::Late,
        false => End::Held(why.unwrap_or_else(|| "coderd is unreachable".to_owned())),
    }
}

/// What is seen of every recorded key. Where keys are left anyway, nobody is asked.
async fn sights(homes: &mut Homes<'_>, record: &Record, is_released: bool) -> Vec<Sight> {
    let mut sights = Vec::new();
    for key in record.keys() {
        let keys = match is_released {
            true => Keys::Unreachable,
            false => homes.keys_elsewhere(&key.home, record).await,
        };
        sights.push(homes.sight(key, &keys).await);
    }
    sights
}

/// The keys that a status names, whoever wrote it.
fn named(object: &Object<CoderProvisioner>) -> Vec<Left> {
    let status = stored::parsed(&object.value["status"]["key"]);
    let recorded = status.iter().flat_map(|key| key.current.iter().chain(&key.pending).chain(&key.retiring));
    let recorded = recorded.map(|key| key.name.clone());
    let all: BTreeSet<String> = recorded.chain(object.status.provisioner_key_name.clone()).collect();
    all.into_iter().take(MOST_NAMED).map(Left::Unproven).collect()
}

/// What is told of keys that are left in coderd.
fn told(all: &[Left]) -> Vec<EventDraft> {
    all.iter().map(|left| KeyEvent::Left(left).draft()).collect()
}

/// What is said while daemons finish their builds, with the way out.
fn stopping(working: &str) -> String {
    format!(
        "waiting for {working} to finish builds before the provisioner key is deleted; to leave the key in coderd and not wait, \
         set the annotation coder.com/release-external: \"true\""
    )
}

/// Whether a pod may still work. The time of its deletion includes its grace period.
fn is_working(pod: &Value, now: Timestamp) -> bool {
    let end: Option<Timestamp> =
        pod["metadata"]["deletionTimestamp"].as_str().and_then(|time| time.parse().ok());
    end.and_then(|end| end.checked_add(OVERTIME).ok()).is_none_or(|last| now < last)
}

#[cfg(test)]
mod tests;
