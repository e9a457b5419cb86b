//! Finds what other provisioners of the cluster ask for and have recorded, among those that the shared watch has. Which of two
//! that ask for one key waits is decided in `claims`.

use super::key::seen::{Desired, is_same};
use super::key::store::RecordStore;
use super::key::stored;
use super::observe::organization_name;
use super::reconciler::Reconciler;
use crate::coderd::Uuid;
use crate::coderd::client::Organization;
use crate::controller::attached::claims::{self, Claim};
use crate::controller::attached::seal::Sealer;
use crate::controller::object::Object;
use crate::kubernetes::Kept;
use crds::CoderProvisioner;
use crds::names::provisioner::key_base;
use crds::well_known::default;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use ring::hmac;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Reconciler {
    /// The keys that other provisioners of the namespace have recorded: references stay within it, and so do their keys. Where
    /// one is to be taken over because an annotation says so, those of the whole cluster count.
    pub(super) fn of_others(
        &self,
        object: &Object<CoderProvisioner>,
        adopts: bool,
        sealing: &hmac::Key,
    ) -> BTreeSet<Uuid> {
        let all = self.all.all();
        let is_other = |one: &&Arc<Kept<CoderProvisioner>>| {
            let meta = one.meta();
            let is_near = adopts || meta.namespace.as_ref() == Some(&object.key.namespace);
            is_near && meta.uid.as_deref() != Some(&object.uid)
        };
        all.iter().filter(is_other).filter_map(|one| recorded_ids(one, sealing)).flatten().collect()
    }

    /// The same where it matters: nothing is recorded yet, or an annotation names a key.
    pub(super) fn of_others_of(
        &self,
        object: &Object<CoderProvisioner>,
        desired: &Desired,
        store: &RecordStore<'_>,
        sealing: &hmac::Key,
    ) -> BTreeSet<Uuid> {
        let adopts = desired.adopt.is_some();
        let matters = adopts || store.record.keys().next().is_none();
        if matters { self.of_others(object, adopts, sealing) } else { BTreeSet::new() }
    }

    /// The older provisioner that asks for the same key, as a person would name it.
    pub(super) fn rival(
        &self,
        object: &Object<CoderProvisioner>,
        created: Option<&Time>,
        desired: &Desired,
        organization: &Organization,
    ) -> Option<String> {
        let mine = Claim {
            name: object.key.name.clone(),
            uid: object.uid.clone(),
            created: created.cloned(),
            has_it: has_key(&object.value),
            of: vec![desired.home.control_plane.clone(), organization.id.to_string(), desired.base.clone()],
        };
        let all = self.all.all();
        let may_be = |one: &&Arc<Kept<CoderProvisioner>>| {
            // References stay within a namespace, and so do claims on a control plane.
            let is_here = one.meta().namespace.as_ref() == Some(&object.key.namespace);
            let is_called = one.meta().name.as_ref().is_some_and(|name| is_same(name, &desired.base));
            is_here && (is_called || one.mentions("\"key\""))
        };
        let others: Vec<Claim> =
            all.iter().filter(may_be).filter_map(|one| self.claim(one, organization)).collect();
        let rival = claims::older(&mine, &others)?;
        Some(rival.name.clone())
    }

    /// What a provisioner asks for; none if it cannot be read, or its control plane is not there.
    fn claim(&self, kept: &Kept<CoderProvisioner>, mine: &Organization) -> Option<Claim> {
        let metadata = kept.meta();
        let object: CoderProvisioner = kept.read().ok()?;
        let (namespace, name) = (metadata.namespace.clone()?, metadata.name.clone()?);
        let reference = object.spec.control_plane_ref.name.trim();
        let control_plane = self.control_planes.named(&namespace, reference)?;
        Some(Claim {
            uid: metadata.uid.clone()?,
            created: metadata.creation_timestamp.clone(),
            has_it: kept.object().is_some_and(|object| has_key(&object)),
            of: vec![
                control_plane.meta().uid.clone()?,
                organization_of(organization_name(&object), mine),
                key_base(&name, &object.spec).to_owned(),
            ],
            name,
        })
    }
}

/// The ids of the keys that the operator has recorded on a provisioner.
fn recorded_ids(kept: &Kept<CoderProvisioner>, sealing: &hmac::Key) -> Option<Vec<Uuid>> {
    let (object, uid) = (kept.object()?, kept.meta().uid.as_deref()?);
    let status = stored::parsed(&object["status"]["key"]);
    let record = stored::read(status.as_ref(), Sealer { key: sealing, uid });
    Some(record.keys().filter_map(|key| key.id).collect())
}

/// Which organization a spec means, as far as one that coderd told of can say: it has an id, a name, and perhaps `default`.
fn organization_of(name: &str, known: &Organization) -> String {
    let is_default = known.is_default && is_same(name, default::ORGANIZATION);
    let (id, is_named) = (known.id.to_string(), is_same(name, &known.name));
    if is_default || is_named { id } else { name.to_owned() }
}

/// Whether a key is recorded. A status decides nothing here but which of two of one age waits.
fn has_key(object: &Value) -> bool {
    !object["status"]["key"]["current"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_and_the_name_of_the_default_organization_are_one() {
        let id: Uuid = "00000000-0000-4000-8000-000000000001".parse().unwrap();
        let main = Organization { id, name: "coder".to_owned(), is_default: true };
        for name in ["default", "Default", "coder"] {
            assert_eq!(organization_of(name, &main), id.to_string(), "{name}");
        }
        assert_eq!(organization_of("team", &main), "team");
        let team = Organization { name: "team".to_owned(), is_default: false, ..main };
        assert_eq!(organization_of("default", &team), "default");
    }
}
