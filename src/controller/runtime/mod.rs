//! What makes reconciles happen: watches, the queue and its schedule, and how long one may take.
//! It knows no kind: a key says which object is meant.

pub mod deadline;
pub mod objects;
pub mod queue;
pub mod schedule;
pub mod telemetry;
pub mod verify;
pub mod watches;
