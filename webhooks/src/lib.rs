//! Pure admission: what an object becomes (defaults) and why it is refused (rules).
//! It takes values and returns values; it never talks to a cluster, a clock or a file.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]
// What no other crate uses is `pub(crate)`, so that the compiler sees what nobody uses.
#![deny(unreachable_pub)]

pub mod admission_review;
pub mod admit;
mod authorization;
mod cause;
pub mod defaults;
pub mod field;
#[cfg(any(test, feature = "generate"))]
pub mod generate;
mod kind;
mod memory;
#[cfg(test)]
mod properties;
mod registration;
pub mod render;
pub mod rules;
pub mod schema;
pub mod text;
mod tree;
mod validate;
mod warnings;

pub use authorization::{AccessCheck, AccessReviews, HARMLESS, MAX_REVIEWS, RequiredAccess, required_access};
pub use cause::{Cause, CauseReason, problem_list};
pub use defaults::{
    ACCESS_URL, Config, access_url, cluster_url, defaulted, defaults, resolved, status_resolved,
};
pub use kind::Kind;
pub use rules::{downgrade, explain};
pub use schema::unknown_fields;
pub use validate::{Operation, Verdict, validate};
