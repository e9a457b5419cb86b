//! coderd's PostgreSQL, for the one thing its API cannot do: a user and a token of our own where nobody has one yet.
//! It touches the rows of that user only, within one transaction, behind a probe of the schema; it never migrates.

mod access;
mod bounded;
mod error;
mod parameters;
mod request;
mod revocation;
mod schema;
mod session;
mod url;

pub use access::Ensured;
pub use error::{Error, Retry, State};
pub use request::{AccessRequest, EMAIL_DOMAIN, Role};
pub use revocation::go_operator_token_name;
pub use session::{Database, Limits};
pub use url::{DatabaseUrl, SslMode, UrlError};
