//! The objects that a reconciler makes: which kinds there are, how each is recognised, applied and pruned.
//! It knows no kind of ours: whoever owns the children says which they are.

pub mod apply;
mod child;
pub(crate) mod drift;
mod fingerprint;
mod known;
mod lists;
mod metadata;
pub(crate) mod prune;
mod shown;

pub use child::{Child, ChildKind, Presence};
pub(crate) use fingerprint::Fingerprint;
pub use known::Known;
pub(crate) use known::Snapshot;
pub(crate) use metadata::{ChildOwner, StringMap, last_by_key, non_empty, string_map};
pub(crate) use shown::{Place, Unwanted};
