//! Writes the status of a provisioner, and tells what was done to its keys. What the status says is decided in `status`.

use super::dereference::Dereferenced;
use super::key_event::KeyEvent;
use super::observe::{External, organization_name, place};
use super::observed::Observed;
use super::pending_jobs::Jobs;
use super::reconciler::Reconciler;
use super::resolve::owner;
use super::status::findings;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::reconciler::now;
use crate::controller::object::{Object, Origin, Subject};
use crate::controller::status::summary;
use crate::controller::workload::rollout;
use crate::kubernetes::CallError;
use crate::kubernetes::events::EventDraft;
use crds::provisioner::ResolvedProvisioner;
use crds::shared::SecretKeySelector;
use crds::{CoderProvisioner, CoderProvisionerStatus};

/// Events about keys in one reconcile at most.
const MOST_EVENTS: usize = 16;

impl Reconciler {
    /// The whole status.
    pub(super) async fn write(
        &self,
        subject: &Subject<CoderProvisioner>,
        read: &Dereferenced,
        applied: &Applied,
        external: &External,
        observed: &Observed,
    ) -> Result<(), CallError> {
        // Keys were recorded meanwhile: the object is what it is since the last of them.
        let object: Object<CoderProvisioner> =
            Object::new(subject.object.key.clone(), Origin::Read, external.object.clone());
        let mut status = summary::whole(&object, object.status.clone(), &findings(observed), &now());
        describe(&mut status, read, applied, external);
        self.writer().write_status(&object, &status, &[]).await
    }

    /// Tells what was done to keys.
    pub(super) async fn publish_key_events(&self, object: &Object<CoderProvisioner>, external: &External) {
        let Some(keyed) = &external.keyed else { return };
        let made = keyed.made.iter().map(|(name, cause)| KeyEvent::Created(name, cause));
        let deleted = keyed.deleted.iter().map(|name| KeyEvent::Deleted(name));
        let left = keyed.left.iter().map(KeyEvent::Left);
        let secrets = keyed.left_secrets.iter().map(KeyEvent::SecretLeft);
        let all = made.chain(deleted).chain(left).chain(secrets).take(MOST_EVENTS);
        let drafts: Vec<EventDraft> = all.map(|event| event.draft()).collect();
        self.writer().publish(object, &drafts).await;
    }
}

/// What there is to report besides conditions. What could not be asked now stays as it was told.
fn describe(
    status: &mut CoderProvisionerStatus,
    read: &Dereferenced,
    applied: &Applied,
    external: &External,
) {
    let complete = &read.complete;
    let owner = owner(complete);
    if let Some(live) = &applied.deployment {
        status.replicas = Some(rollout::replicas(Some(live)));
        status.ready_replicas = Some(rollout::ready_replicas(Some(live)));
    }
    status.selector = Some(owner.selector_text());
    status.version = external.version.clone().or(status.version.take());
    status.pending_jobs = match external.pending_jobs {
        Some(Jobs::Counted(jobs)) => Some(count(jobs)),
        Some(Jobs::AsBefore) => status.pending_jobs,
        Some(Jobs::Unknown) | None => None,
    };
    if let Some(organization) = &external.organization {
        status.organization_id = Some(organization.id.to_string());
        status.organization_name = Some(organization.name.clone());
    }
    if let Some(keyed) = &external.keyed {
        status.daemons = external.outside.daemons.map(count).or(status.daemons);
        if keyed.proven.is_some() {
            status.control_plane_ref_name = Some(complete.spec.control_plane_ref.name.trim().to_owned());
            status.control_plane_url.clone_from(&external.url);
            let place = place(complete);
            status.secret_ref = Some(SecretKeySelector { name: place.secret, key: Some(place.data_key) });
        }
    }
    if let Some(current) = status.key.as_ref().and_then(|key| key.current.as_ref()) {
        status.provisioner_key_id.clone_from(&current.id);
        status.provisioner_key_name = Some(current.name.clone());
        status.tags_hash = Some(current.tags_hash.clone());
    }
    let place = place(complete);
    status.resolved = Some(ResolvedProvisioner {
        image: read
            .facts()
            .control_plane
            .map(|plane| complete.spec.image.clone().unwrap_or_else(|| plane.image.clone())),
        replicas: complete.spec.replicas,
        service_account_name: Some(crds::names::provisioner::service_account(&owner.name, &complete.spec)),
        organization_name: Some(organization_name(complete).to_owned()),
        key_name: Some(crds::names::provisioner::key(&owner.name, &complete.spec)),
        key_secret_name: Some(place.secret),
        key_secret_key: Some(place.data_key),
        termination_grace_period_seconds: complete.spec.termination_grace_period_seconds,
    });
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
