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

pub mod authority;
pub mod decide;
pub mod defaults;
pub mod field;
#[cfg(any(test, feature = "generate"))]
pub mod generate;
mod kind;
#[cfg(test)]
mod properties;
pub mod render;
mod review;
pub mod rules;
pub mod schema;
pub mod text;
mod tree;
mod warnings;
mod weight;
pub mod wire;

pub use authority::{Access, AccessCheck, Inquiry, required_access};
pub use defaults::{
    Config, access_url, cluster_url, defaulted, defaults, patched, resolved, status_resolved,
};
pub use kind::Kind;
pub use review::{Cause, CauseReason, Occasion, Review, Verdict, validate};
pub use rules::{downgrade, explain};
pub use schema::unknown_fields;
pub use warnings::within_limits;
