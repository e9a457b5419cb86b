//! CoderWorkspaceProxy: a proxy that registers, starts, stays registered and leaves cleanly. A reconcile takes one path:
//! `dereference`, `resolve`, `build`, `apply`, `observe`, `status`, `write`. The rest is what is this kind's own.

mod apply;
pub(crate) mod build;
mod deletion;
mod dereference;
mod given;
mod observe;
mod observed;
mod outside;
mod proxy_event;
pub mod reasons;
mod reconcile;
mod reconciler;
pub(crate) mod registration;
mod requeue;
pub(crate) mod resolve;
mod rivals;
mod running_values;
mod status;
mod triggers;
mod way;
mod write;

pub(crate) use reconciler::Reconciler;
