//! Everything that answers: TLS listeners, the authority behind their certificates, health, metrics, who may call.
//! It knows no Coder kind and never reconciles one.

pub mod admin;
pub mod authority;
pub mod bodies;
pub mod callers;
pub mod connections;
pub mod external;
pub mod front_proxy;
mod header_timeout;
pub mod injection;
pub mod leaf;
pub mod limits;
pub mod listener;
pub mod metrics;
pub mod own_certificates;
pub mod peer;
pub mod probes;
pub mod rates;
pub mod readiness;
pub mod seldom;
pub mod self_check;
pub mod shares;
pub mod tls;
mod tokens;
pub mod turns;
