//! What is built of a control plane, by the part of the spec that asks for it.

mod consumed;
mod disruption;
mod exposure;
mod metadata;
mod monitoring;
mod probes;
mod security;
mod service;
mod volumes;
