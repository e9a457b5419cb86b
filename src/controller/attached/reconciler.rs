//! What every reconcile of a kind works with that belongs to a control plane, and what is remembered between two of them. Nothing
//! that is remembered is an authority: a restart forgets all of it.

use super::outside::{AccessReason, AttachedReason, deployment, removed};
use super::pause::Pause;
use super::secret::Proven;
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::admission::is_admission_disabled;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::checksum_key::ChecksumKey;
use crate::controller::children::pruned::PruneMemory;
use crate::controller::children::requests::Requests;
use crate::controller::children::{ChildCache, ChildKind, drift};
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, ReconciledKind};
use crate::controller::object_writer::ObjectWriter;
use crate::controller::references::{Contents, ReadError, Reader};
use crate::controller::runtime::context::ReconcilerContext;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::object_reader::ObjectReader;
use crate::controller::runtime::schedule::Action;
use crate::controller::runtime::telemetry::Telemetry;
use crate::controller::status::conditions::Finding;
use crate::controller::status::observed::ObservedObject;
use crate::controller::status::partial;
use crate::controller::status::reasons::SharedReason;
use crate::controller::workload::consumed::Consumed;
use crate::controller::workload::rollout;
use crate::kubernetes::events::Events;
use crate::kubernetes::{CallError, Kept, Kube, Reflected, Target};
use crds::well_known::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use webhooks::Config;

/// How long the first wait for something takes that only coderd knows.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// A plaintext that was proven to work, and in which control plane's coderd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProvenSecret {
    /// Uid of the object.
    pub(crate) uid: String,
    /// Uid of the control plane, or the address of one that is none of ours.
    pub(crate) control_plane: String,
    pub(crate) proven: Proven,
}

/// What a reconciler works with and remembers.
pub(crate) struct AttachedReconciler<K: ReconciledKind> {
    pub(crate) kube: Kube,
    pub(crate) objects: ObjectReader<K>,
    /// Every object of the kind, as the shared watch has it.
    pub(crate) all: Reflected<Kept<K>>,
    pub(crate) control_planes: ControlPlanes,
    pub(crate) config: Config,
    pub(crate) access: ControlPlaneAccess,
    pub(crate) events: Events,
    pub(crate) telemetry: Telemetry,
    pub(crate) pruned: PruneMemory,
    pub(crate) child_cache: ChildCache,
    pub(crate) requests: Requests,
    /// How often what works is verified.
    pub(crate) verify_interval: Duration,
    checksum_key: Mutex<Arc<ChecksumKey>>,
    /// What pods may be started with: the last plaintext that was proven for each.
    proven: Mutex<BTreeMap<ObjectKey, ProvenSecret>>,
    /// Of which objects coderd was asked in this term, by their uid.
    looked: Mutex<BTreeMap<ObjectKey, String>>,
    /// How often in a row each waited for what only coderd knows.
    waits: Mutex<BTreeMap<ObjectKey, u32>>,
    /// Of which objects a question had no answer the last time, by their uid.
    unanswered: Mutex<BTreeMap<ObjectKey, String>>,
    /// What each had to give up, one after another.
    pauses: Mutex<BTreeMap<ObjectKey, Pause>>,
}

impl<K: ReconciledKind> AttachedReconciler<K> {
    /// For the objects of a kind.
    pub(crate) fn new(
        context: ReconcilerContext,
        all: Reflected<Kept<K>>,
        control_planes: ControlPlanes,
        verify_interval: Duration,
    ) -> Self {
        let ReconcilerContext { kube, children: child_cache, events, telemetry, config, access } = context;
        Self {
            objects: ObjectReader::new(kube.clone(), all.clone()),
            kube,
            all,
            control_planes,
            config,
            access,
            events,
            telemetry,
            pruned: PruneMemory::default(),
            child_cache,
            requests: Requests::default(),
            verify_interval,
            checksum_key: Mutex::default(),
            proven: Mutex::default(),
            looked: Mutex::default(),
            waits: Mutex::default(),
            unanswered: Mutex::default(),
            pauses: Mutex::default(),
        }
    }

    /// Forgets what another leader may have changed meanwhile.
    pub(crate) fn begin_term(&self) {
        self.objects.forget_all();
        self.pruned.clear();
        self.requests.clear();
        lock(&self.proven).clear();
        lock(&self.looked).clear();
        lock(&self.waits).clear();
        lock(&self.unanswered).clear();
        lock(&self.pauses).clear();
        *lock(&self.checksum_key) = Arc::default();
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.objects.forget(key);
        self.pruned.forget(key);
        self.requests.forget(key);
        lock(&self.proven).remove(key);
        lock(&self.looked).remove(key);
        lock(&self.waits).remove(key);
        lock(&self.unanswered).remove(key);
        lock(&self.pauses).remove(key);
    }

    /// The key of the checksums, as it was read in this term.
    pub(crate) fn checksum_key(&self) -> Arc<ChecksumKey> {
        lock(&self.checksum_key).clone()
    }

    /// Reads what a spec lets pods read; `running` is the Deployment that is there.
    pub(crate) async fn read_consumed<S: Serialize + Sync>(
        &self,
        namespace: &str,
        spec: &S,
        consumed: &[Consumed],
        running: Option<&Value>,
        deadline: &mut Deadline,
    ) -> Result<Contents, Unread> {
        let reader = Reader { kube: &self.kube, key: &self.checksum_key(), namespace, spec };
        Ok(reader.read(consumed, running, deadline, |_, _| {}).await?)
    }

    /// Who writes to the objects.
    pub(crate) fn writer(&self) -> ObjectWriter<'_, K> {
        ObjectWriter {
            kube: &self.kube,
            objects: &self.objects,
            events: &self.events,
            telemetry: &self.telemetry,
        }
    }

    /// Whether coderd was asked about this object since this replica leads.
    pub(crate) fn has_looked(&self, key: &ObjectKey, uid: &str) -> bool {
        lock(&self.looked).get(key).is_some_and(|known| known == uid)
    }

    /// Notes that it was.
    pub(crate) fn note_looked(&self, key: &ObjectKey, uid: &str) {
        lock(&self.looked).insert(key.clone(), uid.to_owned());
    }

    /// How long to wait before coderd is asked again whether something has come to be: longer each time.
    pub(crate) fn patience(&self, key: &ObjectKey, is_waiting: bool) -> Duration {
        let mut all = lock(&self.waits);
        if !is_waiting {
            all.remove(key);
            return self.verify_interval;
        }
        let waits = all.entry(key.clone()).or_default();
        *waits = waits.saturating_add(1);
        (FIRST_WAIT * 2_u32.pow((*waits - 1).min(6))).min(self.verify_interval)
    }

    /// Notes whether a question had no answer; returns whether that is so for the first time in a row.
    pub(crate) fn is_first_silence(&self, key: &ObjectKey, uid: &str, is_unanswered: bool) -> bool {
        let mut all = lock(&self.unanswered);
        if !is_unanswered {
            all.remove(key);
            return false;
        }
        all.insert(key.clone(), uid.to_owned()).is_none_or(|before| before != uid)
    }

    /// How long coderd is not asked for another key or token of an object.
    pub(crate) fn pause_left(&self, object: &Object<K>) -> Duration {
        let all = lock(&self.pauses);
        all.get(&object.key).map_or(Duration::ZERO, |pause| pause.left(&object.uid, Instant::now()))
    }

    /// Notes whether one had to be given up, or whether what is there is what is asked for; returns how long no further one is
    /// asked for.
    pub(crate) fn note_given_up(&self, object: &Object<K>, gave_up: bool, is_asked_for: bool) -> Duration {
        let mut all = lock(&self.pauses);
        if gave_up {
            let pause = Pause::after(all.get(&object.key), &object.uid, Instant::now());
            all.insert(object.key.clone(), pause);
        } else if is_asked_for {
            all.remove(&object.key);
        }
        drop(all);
        self.pause_left(object)
    }

    /// Whether pods that run may be led to another coderd: while admission is disabled in their namespace they stay where they are,
    /// and a plaintext for another one would be read by them. Not while that is not known.
    pub(crate) async fn may_move(&self, namespace: &str) -> bool {
        is_admission_disabled(&self.kube, namespace).await.is_ok_and(|is_disabled| !is_disabled)
    }

    /// What pods of this object may be started with for this control plane.
    pub(crate) fn proven(&self, key: &ObjectKey, uid: &str, control_plane: &str) -> Option<Proven> {
        let all = lock(&self.proven);
        let known = all.get(key).filter(|known| known.uid == uid && known.control_plane == control_plane)?;
        Some(known.proven.clone())
    }

    /// Notes what was proven; returns whether it is something else than before.
    pub(crate) fn note_proven(&self, key: &ObjectKey, proven: ProvenSecret) -> bool {
        lock(&self.proven).insert(key.clone(), proven.clone()) != Some(proven)
    }

    /// Writes only that something could not be read this time; `told` are the conditions of the kind.
    pub(crate) async fn write_failed(
        &self,
        object: &Object<K>,
        why: String,
        told: fn(ObservedObject) -> Vec<Finding>,
    ) -> Result<Action, CallError> {
        self.write_summary(object, told(ObservedObject::failed(why)), &[]).await?;
        Ok(Action::BackOff(Duration::ZERO))
    }

    /// Writes only that the object cannot be read.
    pub(crate) async fn write_unreadable(
        &self,
        object: &Object<K>,
        why: String,
        told: fn(ObservedObject) -> Vec<Finding>,
    ) -> Result<Action, CallError> {
        let findings = told(ObservedObject::unreadable(why));
        self.write_summary(object, findings, &[condition::SPEC_ACCEPTED]).await?;
        Ok(Action::AwaitChange)
    }

    /// Writes the same for whatever kept a reconcile from what it works with.
    pub(crate) async fn write_unread(
        &self,
        object: &Object<K>,
        unread: Unread,
        told: fn(ObservedObject) -> Vec<Finding>,
    ) -> Result<Action, CallError> {
        match unread {
            Unread::Unreadable(why) => self.write_unreadable(object, why, told).await,
            Unread::Failed(error) => self.write_failed(object, error.to_string(), told).await,
            Unread::References(error) => {
                let observed = ObservedObject::unread(error.to_string());
                self.write_summary(object, told(observed), &[]).await?;
                Ok(Action::BackOff(Duration::ZERO))
            }
        }
    }

    async fn write_summary(
        &self,
        object: &Object<K>,
        findings: Vec<Finding>,
        besides: &[&str],
    ) -> Result<(), CallError> {
        let status = partial::summary(object, object.status.clone(), findings, besides, &now());
        self.writer().write_status(object, &status, &[]).await
    }

    /// Writes only that it is suspended, besides what this status says: nothing is changed and nothing asked.
    pub(crate) async fn write_suspended(
        &self,
        object: &Object<K>,
        status: K::Status,
        reason: K::Reason,
    ) -> Result<Action, CallError> {
        let status = partial::suspended(object, status, reason, Vec::new(), &now());
        self.writer().write_status(object, &status, &[]).await?;
        Ok(Action::AwaitChange)
    }
}

impl<K: AttachedKind> AttachedReconciler<K> {
    /// Says on an object that is going why it is still there: whoever waits for the deletion looks at it, not at our log.
    pub(crate) async fn tell_held(
        &self,
        object: &Object<K>,
        reason: K::Reason,
        why: &str,
    ) -> Result<(), CallError> {
        let progressing = K::Reason::from(SharedReason::Progressing);
        let status = self.with_pods(object).await;
        let status = partial::cleanup_failed(object, status, reason, progressing, why, &now());
        self.writer().write_status(object, &status, &[]).await
    }

    /// Takes our finalizer off; returns whether the object is gone. If it is held all the same, that is told on it.
    pub(super) async fn let_finalizer_go(&self, object: &Object<K>) -> Result<bool, CallError> {
        let (reason, why) = match self.writer().release(object).await {
            Ok(None) => return Ok(true),
            Ok(Some(why)) => (SharedReason::FinalizerRefused.into(), why),
            Err(error) if error.is_outdated() || error.is_not_found() => return Err(error),
            Err(error) => (AccessReason::CleanupFailed.into(), error.to_string()),
        };
        self.tell_held(object, reason, &why).await?;
        Ok(false)
    }

    /// What an object that is going says, with its pods as they are: its Deployment may have gone before it. One that cannot be
    /// read now is what it was.
    async fn with_pods(&self, object: &Object<K>) -> (K::Status, Option<Finding>) {
        let (mut status, workload) = (object.status.clone(), K::workload(&object.key.name));
        let target = Target::of(ChildKind::Deployment.names(), &object.key.namespace, &workload);
        let Ok(live) = self.kube.read(target).await else { return (status, None) };
        let live = live.filter(|live| drift::is_controlled_by(live, &object.uid));
        let ready = rollout::ready_replicas(live.as_ref());
        K::set_pods(&mut status, rollout::replicas(live.as_ref()), ready);
        let found = match &live {
            Some(live) => deployment::<K::Reason>(&rollout::rollout(Some(live)), ready),
            None => removed::<K::Reason>(),
        };
        (status, Some(found))
    }
}

/// A kind that belongs to a control plane.
pub(crate) trait AttachedKind: ReconciledKind<Reason: AttachedReason> {
    /// What the Deployment of an object is called.
    fn workload(name: &str) -> String;

    /// Writes down how many pods there are, and how many are ready; with none of them nothing is known of what they do.
    fn set_pods(status: &mut Self::Status, replicas: i32, ready_replicas: i32);
}

/// Why nothing is changed.
pub(crate) enum Unread {
    /// Something could not be read this time.
    Failed(CallError),
    /// What pods refer to could not be read this time.
    References(ReadError),
    /// The object itself cannot be read.
    Unreadable(String),
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Self {
        Self::References(error)
    }
}

impl From<CallError> for Unread {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

/// Whether an object says of this generation that it is ready.
pub(crate) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut ready = conditions.into_iter().flatten().filter(|one| one["type"] == condition::READY);
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
        && ready.any(|one| one["status"] == "True")
}

/// What a map of memories holds.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time, as a condition has it.
pub(crate) fn now() -> Time {
    Time(Timestamp::now())
}
