//! The running process: start and end, certificates, leadership, what it says and what it never says, under attack too.

mod certificates;
mod confidentiality;
mod flood;
mod leadership;
mod start;
mod telemetry;
