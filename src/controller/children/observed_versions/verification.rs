//! Verifies what a watch has shown by a list of all there is: what the watch has missed is found, and a watch that goes on while the
//! list is under way always knows better.

use super::{Following, ObservedVersions, Place};
use crate::controller::children::ChildKind;
use kube::core::ObjectMeta;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A watch that fails is tried again within 30 s.
pub(super) const LONGEST_DOUBT: Duration = Duration::from_secs(60);

/// A list that shows what there is, beside the watch.
#[derive(Debug, Default)]
pub(super) struct Verification {
    /// What the watch has shown since it began, which a list cannot know better.
    pub(super) fresh: HashSet<Place>,
    /// What the list has observed.
    listed: HashSet<Place>,
}

impl ObservedVersions {
    /// Begins to verify a kind by a list of all there is.
    pub(in crate::controller::children) fn begin_verification(&mut self, kind: ChildKind) {
        self.kind(kind).verification = Some(Verification::default());
    }

    /// Takes note of an object that the list shows; returns whether the watch has not shown it like that.
    pub(in crate::controller::children) fn verify(&mut self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return false };
        let (place, entry) = (self.place(kind, namespace, name), self.entry(metadata));
        let overflowed = self.overflowed;
        let of_kind = self.kind(kind);
        let Some(verification) = &mut of_kind.verification else { return false };
        verification.listed.insert(place);
        let is_same = verification.fresh.contains(&place) || of_kind.there.get(&place) == Some(&entry);
        if is_same || overflowed {
            return false;
        }
        self.insert(kind, place, entry);
        true
    }

    /// Ends the verification; returns what the watch has shown and the list did not, which is there no more. It ends a doubt
    /// that is so old that a watch which still fails would have said so again.
    pub(in crate::controller::children) fn end_verification(
        &mut self,
        kind: ChildKind,
        now: Instant,
    ) -> Vec<Place> {
        let of_kind = self.kind(kind);
        let Some(Verification { fresh, listed }) = of_kind.verification.take() else { return Vec::new() };
        let is_over = |since: Instant| now.saturating_duration_since(since) > LONGEST_DOUBT;
        if matches!(of_kind.following, Following::Doubtful(since) if is_over(since)) {
            of_kind.following = Following::Complete;
        }
        let is_lost = |place: &&Place| !fresh.contains(place) && !listed.contains(place);
        let lost: Vec<Place> = of_kind.there.keys().filter(is_lost).copied().collect();
        lost.iter().for_each(|place| self.remove(kind, *place));
        lost
    }
}
