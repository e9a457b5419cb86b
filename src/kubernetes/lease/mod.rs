//! Leader election, one lease per leader task: a pure step and a thin elector around it.
//! A leadership carries its end; whoever works under it stops in time even when the network hangs.

mod elector;
mod record;
pub(crate) mod step;

pub(crate) use elector::{Elector, Leadership};
pub use step::Timing;

/// The lease of the reconcilers.
pub const CONTROLLER_LEASE: &str = "coder-k8s-controller.coder.com";
/// The lease of the certificate authority.
pub const AUTHORITY_LEASE: &str = "coder-k8s-authority.coder.com";
