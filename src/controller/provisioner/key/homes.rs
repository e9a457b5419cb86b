//! The coderds that the keys of a provisioner are in: the one that is asked for, and those that earlier specs named. Each is
//! asked with its own control plane's token, at its own address, once in a reconcile and as long as there is time; what its
//! lists show is what `steps` sees.

use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Daemons, Desired, KeyFacts, Listed, Material, Sight, find, is_same};
use crate::coderd::client::{Deletion, KeyDaemons, ProvisionerKey};
use crate::coderd::{Client, Error, Operation, Uuid};
use crate::controller::attached::coderds::{Coderd, Coderds, TimeLimit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::timeout;

/// What a coderd told of the keys of an organization.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// These are there.
    Listed(Arc<[Listed]>),
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
            Self::Listed(listed) => Some(listed),
            Self::NotLicensed | Self::Unreachable | Self::Gone | Self::OrganizationGone => None,
        }
    }

    /// What they show of a recorded key.
    fn sight(&self, key: &Key) -> Sight {
        match self {
            Self::Listed(listed) => {
                find(listed, &key.name).map_or(Sight::Absent, |found| Sight::Listed(found.clone()))
            }
            Self::NotLicensed => Sight::NotLicensed,
            Self::Unreachable => Sight::Unreachable,
            Self::Gone => Sight::HomeGone,
            Self::OrganizationGone => Sight::OrganizationGone,
        }
    }
}

/// Which keys of a list matter. An organization may have thousands of others, of which nothing is kept.
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
        let is_asked_for = |desired: &Desired| {
            desired.number_of(name).is_some() || has_name(&desired.adopt) || has_name(&desired.former_name)
        };
        let is_held = |material: &Material| matches!(material, Material::Is(facts) if facts.id == id);
        self.desired.is_some_and(is_asked_for)
            || self.record.keys().any(|key| key.id == Some(id) || is_same(&key.name, name))
            || self.materials.iter().any(|(_, material)| is_held(material))
    }
}

/// Why a coderd did not tell.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Silent {
    /// A call failed.
    #[error(transparent)]
    Coderd(#[from] Error),
    /// It could not be reached.
    #[error("{0}")]
    Unreached(String),
}

/// How coderds are reached and what they told: once in a reconcile, and again after a write of ours there.
pub(crate) struct Homes<'a> {
    coderds: Coderds<'a>,
    lists: BTreeMap<Home, Keys>,
    /// Where something failed, and what: nothing more is asked there.
    failed: BTreeMap<Home, String>,
    /// Why the control plane of the spec could not be asked.
    unreached: Option<String>,
}

impl<'a> Homes<'a> {
    pub(crate) fn new(coderds: Coderds<'a>) -> Self {
        Self { coderds, lists: BTreeMap::new(), failed: BTreeMap::new(), unreached: None }
    }

    /// Takes over the coderd that is asked for, which was reached with the credentials of the spec.
    pub(crate) fn know(&mut self, home: &Home, client: &Client) {
        self.coderds.know(&home.control_plane, &home.deployment, client);
    }

    /// How long they may be asked.
    pub(crate) fn time(&self) -> TimeLimit {
        self.coderds.time
    }

    /// What failed, where: nothing if everybody answered.
    pub(crate) fn told(&self) -> Option<String> {
        let all: BTreeSet<&str> = self.failed.values().chain(&self.unreached).map(String::as_str).collect();
        let all: Vec<&str> = all.into_iter().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Notes that something failed in a coderd: it is not asked again in this reconcile.
    pub(crate) fn fail(&mut self, home: &Home, why: &dyn std::fmt::Display) {
        let told = self.coderds.named(&home.control_plane, why);
        self.failed.insert(home.clone(), told);
    }

    /// Notes that the control plane of the spec cannot be asked: its earlier keys are asked for with the operator's own token.
    pub(crate) fn fail_control_plane(&mut self, uid: &str, why: &dyn std::fmt::Display) {
        self.unreached = Some(self.coderds.named(uid, why));
    }

    /// The keys of an organization of the coderd that is asked for that are wanted.
    pub(crate) async fn keys(&mut self, home: &Home, wanted: Wanted<'_>) -> Result<Keys, Error> {
        let late = Error::TimedOut { operation: Operation::ProvisionerKeys };
        match timeout(self.time().left(), self.ask(home, wanted)).await {
            Ok(Ok(keys)) => Ok(keys),
            Ok(Err(Silent::Coderd(error))) => Err(error),
            // It was reached before.
            Ok(Err(Silent::Unreached(_))) => Ok(Keys::Unreachable),
            Err(_) => Err(late),
        }
    }

    /// The recorded keys of an organization of any coderd. One that does not answer holds nobody up.
    pub(crate) async fn keys_elsewhere(&mut self, home: &Home, record: &Record) -> Keys {
        if self.failed.contains_key(home) {
            return Keys::Unreachable;
        }
        let limit = self.time().left_elsewhere();
        match timeout(limit, self.ask(home, Wanted::recorded(record))).await {
            Ok(Ok(keys)) => return keys,
            Ok(Err(why)) => self.fail(home, &why),
            Err(_) => self.fail(home, &"it did not answer in time"),
        }
        Keys::Unreachable
    }

    /// What is seen of a recorded key, given the keys of its organization. That one is absent counts only if it would be shown
    /// if it were there: to whoever may not see keys a list is empty.
    pub(crate) async fn sight(&mut self, key: &Key, keys: &Keys) -> Sight {
        if self.failed.contains_key(&key.home) {
            return Sight::Unreachable;
        }
        let sight = keys.sight(key);
        let may_be_there = key.id.is_some() || key.attempted;
        let shows_none = keys.listed().is_some_and(<[Listed]>::is_empty);
        if sight != Sight::Absent || !shows_none || !may_be_there {
            return sight;
        }
        let why = match self.may_read(&key.home).await {
            Ok(true) => return sight,
            Ok(false) => "coderd does not show provisioner keys to the operator's user".to_owned(),
            Err(why) => why.to_string(),
        };
        self.fail(&key.home, &why);
        Sight::Unreachable
    }

    async fn may_read(&mut self, home: &Home) -> Result<bool, Silent> {
        let Coderd::Client(client) = self.reach(home).await else { return Ok(false) };
        let late = Error::TimedOut { operation: Operation::Authcheck };
        let asked = timeout(self.time().left(), client.may_read_provisioner_keys(home.organization)).await;
        Ok(asked.map_err(|_| late)??)
    }

    /// Deletes a key by its name; whatever was listed there is listed again.
    pub(crate) async fn delete(&mut self, key: &Key) -> Result<Deletion, Silent> {
        let client = match self.reach(&key.home).await {
            Coderd::Client(client) => client,
            Coderd::Unreachable(why) => return Err(Silent::Unreached(why)),
            Coderd::Gone => return Ok(Deletion::Impossible),
        };
        self.forget(&key.home);
        let late = Error::TimedOut { operation: Operation::DeleteProvisionerKey };
        let deletion = client.delete_provisioner_key(key.home.organization, &key.name);
        Ok(timeout(self.time().left(), deletion).await.map_err(|_| late)??)
    }

    /// Forgets what an organization listed: something was changed there.
    pub(crate) fn forget(&mut self, home: &Home) {
        self.lists.remove(home);
    }

    /// What is wanted of one organization stays the same until something is written there, so that a list stands for it.
    async fn ask(&mut self, home: &Home, wanted: Wanted<'_>) -> Result<Keys, Silent> {
        if let Some(known) = self.lists.get(home) {
            return Ok(known.clone());
        }
        let keys = match self.reach(home).await {
            Coderd::Client(client) => told_by(&client, home, wanted).await?,
            Coderd::Unreachable(why) => return Err(Silent::Unreached(why)),
            Coderd::Gone => Keys::Gone,
        };
        self.lists.insert(home.clone(), keys.clone());
        Ok(keys)
    }

    async fn reach(&mut self, home: &Home) -> Coderd {
        self.coderds.reach(&home.control_plane, &home.deployment).await
    }
}

/// What a coderd tells of the keys of an organization.
async fn told_by(client: &Client, home: &Home, wanted: Wanted<'_>) -> Result<Keys, Error> {
    match list(client, home, wanted).await {
        Ok(listed) => Ok(Keys::Listed(listed.into())),
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
async fn list(client: &Client, home: &Home, wanted: Wanted<'_>) -> Result<Vec<Listed>, Error> {
    let keys = client.provisioner_keys(home.organization, |id, name| wanted.has(id, name)).await?;
    let ids: BTreeSet<Uuid> = keys.iter().map(|key| key.id).collect();
    let daemons = match client.provisioner_key_daemons(home.organization, |id| ids.contains(&id)).await {
        Ok(all) => Some(all.into_iter().map(|KeyDaemons { key, names }| (key, names)).collect()),
        Err(Error::TooLarge { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(listed(keys, daemons))
}

/// Keys with their daemons, if those are known.
fn listed(keys: Vec<ProvisionerKey>, daemons: Option<BTreeMap<Uuid, BTreeSet<String>>>) -> Vec<Listed> {
    let of = |id: Uuid| match &daemons {
        Some(all) => Daemons::Seen(all.get(&id).cloned().unwrap_or_default()),
        None => Daemons::Unknown,
    };
    let one = |key: ProvisionerKey| Listed {
        daemons: of(key.id),
        created_at: key.created_at,
        facts: KeyFacts::of(key),
    };
    keys.into_iter().map(one).collect()
}
