//! The only place that talks to kube-apiserver: clients, calls with a deadline, watches, leases, Events.
//! It carries decisions out; it never makes one about Coder.

mod answers;
mod changes;
mod clients;
mod configuration;
mod dynamic;
mod event_recorder;
pub mod events;
mod grants;
mod kept;
pub mod lease;
mod lists;
mod namespace;
mod objects;
mod own;
mod ownership;
mod partial;
mod pod_status;
mod reduced;
mod reflected;
mod rules;
mod scope;
mod target;
mod trimmed;
mod watches;
pub(crate) mod wording;

pub(crate) use changes::{Change, Changes, KindName, MetadataEvent, is_unknown, refusal};
pub(crate) use clients::ConnectError;
pub use clients::Kube;
pub use kept::Kept;
pub(crate) use namespace::own_namespace;
pub(crate) use objects::{CallError, Objects};
pub(crate) use ownership::is_controlled_by;
pub use reduced::Reduced;
pub(crate) use reflected::{Reflected, Selection};
pub(crate) use rules::{Rules, reviewed_rules};
pub use scope::Scope;
pub(crate) use target::Target;
