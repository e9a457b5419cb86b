//! The keys of a provisioner in coderd, from the first to the last. `steps` and `ending` decide, purely, what is done next; the
//! rest reads and acts. No plaintext ever reaches a log, a status or an error.

pub(crate) mod cause;
pub(crate) mod ending;
pub(crate) mod homes;
pub(crate) mod lists;
mod look;
mod mark;
pub(crate) mod record;
pub(crate) mod seen;
pub(crate) mod steps;
pub(crate) mod store;
pub(crate) mod stored;
pub(crate) mod work;
