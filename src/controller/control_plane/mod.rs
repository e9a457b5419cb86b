//! CoderControlPlane: a Coder server from one manifest, with truthful status. A reconcile takes one path:
//! `dereference`, `resolve`, `build`, `apply`, `observe`, `status`, `write`. The rest is what is this kind's own.

pub(crate) mod access;
mod apply;
mod apply_children;
mod ask;
pub mod build;
pub(crate) mod consent;
mod deletion;
mod dependants;
mod dereference;
mod gate;
mod grants;
mod helm_release;
pub(crate) mod license;
mod observe;
mod observed;
pub(crate) mod orphans;
mod probe;
mod provided_url;
mod prune;
pub mod reasons;
mod reconcile;
mod reconciler;
mod requeue;
pub mod resolve;
mod running_values;
pub(crate) mod status;
mod subject;
mod suspended;
mod triggers;
mod write;

pub(crate) use dependants::Dependants;
pub(crate) use reconciler::Reconciler;
pub(crate) use triggers::{Triggers, follow_dependants};

use crate::kubernetes::KindName;

/// Our kind: apiVersion, kind and the plural of its path.
const KIND: KindName = ["coder.com/v1alpha1", "CoderControlPlane", "codercontrolplanes"];
