//! CoderProvisioner: external provisioner daemons of a control plane, whose keys never leak, never get lost and rotate without
//! a gap. A reconcile takes one path: `dereference`, `resolve`, `build`, `apply`, `observe`, `status`, `write`. The rest is what
//! is this kind's own.

mod apply;
pub(crate) mod build;
mod deletion;
mod dereference;
pub(crate) mod key;
mod key_event;
mod observe;
mod observed;
mod outside;
mod pending_jobs;
pub mod reasons;
mod reconcile;
mod reconciler;
mod requeue;
pub(crate) mod resolve;
mod rivals;
mod running_values;
mod silent_pods;
mod status;
mod triggers;
mod unanswered;
mod write;
mod zombies;

pub(crate) use reconciler::Reconciler;
