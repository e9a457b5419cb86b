//! The same for a provisioner: every call to coderd, and every write to the API server, that its key, its children and its end
//! take. Whatever goes wrong is told, nothing is lost by it, and one key is there when it is over.

mod cell;
mod subject;
pub mod table;
mod write_cell;
pub mod writes;

pub use cell::run;
pub use write_cell::run as run_write;
