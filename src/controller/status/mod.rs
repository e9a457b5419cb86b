//! What a status says that is the same for every kind: Ready, Reconciling and Stalled, how conditions are written, and which of
//! their changes are worth an Event. What is true of an object is decided by its kind.

pub(crate) mod conditions;
pub(crate) mod observed;
pub(crate) mod partial;
pub(crate) mod reasons;
pub(crate) mod summary;
pub(crate) mod transitions;
