//! How a status is written: conditions, and which of their changes are worth an Event.
//! What is true of an object is decided by its kind.

pub mod conditions;
pub mod reasons;
pub mod transitions;
