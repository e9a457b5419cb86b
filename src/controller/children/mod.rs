//! The objects that a reconciler makes: which kinds there are, how each is recognised, applied and pruned.
//! It knows no kind of ours: whoever owns the children says which they are.

pub mod apply;
mod child;
pub mod drift;
mod known;
mod lists;
mod metadata;
pub mod prune;

pub use child::{Child, ChildKind, Presence};
pub use known::Known;
pub use metadata::{ChildOwner, Texts, filled, one_each, texts};
