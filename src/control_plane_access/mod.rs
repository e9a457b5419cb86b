//! How one control plane is reached: at its own Service, by certificates of its own Secrets, with its own token or one that
//! was given, and not while it asks to be left alone. Reconcilers and the aggregated API both use it; it imports neither.
//!
//! What a status says is never an address, a token or a permission here: it only tells a person why there is none.

pub(crate) mod admission;
pub(crate) mod control_planes;
pub(crate) mod credentials;
pub(crate) mod entitlement;
pub(crate) mod holds;
pub(crate) mod in_force;
pub(crate) mod introduction;
pub(crate) mod operator_token;
pub(crate) mod plan;
pub(crate) mod reach;
pub(crate) mod secret_value;
pub(crate) mod service;
pub(crate) mod trust;
pub(crate) mod unreached;

use crate::coderd::{Client, Egress, Endpoint, RateLimitHold};
use crate::kubernetes::Kube;
use crds::CoderControlPlane;
use holds::Holds;
use trust::Trust;

/// What every way to a coderd is made with, once for the process.
#[derive(Clone)]
pub(crate) struct ControlPlaneAccess {
    /// The API server.
    pub kube: Kube,
    /// How connections are opened.
    pub egress: Egress,
    /// Which coderd asked to be left alone.
    pub holds: Holds,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
}

impl ControlPlaneAccess {
    /// Where coderd is reached inside the cluster. Whatever the API server has has a name and a namespace.
    pub(crate) fn url(&self, control_plane: &CoderControlPlane) -> String {
        webhooks::cluster_url(control_plane, &self.cluster_domain).unwrap_or_default()
    }
}

/// A client for the coderd at `url`, without a token; or why there is none.
pub(crate) fn client(
    url: &str,
    trust: Trust,
    egress: &Egress,
    hold: RateLimitHold,
) -> Result<Client, String> {
    let endpoint = Endpoint::parse(url).map_err(|error| error.to_string())?;
    let endpoint = endpoint.presenting(trust.certificates);
    let endpoint = trust.authorities.iter().fold(endpoint, |endpoint, pem| endpoint.trusting(pem));
    let client = Client::new(endpoint, None, &egress.resolve, egress.limits());
    let client = client.map_err(|error| error.to_string())?;
    Ok(client.heeding(hold).observed(egress.observer.clone()))
}
