//! What every reconcile of a control plane works with, and what is remembered between two of them.
//! Nothing that is remembered is an authority: a restart forgets all of it.

use super::ask::Memory;
use super::checksum_key::ChecksumKey;
use super::consent::Consent;
use super::dependants::Dependants;
use super::gate::Gate;
use super::subject::{AskedFor, Object};
use super::triggers::GrantIndex;
use crate::coderd::Egress;
use crate::controller::children::apply::Applier;
use crate::controller::children::{Fingerprint, Known, Place};
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::telemetry::Telemetry;
use crate::kubernetes::Kube;
use crate::kubernetes::events::Events;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use webhooks::Config;

/// Reconciles control planes.
pub(crate) struct Reconciler {
    pub(super) kube: Kube,
    pub(super) config: Config,
    pub(super) consent: Consent,
    pub(super) egress: Egress,
    pub(super) events: Events,
    pub(super) telemetry: Telemetry,
    /// For what everything no longer wanted was pruned: it is not looked for again.
    pruned: Mutex<BTreeMap<ObjectKey, Pruned>>,
    /// The last request of each to have it reconciled.
    requests: Mutex<BTreeMap<ObjectKey, Fingerprint>>,
    pub(super) memory: Memory,
    checksum_key: Mutex<Arc<ChecksumKey>>,
    pub(super) grant_index: Arc<GrantIndex>,
    pub(super) known: Arc<Known>,
    pub(super) dependants: Dependants,
}

/// For what everything no longer wanted was looked for.
pub(super) struct Pruned {
    pub(super) of: AskedFor,
    /// What the watches showed of it then: it is gone, or not ours.
    pub(super) unwanted: BTreeSet<Place>,
}

impl Reconciler {
    /// A reconciler of control planes.
    pub(crate) fn new(
        kube: Kube,
        events: Events,
        telemetry: Telemetry,
        config: Config,
        consent: Consent,
        egress: Egress,
        dependants: Dependants,
    ) -> Self {
        let (pruned, requests, memory) = (Mutex::default(), Mutex::default(), Memory::default());
        let (checksum_key, grant_index, known) = (Mutex::default(), Arc::default(), Arc::default());
        Self {
            kube,
            config,
            consent,
            egress,
            events,
            telemetry,
            pruned,
            requests,
            memory,
            checksum_key,
            grant_index,
            known,
            dependants,
        }
    }

    /// Forgets what another leader may have changed meanwhile: the key of the checksums, if its Secret was made anew.
    pub(crate) fn begin_term(&self) {
        self.known.forget_all();
        self.grant_index.begin_term();
        self.pruned().clear();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clear();
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

    /// What is known of children, for whoever follows the cluster.
    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Who applies the children of an object.
    pub(super) fn applier<'a>(&'a self, object: &'a Object, gate: &'a Gate) -> Applier<'a> {
        Applier { kube: &self.kube, known: &self.known, owner: &object.key, snapshot: gate.snapshot.as_ref() }
    }

    /// Takes nothing for known of an object that somebody asks to have reconciled, once for each request. The status is not
    /// asked whether that was done: others may write it.
    pub(super) fn begin_request(&self, object: &Object) {
        let Some(request) = object.request() else { return };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.insert(object.key.clone(), request) != Some(request) {
            self.known.forget_owner(&object.key);
        }
    }

    /// The API server it works with.
    pub(crate) fn kube(&self) -> &Kube {
        &self.kube
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.pruned().remove(key);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.memory.forget(key);
    }

    pub(super) fn pruned(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Pruned>> {
        self.pruned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
