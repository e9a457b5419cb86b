//! coderd's PostgreSQL, for the one thing its API cannot do: a user and a token of our own where nobody has one yet.
//! It touches the rows of that user only, within one transaction, behind a probe of the schema; it never migrates.

mod access;
mod bounded;
mod error;
mod parameters;
mod schema;
mod session;
mod url;

pub use access::{AccessRequest, EMAIL_DOMAIN, Ensured, Role, go_operator_token_name};
pub use error::{Error, Retry, State};
pub use session::{Database, Limits};
pub use url::{DatabaseUrl, SslMode, UrlError};
