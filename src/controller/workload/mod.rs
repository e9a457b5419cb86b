//! What every pod of ours has, whichever kind it runs for: its Deployment, account and rights, security, probes, the Service
//! in front of it, exposure, a disruption budget, metrics, certificates, what it reads, and how far its rollout has come. It
//! knows no kind of ours.

pub(crate) mod account;
pub(crate) mod checksum;
pub(crate) mod consumed;
pub(crate) mod deployment;
pub(crate) mod disruption;
pub(crate) mod environment;
pub(crate) mod exposure;
pub(crate) mod late;
pub(crate) mod monitoring;
pub(crate) mod pods;
pub(crate) mod ports;
pub(crate) mod probes;
pub(crate) mod relay;
pub(crate) mod rights;
pub(crate) mod rollout;
pub(crate) mod running;
pub(crate) mod scratch;
pub(crate) mod security;
pub(crate) mod service;
pub(crate) mod serving;
pub(crate) mod trust;
pub(crate) mod volumes;
