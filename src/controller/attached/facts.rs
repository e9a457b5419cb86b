//! Reads what pods have from their control plane: its Deployment for the image, the Secrets it serves with, its Service where a
//! name has to be led there. What follows from it is decided by pure functions beside it.

use super::address::{self, Address, Name, NoAddress};
use super::attachment::{Attachment, ControlPlaneFacts};
use super::certificates;
use super::followed_image::{followed, is_open};
use crate::control_plane_access::service;
use crate::controller::children::{ChildKind, drift};
use crate::kubernetes::{CallError, KindName, Kube, Target};
use crds::CoderControlPlane;
use serde_json::Value;

const SERVICE: KindName = ["v1", "Service", "services"];
const SECRET: KindName = ["v1", "Secret", "secrets"];
/// Secrets with certificates that are read: the control plane is reached by no more of them either.
const MOST_CERTIFICATES: usize = 8;

/// What it is read with.
#[derive(Clone, Copy)]
pub(crate) struct FactsReader<'a> {
    /// The API server.
    pub(crate) kube: &'a Kube,
    /// The DNS domain of the cluster.
    pub(crate) cluster_domain: &'a str,
}

impl FactsReader<'_> {
    /// What pods that run with `runs` have from a control plane; `named` is the image that their spec names.
    pub(crate) async fn read(
        &self,
        control_plane: &CoderControlPlane,
        named: Option<String>,
        runs: Option<&Attachment>,
    ) -> Result<Option<ControlPlaneFacts>, CallError> {
        let image = match named {
            Some(image) => Some(image),
            None => self.image_of(control_plane, runs.map(|runs| runs.image.as_str())).await?,
        };
        let facts = image.and_then(|image| ControlPlaneFacts::of(control_plane, &image, self.cluster_domain));
        let Some(facts) = facts else { return Ok(None) };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        match self.certificates(namespace, &facts.tls).await {
            Ok(secrets) => {
                let address = self.address(control_plane, &facts, &secrets, runs).await?;
                let certificates =
                    certificates::checksum(secrets.iter().map(|(name, secret)| (name.as_str(), secret)));
                Ok(Some(ControlPlaneFacts { address, certificates, ..facts }))
            }
            // What could not be read now rolls nobody.
            Err(error) => {
                tracing::warn!(%error, "what pods trust could not be read; they stay as they are");
                Ok(Some(facts.keeping(runs.cloned())))
            }
        }
    }

    /// The Secrets that a control plane serves with, as far as they are there.
    async fn certificates(
        &self,
        namespace: &str,
        secrets: &[String],
    ) -> Result<Vec<(String, Value)>, CallError> {
        let mut found = Vec::new();
        for name in secrets.iter().take(MOST_CERTIFICATES) {
            let secret = self.kube.read(Target::of(SECRET, namespace, name)).await?;
            found.extend(secret.map(|secret| (name.clone(), secret)));
        }
        Ok(found)
    }

    /// Where pods find a control plane, by what it serves with. A certificate that is not there, or cannot be read, changes
    /// nothing.
    async fn address(
        &self,
        control_plane: &CoderControlPlane,
        facts: &ControlPlaneFacts,
        secrets: &[(String, Value)],
        runs: Option<&Attachment>,
    ) -> Result<Result<Address, NoAddress>, CallError> {
        let at_service = match &facts.address {
            Ok(at_service) if !facts.tls.is_empty() => at_service,
            known => return Ok(known.clone()),
        };
        let host = address::host(&at_service.url).unwrap_or_default();
        let leaves = address::leaves(secrets.iter().map(|(_, secret)| secret));
        if leaves.is_empty() {
            let before = runs.filter(|runs| runs.trusted == facts.tls).and_then(|runs| runs.address.clone());
            return Ok(Ok(before.unwrap_or_else(|| at_service.clone())));
        }
        let name = match address::name(&leaves, host, public_host(control_plane)) {
            Name::OfService => return Ok(Ok(at_service.clone())),
            Name::Nobody => return Ok(Err(NoAddress::Unnamed { host: host.to_owned() })),
            Name::OfCertificate(name) => name,
        };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(SERVICE, namespace, service::name(control_plane));
        let live = self.kube.read(target).await?;
        let trusted = service::trusted(live.as_ref(), control_plane).ok();
        Ok(address::through(trusted, &at_service.url, &name))
    }

    /// The image that pods of a control plane have from it.
    async fn image_of(
        &self,
        control_plane: &CoderControlPlane,
        runs: Option<&str>,
    ) -> Result<Option<String>, CallError> {
        let asked = control_plane.spec.image.as_deref().filter(|image| !image.is_empty());
        if !is_open(asked, runs) {
            return Ok(asked.map(str::to_owned));
        }
        let metadata = &control_plane.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(ChildKind::Deployment.names(), namespace, service::name(control_plane));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let live = self.kube.read(target).await?.filter(|live| drift::is_controlled_by(live, uid));
        Ok(followed(asked, live.as_ref(), runs))
    }
}

/// The public name of a control plane, if its spec says it.
fn public_host(control_plane: &CoderControlPlane) -> Option<&str> {
    let mut variables = control_plane.spec.extra_env.iter();
    let url = variables.rfind(|variable| variable.name == webhooks::ACCESS_URL)?;
    address::host(url.value.as_deref()?)
}
