//! The only place that talks to coderd and its database: requests, answers, error classes, and where we may dial.
//! It knows no Kubernetes type, and nothing it returns or prints carries a secret.

pub(crate) mod addresses;
pub(crate) mod allowed;
pub mod client;
pub mod database;
mod dial;
pub(crate) mod endpoint;
pub mod error;
pub(crate) mod license;
pub(crate) mod observer;
mod operation;
mod rate_limit_hold;
pub(crate) mod resolve;
mod tls;
pub(crate) mod token;
pub(crate) mod uuid;

pub(crate) use allowed::AllowedUrls;
pub use client::Client;
pub use endpoint::{Endpoint, Scheme};
pub use error::{Error, Retry};
pub(crate) use error::{Lost, Operation};
pub(crate) use observer::Observer;
pub(crate) use rate_limit_hold::RateLimitHold;
pub use resolve::Resolve;
pub use tls::LARGEST_PEM;
pub use token::NewToken;
pub use uuid::Uuid;

use std::time::Duration;

/// What the command line says about our own connections, handed to whoever opens one.
#[derive(Debug, Clone)]
pub struct Egress {
    /// Names that lead somewhere else, for HTTP and Postgres.
    pub resolve: Resolve,
    /// External URLs that objects may name.
    pub allowed_urls: AllowedUrls,
    /// How long one request to coderd may take.
    pub request_timeout: Duration,
    /// Who hears of each request to coderd.
    pub observer: Observer,
}

impl Egress {
    /// What a client of coderd is held to.
    pub fn limits(&self) -> client::Limits {
        client::Limits { total: self.request_timeout, ..client::Limits::default() }
    }
}
