//! What every kind has that belongs to a control plane without being one: what its pods have from that control plane, how it is
//! reached, what is recorded of things in coderd, and what is said of all that. It knows no kind of ours.

pub(crate) mod address;
pub(crate) mod apply;
pub(crate) mod attachment;
pub(crate) mod certificates;
pub(crate) mod claims;
pub(crate) mod coderds;
pub(crate) mod commands;
pub(crate) mod dereference;
pub(crate) mod ending;
pub(crate) mod facts;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod followed_image;
pub(crate) mod observed;
pub(crate) mod outside;
pub(crate) mod pause;
pub(crate) mod pruning;
pub(crate) mod public_address;
pub(crate) mod reconcile;
pub(crate) mod reconciler;
pub(crate) mod refusal;
pub(crate) mod requeue;
pub(crate) mod seal;
pub(crate) mod secret;
pub(crate) mod status_record;
pub(crate) mod triggers;
