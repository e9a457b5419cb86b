//! The reconcilers: what runs is what the objects say. One folder a kind; decisions are pure, actions thin.
//! They never write to an object that Git applies, but for its status and our finalizer.

pub mod conditions;
pub mod control_plane;
pub mod deadline;
pub mod drift;
mod lists;
mod printed;
pub mod queue;
pub mod schedule;
pub mod settle;
pub mod telemetry;
pub mod transitions;

pub use printed::printed;
