//! What is built of a control plane, by the part of the spec that asks for it.

mod account;
mod consumed;
mod deployment;
mod disruption;
mod exposure;
mod in_force;
mod metadata;
mod monitoring;
mod probes;
mod security;
mod service;
mod volumes;
mod withheld;
