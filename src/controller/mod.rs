//! The reconcilers: one folder a kind. Decides nothing here; each folder has a pure part that decides and a thin part
//! that acts. Never calls the aggregated API, nor knows what else runs in the process.

pub mod control_plane;
mod printed;

pub use printed::printed;
