//! Decides which of two provisioners that ask for one key has the older claim. Pure: it compares what the specs ask for, and
//! never looks into coderd.

use super::key::seen::is_same;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What a provisioner asks for, and who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) created: Option<Time>,
    /// Whether it has a key already: of two that were created in one second, that one counts as older.
    pub(super) has_key: bool,
    /// Uid of the control plane. Two of them may share a database: what one finds taken there is left alone like any key of
    /// others, since nothing that a coderd says of itself may stop somebody else's provisioner.
    pub(super) control_plane: String,
    /// Name of the organization.
    pub(super) organization: String,
    /// Name of the first key.
    pub(super) key: String,
}

impl Claim {
    fn is_for_the_key_of(&self, other: &Self) -> bool {
        self.control_plane == other.control_plane
            && is_same(&self.organization, &other.organization)
            && is_same(&self.key, &other.key)
    }

    fn age(&self) -> (Option<&Time>, bool, &str) {
        (self.created.as_ref(), !self.has_key, &self.uid)
    }
}

/// The provisioner whose older claim stands in the way of this one.
pub(super) fn older<'a>(mine: &Claim, others: &'a [Claim]) -> Option<&'a Claim> {
    let mut rivals: Vec<&Claim> = others
        .iter()
        .filter(|other| other.uid != mine.uid && mine.is_for_the_key_of(other) && other.age() < mine.age())
        .collect();
    rivals.sort_by(|one, other| one.age().cmp(&other.age()));
    rivals.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    fn claim(uid: &str, second: i64, key: &str) -> Claim {
        Claim {
            name: uid.to_owned(),
            uid: uid.to_owned(),
            created: Some(Time(Timestamp::from_second(second).unwrap())),
            has_key: false,
            control_plane: "u1".to_owned(),
            organization: "default".to_owned(),
            key: key.to_owned(),
        }
    }

    #[test]
    fn the_oldest_keeps_a_name_however_it_is_written() {
        let (first, second, third) =
            (claim("a", 1, "Builders"), claim("b", 2, "builders"), claim("c", 2, "BUILDERS"));
        let all = [first.clone(), second.clone(), third.clone()];
        assert_eq!(older(&first, &all), None);
        assert_eq!(older(&second, &all).map(|one| &*one.uid), Some("a"));
        assert_eq!(older(&third, &all[1..]).map(|one| &*one.uid), Some("b"), "of one second the uid decides");
        let holder = Claim { has_key: true, ..third };
        assert_eq!(older(&holder, &all[1..2]), None, "but whoever has the key keeps it");
        assert_eq!(older(&second, &[holder]).map(|one| &*one.uid), Some("c"));
    }

    #[test]
    fn another_control_plane_organization_or_name_is_no_rival() {
        let mine = claim("z", 9, "builders");
        for other in [
            Claim { control_plane: "u2".to_owned(), ..claim("a", 1, "builders") },
            Claim { organization: "team".to_owned(), ..claim("a", 1, "builders") },
            claim("a", 1, "builders-2"),
        ] {
            assert_eq!(older(&mine, &[other]), None);
        }
    }
}
