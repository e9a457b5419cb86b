//! Decides what the pods of every kind have in common: how they are labelled, where they may run, what they mount, as whom
//! and with how little they run. Never decides what runs in the main container: its kind does.

use super::account::{self, Account};
use super::disruption::{self, Budget};
use super::monitoring::Metrics;
use super::security;
use super::volumes::{self, Certificates};
use crate::controller::children::{ChildOwner, last_by_key, non_empty};
use crds::workload::PodFields;
use k8s_openapi::api::core::v1::{
    Affinity, Container, HostAlias, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec,
    PodTemplateSpec, SecurityContext, Volume, VolumeMount, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// What is resolved for the pods of every kind in the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// The account they run as.
    pub account: Account,
    /// What they serve with and whom they trust.
    pub certificates: Certificates,
    /// The disruption budget.
    pub budget: Option<Budget>,
    /// The metrics they serve.
    pub metrics: Option<Metrics>,
    /// How little they may do.
    pub pod_security: PodSecurityContext,
    /// How little the main container may do.
    pub container_security: SecurityContext,
    /// Seconds that they have to end.
    pub grace_period: i64,
}

/// What a spec says about its pods, with every default. `tls` are the Secrets that they serve HTTPS with.
pub(crate) fn resolve(
    fields: PodFields<'_>,
    account: &str,
    tls: &[String],
    metrics: Option<Metrics>,
    grace_period: i64,
) -> PodSettings {
    let trusted = fields.certs.as_ref().map_or(&[][..], |certs| &certs.secrets);
    PodSettings {
        account: account::resolve(account, fields.service_account.as_ref()),
        certificates: volumes::resolve(tls, trusted),
        budget: disruption::resolve(fields.pod_disruption_budget.as_ref()),
        metrics,
        pod_security: security::of_pod(fields.pod_security_context.as_ref()),
        container_security: security::of_container(fields.security_context.as_ref()),
        grace_period,
    }
}

/// The pods of an object.
#[derive(Clone, Debug)]
pub(crate) struct Pods<'a> {
    /// Whom they belong to.
    pub(crate) owner: &'a ChildOwner,
    /// What was resolved for them.
    pub(crate) settings: &'a PodSettings,
    /// What the spec says besides.
    pub(crate) fields: PodFields<'a>,
    /// Volumes that their kind gives them.
    pub(crate) volumes: Vec<Volume>,
    /// Where the main container mounts those.
    pub(crate) mounts: Vec<VolumeMount>,
    /// Names that their kind leads somewhere in them.
    pub(crate) aliases: Vec<HostAlias>,
}

impl Pods<'_> {
    /// Their template. Of its annotations we own the checksums, which its kind names, and those of the spec: others, such as
    /// the one of `kubectl rollout restart`, belong to those who set them.
    pub(crate) fn template(&self, main: Container, checksums: &[(&str, Option<&str>)]) -> PodTemplateSpec {
        let mut annotations = self.fields.pod_annotations.clone();
        for (name, checksum) in checksums {
            annotations.remove(*name);
            annotations.extend(checksum.map(|checksum| ((*name).to_owned(), checksum.to_owned())));
        }
        PodTemplateSpec {
            metadata: Some(ObjectMeta {
                labels: Some(self.owner.labels_over(self.fields.pod_labels)),
                annotations: non_empty(&annotations),
                ..Default::default()
            }),
            spec: Some(self.spec(main)),
        }
    }

    /// Their spec, around the main container as its kind has it.
    pub(crate) fn spec(&self, main: Container) -> PodSpec {
        let (fields, settings) = (&self.fields, self.settings);
        let volumes = [&self.volumes[..], fields.volumes].concat();
        PodSpec {
            service_account_name: Some(settings.account.name.clone()),
            image_pull_secrets: non_empty(&last_by_key(fields.image_pull_secrets.clone(), |secret| {
                &secret.name
            })),
            init_containers: non_empty(&self.before()),
            containers: vec![self.finished(main)],
            volumes: non_empty(&settings.certificates.volumes(&volumes)),
            security_context: Some(settings.pod_security.clone()),
            node_selector: non_empty(fields.node_selector),
            tolerations: non_empty(fields.tolerations),
            affinity: Some(fields.affinity.clone().unwrap_or_else(|| apart(self.owner))),
            topology_spread_constraints: non_empty(fields.topology_spread_constraints),
            host_aliases: non_empty(&aliases(&self.aliases, fields.host_aliases)),
            priority_class_name: fields.priority_class_name.clone().filter(|name| !name.is_empty()),
            termination_grace_period_seconds: Some(settings.grace_period),
            ..Default::default()
        }
    }

    /// The main container with what the spec says about it whatever it runs.
    fn finished(&self, main: Container) -> Container {
        let mounts = [&self.mounts[..], self.fields.volume_mounts].concat();
        Container {
            env_from: non_empty(self.fields.env_from),
            volume_mounts: non_empty(&self.settings.certificates.mounts(&mounts)),
            resources: self.fields.resources.clone(),
            security_context: Some(self.settings.container_security.clone()),
            lifecycle: self.fields.lifecycle.clone(),
            ..main
        }
    }

    /// What runs before it: as the spec gives it, but for privileges it does not mention.
    fn before(&self) -> Vec<Container> {
        let tightened = self.fields.init_containers.iter().map(|container| Container {
            security_context: Some(security::of_container(container.security_context.as_ref())),
            env: container.env.clone().map(|env| last_by_key(env, |variable| &variable.name)),
            volume_mounts: container
                .volume_mounts
                .clone()
                .map(|all| last_by_key(all, |mount| &mount.mount_path)),
            ..container.clone()
        });
        last_by_key(tightened.collect(), |container| &container.name)
    }
}

/// What the spec leads somewhere, and what its kind does. Kubernetes knows an entry by its address: each is there once.
fn aliases(own: &[HostAlias], given: &[HostAlias]) -> Vec<HostAlias> {
    let mut all = last_by_key(given.to_vec(), |alias| &alias.ip);
    for one in own {
        match all.iter_mut().find(|alias| alias.ip == one.ip) {
            Some(there) => {
                let names = there.hostnames.get_or_insert_default();
                names.extend(one.hostnames.iter().flatten().cloned());
            }
            None => all.push(one.clone()),
        }
    }
    all
}

/// Better on another node than the other pods, if there is one.
fn apart(owner: &ChildOwner) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(owner.selector()),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..Default::default()
    };
    let preferred = vec![WeightedPodAffinityTerm { pod_affinity_term: term, weight: 1 }];
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(preferred),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Whether a pod of this metadata is one of a Deployment: a ReplicaSet of it controls it. Labels alone anybody can have.
pub(crate) fn is_of_deployment(metadata: &Value, deployment: &str) -> bool {
    let owners = metadata["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| {
        let hash = owner["name"].as_str().and_then(|name| name.strip_prefix(deployment)?.strip_prefix('-'));
        owner["controller"] == true
            && owner["kind"] == "ReplicaSet"
            && hash.is_some_and(|hash| !hash.contains('-'))
    })
}
