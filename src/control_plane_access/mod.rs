//! How one control plane is reached: at its own Service, by certificates of its own Secrets, and not while it asks to be left
//! alone. Reconcilers and the aggregated API both use it; it decides nothing about an answer, and sends no token.

pub(crate) mod holds;
pub(crate) mod service;
pub(crate) mod trust;

use crate::coderd::{Client, Egress, Endpoint, RateLimitHold};
use trust::Trust;

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
