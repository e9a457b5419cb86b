//! What every pod of ours has, whichever kind it runs for: security, probes, the Service in front of it, exposure, a
//! disruption budget, metrics, certificates, what it reads, and how far its rollout has come. It knows no kind of ours.

pub mod consumed;
pub mod disruption;
pub mod exposure;
pub mod late;
pub mod monitoring;
pub mod ports;
pub mod probes;
pub mod rollout;
pub mod security;
pub mod service;
pub mod volumes;
