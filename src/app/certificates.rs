//! Starts whatever keeps the serving certificate of this process current: our own authority, or a folder.

use super::flags::WebhookCa;
use super::kinds::reflect;
use super::leader_tasks::{LeaderTask, Work};
use super::process::{Context, Running};
use crate::kubernetes::lease::AUTHORITY_LEASE;
use crate::kubernetes::{Reflected, Selection};
use crate::serving::authority::{AuthorityTask, SECRET};
use crate::serving::external::ExternalCertificates;
use crate::serving::injection::LABEL_SELECTOR;
use crate::serving::leaf::CurrentLeaf;
use crate::serving::own_certificates::{OwnCertificates, Targets};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;

/// Starts it; the result is what listeners serve, and the APIServices of ours for whoever else follows them.
pub(super) fn start(
    context: &Context,
    running: &mut Running,
    leader_tasks: &mut Vec<LeaderTask>,
) -> (CurrentLeaf, Option<Reflected<APIService>>) {
    let leaf = CurrentLeaf::default();
    let mut api_services = None;
    match (context.flags.certificates.webhook_ca, &context.flags.certificates.tls_dir) {
        (WebhookCa::External, Some(folder)) => {
            let external = ExternalCertificates {
                folder: folder.clone(),
                leaf: leaf.clone(),
                gate: context.readiness.gate("certificate"),
                metrics: context.metrics.clone(),
            };
            let unfollow = context.unfollow.clone();
            running.followers.spawn(async move {
                external.run(unfollow).await;
                Ok(())
            });
        }
        _ => api_services = Some(start_own(context, running, leader_tasks, &leaf)),
    }
    (leaf, api_services)
}

fn start_own(
    context: &Context,
    running: &mut Running,
    leader_tasks: &mut Vec<LeaderTask>,
    leaf: &CurrentLeaf,
) -> Reflected<APIService> {
    let kube = &context.kube;
    let secret = reflect(
        context,
        running,
        "Secret",
        vec![kube.ours::<Secret>()],
        &Selection::Named(SECRET.to_owned()),
    );
    let targets = follow_targets(context, running);
    let api_services = targets.api_services.clone();
    let flags = &context.flags.certificates;
    let own = OwnCertificates {
        secret: secret.clone(),
        targets: targets.clone(),
        names: flags.serving_name.clone(),
        namespace: kube.namespace().to_owned(),
        cluster_domain: context.flags.cluster_domain.clone(),
        leaf_lifetime: flags.leaf_lifetime,
        leaf: leaf.clone(),
        certificate_gate: context.readiness.gate("certificate"),
        bundle_gate: context.readiness.gate("caBundle"),
        metrics: context.metrics.clone(),
        known_names: BTreeSet::new(),
    };
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        own.run(unfollow).await;
        Ok(())
    });
    if !flags.keep_ca {
        return api_services;
    }
    let leader_task = AuthorityTask {
        kube: kube.clone(),
        secret,
        targets,
        times: context.flags.authority_times(),
        events: context.events.clone(),
        metrics: context.metrics.clone(),
    };
    let work: Work = Box::new(move |stop| Box::pin(leader_task.clone().run(stop)));
    leader_tasks.push(context.leader_task(AUTHORITY_LEASE, work));
    api_services
}

fn follow_targets(context: &Context, running: &mut Running) -> Targets {
    Targets {
        mutating: follow_labelled(context, running, "MutatingWebhookConfiguration"),
        validating: follow_labelled(context, running, "ValidatingWebhookConfiguration"),
        api_services: follow_api_services(context, running),
    }
}

/// The APIServices that are labelled as ours.
pub(super) fn follow_api_services(context: &Context, running: &mut Running) -> Reflected<APIService> {
    follow_labelled(context, running, "APIService")
}

/// What calls us belongs to no namespace: there is none where we look at a few namespaces only, and nobody is asked.
fn follow_labelled<K>(context: &Context, running: &mut Running, kind: &'static str) -> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let labelled = Selection::Labelled(LABEL_SELECTOR.to_owned());
    let kube = &context.kube;
    let objects = if kube.scope().is_cluster() { vec![kube.everywhere()] } else { Vec::new() };
    reflect(context, running, kind, objects, &labelled)
}
