//! Decides which of two objects of a kind that ask for one name in coderd has the older claim. Pure: it compares what the specs
//! ask for, and never looks into coderd.

use crds::names::as_coderd_compares;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What an object asks for, and who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) created: Option<Time>,
    /// Whether it has it already: of two that were created in one second, that one counts as older.
    pub(crate) has_it: bool,
    /// The name, and where: the uid of the control plane, an organization. Two control planes may share a database: what one
    /// finds taken there is left alone like anything of others, since nothing that a coderd says of itself may stop somebody
    /// else's object.
    pub(crate) of: Vec<String>,
}

/// Whether two names are one for coderd, which does not tell upper and lower case apart.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || as_coderd_compares(one) == as_coderd_compares(other)
}

impl Claim {
    fn is_for_that_of(&self, other: &Self) -> bool {
        let same = self.of.iter().zip(&other.of).all(|(one, other)| is_same(one, other));
        same && self.of.len() == other.of.len()
    }

    fn age(&self) -> (Option<&Time>, bool, &str) {
        (self.created.as_ref(), !self.has_it, &self.uid)
    }
}

/// The object whose older claim stands in the way of this one.
pub(crate) fn older<'a>(mine: &Claim, others: &'a [Claim]) -> Option<&'a Claim> {
    let mut rivals: Vec<&Claim> = others
        .iter()
        .filter(|other| other.uid != mine.uid && mine.is_for_that_of(other) && other.age() < mine.age())
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
            has_it: false,
            of: vec!["u1".to_owned(), "default".to_owned(), key.to_owned()],
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
        let holder = Claim { has_it: true, ..third };
        assert_eq!(older(&holder, &all[1..2]), None, "but whoever has it keeps it");
        assert_eq!(older(&second, &[holder]).map(|one| &*one.uid), Some("c"));
    }

    #[test]
    fn another_control_plane_organization_or_name_is_no_rival() {
        let mine = claim("z", 9, "builders");
        let of = |place: [&str; 3]| Claim { of: place.map(str::to_owned).to_vec(), ..claim("a", 1, "") };
        for other in [
            of(["u2", "default", "builders"]),
            of(["u1", "team", "builders"]),
            of(["u1", "default", "builders-2"]),
        ] {
            assert_eq!(older(&mine, &[other]), None);
        }
    }
}
