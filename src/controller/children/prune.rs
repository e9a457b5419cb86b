//! Removes objects that are no longer wanted: only what is controlled by their owner, by uid, and never more at a time than
//! one reconcile should. Which objects those are is decided by the kind that made them.

use super::{ChildKind, drift};
use crate::controller::identity::Owner;
use crate::kubernetes::{CallError, Kube, Target};
use kube::core::ObjectMeta;
use serde_json::Value;

/// An object that is to go.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PruneCandidate {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: another of its name stays.
    pub uid: String,
}

/// Objects that are to go, as many as are removed in one reconcile: anybody can make objects that look like ours.
#[derive(Debug, Default)]
pub(crate) struct PruneCandidates {
    /// Those that go now.
    pub now: Vec<PruneCandidate>,
    /// Whether there are more than that.
    pub more: bool,
}

impl PruneCandidates {
    /// Objects that are removed in one reconcile.
    const MOST: usize = 500;

    /// Notes an object, of which nothing is kept but how it is removed.
    pub(crate) fn note(&mut self, metadata: ObjectMeta) {
        if self.now.len() >= Self::MOST {
            self.more = true;
            return;
        }
        let text = Option::unwrap_or_default;
        self.now.push(PruneCandidate {
            namespace: text(metadata.namespace),
            name: text(metadata.name),
            uid: text(metadata.uid),
        });
    }
}

/// Removes the one child of a kind that is no longer asked for, by the name that it has where it is.
pub(crate) async fn absent(
    kube: &Kube,
    owner: Owner<'_>,
    kind: ChildKind,
    name: &str,
) -> Result<(), CallError> {
    controlled(kube, Target::of(kind.names(), owner.namespace, name), owner.uid).await
}

/// Removes an object if it is there and controlled by the one of this uid.
async fn controlled(kube: &Kube, target: Target<'_>, owner: &str) -> Result<(), CallError> {
    let live = kube.read(target).await?.filter(|live| drift::is_controlled_by(live, owner));
    match live.as_ref().and_then(uid) {
        Some(uid) => kube.remove(target, uid).await,
        None => Ok(()),
    }
}

/// Removes an object and returns whether it is gone.
pub(crate) async fn removed(kube: &Kube, target: Target<'_>, uid: &str) -> Result<bool, CallError> {
    kube.remove(target, uid).await?;
    Ok(kube.read(target).await?.is_none_or(|again| self::uid(&again) != Some(uid)))
}

fn uid(live: &Value) -> Option<&str> {
    live.pointer("/metadata/uid").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_objects_that_are_to_go_a_few_are_noted_and_of_each_a_few_words() {
        let annotations = Some([("coder.com/0".to_owned(), "x".repeat(1000))].into());
        let metadata = |number: usize| ObjectMeta {
            name: Some(format!("n{number}")),
            uid: Some("u".to_owned()),
            annotations: annotations.clone(),
            ..ObjectMeta::default()
        };
        let mut candidates = PruneCandidates::default();
        (0..PruneCandidates::MOST).for_each(|number| candidates.note(metadata(number)));
        assert!(!candidates.more);
        candidates.note(metadata(PruneCandidates::MOST));
        assert!(candidates.more && candidates.now.len() == PruneCandidates::MOST);
        assert!(format!("{candidates:?}").len() < PruneCandidates::MOST * 100);
    }
}
