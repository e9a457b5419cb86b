//! Everything that answers: TLS listeners, the authority behind their certificates, health, metrics, who may call.
//! It knows no Coder kind and never reconciles one.

pub(crate) mod admin;
pub mod authority;
pub(crate) mod bodies;
pub(crate) mod callers;
pub(crate) mod connections;
pub(crate) mod external;
pub(crate) mod front_proxy;
mod header_timeout;
pub(crate) mod injection;
pub(crate) mod leaf;
pub(crate) mod limits;
pub(crate) mod listener;
pub mod metrics;
pub(crate) mod own_certificates;
pub(crate) mod peer;
pub(crate) mod probes;
pub(crate) mod rates;
pub(crate) mod readiness;
pub(crate) mod seldom;
#[expect(unreachable_pub, reason = "it is being worked on elsewhere")]
pub(crate) mod self_check;
pub(crate) mod shares;
pub(crate) mod tls;
mod tokens;
pub(crate) mod turns;
