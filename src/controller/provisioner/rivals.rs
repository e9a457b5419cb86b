//! Finds what other provisioners of the cluster ask for and have recorded, among those that the shared watch has. Which of two
//! that ask for one key waits is decided in `claims`.

use super::key::record::{Home, Key};
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
use kube::core::ObjectMeta;
use ring::hmac;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Reconciler {
    /// The keys of a coderd that other provisioners of the namespace have recorded: references stay within it, and so do their
    /// keys. What they have recorded of another control plane does not count: what its coderd says of itself stops nobody else.
    pub(super) fn of_others(
        &self,
        object: &Object<CoderProvisioner>,
        home: &Home,
        sealing: &hmac::Key,
    ) -> BTreeSet<Uuid> {
        let is_near = |meta: &ObjectMeta| meta.namespace.as_ref() == Some(&object.key.namespace);
        let all = self.recorded_of_others(object, sealing, is_near);
        all.flatten().flatten().filter(|key| key.home == *home).filter_map(|key| key.id).collect()
    }

    /// The same where one is to be taken over because an annotation says so: those of the whole cluster count that are of this
    /// database, whichever control plane is in front of it. None if what somebody has recorded is not known, or a namespace
    /// could not be listed: nothing is taken over then.
    pub(super) fn of_all_others(
        &self,
        object: &Object<CoderProvisioner>,
        home: &Home,
        sealing: &hmac::Key,
    ) -> Option<BTreeSet<Uuid>> {
        if !self.all.is_synced() {
            return None;
        }
        let all: Option<Vec<Vec<Key>>> = self.recorded_of_others(object, sealing, |_| true).collect();
        let is_here =
            |key: &Key| key.home.deployment == home.deployment && key.home.organization == home.organization;
        Some(all?.into_iter().flatten().filter(is_here).filter_map(|key| key.id).collect())
    }

    /// The same, as far as it matters: nothing is recorded yet, or an annotation names a key. That annotation waits while it is
    /// not known what others have recorded.
    pub(super) fn left_to_others(
        &self,
        object: &Object<CoderProvisioner>,
        desired: &mut Desired,
        store: &RecordStore<'_>,
        sealing: &hmac::Key,
    ) -> BTreeSet<Uuid> {
        let of_all = desired.adopt.is_some().then(|| self.of_all_others(object, &desired.home, sealing));
        if of_all == Some(None) {
            tracing::warn!(
                "a key is not taken over: another provisioner has a status that is too long to be read, or is in a namespace \
                 that cannot be listed"
            );
            desired.adopt = None;
        }
        let mut others = of_all.flatten().unwrap_or_default();
        if store.record.keys().next().is_none() {
            others.extend(self.of_others(object, &desired.home, sealing));
        }
        others
    }

    /// What is recorded on each of the other provisioners, if it is known.
    fn recorded_of_others(
        &self,
        object: &Object<CoderProvisioner>,
        sealing: &hmac::Key,
        is_near: impl Fn(&ObjectMeta) -> bool,
    ) -> impl Iterator<Item = Option<Vec<Key>>> {
        let (all, uid) = (self.all.all(), object.uid.clone());
        let others =
            all.into_iter().filter(move |one| is_near(one.meta()) && one.meta().uid.as_deref() != Some(&uid));
        others.map(move |one| recorded(&one, sealing))
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

/// The keys that the operator has recorded on a provisioner; none if its status is so long that it is not kept.
fn recorded(kept: &Kept<CoderProvisioner>, sealing: &hmac::Key) -> Option<Vec<Key>> {
    let (object, uid) = (kept.object()?, kept.meta().uid.as_deref()?);
    let status = stored::parsed(&object["status"]["key"]);
    let record = stored::read(status.as_ref(), Sealer { key: sealing, uid });
    Some(record.keys().cloned().collect())
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
    use serde_json::json;

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

    #[test]
    fn what_is_recorded_is_known_of_everybody_but_those_whose_status_is_too_long() {
        let sealing = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let kept = |status: Value| -> Kept<CoderProvisioner> {
            let object =
                json!({ "metadata": { "name": "b", "namespace": "team", "uid": "u" }, "status": status });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        assert_eq!(recorded(&kept(json!({})), &sealing), Some(Vec::new()));
        assert_eq!(recorded(&kept(json!({ "url": "x".repeat(70_000) })), &sealing), None);
    }
}
