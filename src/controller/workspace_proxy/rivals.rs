//! Finds what other workspace proxies of the cluster ask for and have recorded, among those that the shared watch has. Which of two
//! that ask for one name waits is decided in `attached::claims`.

use super::reconciler::Reconciler;
use super::registration::others::OfOthers;
use super::registration::stored;
use super::way::{Way, registrar};
use crate::control_plane_access::control_planes::Found;
use crate::controller::attached::claims::{self, Claim};
use crate::controller::attached::seal::Sealer;
use crate::controller::object::Object;
use crate::kubernetes::Kept;
use crds::CoderWorkspaceProxy;
use crds::names::workspace_proxy::registration;
use kube::Resource;
use ring::hmac;
use serde_json::Value;

impl Reconciler {
    /// The registrations that other proxies of the cluster have recorded, and where.
    pub(super) fn of_others(&self, object: &Object<CoderWorkspaceProxy>, sealing: &hmac::Key) -> OfOthers {
        let recorded = |one: &Kept<CoderWorkspaceProxy>| {
            let (value, uid) = (one.object()?, one.meta().uid.clone()?);
            let sealer = Sealer { key: sealing, uid: &uid };
            let (record, _) = stored::read(&value["status"]["registration"], sealer);
            let known = record.registrations().filter_map(|one| Some((one.home.clone(), one.id?)));
            Some(known.collect::<Vec<_>>())
        };
        let is_other = |one: &Kept<CoderWorkspaceProxy>| one.meta().uid.as_deref() != Some(&object.uid);
        let all = self.all.all();
        all.iter().filter(|one| is_other(one)).filter_map(|one| recorded(one)).flatten().collect()
    }

    /// The older proxy that asks for the same name in the same coderd, as a person would name it.
    pub(super) fn rival(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        complete: &CoderWorkspaceProxy,
    ) -> Option<String> {
        let mine = self.claim(&object.key.namespace, complete, is_registered(&object.value))?;
        let all = self.all.all();
        let is_here =
            |one: &Kept<CoderWorkspaceProxy>| one.meta().namespace.as_ref() == Some(&object.key.namespace);
        let claim = |one: &Kept<CoderWorkspaceProxy>| {
            let has_it = one.object().is_some_and(|object| is_registered(&object));
            self.claim(&object.key.namespace, &one.read().ok()?, has_it)
        };
        let others: Vec<Claim> = all.iter().filter(|one| is_here(one)).filter_map(|one| claim(one)).collect();
        claims::older(&mine, &others).map(|rival| rival.name.clone())
    }

    /// What a proxy asks for; none if it is registered by nobody, or its control plane is not there.
    fn claim(&self, namespace: &str, proxy: &CoderWorkspaceProxy, has_it: bool) -> Option<Claim> {
        let (metadata, spec) = (&proxy.metadata, &proxy.spec);
        let coderd = match (Way::of(spec), self.control_plane_of(namespace, proxy, &Value::Null)) {
            (_, Some(Found::There(plane))) => plane.metadata.uid.clone()?,
            (Way::Bootstrap(bootstrap), _) => registrar(bootstrap),
            _ => return None,
        };
        let name = metadata.name.clone()?;
        Some(Claim {
            uid: metadata.uid.clone()?,
            created: metadata.creation_timestamp.clone(),
            has_it,
            of: vec![coderd, registration(&name, spec).to_owned()],
            name,
        })
    }
}

/// Whether a registration is recorded. A status decides nothing here but which of two of one age waits.
fn is_registered(object: &Value) -> bool {
    !object["status"]["registration"]["current"].is_null()
}
