//! Decides what pods have from their control plane: image, address, trust. What is not known leaves what runs as it is. Pure: the
//! control plane and the Deployment that runs come in as values, and no status is looked at.

use super::address::{self, Address, Alias, NoAddress};
use crate::controller::workload::{running, trust, volumes};
use crds::CoderControlPlane;
use crds::well_known::annotation;
use k8s_openapi::api::core::v1::HostAlias;
use serde_json::Value;

/// What a control plane gives to pods that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlPlaneFacts {
    /// The image that pods of it run.
    pub(crate) image: String,
    /// Where pods find it; or why they cannot.
    pub(crate) address: Result<Address, NoAddress>,
    /// The Secrets it serves HTTPS with, each once.
    pub(crate) tls: Vec<String>,
    /// Changes when what is in them has to be trusted anew; none without TLS.
    pub(crate) certificates: Option<String>,
}

impl ControlPlaneFacts {
    /// Of a control plane that runs this image, at its Service; what its certificates are is not known yet. None where it has
    /// no name or namespace yet.
    pub(crate) fn of(control_plane: &CoderControlPlane, image: &str, cluster_domain: &str) -> Option<Self> {
        let tls = control_plane.spec.tls.as_ref().map_or(&[][..], |tls| &tls.secret_names);
        let url = webhooks::cluster_url(control_plane, cluster_domain)?;
        let tls = volumes::resolve(tls, &[]).tls;
        let address = Ok(Address { url, alias: None });
        Some(Self { image: image.to_owned(), address, tls, certificates: None })
    }

    /// Whether pods run that trust what it serves with, and are not known to be another one's.
    pub(super) fn is_of(&self, runs: &Attachment) -> bool {
        let is_here = match (&runs.address, &self.address) {
            (Some(Address { url, alias: None }), Ok(at_service)) => address::is_at(url, &at_service.url),
            _ => true,
        };
        is_here && runs.trusted == self.tls
    }

    /// The same where its certificates could not be read: what pods had from them.
    pub(super) fn keeping(self, runs: Option<Attachment>) -> Self {
        match runs.filter(|runs| self.is_of(runs)) {
            Some(runs) => Self {
                address: runs.address.map_or(self.address, Ok),
                certificates: runs.certificates,
                ..self
            },
            None => self,
        }
    }

    /// What pods have from it as long as nothing is proven to work there: those that run for another control plane keep the
    /// address, the image and the trust that go with the secret they have.
    pub(crate) fn unproven(self, runs: Option<Attachment>) -> Self {
        match runs.filter(|runs| runs.address.as_ref() != self.address.as_ref().ok()) {
            Some(runs) => Self {
                image: runs.image,
                address: runs.address.map_or(self.address, Ok),
                tls: runs.trusted,
                certificates: runs.certificates,
            },
            None => self,
        }
    }
}

/// What pods have from their control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Their image.
    pub(crate) image: String,
    /// The address of their control plane; none where the environment of the spec gives it.
    pub(crate) address: Option<Address>,
    /// The Secrets whose certificates they trust for it.
    pub(crate) trusted: Vec<String>,
    /// Another one rolls the Deployment.
    pub(crate) certificates: Option<String>,
}

/// What a spec says of it itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// The image it names.
    pub(crate) image: Option<&'a String>,
    /// Whether its environment says where the control plane is.
    pub(crate) has_address: bool,
    /// Names that it leads somewhere.
    pub(crate) host_aliases: &'a [HostAlias],
}

impl Attachment {
    /// What pods have, by what is known of their control plane and else by what runs; none as long as neither tells.
    pub(crate) fn resolve(
        plane: Option<&ControlPlaneFacts>,
        runs: Option<&Self>,
        given: Given<'_>,
    ) -> Option<Self> {
        let of_plane = plane.map(|plane| &plane.image);
        let image = given.image.or(of_plane).or(runs.map(|runs| &runs.image))?.clone();
        let (found, trusted, certificates) = plane
            .map(|plane| (plane.address.as_ref().ok(), &plane.tls, &plane.certificates))
            .or(runs.map(|runs| (runs.address.as_ref(), &runs.trusted, &runs.certificates)))?;
        let address = if given.has_address { None } else { Some(given.unless_led(found?)) };
        Some(Self { image, address, trusted: trusted.clone(), certificates: certificates.clone() })
    }

    /// What the pods of a Deployment have, as far as it is all there: one that somebody changed beyond that is no authority.
    /// Where they find their control plane is left open if it is not written there.
    pub(crate) fn of_running(deployment: &Value, container: &str, url: &str) -> Option<Self> {
        let container = running::container(deployment, container)?;
        let template = &deployment["spec"]["template"];
        Some(Self {
            image: text(&container["image"])?,
            address: address_of(container, &template["spec"], url),
            trusted: trusted(&template["spec"]),
            certificates: text(&template["metadata"]["annotations"][annotation::TRUST_CHECKSUM]),
        })
    }

    /// What leads the name of the control plane somewhere in pods.
    pub(crate) fn aliases(&self) -> Vec<HostAlias> {
        let alias = self.address.as_ref().and_then(|address| address.alias.as_ref());
        alias.map(Alias::entry).into_iter().collect()
    }
}

impl Given<'_> {
    /// An address without the alias, where the spec leads its name somewhere.
    fn unless_led(&self, found: &Address) -> Address {
        let mut given = self.host_aliases.iter().filter_map(|alias| alias.hostnames.as_ref()).flatten();
        let alias = found.alias.clone().filter(|alias| !given.any(|name| *name == alias.host));
        Address { url: found.url.clone(), alias }
    }
}

/// Where the secret of pods is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecretSource {
    /// The Secret.
    pub(crate) secret: String,
    /// The key inside it.
    pub(crate) key: String,
    /// Another one rolls the Deployment.
    pub(crate) checksum: String,
}

impl SecretSource {
    /// The one that the pods of a Deployment are started with. Nothing else of them matters: what the spec overrides is no
    /// reason to doubt it.
    pub(crate) fn of_running(
        deployment: &Value,
        container: &str,
        variable: &str,
        checksum: &str,
    ) -> Option<Self> {
        let container = running::container(deployment, container)?;
        let reference = &self::variable(container, variable)?["valueFrom"]["secretKeyRef"];
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        Some(Self {
            secret: text(&reference["name"])?,
            key: text(&reference["key"])?,
            checksum: text(&annotations[checksum])?,
        })
    }
}

fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container["env"].as_array()?.iter().find(|variable| variable["name"] == name)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Where a pod finds its control plane, and what leads its name there.
fn address_of(container: &Value, pod: &Value, url: &str) -> Option<Address> {
    let url = text(&variable(container, url)?["value"])?;
    let host = address::host(&url).unwrap_or_default().to_ascii_lowercase();
    let leads = |entry: &&Value| {
        entry["hostnames"].as_array().into_iter().flatten().any(|name| name.as_str() == Some(host.as_str()))
    };
    let entry = pod["hostAliases"].as_array().into_iter().flatten().find(leads);
    let alias = entry.and_then(|entry| Some(Alias { host: host.clone(), ip: text(&entry["ip"])? }));
    Some(Address { url, alias })
}

/// The Secrets whose certificates pods trust for their control plane.
fn trusted(pod: &Value) -> Vec<String> {
    let volumes = pod["volumes"].as_array().into_iter().flatten();
    let volume = volumes.filter(|volume| volume["name"] == trust::VOLUME);
    let sources = volume.filter_map(|volume| volume.pointer("/projected/sources")?.as_array()).flatten();
    sources.filter_map(|source| source.pointer("/secret/name")?.as_str().map(str::to_owned)).collect()
}
