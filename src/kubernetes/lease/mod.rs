//! Leader election, one lease per duty: a pure step and a thin elector around it.
//! A leadership carries its end; whoever works under it stops in time even when the network hangs.

mod elector;
mod record;
pub mod step;

pub use elector::{Elector, Leadership};
pub use step::Timing;
