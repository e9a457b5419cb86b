//! The coderds that the keys of a provisioner are in: the one that is asked for, and those that earlier specs named. Each is
//! asked with its own control plane's token, at its own address; what its lists show is what `steps` sees.

use super::record::{Home, Key};
use super::seen::{KeyFacts, Listed, Sight, UNKNOWN, find};
use crate::coderd::client::ProvisionerKey;
use crate::coderd::{Client, Error, Uuid};
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::{self, ControlPlanes, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::unreached::Unreached;
use std::collections::BTreeMap;

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
}

impl Keys {
    /// The keys, if they are known.
    pub(crate) fn listed(&self) -> Option<&[Listed]> {
        match self {
            Self::Listed(listed) => Some(listed),
            Self::NotLicensed | Self::Unreachable | Self::Gone => None,
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
        }
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

    /// The keys of an organization.
    pub(crate) async fn keys(&mut self, home: &Home) -> (Keys, Option<Error>) {
        let client = match self.reach(home).await {
            Elsewhere::Client(client) => client,
            Elsewhere::Unreachable => return (Keys::Unreachable, None),
            Elsewhere::Gone => return (Keys::Gone, None),
        };
        match self.list(&client, home).await {
            Ok(listed) => (Keys::Listed(listed), None),
            Err(error @ (Error::NotLicensed { .. } | Error::RouteMissing { .. })) => {
                (Keys::NotLicensed, Some(error))
            }
            Err(error) => {
                self.unreached = Some(error.to_string());
                (Keys::Unreachable, Some(error))
            }
        }
    }

    /// The keys, with the number of their daemons. In a large organization the list of daemons is more than is read: then it is
    /// not known who uses a key.
    async fn list(&self, client: &Client, home: &Home) -> Result<Vec<Listed>, Error> {
        let keys = client.provisioner_keys(home.organization).await?;
        let daemons: Option<BTreeMap<Uuid, usize>> =
            match client.provisioner_key_daemons(home.organization).await {
                Ok(all) => Some(all.into_iter().map(|one| (one.key.id, one.daemons.len())).collect()),
                Err(Error::TooLarge { .. }) => None,
                Err(error) => return Err(error),
            };
        let count =
            |id: Uuid| daemons.as_ref().map_or(UNKNOWN, |all| all.get(&id).copied().unwrap_or_default());
        Ok(keys.into_iter().map(|key| listed(key, &count)).collect())
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

fn listed(key: ProvisionerKey, count: &impl Fn(Uuid) -> usize) -> Listed {
    let daemons = count(key.id);
    let facts = KeyFacts { id: key.id, organization: key.organization_id, name: key.name, tags: key.tags };
    Listed { facts, created_at: key.created_at, daemons }
}
