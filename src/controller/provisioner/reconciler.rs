//! What every reconcile of a provisioner works with, and what is remembered between two of them.
//! Nothing that is remembered is an authority: a restart forgets all of it.

use super::pending_jobs::JobMemory;
use super::reasons::Reason;
use super::zombies::Silence;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::attached::reconciler::{AttachedKind, AttachedReconciler, lock};
use crate::controller::finalizer::Finalizer;
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::controller::runtime::context::ReconcilerContext;
use crate::kubernetes::{Kept, KindName, Reflected};
use crate::serving::metrics::JobCount;
use crds::well_known::finalizer;
use crds::{CoderProvisioner, CoderProvisionerStatus};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use webhooks::Kind;

impl ReconciledKind for CoderProvisioner {
    type Reason = Reason;
    const NAME: KindName = ["coder.com/v1alpha1", "CoderProvisioner", "coderprovisioners"];
    const RULES: Kind = Kind::Provisioner;
    const FINALIZER: Finalizer = Finalizer(finalizer::PROVISIONER);
}

impl AttachedKind for CoderProvisioner {
    fn workload(name: &str) -> String {
        crds::names::provisioner::workload(name)
    }

    fn set_pods(status: &mut CoderProvisionerStatus, replicas: i32, ready_replicas: i32) {
        (status.replicas, status.ready_replicas) = (Some(replicas), Some(ready_replicas));
        if replicas == 0 {
            (status.daemons, status.pending_jobs) = (None, None);
        }
    }
}

/// Every provisioner of the cluster, as the shared watch has it.
pub(crate) type Provisioners = Reflected<Kept<CoderProvisioner>>;

/// Reconciles provisioners.
pub(crate) struct Reconciler {
    base: AttachedReconciler<CoderProvisioner>,
    /// Pods of each whose daemons coderd does not hear of, with the uid of the object.
    silences: Mutex<BTreeMap<ObjectKey, (String, Silence)>>,
    /// The builds that wait for each, for the metric.
    pub(super) jobs: Arc<JobMemory>,
}

impl Deref for Reconciler {
    type Target = AttachedReconciler<CoderProvisioner>;

    fn deref(&self) -> &Self::Target {
        &self.base
    }
}

impl Reconciler {
    /// A reconciler of provisioners.
    pub(crate) fn new(
        context: ReconcilerContext,
        provisioners: Provisioners,
        control_planes: ControlPlanes,
        verify_interval: Duration,
    ) -> Self {
        let base = AttachedReconciler::new(context, provisioners, control_planes, verify_interval);
        Self { base, silences: Mutex::default(), jobs: Arc::default() }
    }

    /// Forgets what another leader may have changed meanwhile.
    pub(crate) fn begin_term(&self) {
        self.base.begin_term();
        lock(&self.silences).clear();
        self.jobs.clear();
    }

    /// Forgets what is remembered of the daemons of an object.
    pub(super) fn forget_daemons(&self, key: &ObjectKey) {
        lock(&self.silences).remove(key);
        self.jobs.forget(key);
    }

    /// What was counted of builds that wait, for whoever shows it.
    pub(crate) fn job_counts(&self) -> impl Fn() -> Vec<JobCount> + Send + Sync + 'static {
        let jobs = self.jobs.clone();
        move || jobs.counts()
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
}
