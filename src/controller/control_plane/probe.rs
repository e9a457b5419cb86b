//! Asks coderd who it is, at the address of the object's own Service and nowhere else.
//! It never sends a token: who answers is not proven yet.

use super::status::Coderd;
use crate::coderd::client::Limits;
use crate::coderd::{Client, Egress, Endpoint, Error};

/// What coderd said, and the client to go on with.
pub struct Probe {
    /// For the status.
    pub coderd: Coderd,
    /// Present when it answered.
    pub client: Option<Client>,
    /// What went wrong.
    pub error: Option<Error>,
}

/// Asks coderd at `url`, trusting `authorities` (PEM) besides the public ones.
pub async fn probe(url: &str, authorities: Option<&str>, egress: &Egress) -> Probe {
    let silent = |message: String| Probe { coderd: Coderd::Silent(message), client: None, error: None };
    let endpoint = match Endpoint::parse(url) {
        Ok(endpoint) => authorities.iter().fold(endpoint, |endpoint, pem| endpoint.trusting(*pem)),
        Err(error) => return silent(error.to_string()),
    };
    let client = match Client::new(endpoint, None, &egress.resolve, Limits::default()) {
        Ok(client) => client,
        Err(error) => return silent(error.to_string()),
    };
    match client.build_info().await {
        Ok(info) => Probe { coderd: Coderd::Answered(info.version), client: Some(client), error: None },
        Err(error) => Probe { coderd: Coderd::Silent(error.to_string()), client: None, error: Some(error) },
    }
}
