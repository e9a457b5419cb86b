//! Finds what other workspace proxies of the cluster ask for and have recorded, among those that the shared watch has. Which of two
//! that ask for one name waits is decided in `attached::claims`.

use super::reconciler::Reconciler;
use super::registration::others::OfOthers;
use super::registration::record::Home;
use super::registration::stored;
use super::way::{Way, registrar};
use crate::coderd::Uuid;
use crate::control_plane_access::control_planes::Found;
use crate::controller::attached::claims::{self, Claim, is_same};
use crate::controller::attached::seal::Sealer;
use crate::controller::object::Object;
use crate::kubernetes::Kept;
use crds::CoderWorkspaceProxy;
use crds::names::workspace_proxy::registration;
use crds::well_known::annotation;
use kube::Resource;
use kube::core::ObjectMeta;
use ring::hmac;
use serde_json::Value;

/// The field of a status that registrations are recorded in.
const RECORD: &str = "registration";

impl Reconciler {
    /// The registrations that other proxies have recorded, and where: those of the namespace, and of the whole cluster where
    /// one of them could be what this object has or asks for.
    pub(super) fn of_others(&self, object: &Object<CoderWorkspaceProxy>, sealing: &hmac::Key) -> OfOthers {
        let sees_all = may_share(object);
        let is_near = |meta: &ObjectMeta| meta.namespace.as_ref() == Some(&object.key.namespace);
        let is_other = |meta: &ObjectMeta| meta.uid.as_deref() != Some(&object.uid);
        let mut of_others = OfOthers::default();
        let all = self.all.all();
        for one in all.iter().filter(|one| is_other(one.meta()) && (sees_all || is_near(one.meta()))) {
            match recorded(one, sealing) {
                Some(known) => of_others.know(known),
                None if is_near(one.meta()) => {
                    of_others.miss(one.meta().name.as_deref().unwrap_or_default());
                }
                None => {
                    let (namespace, name) = (&one.meta().namespace, &one.meta().name);
                    tracing::warn!(
                        namespace,
                        name,
                        "the registrations of this workspace proxy are not known: its status is too long; empty it"
                    );
                    of_others.miss_elsewhere();
                }
            }
        }
        if !self.all.is_synced() {
            of_others.miss_elsewhere();
        }
        of_others
    }

    /// The older proxy that asks for the same name in the same coderd, as a person would name it.
    pub(super) fn rival(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        complete: &CoderWorkspaceProxy,
    ) -> Option<String> {
        let is_registered = is_registered(&object.value["status"][RECORD]);
        let mine = self.claim(&object.key.namespace, complete, is_registered)?;
        let all = self.all.all();
        let is_here =
            |one: &Kept<CoderWorkspaceProxy>| one.meta().namespace.as_ref() == Some(&object.key.namespace);
        let claim = |one: &Kept<CoderWorkspaceProxy>| {
            let has_it = one.status_field(RECORD).is_some_and(|record| self::is_registered(&record));
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

/// The registrations that the operator has recorded on a proxy; none if that is so long that it is not kept.
fn recorded(kept: &Kept<CoderWorkspaceProxy>, sealing: &hmac::Key) -> Option<Vec<(Home, Uuid)>> {
    let (written, uid) = (kept.status_field(RECORD)?, kept.meta().uid.as_deref()?);
    let (record, _) = stored::read(&written, Sealer { key: sealing, uid });
    Some(record.registrations().filter_map(|one| Some((one.home.clone(), one.id?))).collect())
}

/// Whether what an object has or asks for may be recorded in another namespace, too. References stay within one, and so do the
/// registrations behind its control planes; an address leads anywhere, and so does the name that an annotation takes over.
fn may_share(object: &Object<CoderWorkspaceProxy>) -> bool {
    let record = &object.value["status"][RECORD];
    let retiring = record["retiring"].as_array().into_iter().flatten();
    let mut entries = [&record["current"], &record["pending"]].into_iter().chain(retiring);
    let is_at_address = |entry: &Value| !entry.is_null() && entry["controlPlaneUID"].is_null();
    // What it names is taken over once.
    let is_done = |name: &str| {
        let is_it = record["adopted"].as_str().is_some_and(|adopted| is_same(adopted, name));
        is_it && record["adopting"].is_null() && record["pending"].is_null()
    };
    object.annotation(annotation::ADOPT_PROXY).is_some_and(|name| !is_done(name))
        || !object.value["spec"]["bootstrap"].is_null()
        || entries.any(is_at_address)
}

/// Whether a registration is recorded. A status decides nothing here but which of two of one age waits.
fn is_registered(record: &Value) -> bool {
    !record["current"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::identity::ObjectKey;
    use crate::controller::object::Origin;
    use serde_json::json;

    #[test]
    fn others_of_the_whole_cluster_count_where_a_registration_could_be_theirs() {
        let shares = |annotations: Value, spec: Value, record: Value| {
            let object = json!({ "metadata": { "name": "a", "namespace": "b", "annotations": annotations },
                "spec": spec, "status": { "registration": record } });
            let key = ObjectKey { namespace: "b".to_owned(), name: "a".to_owned() };
            may_share(&Object::new(key, Origin::Read, object))
        };
        let plane = || json!({ "controlPlaneRef": { "name": "coder" } });
        let (behind, at) = (json!({ "controlPlaneUID": "u" }), json!({ "address": "https://a:443" }));
        assert!(!shares(json!({}), plane(), Value::Null));
        assert!(!shares(json!({}), plane(), json!({ "current": behind, "retiring": [behind] })));
        let adopt = || json!({ "coder.com/adopt-proxy": "eu" });
        assert!(shares(adopt(), plane(), Value::Null));
        assert!(!shares(adopt(), plane(), json!({ "current": behind, "adopted": "EU" })), "it acts once");
        for open in
            [json!({ "adopted": "us" }), json!({ "adopted": "eu", "adopting": "i", "pending": behind })]
        {
            assert!(shares(adopt(), plane(), open.clone()), "{open}");
        }
        assert!(shares(json!({}), json!({ "bootstrap": { "coderURL": "https://a" } }), Value::Null));
        for record in
            [json!({ "current": at }), json!({ "pending": at }), json!({ "retiring": [behind, at] })]
        {
            assert!(shares(json!({}), plane(), record.clone()), "{record}");
        }
    }

    #[test]
    fn what_is_recorded_is_known_of_everybody_but_those_whose_record_is_too_long() {
        let sealing = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let kept = |status: Value| -> Kept<CoderWorkspaceProxy> {
            let object =
                json!({ "metadata": { "name": "b", "namespace": "team", "uid": "u" }, "status": status });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        assert_eq!(recorded(&kept(json!({})), &sealing), Some(Vec::new()));
        assert_eq!(recorded(&kept(json!({ "url": "x".repeat(70_000) })), &sealing), Some(Vec::new()));
        assert_eq!(recorded(&kept(json!({ "registration": "x".repeat(70_000) })), &sealing), None);
    }
}
