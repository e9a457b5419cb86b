//! Our own certificate authority: one CA in one Secret, rotated by an overlapping bundle.
//! The leader of its lease writes the Secret and the `caBundle`s; every replica signs its own leaf from it.

mod ca;
mod contents;
mod injector;
mod leader_task;
mod rotation;

pub(crate) use ca::{Ca, CaError};
pub(in crate::serving) use ca::{date, lifetime_of, validity};
pub(crate) use contents::Authority;
pub(crate) use leader_task::AuthorityTask;
pub(crate) use rotation::Times;

/// The Secret that holds the CA.
pub const SECRET: &str = "coder-k8s-ca";

/// The annotation on that Secret which asks for a rotation now, with any value.
pub(crate) const ROTATE_NOW: &str = "coder.com/rotate-ca";

/// The annotation on that Secret which says in words where the CA stands.
pub(crate) const STATE_ANNOTATION: &str = "coder.com/ca-state";
