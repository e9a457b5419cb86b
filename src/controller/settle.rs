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

impl Settled {
    fn failed(error: &CallError) -> Self {
        let text = error.to_string();
        match error {
            error if error.is_not_found() => Self::Nowhere(text),
            // Somebody else was faster: what they wrote is looked at next time.
            error if error.is_outdated() => Self::Failed(text),
            error if error.is_refused() => Self::Refused(text),
            _ => Self::Failed(text),
        }
    }
}

/// Brings the child to `manifest`; `is_ours` tells whether an object that is there already is the one meant.
pub async fn settle(
    kube: &Kube,
    target: Target<'_>,
    manifest: Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Settled {
    match kube.read(target).await {
        Ok(live) => settle_over(kube, target, live, manifest, is_ours).await,
        Err(error) => Settled::failed(&error),
    }
}

/// The same for a child that was read already.
pub async fn settle_over(
    kube: &Kube,
    target: Target<'_>,
    live: Option<Value>,
    manifest: Value,
    is_ours: impl Fn(&Value) -> bool,
) -> Settled {
    let wanted = drift::fingerprinted(manifest);
    let settled = match settle_once(kube, target, live, &wanted, &is_ours).await {
        // Somebody else was faster, the Deployment controller for example: what they wrote is looked at once more.
        Err(error) if error.is_outdated() => match kube.read(target).await {
            Ok(live) => settle_once(kube, target, live, &wanted, &is_ours).await,
            Err(error) => Err(error),
        },
        settled => settled,
    };
    settled.unwrap_or_else(|error| Settled::failed(&error))
}

async fn settle_once(
    kube: &Kube,
    target: Target<'_>,
    live: Option<Value>,
    wanted: &Value,
    is_ours: &impl Fn(&Value) -> bool,
) -> Result<Settled, CallError> {
    if let Some(live) = &live {
        if !is_ours(live) {
            return Ok(Settled::Conflict(conflict(target)));
        }
        if drift::adoption(live).is_none() && drift::holds(live, wanted) {
            return Ok(Settled::InPlace(live.clone()));
        }
    }
    tracing::info!(kind = target.kind, namespace = target.namespace, name = target.name, "applying");
    put(kube, target, live, wanted).await.map(Settled::InPlace)
}

/// Applies ours, over whatever somebody else made of it.
async fn put(
    kube: &Kube,
    target: Target<'_>,
    live: Option<Value>,
    wanted: &Value,
) -> Result<Value, CallError> {
    let Some(mut live) = live else { return kube.apply(target, wanted).await };
    if let Some(patch) = drift::adoption(&live) {
        live = kube.patch(target, patch).await?;
    }
    if let Some(patch) = drift::clearing(&live, wanted) {
        live = disowned(kube, target, kube.patch(target, patch).await?).await?;
    }
    let refusal = match kube.apply(target, wanted).await {
        Err(error) if error.is_invalid() => error,
        answer => return answer,
    };
    // Perhaps not ours is wrong, but ours merged with what somebody else put there.
    let Some(patch) = drift::restoring(&live, wanted) else { return Err(refusal) };
    match kube.patch(target, patch).await {
        Ok(restored) => {
            disowned(kube, target, restored).await?;
            kube.apply(target, wanted).await
        }
        Err(error) if error.is_refused() && !error.is_outdated() => Err(refusal),
        Err(error) => Err(error),
    }
}

/// The object without our mark on what is put right but may hold things of others.
async fn disowned(kube: &Kube, target: Target<'_>, live: Value) -> Result<Value, CallError> {
    match drift::disowning(&live) {
        Some(patch) => kube.patch(target, patch).await,
        None => Ok(live),
    }
}

fn conflict(target: Target<'_>) -> String {
    format!(
        "{} {} exists and is not ours; delete or rename it, or name this object differently",
        target.kind, target.name
    )
}
