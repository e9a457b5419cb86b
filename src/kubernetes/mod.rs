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
pub mod lease;
mod lists;
mod namespace;
mod objects;
mod own;
mod partial;
mod reduced;
mod reflected;
mod target;
mod trimmed;
mod watches;
pub(crate) mod wording;

pub use changes::{Change, KindName, MetadataEvent, is_unknown};
pub use clients::{ConnectError, Kube};
pub use configuration::ConfigurationError;
pub use namespace::own_namespace;
pub use objects::{CallError, Objects};
pub use reduced::Reduced;
pub use reflected::{Reflected, Selection};
pub use target::Target;
pub use trimmed::Kept;
