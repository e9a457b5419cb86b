//! Takes back the keys of a provisioner that is being deleted, then lets it go; what holds it is told on it. Which key goes and
//! when is decided in `key::ending`. Daemons finish their builds first.

use super::key::ending::{self, EndStep, Ending};
use super::key::homes::{Homes, Keys};
use super::key::record::{Home, Key, Record};
use super::key::seen::Sight;
use super::key::steps::{Left, Unrecorded};
use super::key::store::RecordStore;
use super::key::work::{KeyError, KeyWork};
use super::key_event::KeyEvent;
use super::observe::{desired, organization_name, place, unrecorded_places};
use super::reasons::Reason;
use super::reconciler::{KIND, Reconciler};
use super::resolve::owner;
use crate::coderd::client::{Deletion, Organization};
use crate::coderd::{Client, Error};
use crate::control_plane_access::control_planes::{self, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::secret::{Content, Secrets};
use crate::controller::children::{ChildKind, drift};
use crate::controller::object::{Object, Origin, complete};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::kubernetes::events::EventDraft;
use crate::kubernetes::{CallError, KindName, Target};
use crds::well_known::annotation;
use crds::{CoderProvisioner, CoderProvisionerSpec};
use jiff::SignedDuration;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const POD: KindName = ["v1", "Pod", "pods"];

/// How much longer than their grace period pods are waited for: on a node that is gone they never end.
const OVERTIME: SignedDuration = SignedDuration::from_secs(60);
/// Pods that are looked at; more would say the same.
const MOST_PODS: u32 = 50;
/// How soon it is looked whether pods are gone.
const SOON: Duration = Duration::from_secs(5);
/// Steps of an end in one reconcile: each key takes two.
const MOST_STEPS: usize = 24;

/// Where an end stands.
enum End {
    /// The finalizer may go.
    LetGo(Vec<Left>),
    /// Pods are on their way out.
    Stopping,
    /// It is held, and why.
    Held(String),
    /// There was no time for all of it.
    Late,
}

impl Reconciler {
    /// One reconcile of an object that is being deleted.
    pub(super) async fn finalize(&self, object: &Object<CoderProvisioner>) -> Result<Action, CallError> {
        if !object.has_finalizer() {
            return Ok(Action::AwaitChange);
        }
        let checksum_key = self.checksum_key();
        let sealing = match checksum_key.get(&self.kube).await {
            Ok(sealing) => sealing,
            Err(error) => {
                self.tell_held(object, Reason::CleanupFailed, &held(&error.to_string())).await?;
                return Ok(Action::BackOff(Duration::ZERO));
            }
        };
        let sealer = Sealer { key: sealing, uid: &object.uid };
        let mut store = RecordStore::new(&self.kube, KIND, &object.key, object.value.clone(), sealer);
        let end = self.end(object, &mut store).await;
        let object: Object<CoderProvisioner> =
            Object::new(object.key.clone(), Origin::Read, store.object().clone());
        match end {
            Ok(End::LetGo(all)) => self.end_with(&object, &all).await,
            Ok(End::Stopping) => {
                let why = "waiting for daemons to finish their builds";
                self.tell_held(&object, Reason::Stopping, why).await?;
                Ok(Action::RequeueAfter(SOON))
            }
            Ok(End::Held(why)) => {
                self.tell_held(&object, Reason::CleanupFailed, &held(&why)).await?;
                Ok(Action::BackOff(Duration::ZERO))
            }
            // Somebody else was faster: what they wrote is looked at next time.
            Err(KeyError::Kubernetes(error)) if error.is_outdated() => Err(error),
            Ok(End::Late) => {
                self.tell_held(
                    &object,
                    Reason::CleanupFailed,
                    &held("there was no time for all of its keys"),
                )
                .await?;
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            Err(error) => {
                self.tell_held(&object, Reason::CleanupFailed, &held(&error.to_string())).await?;
                Ok(Action::BackOff(Duration::ZERO))
            }
        }
    }

    async fn end_with(&self, object: &Object<CoderProvisioner>, all: &[Left]) -> Result<Action, CallError> {
        let drafts: Vec<EventDraft> = all.iter().map(|left| KeyEvent::Left(left).draft()).collect();
        if self.let_go(object, &drafts, Reason::CleanupFailed).await? {
            self.forget(&object.key);
            return Ok(Action::AwaitChange);
        }
        Ok(Action::BackOff(Duration::ZERO))
    }

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
        let has_pods = !is_released && self.has_pods(object).await?;
        let was_recorded = store.record.keys().next().is_some();
        let mut tried = BTreeSet::new();
        for _ in 0..MOST_STEPS {
            let sights = sights(&mut homes, &store.record, is_released).await;
            let ending = Ending {
                record: &store.record,
                unrecorded: &unrecorded,
                sights: &sights,
                has_pods,
                is_released,
            };
            match ending::next(&ending) {
                EndStep::Stop => {
                    self.stop(object).await?;
                    return Ok(End::Stopping);
                }
                EndStep::Delete(key) => {
                    let draft = self.delete_for_end(&mut homes, store, &key, &mut tried).await?;
                    self.writer().publish(object, draft.as_slice()).await;
                }
                EndStep::Record(record, told) => {
                    store.save(*record).await?;
                    unrecorded = Unrecorded::Nothing;
                    let drafts: Vec<EventDraft> =
                        told.iter().map(|left| KeyEvent::Left(left).draft()).collect();
                    self.writer().publish(object, &drafts).await;
                }
                EndStep::Blocked if time.left().is_zero() => return Ok(End::Late),
                EndStep::Blocked => {
                    let why = homes.told();
                    return Ok(End::Held(why.unwrap_or_else(|| "coderd is unreachable".to_owned())));
                }
                EndStep::LetGo(mut left) => {
                    left.extend(store.take_unproven().into_iter().map(Left::Behind));
                    let named = object.status.provisioner_key_name.clone();
                    let is_unknown = is_released && !was_recorded && left.is_empty();
                    left.extend(named.filter(|_| is_unknown).map(Left::Behind));
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
                Some(KeyEvent::Left(&Left::Behind(key.name.clone())).draft())
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
        let reached = match self.access.reach(&control_plane, credentials).await {
            Ok(reached) => reached,
            Err(crate::control_plane_access::unreached::Unreached::Going { .. }) => {
                return Ok(Unrecorded::Nothing);
            }
            Err(unreached) => {
                let uid = control_plane.metadata.uid.clone().unwrap_or_default();
                homes.fail_control_plane(&uid, &unreached);
                return Ok(unknown);
            }
        };
        let deployment = reached.deployment_id.clone().unwrap_or_default();
        let uid = control_plane.metadata.uid.clone().unwrap_or_default();
        for key in
            record.keys().filter(|key| key.home.control_plane == uid && key.home.deployment == deployment)
        {
            homes.know(&key.home, &reached.client);
        }
        if !is_unknown {
            return Ok(Unrecorded::Nothing);
        }
        let Some(organization) = organization_of(&reached.client, &complete, &found).await? else {
            return Ok(Unrecorded::Nothing);
        };
        let home = Home { control_plane: uid, deployment, organization: organization.id };
        homes.know(&home, &reached.client);
        let desired = desired(object, &complete, home, place);
        let namespace = &object.key.namespace;
        let coderds = Coderds::new(&self.access, &self.control_planes, namespace, homes.time());
        let mut known = Homes::new(coderds);
        known.know(&desired.home, &reached.client);
        let created = complete.metadata.creation_timestamp.as_ref();
        let rival = self.rival(object, created, &desired, &organization);
        let mut work = KeyWork::for_end(secrets, known, &reached.client, &desired);
        (work.claimed, work.of_others) = (rival.is_some(), self.of_others(object, false, sealer.key));
        work.unrecorded_places = unrecorded_places(object, None);
        work.unrecorded(record).await
    }

    /// Whether pods may still use a key. One that is being stopped has as long as its grace period says, and a minute.
    async fn has_pods(&self, object: &Object<CoderProvisioner>) -> Result<bool, CallError> {
        // Names and labels come from the metadata: a spec that cannot be read lets no pod lose its key.
        let metadata = from_value(object.value["metadata"].clone()).unwrap_or_default();
        let owner =
            owner(&CoderProvisioner { metadata, spec: CoderProvisionerSpec::default(), status: None });
        if self.deployment(object, &owner.workload).await?.is_some() {
            return Ok(true);
        }
        let pods = Target::of(POD, &object.key.namespace, "");
        let pods = self.kube.some_labelled(pods, &owner.selector_text(), MOST_PODS).await?;
        Ok(pods.iter().any(|pod| is_working(pod, Timestamp::now())))
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

/// What is said of an object that stays, with the way out.
fn held(why: &str) -> String {
    // The way out comes first: a long cause is cut.
    format!(
        "the provisioner key cannot be deleted yet; to leave it in coderd, set the annotation \
         coder.com/release-external: \"true\". Cause: {why}"
    )
}

/// Whether a pod may still work. The time of its deletion includes its grace period.
fn is_working(pod: &Value, now: Timestamp) -> bool {
    let end: Option<Timestamp> =
        pod["metadata"]["deletionTimestamp"].as_str().and_then(|time| time.parse().ok());
    end.and_then(|end| end.checked_add(OVERTIME).ok()).is_none_or(|last| now < last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_works_until_its_grace_period_is_over_and_a_minute_more() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let pod = |end: Value| json!({ "metadata": { "deletionTimestamp": end } });
        assert!(is_working(&pod(Value::Null), now), "nobody stops it");
        assert!(is_working(&pod(json!("2026-01-01T00:09:30Z")), now));
        assert!(!is_working(&pod(json!("2026-01-01T00:08:30Z")), now), "its node is gone");
    }
}
