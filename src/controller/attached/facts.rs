//! Reads what pods have from their control plane: its Deployment for the image, the Secrets it serves with, its Service where a
//! name has to be led there. What follows from it is decided by pure functions beside it.

use super::address::{self, Address, NoAddress, Way};
use super::attachment::{Attachment, ControlPlaneFacts};
use super::certificates::{self, Served};
use super::followed_image::{followed, is_open};
use super::public_address::PublicAddress;
use crate::control_plane_access::service;
use crate::controller::children::{ChildKind, drift};
use crate::kubernetes::{CallError, KindName, Kube, Target};
use crds::CoderControlPlane;

const SERVICE: KindName = ["v1", "Service", "services"];
const SECRET: KindName = ["v1", "Secret", "secrets"];

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
            None => {
                let runs = runs.map(|runs| runs.image.as_str());
                let found = self.image_of(control_plane, runs).await;
                found.or_else(|error| kept_through(error, runs.map(|image| Some(image.to_owned()))))?
            }
        };
        let facts = image.and_then(|image| ControlPlaneFacts::of(control_plane, &image, self.cluster_domain));
        let Some(facts) = facts else { return Ok(None) };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        match self.certificates(namespace, &facts.tls).await {
            // One that is deleted to be issued anew is back in a moment: what is not there now rolls nobody.
            Ok(secrets)
                if !certificates::are_whole(&secrets, facts.tls.len())
                    && runs.is_some_and(|runs| facts.is_of(runs)) =>
            {
                Ok(Some(facts.keeping(runs.cloned())))
            }
            Ok(secrets) => {
                let address = self.address(control_plane, &facts, &secrets, runs).await?;
                let certificates = certificates::checksum(&secrets);
                Ok(Some(ControlPlaneFacts { address, certificates, ..facts }))
            }
            // What could not be read now rolls nobody.
            Err(error) => {
                tracing::warn!(%error, "what pods trust could not be read; they stay as they are");
                Ok(Some(facts.keeping(runs.cloned())))
            }
        }
    }

    /// What is kept of the Secrets that a control plane serves with, as far as they are there: one is read when the one before
    /// it is gone.
    async fn certificates(&self, namespace: &str, secrets: &[String]) -> Result<Vec<Served>, CallError> {
        let mut found = Vec::new();
        for name in secrets.iter().take(certificates::MOST) {
            let secret = self.kube.read(Target::of(SECRET, namespace, name)).await?;
            found.extend(secret.map(|secret| Served::of(name, &secret)));
        }
        Ok(found)
    }

    /// Where pods find a control plane, by what it serves with and how it is known outside. A certificate that is not there,
    /// or cannot be read, changes nothing, and neither does a Service that cannot be read now.
    async fn address(
        &self,
        control_plane: &CoderControlPlane,
        facts: &ControlPlaneFacts,
        secrets: &[Served],
        runs: Option<&Attachment>,
    ) -> Result<Result<Address, NoAddress>, CallError> {
        let Ok(at_service) = &facts.address else { return Ok(facts.address.clone()) };
        let leaves: Vec<_> = secrets.iter().filter_map(|served| served.leaf.clone()).collect();
        let before = runs.filter(|runs| facts.is_of(runs)).and_then(|runs| runs.address.clone());
        if leaves.is_empty() && !facts.tls.is_empty() {
            return Ok(Ok(before.unwrap_or_else(|| at_service.clone())));
        }
        let public = PublicAddress::of(control_plane, self.cluster_domain);
        let leaves = (!facts.tls.is_empty()).then_some(&leaves[..]);
        let led_by = before.as_ref().and_then(|before| Some(before.alias.as_ref()?.host.as_str()));
        let url = match address::way(&at_service.url, leaves, &public, led_by) {
            Ok(Way::AtService(url)) => return Ok(Ok(Address { url, alias: None })),
            Ok(Way::Through(url)) => url,
            Err(nowhere) => return Ok(Err(nowhere)),
        };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(SERVICE, namespace, service::name(control_plane));
        match self.kube.read(target).await {
            Ok(live) => {
                let trusted = service::trusted(live.as_ref(), control_plane).ok();
                Ok(address::through(trusted, &at_service.url, &url))
            }
            Err(error) => kept_through(error, before.filter(|before| before.url == url).map(Ok)),
        }
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

/// What runs, where something could not be read now.
fn kept_through<T>(error: CallError, runs: Option<T>) -> Result<T, CallError> {
    let Some(kept) = runs else { return Err(error) };
    tracing::warn!(%error, "what pods have from their control plane could not be read; they stay as they are");
    Ok(kept)
}
