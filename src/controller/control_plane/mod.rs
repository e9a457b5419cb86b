//! CoderControlPlane: a Coder server from one manifest, with truthful status. A reconcile takes one path:
//! `dereference`, `resolve`, `build`, `apply`, `observe`, `status`, `write`. The rest is what is this kind's own.

pub(crate) mod access;
mod account_use;
mod accounts;
mod apply;
mod apply_children;
mod ask;
pub mod build;
mod checksum;
mod checksum_key;
pub(crate) mod consent;
mod deletion;
mod dependants;
mod dereference;
mod gate;
mod grants;
mod in_force;
pub(crate) mod license;
mod observe;
mod observed;
pub(crate) mod orphans;
mod permissions;
mod probe;
mod prune;
pub mod reasons;
mod reconcile;
mod reconciler;
mod references;
mod requeue;
pub mod resolve;
mod running_values;
pub(crate) mod status;
mod subject;
mod suspended;
mod triggers;
mod withheld;
mod write;

pub(crate) use dependants::{Dependants, Provisioner};
pub(crate) use reconciler::Reconciler;
pub(crate) use triggers::{ControlPlanes, Triggers, follow_dependants};

use crate::kubernetes::KindName;

/// Our kind: apiVersion, kind and the plural of its path.
const KIND: KindName = ["coder.com/v1alpha1", "CoderControlPlane", "codercontrolplanes"];
