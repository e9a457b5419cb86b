//! Finds what other provisioners of the cluster ask for and have recorded, among those that the shared watch has. Which of two
//! that ask for one key waits is decided in `claims`.

use super::claims::{self, Claim};
use super::key::seen::{Desired, is_same};
use super::observe::organization_name;
use super::reconciler::Reconciler;
use crate::coderd::Uuid;
use crate::controller::object::Object;
use crate::kubernetes::Kept;
use crds::CoderProvisioner;
use crds::names::provisioner::key_base;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Reconciler {
    /// The keys that other provisioners have recorded, where one of them might be taken over. A status decides nothing here
    /// but what is left alone.
    pub(super) fn of_others(&self, object: &Object<CoderProvisioner>, desired: &Desired) -> BTreeSet<Uuid> {
        if desired.adopt.is_none() {
            return BTreeSet::new();
        }
        let all = self.provisioners.all();
        let others = all.iter().filter(|one| one.meta().uid.as_deref() != Some(&object.uid));
        others.filter_map(|one| one.object()).flat_map(|object| recorded_ids(&object)).collect()
    }

    /// The older provisioner that asks for the same key, as a person would name it.
    pub(super) fn rival(
        &self,
        object: &Object<CoderProvisioner>,
        created: Option<&Time>,
        desired: &Desired,
        organization: &str,
    ) -> Option<String> {
        let mine = Claim {
            name: object.key.name.clone(),
            uid: object.uid.clone(),
            created: created.cloned(),
            has_key: has_key(&object.value),
            control_plane: desired.home.control_plane.clone(),
            organization: organization.to_owned(),
            key: desired.base.clone(),
        };
        let all = self.provisioners.all();
        let may_be = |one: &&Arc<Kept<CoderProvisioner>>| {
            // References stay within a namespace, and so do claims on a control plane.
            let is_here = one.meta().namespace.as_ref() == Some(&object.key.namespace);
            let is_called = one.meta().name.as_ref().is_some_and(|name| is_same(name, &mine.key));
            is_here && (is_called || one.mentions("\"key\""))
        };
        let others: Vec<Claim> = all.iter().filter(may_be).filter_map(|one| self.claim(one)).collect();
        let rival = claims::older(&mine, &others)?;
        Some(rival.name.clone())
    }

    /// What a provisioner asks for; none if it cannot be read, or its control plane is not there.
    fn claim(&self, kept: &Kept<CoderProvisioner>) -> Option<Claim> {
        let metadata = kept.meta();
        let object: CoderProvisioner = kept.read().ok()?;
        let (namespace, name) = (metadata.namespace.clone()?, metadata.name.clone()?);
        let reference = object.spec.control_plane_ref.name.trim();
        let control_plane = self.control_planes.named(&namespace, reference)?;
        Some(Claim {
            uid: metadata.uid.clone()?,
            created: metadata.creation_timestamp.clone(),
            has_key: kept.object().is_some_and(|object| has_key(&object)),
            control_plane: control_plane.meta().uid.clone()?,
            organization: organization_name(&object).to_owned(),
            key: key_base(&name, &object.spec).to_owned(),
            name,
        })
    }
}

/// The ids of the keys in a status.
fn recorded_ids(object: &Value) -> Vec<Uuid> {
    let key = &object["status"]["key"];
    let retiring = key["retiring"].as_array().into_iter().flatten();
    let entries = [&key["current"], &key["pending"]].into_iter().chain(retiring);
    entries.filter_map(|entry| entry["id"].as_str()?.parse().ok()).collect()
}

/// Whether a key is recorded. A status decides nothing here but which of two of one age waits.
fn has_key(object: &Value) -> bool {
    !object["status"]["key"]["current"].is_null()
}
