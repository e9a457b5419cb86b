//! A double of coderd, pinned to the contract in `reference/coderd.md`: a real HTTP server on loopback whose state
//! is in memory, is set by the test, and is strict about what it is sent.
//! It never guesses: a request outside the contract is a violation that fails the test which sent it.
//!
//! ```ignore
//! let coderd = Coderd::start().await;
//! let token = coderd.token_for(&[Role::TemplateAdmin]);
//! let lost = coderd.inject("POST /organizations/{org}/provisionerkeys", Occurrence::Next, Fault::response_lost());
//! // ... run the code under test against coderd.url() ...
//! assert_eq!(coderd.count("POST /organizations/{org}/provisionerkeys"), 2);
//! ```
//!
//! One file holds one area: its part of the state, its handlers and what a test may do to it. A new area adds a file
//! under `routes` and one line to the table in `routes/mod.rs`.

mod clock;
mod faults;
mod identity;
mod ids;
mod limits;
mod pipeline;
mod record;
mod redirect;
mod reply;
mod route;
mod routes;
mod secrets;
mod server;
mod state;
mod strictness;
#[cfg(test)]
mod tests;
mod tls;

pub use clock::{Clock, Timestamp};
pub use faults::{Fault, FaultHandle, Occurrence};
pub use identity::{DatabaseToken, NewUser, Role, UserStatus};
pub use ids::Uuid;
pub use record::{Call, Credential, Outcome};
pub use routes::entitlements::Entitlement;
pub use routes::licenses::license_with;
pub use routes::provisioner_daemons::{DaemonArrival, DaemonSession, DialRefused};
pub use routes::provisioner_keys::{KeyDeletion, ProvisionerKey};
pub use routes::workspace_proxies::{ProxyRefused, ProxyStatus, RegisteredProxy};
pub use server::{Coderd, CoderdBuilder};
pub use strictness::Violation;
