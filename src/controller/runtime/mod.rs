//! What makes reconciles happen: watches, the queues with their schedules and workers, and how long one may take.
//! It knows no kind: a key says which object is meant.

pub(crate) mod context;
pub(crate) mod deadline;
pub(crate) mod object_reader;
pub(crate) mod objects;
pub(crate) mod queue;
pub(crate) mod reconcile;
pub(crate) mod replaced;
pub(crate) mod schedule;
pub(crate) mod telemetry;
pub(crate) mod verify;
pub(crate) mod watches;
pub(crate) mod workers;
