//! What is kept of a coderd's list of keys: those that matter, whole, and of others the numbers in names that ours could have. It
//! decides nothing about them; which of them are ours `steps` finds out.

use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Daemons, Desired, KeyFacts, Listed, Material, Sight, find, is_same};
use crate::coderd::client::{KeyDaemons, ProvisionerKey};
use crate::coderd::{Client, Error, Uuid};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names that others have taken of which is known which they are.
const MOST_TAKEN: usize = 10_000;

/// What a coderd told of the keys of an organization.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// These are there; and others, of which no more is known than the numbers in their names, which ours could have.
    Listed(Arc<[Listed]>, Arc<BTreeSet<u64>>),
    /// Its license does not cover them.
    NotLicensed,
    /// It cannot be asked now.
    Unreachable,
    /// It is gone for good.
    Gone,
    /// It answers, and has no such organization any more: its keys went with it.
    OrganizationGone,
}

impl Keys {
    /// The keys, if they are known.
    pub(crate) fn listed(&self) -> Option<&[Listed]> {
        match self {
            Self::Listed(listed, _) => Some(listed),
            Self::NotLicensed | Self::Unreachable | Self::Gone | Self::OrganizationGone => None,
        }
    }

    /// The numbers of names of ours that others have.
    pub(crate) fn taken(&self) -> &BTreeSet<u64> {
        static NONE: BTreeSet<u64> = BTreeSet::new();
        match self {
            Self::Listed(_, taken) => taken,
            Self::NotLicensed | Self::Unreachable | Self::Gone | Self::OrganizationGone => &NONE,
        }
    }

    /// What they show of a recorded key.
    pub(super) fn sight(&self, key: &Key) -> Sight {
        match self {
            Self::Listed(listed, _) => {
                find(listed, &key.name).map_or(Sight::Absent, |found| Sight::Listed(found.clone()))
            }
            Self::NotLicensed => Sight::NotLicensed,
            Self::Unreachable => Sight::Unreachable,
            Self::Gone => Sight::HomeGone,
            Self::OrganizationGone => Sight::OrganizationGone,
        }
    }
}

/// Which keys of a list matter. An organization may have thousands of others, of which nothing is kept but the number, where
/// one has a name that ours could have: whoever made it may have given it anything.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Those whose names the spec could take.
    pub desired: Option<&'a Desired>,
    /// Those that are recorded.
    pub record: &'a Record,
    /// Those whose plaintexts we have.
    pub materials: &'a [(SecretPlace, Material)],
}

impl<'a> Wanted<'a> {
    /// Those that are recorded, and no others.
    pub(crate) fn recorded(record: &'a Record) -> Self {
        Self { desired: None, record, materials: &[] }
    }

    fn has(&self, id: Uuid, name: &str) -> bool {
        let has_name = |one: &Option<String>| one.as_ref().is_some_and(|one| is_same(one, name));
        let is_asked_for = |desired: &Desired| has_name(&desired.adopt) || has_name(&desired.former_name);
        let is_held = |material: &Material| matches!(material, Material::Is(facts) if facts.id == id);
        self.desired.is_some_and(is_asked_for)
            || self.record.keys().any(|key| key.id == Some(id) || is_same(&key.name, name))
            || self.materials.iter().any(|(_, material)| is_held(material))
    }

    /// Notes the number in a name that ours could have. Of too many the lowest are kept: those are the next of ours.
    fn note_taken(&self, name: &str, taken: &mut BTreeSet<u64>) {
        taken.extend(self.desired.and_then(|desired| desired.number_of(name)));
        if taken.len() > MOST_TAKEN {
            taken.pop_last();
        }
    }
}

/// What a coderd tells of the keys of an organization.
pub(super) async fn told_by(client: &Client, home: &Home, wanted: Wanted<'_>) -> Result<Keys, Error> {
    match list(client, home, wanted).await {
        Ok((listed, taken)) => Ok(Keys::Listed(listed.into(), taken.into())),
        Err(Error::NotLicensed { .. } | Error::RouteMissing { .. }) => Ok(Keys::NotLicensed),
        Err(error) if is_organization_gone(client, home, &error).await => Ok(Keys::OrganizationGone),
        Err(error) => Err(error),
    }
}

/// Whether coderd proves that an organization is gone: it does not have it by its id, and it would show it to this user if it
/// had. To anybody else what is hidden looks the same.
async fn is_organization_gone(client: &Client, home: &Home, error: &Error) -> bool {
    if !matches!(error, Error::NotFoundOrForbidden { .. }) {
        return false;
    }
    let asked = client.organization_by_id(home.organization).await;
    if !matches!(asked, Err(Error::NotFoundOrForbidden { .. })) {
        return false;
    }
    client.me().await.is_ok_and(|me| me.reads_every_organization())
}

/// The keys, with their daemons. In a large organization the list of daemons is more than is read: then it is not known who
/// uses a key.
async fn list(
    client: &Client,
    home: &Home,
    wanted: Wanted<'_>,
) -> Result<(Vec<Listed>, BTreeSet<u64>), Error> {
    // Of tags the hash is enough, and whoever answers chooses how many there are.
    let keep = |key: ProvisionerKey| (key.created_at, KeyFacts::of(key));
    let mut taken = BTreeSet::new();
    let is_wanted = |id: Uuid, name: &str| {
        let is_wanted = wanted.has(id, name);
        if !is_wanted {
            wanted.note_taken(name, &mut taken);
        }
        is_wanted
    };
    let keys = client.provisioner_keys_as(home.organization, is_wanted, keep).await?;
    let ids: BTreeSet<Uuid> = keys.iter().map(|(_, facts)| facts.id).collect();
    let daemons = match client.provisioner_key_daemons(home.organization, |id| ids.contains(&id)).await {
        Ok(all) => Some(all.into_iter().map(|KeyDaemons { key, names }| (key, names)).collect()),
        Err(Error::TooLarge { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok((listed(keys, daemons), taken))
}

/// Keys with their daemons, if those are known.
fn listed(
    keys: Vec<(Timestamp, KeyFacts)>,
    daemons: Option<BTreeMap<Uuid, BTreeSet<String>>>,
) -> Vec<Listed> {
    let of = |id: Uuid| match &daemons {
        Some(all) => Daemons::Seen(all.get(&id).cloned().unwrap_or_default()),
        None => Daemons::Unknown,
    };
    let one =
        |(created_at, facts): (Timestamp, KeyFacts)| Listed { daemons: of(facts.id), created_at, facts };
    keys.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_foreign_key_under_a_name_of_ours_the_number_is_kept_and_of_too_many_the_lowest() {
        let organization = Uuid::random().unwrap();
        let place = SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() };
        let desired = Desired {
            home: Home::unknown(organization),
            base: "builders".to_owned(),
            tags: BTreeMap::new(),
            tags_hash: String::new(),
            place,
            adopt: Some("theirs".to_owned()),
            former_name: None,
        };
        let record = Record::default();
        let wanted = Wanted { desired: Some(&desired), record: &record, materials: &[] };
        let id = Uuid::random().unwrap();
        assert!(
            wanted.has(id, "Theirs") && !wanted.has(id, "builders-2"),
            "whoever made that is not ours to read"
        );
        let mut taken = BTreeSet::new();
        for name in ["Builders", "builders-7", "builders-07", "other", "builders-18446744073709551615"] {
            wanted.note_taken(name, &mut taken);
        }
        assert_eq!(taken, BTreeSet::from([1, 7, u64::MAX]));
        (2..=MOST_TAKEN as u64 + 5)
            .for_each(|number| wanted.note_taken(&format!("builders-{number}"), &mut taken));
        assert_eq!((taken.len(), taken.last()), (MOST_TAKEN, Some(&(MOST_TAKEN as u64))));
    }
}
