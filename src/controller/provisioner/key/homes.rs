//! The coderds that the keys of a provisioner are in: the one that is asked for, and those that earlier specs named. Each is
//! asked with its own control plane's token, at its own address; what its lists show is what `steps` sees.

use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Daemons, Desired, KeyFacts, Listed, Material, Sight, find, is_same};
use crate::coderd::client::{KeyDaemons, ProvisionerKey};
use crate::coderd::{Client, Error, Uuid};
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::{self, ControlPlanes, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::unreached::Unreached;
use std::collections::{BTreeMap, BTreeSet};

/// What a coderd told of the keys of an organization.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    /// These are there.
    Listed(Vec<Listed>),
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
    pub(crate) fn sight(&self, key: &Key) -> Sight {
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

/// How other coderds than the one that is asked for are reached: once in a reconcile.
pub(crate) struct Homes<'a> {
    access: &'a ControlPlaneAccess,
    control_planes: &'a ControlPlanes,
    namespace: &'a str,
    /// By control plane and deployment: one coderd has many organizations.
    reached: BTreeMap<(String, String), Elsewhere>,
    /// Why the last of them that could not be asked could not be.
    pub(crate) unreached: Option<String>,
}

#[derive(Clone)]
enum Elsewhere {
    Client(Client),
    Unreachable,
    Gone,
}

impl<'a> Homes<'a> {
    pub(crate) fn new(
        access: &'a ControlPlaneAccess,
        control_planes: &'a ControlPlanes,
        namespace: &'a str,
    ) -> Self {
        Self { access, control_planes, namespace, reached: BTreeMap::new(), unreached: None }
    }

    /// Takes over the coderd that is asked for, which was reached with the credentials of the spec.
    pub(crate) fn know(&mut self, home: &Home, client: &Client) {
        self.reached.insert(place(home), Elsewhere::Client(client.clone()));
    }

    /// The client of a coderd, if it can be asked.
    pub(crate) async fn client(&mut self, home: &Home) -> Option<Client> {
        match self.reach(home).await {
            Elsewhere::Client(client) => Some(client),
            Elsewhere::Unreachable | Elsewhere::Gone => None,
        }
    }

    /// The keys of an organization that are wanted.
    pub(crate) async fn keys(&mut self, home: &Home, wanted: Wanted<'_>) -> (Keys, Option<Error>) {
        let client = match self.reach(home).await {
            Elsewhere::Client(client) => client,
            Elsewhere::Unreachable => return (Keys::Unreachable, None),
            Elsewhere::Gone => return (Keys::Gone, None),
        };
        match self.list(&client, home, wanted).await {
            Ok(listed) => (Keys::Listed(listed), None),
            Err(error @ (Error::NotLicensed { .. } | Error::RouteMissing { .. })) => {
                (Keys::NotLicensed, Some(error))
            }
            Err(error) => match self.is_organization_gone(&client, home, &error).await {
                true => (Keys::OrganizationGone, Some(error)),
                false => {
                    self.unreached = Some(error.to_string());
                    (Keys::Unreachable, Some(error))
                }
            },
        }
    }

    /// Whether coderd proves that an organization is gone: it does not have it by its id, and it would show it to this user if
    /// it had. To anybody else what is hidden looks the same.
    async fn is_organization_gone(&self, client: &Client, home: &Home, error: &Error) -> bool {
        if !matches!(error, Error::NotFoundOrForbidden { .. }) {
            return false;
        }
        let asked = client.organization_by_id(home.organization).await;
        if !matches!(asked, Err(Error::NotFoundOrForbidden { .. })) {
            return false;
        }
        client.me().await.is_ok_and(|me| me.reads_every_organization())
    }

    /// The keys, with their daemons. In a large organization the list of daemons is more than is read: then it is not known
    /// who uses a key.
    async fn list(&self, client: &Client, home: &Home, wanted: Wanted<'_>) -> Result<Vec<Listed>, Error> {
        let keys = client.provisioner_keys(home.organization, |id, name| wanted.has(id, name)).await?;
        let ids: BTreeSet<Uuid> = keys.iter().map(|key| key.id).collect();
        let daemons = match client.provisioner_key_daemons(home.organization, |id| ids.contains(&id)).await {
            Ok(all) => Some(all.into_iter().map(|KeyDaemons { key, names }| (key, names)).collect()),
            Err(Error::TooLarge { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(listed(keys, daemons))
    }

    async fn reach(&mut self, home: &Home) -> Elsewhere {
        if let Some(known) = self.reached.get(&place(home)) {
            return known.clone();
        }
        let reached = self.dial(home).await;
        self.reached.insert(place(home), reached.clone());
        reached
    }

    /// Only the very control plane that was recorded is asked, with its own token; and only the very database behind it.
    async fn dial(&mut self, home: &Home) -> Elsewhere {
        let control_plane =
            match control_planes::of_uid(self.control_planes, self.namespace, &home.control_plane) {
                Found::There(control_plane) => control_plane,
                Found::Gone => return Elsewhere::Gone,
                Found::Unreadable(why) => {
                    self.unreached = Some(format!("its CoderControlPlane is invalid ({why}); correct it"));
                    return Elsewhere::Unreachable;
                }
                Found::Unlisted => return Elsewhere::Unreachable,
            };
        match self.access.reach(&control_plane, Credentials::Operator).await {
            Ok(reached) if reached.deployment_id.as_deref().unwrap_or_default() == home.deployment => {
                Elsewhere::Client(reached.client)
            }
            Ok(_) | Err(Unreached::Going { .. }) => Elsewhere::Gone,
            Err(unreached) => {
                self.unreached = Some(unreached.to_string());
                Elsewhere::Unreachable
            }
        }
    }
}

fn place(home: &Home) -> (String, String) {
    (home.control_plane.clone(), home.deployment.clone())
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
