//! The registration of a workspace proxy in coderd, from the first to the last. `steps` and `ending` decide, purely, what is done
//! next; the rest reads and acts. No token ever reaches a log, a status or an error.

pub(crate) mod cause;
pub(crate) mod end;
pub(crate) mod ending;
mod look;
mod mark;
pub(crate) mod others;
pub(crate) mod record;
pub(crate) mod seen;
pub(crate) mod steps;
pub(crate) mod store;
pub(crate) mod stored;
mod tokens;
pub(crate) mod work;
