//! What is built of a provisioner, by the part of the spec that asks for it.

mod consumed;
mod contract;
mod environment;
mod every_field;
mod metadata;
mod metrics;
mod rights;
mod security;
mod trust;
mod withheld;
