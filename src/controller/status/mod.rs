//! How a status is written: conditions, and which of their changes are worth an Event.
//! What is true of an object is decided by its kind.

pub(crate) mod conditions;
pub(crate) mod partial;
pub(crate) mod reasons;
pub(crate) mod transitions;
