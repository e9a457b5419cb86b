//! Pins the double to the contract: each test is one sentence of it, asked over a real socket.
//! It never looks into the double's state where an HTTP answer shows the same.

mod client;
mod errors_and_limits;
mod faults;
mod identity;
mod licenses;
mod organizations;
mod provisioner_daemons;
mod provisioner_jobs;
mod provisioner_keys;
mod record;
mod strictness;
mod workspace_proxies;

use std::time::Duration;

/// Longer than anything here takes; only a broken test waits for it.
const SOON: Duration = Duration::from_secs(10);
