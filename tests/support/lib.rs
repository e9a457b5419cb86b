//! The harness every suite stands on: a real cluster, a strict coderd double, a proxy that breaks things.
//! It starts and stops real programs; it never decides what a test asserts.

pub mod attacker;
pub mod audit;
pub mod balancer;
pub mod campaign;
pub mod canary;
pub mod cluster;
pub mod coderd;
pub mod daemons;
pub mod database_proxy;
pub mod database_tokens;
pub mod fault_proxy;
pub mod figures;
pub mod fleet;
pub mod floor;
pub mod gitops;
pub mod helm_release;
pub mod https;
pub mod installation;
pub mod memory;
pub mod objects;
pub mod operator;
mod optional_kinds;
pub mod plain_http;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod proxies;
pub mod real_coderd;
pub mod sentences;
pub mod test_env;
pub mod tools;
pub mod wait;

pub use cluster::{Cluster, ClusterOptions};
pub use daemons::Daemons;
pub use fault_proxy::{Fault, FaultProxy};
pub use fleet::Fleet;
pub use installation::Installation;
pub use operator::{Operator, OperatorOptions};
pub use optional_kinds::optional_kinds;
pub use test_env::TestEnv;
pub use wait::until;
