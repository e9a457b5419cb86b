//! Reads what a reconcile of a workspace proxy works with, before it changes anything: the control plane it refers to, the
//! Deployment that runs. What comes of it is decided by pure functions elsewhere.

use super::reconciler::Reconciler;
use super::registration::stored::is_registered_at;
use super::resolve::{Facts, gives_address, owner};
use super::running_values;
use super::way::{Way, given_url, is_of, names_service_of, place, place_of_coderd, registrar, service, url};
use crate::control_plane_access::control_planes::{self, Found};
use crate::controller::attached::address::{Address, Words};
use crate::controller::attached::attachment::{Attachment, ControlPlaneFacts};
use crate::controller::attached::dereference::ObjectRead;
use crate::controller::attached::facts::FactsReader;
use crate::controller::attached::reconciler::Unread;
use crate::controller::attached::secret::Proven;
use crate::controller::children::ChildKind;
use crate::controller::object::{Object, Subject};
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::{CallError, Kept, Target};
use crds::{CoderControlPlane, CoderWorkspaceProxy};
use kube::Resource;
use serde_json::Value;
use std::ops::Deref;

/// How proxies are spoken of.
const WORDS: Words = Words { pods: "proxies", give: "set spec.primaryAccessURL" };

/// What was read.
pub(super) struct Dereferenced {
    object: ObjectRead<CoderWorkspaceProxy>,
    /// The control plane that it refers to, or whose Service `bootstrap` names.
    pub(super) control_plane: Option<Found>,
    /// What tells this coderd from others in our memory: the uid of the control plane, else the address.
    pub(super) coderd: String,
    cluster_domain: String,
}

impl Deref for Dereferenced {
    type Target = ObjectRead<CoderWorkspaceProxy>;

    fn deref(&self) -> &Self::Target {
        &self.object
    }
}

impl Dereferenced {
    /// What pods are built from. A token counts only where the spec wants it and where it was proven. As long as it is not known
    /// whether one works, what runs is left as it is, so that it is rolled once.
    pub(super) fn facts(&self) -> Facts<'_> {
        let cluster_domain = self.cluster_domain.as_str();
        if self.is_left_at_first() {
            return Facts { cluster_domain, ..Facts::NONE };
        }
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            token_checksum: self.proven_in(&place(&self.complete)),
            running: self.running(),
            consumed_checksum: self.contents.checksum.as_deref(),
            cluster_domain,
        }
    }

    /// Whether pods that run can follow the spec to its control plane.
    pub(super) fn can_follow(&self) -> bool {
        self.can_follow_to(gives_address(&self.complete.spec))
    }

    /// Why pods cannot be led to their control plane, if somebody has to mend it.
    pub(super) fn unaddressed(&self) -> Option<String> {
        self.unaddressed_but_for(gives_address(&self.complete.spec), WORDS)
    }

    /// The same with a token that was proven meanwhile.
    pub(super) fn with_proven(self, proven: Option<Proven>) -> Self {
        Self { object: self.object.with_proven(proven), ..self }
    }
}

/// Whether a Service is there that no control plane controls.
fn is_of_others(service: &Value) -> bool {
    let owners = service["metadata"]["ownerReferences"].as_array();
    let is_plane =
        |owner: &Value| owner["controller"] == true && owner["kind"] == *CoderControlPlane::kind(&());
    !owners.into_iter().flatten().any(is_plane)
}

/// What the status of an object tells of registrations, whoever wrote it.
pub(super) fn recorded(object: &Object<CoderWorkspaceProxy>) -> &Value {
    &object.value["status"]["registration"]
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        deadline: &mut Deadline,
    ) -> Result<Dereferenced, Unread> {
        let (key, values) = (&subject.object.key, running_values::with_running_values);
        let read = self.with_what_runs(subject, owner(&subject.complete), values, deadline).await?;
        let control_plane =
            self.control_plane_now(&key.namespace, &read.complete, recorded(&subject.object)).await?;
        let there = match &control_plane {
            Some(Found::There(there)) => Some(&**there),
            _ => None,
        };
        let uid = there.and_then(|there| there.metadata.uid.clone());
        let coderd = uid.unwrap_or_else(|| place_of_coderd(&read.complete.spec));
        let proven = self.proven(key, &subject.object.uid, &coderd);
        let runs = read.running().and_then(running_values::attachment);
        let facts = self.facts_of(there, &read.complete, runs.as_ref()).await?;
        let (object, cluster_domain) =
            (read.with_control_plane(facts, proven, runs), self.config.cluster_domain.clone());
        Ok(Dereferenced { object, control_plane, coderd, cluster_domain })
    }

    /// The same as [`Self::control_plane_of`], but none where the Service that `bootstrap` names is there and no control plane's:
    /// whoever else answers at it is neither to come nor gone. That of a control plane that was deleted goes with it.
    pub(super) async fn control_plane_now(
        &self,
        namespace: &str,
        complete: &CoderWorkspaceProxy,
        recorded: &Value,
    ) -> Result<Option<Found>, CallError> {
        let found = self.control_plane_of(namespace, complete, recorded);
        let (Some(Found::Gone), Way::Bootstrap(bootstrap)) = (&found, Way::of(&complete.spec)) else {
            return Ok(found);
        };
        let Some(at) = service(url(bootstrap), namespace, &self.config.cluster_domain) else {
            return Ok(found);
        };
        let live = self.kube.read(Target::of(ChildKind::Service.names(), namespace, &at.name)).await?;
        Ok(found.filter(|_| !live.is_some_and(|live| is_of_others(&live))))
    }

    /// The control plane that a spec refers to, or whose own Service its `bootstrap` names; none where there is none to be found.
    /// Before all were seen nobody knows whose an address is. `recorded` is what the status tells of registrations.
    pub(super) fn control_plane_of(
        &self,
        namespace: &str,
        complete: &CoderWorkspaceProxy,
        recorded: &Value,
    ) -> Option<Found> {
        match Way::of(&complete.spec) {
            Way::ControlPlane(name) => Some(control_planes::named(&self.control_planes, namespace, name)),
            Way::Bootstrap(bootstrap) => {
                let (url, domain) = (url(bootstrap), &self.config.cluster_domain);
                // One that cannot be read has its name: it is not known where its Service listens.
                let is_it = |one: &Kept<CoderControlPlane>| match one.read() {
                    Ok(one) => is_of(url, &one, domain),
                    Err(_) => names_service_of(url, one.meta(), domain),
                };
                let all = self.control_planes.all();
                let mut here = all.iter().filter(|one| one.meta().namespace.as_deref() == Some(namespace));
                match here.find(|one| is_it(one)).and_then(|one| one.meta().name.clone()) {
                    Some(name) => Some(control_planes::named(&self.control_planes, namespace, &name)),
                    None if !self.control_planes.is_listed(namespace) => Some(Found::Unlisted),
                    // One that is not allowed and leads to a Service of this namespace is that of a control plane to come, unless
                    // a registration was made there: then it was allowed before.
                    None => {
                        let is_known = self.access.egress.allowed_urls.allow(url)
                            || is_registered_at(recorded, &registrar(bootstrap));
                        let at = service(url, namespace, domain).filter(|_| !is_known)?;
                        let found = control_planes::named(&self.control_planes, namespace, &at.name);
                        matches!(found, Found::Gone).then_some(found)
                    }
                }
            }
            Way::Given(_) | Way::Nowhere => None,
        }
    }

    /// What pods have from the control plane they refer to; without one, the image and the address that their spec gives.
    async fn facts_of(
        &self,
        control_plane: Option<&CoderControlPlane>,
        complete: &CoderWorkspaceProxy,
        runs: Option<&Attachment>,
    ) -> Result<Option<ControlPlaneFacts>, CallError> {
        let spec = &complete.spec;
        let named = spec.image.clone().filter(|image| !image.is_empty());
        let given = given_url(spec).map(|url| Ok(Address { url: url.to_owned(), alias: None }));
        match (Way::of(spec), control_plane) {
            (Way::ControlPlane(_), Some(control_plane)) => {
                let reader = FactsReader { kube: &self.kube, cluster_domain: &self.config.cluster_domain };
                let facts = reader.read(control_plane, named, runs).await?;
                Ok(facts.map(|facts| ControlPlaneFacts { address: given.unwrap_or(facts.address), ..facts }))
            }
            (Way::ControlPlane(_), None) => Ok(None),
            _ => Ok(named.zip(given).map(|(image, address)| ControlPlaneFacts {
                image,
                address,
                tls: Vec::new(),
                certificates: None,
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_is_that_of_a_control_plane_only_if_one_controls_it() {
        let service = |kind: &str, controls: bool| json!({ "metadata": { "ownerReferences": [{ "kind": kind, "controller": controls }] } });
        assert!(!is_of_others(&service("CoderControlPlane", true)));
        assert!(
            is_of_others(&service("CoderControlPlane", false)) && is_of_others(&service("Release", true))
        );
        assert!(is_of_others(&json!({ "metadata": {} })), "of a Helm chart, which names no owner");
    }
}
