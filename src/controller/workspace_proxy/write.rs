//! Writes the status of a workspace proxy, and tells what was done to its registration. What the status says is decided in `status`.

use super::dereference::Dereferenced;
use super::observe::External;
use super::observed::Observed;
use super::proxy_event;
use super::reconciler::Reconciler;
use super::resolve::{owner, resolve, service_url};
use super::running_values;
use super::status::findings;
use super::way::{Way, place};
use crate::controller::attached::apply::Applied;
use crate::controller::attached::reconciler::now;
use crate::controller::object::{Object, Origin, Subject};
use crate::controller::status::summary;
use crate::controller::workload::rollout;
use crate::kubernetes::CallError;
use crate::kubernetes::events::EventDraft;
use crds::names::workspace_proxy::{registration, service_account};
use crds::shared::SecretKeySelector;
use crds::workspace_proxy::ResolvedWorkspaceProxy;
use crds::{CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus};

/// Events about registrations in one reconcile at most.
const MOST_EVENTS: usize = 16;

impl Reconciler {
    /// The whole status.
    pub(super) async fn write(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        applied: &Applied,
        external: &External,
        observed: &Observed,
    ) -> Result<(), CallError> {
        // Registrations were recorded meanwhile: the object is what it is since the last of them.
        let object: Object<CoderWorkspaceProxy> =
            Object::new(subject.object.key.clone(), Origin::Read, external.object.clone());
        let mut status = summary::whole(&object, object.status.clone(), &findings(observed), &now());
        describe(&mut status, read, applied, external, &self.config.cluster_domain);
        self.writer().write_status(&object, &status, &[]).await
    }

    /// Tells what was done to registrations.
    pub(super) async fn publish_events(&self, object: &Object<CoderWorkspaceProxy>, external: &External) {
        let Some(registered) = &external.registered else { return };
        let done = registered.done.iter().map(proxy_event::of_done);
        let left = registered.left.iter().map(proxy_event::of_left);
        let secrets = registered.left_secrets.iter().map(proxy_event::of_left_secret);
        let drafts: Vec<EventDraft> = done.chain(left).chain(secrets).take(MOST_EVENTS).collect();
        self.writer().publish(object, &drafts).await;
    }
}

/// Whether nothing is left to do about the registration and its token.
fn is_at_rest(external: &External, spec: &CoderWorkspaceProxySpec) -> bool {
    match &external.registered {
        Some(done) => done.error.is_none() && done.wait.is_none() && !done.is_cut,
        None => !Way::of(spec).registers(),
    }
}

/// What there is to report besides conditions. What could not be asked now stays as it was told.
fn describe(
    status: &mut CoderWorkspaceProxyStatus,
    read: &Dereferenced,
    applied: &Applied,
    external: &External,
    domain: &str,
) {
    let complete = &read.complete;
    let (owner, spec) = (owner(complete), &complete.spec);
    if let Some(live) = &applied.deployment {
        status.replicas = Some(rollout::replicas(Some(live)));
        status.ready_replicas = Some(rollout::ready_replicas(Some(live)));
    }
    let resolved = resolve(complete, read.facts());
    let is_secure = resolved.pods.certificates.serve_tls();
    status.selector = Some(owner.selector_text());
    status.url = Some(service_url(&owner, spec, is_secure, domain));
    let proxy = external.registered.as_ref().and_then(|registered| registered.proxy.as_ref());
    status.version = proxy.and_then(|proxy| proxy.version.clone()).or(status.version.take());
    let record = status.registration.as_ref();
    let is_recorded = record.is_some_and(|record| record.current.is_some());
    status.registered = Some(is_recorded);
    // What pods read, until all of them read what is asked for, and nothing is left where they did before: it would be forgotten.
    let is_over =
        rollout::is_over(applied.deployment.as_ref(), &applied.rollout) && is_at_rest(external, spec);
    let read_now = applied.deployment.as_ref().and_then(running_values::token);
    if let Some(token) = read_now.filter(|_| is_over || status.proxy_token_secret_ref.is_none()) {
        status.proxy_token_secret_ref = Some(SecretKeySelector { name: token.secret, key: Some(token.key) });
    }
    let attachment = resolved.proxy.as_ref().map(|proxy| &proxy.attachment);
    let address = attachment.and_then(|attachment| attachment.address.as_ref());
    let service = spec.service.clone().unwrap_or_default();
    let told = status.resolved.take().filter(|_| read.is_left_at_first()).unwrap_or_default();
    status.resolved = Some(ResolvedWorkspaceProxy {
        image: attachment.map(|attachment| attachment.image.clone()).or(told.image),
        replicas: Some(resolved.replicas),
        service_type: Some(service.type_or_default().to_owned()),
        service_port: Some(service.port_or_default()),
        service_account_name: Some(service_account(&owner.name, spec)),
        access_url: Some(resolved.access_url.clone()),
        wildcard_access_url: resolved.wildcard.clone(),
        primary_access_url: address.map(|address| address.url.clone()).or(told.primary_access_url),
        proxy_name: Way::of(spec).registers().then(|| registration(&owner.name, spec).to_owned()),
        token_secret_name: Some(place(complete).secret),
    });
}
