//! Brings the Ingress or HTTPRoute of an object into place, if one is asked for. Which it is, is decided by its builder.

use super::apply::{Applier, ChildState, Problems};
use super::withheld::Withheld;
use super::{Child, ChildKind};
use serde_json::Value;

/// How far the way from outside has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// None was asked for.
    NotRequested,
    /// The Ingress or HTTPRoute is in place.
    InPlace(&'static str),
    /// The cluster has no Gateway API.
    NoGatewayApi,
    /// It could not be applied.
    Failed(String),
    /// It is left as it is while admission is disabled.
    Withheld(String),
    /// It is left as it is until something else is done.
    Later(String),
}

/// What is told of a cluster without the Gateway API.
pub(crate) const NO_GATEWAY_API: &str = "the cluster does not serve gateway.networking.k8s.io/v1; install the Gateway API, or use spec.expose.ingress";

/// Applies it.
pub(crate) async fn apply(
    applier: Applier<'_>,
    child: Option<&Child>,
    withheld: &Withheld,
    is_ours: impl Fn(&Value, &Child) -> bool,
    problems: &mut Problems,
) -> Exposure {
    let Some(child) = child else { return Exposure::NotRequested };
    let kind = child.kind.as_str();
    if withheld.has(child) {
        let message =
            format!("no {kind} is created or changed while admission is disabled; see Ready for the fix");
        return Exposure::Withheld(message);
    }
    let state = applier.apply(child, |live| is_ours(live, child)).await;
    if child.kind == ChildKind::HttpRoute && matches!(state, ChildState::KindMissing(_)) {
        return Exposure::NoGatewayApi;
    }
    problems.note(&state);
    match state {
        ChildState::InPlace(_) => Exposure::InPlace(kind),
        ChildState::Conflict(message)
        | ChildState::Refused(message, _)
        | ChildState::Failed(message, _)
        | ChildState::KindMissing(message) => Exposure::Failed(message),
    }
}
