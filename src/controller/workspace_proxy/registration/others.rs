//! Decides which registrations count as those of other objects. What a coderd says of itself stops nobody who asks another control
//! plane, but for what an annotation would take over.

use super::record::Home;
use crate::coderd::Uuid;
use std::collections::BTreeSet;

/// The registrations that other objects of the cluster have recorded, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OfOthers {
    known: BTreeSet<(Home, Uuid)>,
    /// An object of the namespace of which it is not known what it has recorded.
    unread: Option<String>,
    /// Whether there is such an object in another namespace.
    unread_elsewhere: bool,
}

impl OfOthers {
    /// With what another object has recorded.
    pub(crate) fn know(&mut self, recorded: Vec<(Home, Uuid)>) {
        self.known.extend(recorded);
    }

    /// With an object of the namespace of which it is not known what it has recorded.
    pub(crate) fn miss(&mut self, name: &str) {
        self.unread = Some(name.to_owned());
    }

    /// With such an object of another namespace. It keeps nobody from what is his: anybody could stop others by a long status.
    pub(crate) fn miss_elsewhere(&mut self) {
        self.unread_elsewhere = true;
    }

    /// The object of the namespace that may have recorded anything.
    pub(crate) fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }

    /// Whether any object of the cluster may have recorded what an annotation would take over.
    pub(crate) fn is_any_unread(&self) -> bool {
        self.unread.is_some() || self.unread_elsewhere
    }

    /// Whether another object has recorded it in this very coderd.
    pub(crate) fn has(&self, home: &Home, id: Uuid) -> bool {
        self.known.contains(&(home.clone(), id))
    }

    /// Whether another object has recorded it in what claims to be this database, whichever control plane is in front of it.
    pub(crate) fn has_in_database(&self, home: &Home, id: Uuid) -> bool {
        self.known.iter().any(|(other, of)| *of == id && other.deployment == home.deployment)
    }
}

impl FromIterator<(Home, Uuid)> for OfOthers {
    fn from_iter<T: IntoIterator<Item = (Home, Uuid)>>(all: T) -> Self {
        Self { known: all.into_iter().collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_behind_another_control_plane_counts_for_its_database_only() {
        let home = |uid: &str, deployment: &str| Home::behind(uid.to_owned(), deployment.to_owned());
        let (id, free) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        let others: OfOthers = [(home("u1", "d1"), id)].into_iter().collect();
        assert!(others.has(&home("u1", "d1"), id) && !others.has(&home("u2", "d1"), id));
        assert!(others.has_in_database(&home("u2", "d1"), id));
        assert!(
            !others.has_in_database(&home("u1", "d2"), id)
                && !others.has_in_database(&home("u1", "d1"), free)
        );
    }
}
