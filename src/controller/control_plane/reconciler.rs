//! What every reconcile of a control plane works with, and what is remembered between two of them.
//! Nothing that is remembered is an authority: a restart forgets all of it.

use super::ask::Memory;
use super::consent::Consent;
use super::dependants::Dependants;
use super::gate::Gate;
use super::subject::Object;
use super::triggers::GrantIndex;
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::checksum_key::ChecksumKey;
use crate::controller::children::ChildCache;
use crate::controller::children::apply::Applier;
use crate::controller::children::pruned::PruneMemory;
use crate::controller::children::requests::Requests;
use crate::controller::identity::ObjectKey;
use crate::controller::object_writer::ObjectWriter;
use crate::controller::runtime::context::ReconcilerContext;
use crate::controller::runtime::object_reader::ObjectReader;
use crate::controller::runtime::telemetry::Telemetry;
use crate::kubernetes::Kube;
use crate::kubernetes::events::Events;
use crds::CoderControlPlane;
use std::sync::{Arc, Mutex, PoisonError};
use webhooks::Config;

/// Reconciles control planes.
pub(crate) struct Reconciler {
    pub(super) kube: Kube,
    pub(super) objects: ObjectReader<CoderControlPlane>,
    pub(super) config: Config,
    pub(super) consent: Consent,
    pub(super) access: ControlPlaneAccess,
    pub(super) events: Events,
    pub(super) telemetry: Telemetry,
    /// For what everything no longer wanted was pruned: it is not looked for again.
    pub(super) pruned: PruneMemory,
    pub(super) requests: Requests,
    pub(super) memory: Memory,
    checksum_key: Mutex<Arc<ChecksumKey>>,
    pub(super) grant_index: Arc<GrantIndex>,
    pub(super) child_cache: ChildCache,
    pub(super) dependants: Dependants,
}

impl Reconciler {
    /// A reconciler of control planes.
    pub(crate) fn new(
        context: ReconcilerContext,
        control_planes: ControlPlanes,
        consent: Consent,
        dependants: Dependants,
    ) -> Self {
        let ReconcilerContext { kube, children: child_cache, events, telemetry, config, access } = context;
        let (pruned, requests, memory) = (PruneMemory::default(), Requests::default(), Memory::default());
        let (checksum_key, grant_index) = (Mutex::default(), Arc::default());
        let objects = ObjectReader::new(kube.clone(), control_planes);
        Self {
            kube,
            objects,
            config,
            consent,
            access,
            events,
            telemetry,
            pruned,
            requests,
            memory,
            checksum_key,
            grant_index,
            child_cache,
            dependants,
        }
    }

    /// Forgets what another leader may have changed meanwhile: the key of the checksums, if its Secret was made anew.
    pub(crate) fn begin_term(&self) {
        self.objects.forget_all();
        self.grant_index.begin_term();
        self.pruned.clear();
        self.requests.clear();
        self.memory.clear();
        *self.checksum_key.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The key of the checksums, as it was read in this term.
    pub(super) fn checksum_key(&self) -> Arc<ChecksumKey> {
        self.checksum_key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What whoever follows the cluster tells it of rights in other namespaces.
    pub(crate) fn grant_index(&self) -> &Arc<GrantIndex> {
        &self.grant_index
    }

    /// Who applies the children of an object.
    pub(super) fn applier<'a>(&'a self, object: &'a Object, gate: &'a Gate) -> Applier<'a> {
        Applier {
            kube: &self.kube,
            cache: &self.child_cache,
            owner: &object.key,
            snapshot: gate.snapshot.as_ref(),
        }
    }

    /// Who writes to control planes.
    pub(super) fn writer(&self) -> ObjectWriter<'_, CoderControlPlane> {
        ObjectWriter {
            kube: &self.kube,
            objects: &self.objects,
            events: &self.events,
            telemetry: &self.telemetry,
        }
    }

    /// What reads its objects, for whoever verifies what the watch has shown.
    pub(crate) fn objects(&self) -> &ObjectReader<CoderControlPlane> {
        &self.objects
    }

    /// The API server it works with.
    pub(crate) fn kube(&self) -> &Kube {
        &self.kube
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.objects.forget(key);
        self.pruned.forget(key);
        self.requests.forget(key);
        self.memory.forget(key);
    }
}
