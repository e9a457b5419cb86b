//! CoderControlPlane: a Coder server from one manifest, with truthful status.
//! `desired` decides what should exist, `status` what is said about it; `reconcile` reads, acts and writes.

pub mod access;
mod accounts;
mod apply;
mod ask;
mod break_glass;
mod checksum;
mod checksum_key;
pub mod consent;
mod deletion;
mod dependants;
mod dereference;
pub mod desired;
mod external;
mod finalizer;
mod held;
mod home;
mod kept;
mod lacking;
mod late;
pub mod license;
pub mod orphans;
mod pace;
mod probe;
mod reconcile;
mod references;
mod report;
pub mod rollout;
mod runs_as;
pub mod status;
mod suspended;
mod sweep;
mod triggers;
mod workspaces;

pub use dependants::{Dependants, Provisioner};
pub use reconcile::{Key, Reconciler};
pub use triggers::{Abroad, ControlPlanes, follow};

use crate::kubernetes::Target;

impl desired::Child {
    /// Where calls about it go.
    pub fn target(&self) -> Target<'_> {
        Target {
            api_version: self.api_version,
            kind: self.kind,
            plural: self.plural,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}
