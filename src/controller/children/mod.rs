//! The objects that a reconciler makes: which kinds there are, how each is recognised, applied and pruned.
//! It knows no kind of ours: whoever owns the children says which they are.

pub(crate) mod account_use;
pub(crate) mod accounts;
pub mod apply;
mod cache;
mod child;
pub(crate) mod deployment;
pub(crate) mod drift;
pub(crate) mod exposure;
mod fingerprint;
pub(crate) mod gate;
pub(crate) mod grants;
pub(crate) mod helm;
mod lists;
mod metadata;
mod observed_versions;
mod owner_state;
pub(crate) mod permissions;
pub(crate) mod prune;
pub(crate) mod pruned;
pub(crate) mod requests;
#[cfg(test)]
pub(crate) mod sound;
pub(crate) mod withheld;

pub(crate) use cache::Snapshot;
pub use cache::{ChildCache, SharedChildCache};
pub use child::{Child, ChildKind, Presence};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use metadata::{ChildOwner, StringMap, last_by_key, non_empty, string_map};
pub(crate) use observed_versions::{Place, Unwanted};
pub(crate) use owner_state::OwnerState;
