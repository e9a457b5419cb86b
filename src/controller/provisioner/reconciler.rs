//! What every reconcile of a provisioner works with, and what is remembered between two of them.
//! Nothing that is remembered is an authority: a restart forgets all of it.

use super::key::pause::Pause;
use super::key::work::{Keyed, Proven};
use super::pending_jobs::JobMemory;
use super::reasons::Reason;
use super::zombies::Silence;
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::checksum_key::ChecksumKey;
use crate::controller::children::ChildCache;
use crate::controller::children::pruned::PruneMemory;
use crate::controller::children::requests::Requests;
use crate::controller::finalizer::Finalizer;
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, ReconciledKind};
use crate::controller::object_writer::ObjectWriter;
use crate::controller::runtime::context::ReconcilerContext;
use crate::controller::runtime::object_reader::ObjectReader;
use crate::controller::runtime::telemetry::Telemetry;
use crate::kubernetes::events::Events;
use crate::kubernetes::{Kept, KindName, Kube, Reflected};
use crate::serving::metrics::JobCount;
use crds::well_known::finalizer;
use crds::{CoderProvisioner, CoderProvisionerStatus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use webhooks::{Config, Kind};

/// Our kind: apiVersion, kind and the plural of its path.
pub(super) const KIND: KindName = ["coder.com/v1alpha1", "CoderProvisioner", "coderprovisioners"];

/// How long the first wait for daemons takes.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// Every provisioner of the cluster, as the shared watch has it.
pub(crate) type Provisioners = Reflected<Kept<CoderProvisioner>>;

impl ReconciledKind for CoderProvisioner {
    type Status = CoderProvisionerStatus;
    type Reason = Reason;
    const NAME: KindName = KIND;
    const RULES: Kind = Kind::Provisioner;
    const FINALIZER: Finalizer = Finalizer(finalizer::PROVISIONER);
}

/// A key that was proven to work, and in which control plane's coderd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProvenKey {
    pub(super) uid: String,
    pub(super) control_plane: String,
    pub(super) proven: Proven,
}

/// Reconciles provisioners.
pub(crate) struct Reconciler {
    pub(super) kube: Kube,
    pub(super) objects: ObjectReader<CoderProvisioner>,
    pub(super) provisioners: Provisioners,
    pub(super) control_planes: ControlPlanes,
    pub(super) config: Config,
    pub(super) access: ControlPlaneAccess,
    pub(super) events: Events,
    pub(super) telemetry: Telemetry,
    pub(super) pruned: PruneMemory,
    pub(super) child_cache: ChildCache,
    checksum_key: Mutex<Arc<ChecksumKey>>,
    pub(super) requests: Requests,
    /// What pods may be started with: the last key that was proven for each.
    proven: Mutex<BTreeMap<ObjectKey, ProvenKey>>,
    /// Of which objects coderd was asked in this term, by their uid.
    looked: Mutex<BTreeMap<ObjectKey, String>>,
    /// How often in a row each waited for daemons.
    waits: Mutex<BTreeMap<ObjectKey, u32>>,
    /// Pods of each whose daemons coderd does not hear of, with the uid of the object.
    silences: Mutex<BTreeMap<ObjectKey, (String, Silence)>>,
    /// Keys of each that were given up one after another.
    pauses: Mutex<BTreeMap<ObjectKey, Pause>>,
    /// Of which objects a question had no answer the last time, by their uid.
    unanswered: Mutex<BTreeMap<ObjectKey, String>>,
    /// The builds that wait for each, for the metric.
    pub(super) jobs: Arc<JobMemory>,
    /// How often a key that works is verified.
    pub(super) verify_interval: Duration,
}

impl Reconciler {
    /// A reconciler of provisioners.
    pub(crate) fn new(
        context: ReconcilerContext,
        provisioners: Provisioners,
        control_planes: ControlPlanes,
        verify_interval: Duration,
    ) -> Self {
        let ReconcilerContext { kube, children: child_cache, events, telemetry, config, access } = context;
        Self {
            objects: ObjectReader::new(kube.clone(), provisioners.clone()),
            kube,
            provisioners,
            control_planes,
            config,
            access,
            events,
            telemetry,
            pruned: PruneMemory::default(),
            child_cache,
            checksum_key: Mutex::default(),
            requests: Requests::default(),
            proven: Mutex::default(),
            looked: Mutex::default(),
            waits: Mutex::default(),
            silences: Mutex::default(),
            pauses: Mutex::default(),
            unanswered: Mutex::default(),
            jobs: Arc::default(),
            verify_interval,
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
        lock(&self.silences).clear();
        self.jobs.clear();
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
        lock(&self.silences).remove(key);
        lock(&self.pauses).remove(key);
        lock(&self.unanswered).remove(key);
        self.jobs.forget(key);
    }

    /// What was counted of builds that wait, for whoever shows it.
    pub(crate) fn job_counts(&self) -> impl Fn() -> Vec<JobCount> + Send + Sync + 'static {
        let jobs = self.jobs.clone();
        move || jobs.counts()
    }

    /// Reads provisioners, for whoever follows the cluster.
    pub(crate) fn objects(&self) -> &ObjectReader<CoderProvisioner> {
        &self.objects
    }

    pub(super) fn checksum_key(&self) -> Arc<ChecksumKey> {
        lock(&self.checksum_key).clone()
    }

    pub(super) fn writer(&self) -> ObjectWriter<'_, CoderProvisioner> {
        ObjectWriter {
            kube: &self.kube,
            objects: &self.objects,
            events: &self.events,
            telemetry: &self.telemetry,
        }
    }

    /// Whether coderd was asked about the keys of this object since this replica leads.
    pub(super) fn has_looked(&self, key: &ObjectKey, uid: &str) -> bool {
        lock(&self.looked).get(key).is_some_and(|known| known == uid)
    }

    /// Notes that it was.
    pub(super) fn note_looked(&self, key: &ObjectKey, uid: &str) {
        lock(&self.looked).insert(key.clone(), uid.to_owned());
    }

    /// How long to wait before coderd is asked again whether daemons came or went: longer each time.
    pub(super) fn patience(&self, key: &ObjectKey, is_waiting: bool) -> Duration {
        let mut all = lock(&self.waits);
        if !is_waiting {
            all.remove(key);
            return self.verify_interval;
        }
        let waits = all.entry(key.clone()).or_default();
        *waits = waits.saturating_add(1);
        (FIRST_WAIT * 2_u32.pow((*waits - 1).min(6))).min(self.verify_interval)
    }

    /// How long no further key is made for an object.
    pub(super) fn pause_left(&self, object: &Object<CoderProvisioner>) -> Duration {
        let all = lock(&self.pauses);
        all.get(&object.key).map_or(Duration::ZERO, |pause| pause.left(&object.uid, Instant::now()))
    }

    /// Notes whether a key was given up; returns how long no further one is made.
    pub(super) fn note_given_up(&self, object: &Object<CoderProvisioner>, keyed: &Keyed) -> Duration {
        let mut all = lock(&self.pauses);
        if keyed.gave_up {
            let pause = Pause::after(all.get(&object.key), &object.uid, Instant::now());
            all.insert(object.key.clone(), pause);
        } else if keyed.is_asked_for {
            all.remove(&object.key);
        }
        drop(all);
        self.pause_left(object)
    }

    /// Notes whether a question had no answer; returns whether that is so for the first time in a row.
    pub(super) fn is_first_silence(&self, key: &ObjectKey, uid: &str, is_unanswered: bool) -> bool {
        let mut all = lock(&self.unanswered);
        if !is_unanswered {
            all.remove(key);
            return false;
        }
        all.insert(key.clone(), uid.to_owned()).is_none_or(|before| before != uid)
    }

    /// What is remembered of pods whose daemons coderd does not hear of.
    pub(super) fn silence(&self, key: &ObjectKey, uid: &str) -> Silence {
        let all = lock(&self.silences);
        all.get(key).filter(|(of, _)| of == uid).map(|(_, silence)| silence.clone()).unwrap_or_default()
    }

    /// Remembers it.
    pub(super) fn note_silence(&self, key: &ObjectKey, uid: &str, silence: Silence) {
        let mut all = lock(&self.silences);
        if silence.is_nothing() {
            all.remove(key);
        } else {
            all.insert(key.clone(), (uid.to_owned(), silence));
        }
    }

    /// The key that pods of this object may be started with for this control plane.
    pub(super) fn proven(&self, key: &ObjectKey, uid: &str, control_plane: &str) -> Option<Proven> {
        let all = lock(&self.proven);
        let known = all.get(key).filter(|known| known.uid == uid && known.control_plane == control_plane)?;
        Some(known.proven.clone())
    }

    /// Notes what was proven; returns whether it is something else than before.
    pub(super) fn note_proven(&self, key: &ObjectKey, proven: ProvenKey) -> bool {
        lock(&self.proven).insert(key.clone(), proven.clone()) != Some(proven)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
