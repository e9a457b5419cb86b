//! CoderControlPlane: a Coder server from one manifest, with truthful status.
//! `desired` decides what should exist, `status` what is said about it; `reconcile` reads, acts and writes.

pub mod consent;
pub mod desired;
mod finalizer;
mod probe;
mod reconcile;
mod references;
pub mod rollout;
pub mod status;
mod sweep;
mod triggers;

pub use reconcile::{Key, Reconciler};
pub use triggers::{ControlPlanes, follow};
