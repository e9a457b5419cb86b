//! Brings one child to what it should be: read it, see whether it is ours, apply it if it differs.
//! It never takes over an object of somebody else, and writes nothing where nothing differs.

use super::drift;
use crate::kubernetes::{CallError, Kube, Target};
use serde_json::Value;

/// How it went.
#[derive(Debug)]
pub enum Settled {
    /// The object is as it should be; as it is now.
    InPlace(Value),
    /// An object of this name belongs to somebody else.
    Conflict(String),
    /// The API server does not take it, and will not until something changes.
    Refused(String),
    /// It did not work this time.
    Failed(String),
    /// The API server does not know the kind, or there is no such namespace.
    Nowhere(String),
}

/// Brings the child to `manifest`; `is_ours` tells whether an object that is there already is the one meant.
pub async fn settle(
    kube: &Kube,
    target: Target<'_>,
    manifest: Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Settled {
    match try_to(kube, target, drift::fingerprinted(manifest), is_ours).await {
        Ok(settled) => settled,
        Err(error) if error.is_not_found() => Settled::Nowhere(error.to_string()),
        Err(error) if error.is_refused() => Settled::Refused(error.to_string()),
        Err(error) => Settled::Failed(error.to_string()),
    }
}

async fn try_to(
    kube: &Kube,
    target: Target<'_>,
    wanted: Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Result<Settled, CallError> {
    if let Some(live) = kube.read(target).await? {
        if !is_ours(&live) {
            return Ok(Settled::Conflict(conflict(target)));
        }
        let adoption = drift::adoption(&live);
        if adoption.is_none() && drift::holds(&live, &wanted) {
            return Ok(Settled::InPlace(live));
        }
        if let Some(patch) = adoption {
            kube.patch(target, patch).await?;
        }
    }
    tracing::info!(kind = target.kind, namespace = target.namespace, name = target.name, "applying");
    Ok(Settled::InPlace(kube.apply(target, &wanted).await?))
}

fn conflict(target: Target<'_>) -> String {
    format!(
        "{} {} exists and is not ours; delete or rename it, or name this object differently",
        target.kind, target.name
    )
}
