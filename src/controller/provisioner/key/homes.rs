//! The coderds that the keys of a provisioner are in: the one that is asked for, and those that earlier specs named. Each is
//! asked with its own control plane's token, at its own address, once in a reconcile and as long as there is time; what its
//! lists show is what `steps` sees.

use super::lists::{Keys, Wanted, told_by};
use super::record::{Home, Key, Record};
use super::seen::{Listed, Sight};
use crate::coderd::client::Deletion;
use crate::coderd::{Client, Error, Operation};
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::{self, ControlPlanes, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::unreached::Unreached;
use crate::kubernetes::{CallError, KindName, Target};
use kube::Resource;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The kind of control planes.
pub(crate) const CONTROL_PLANE: KindName = ["coder.com/v1alpha1", "CoderControlPlane", "codercontrolplanes"];
/// How long another coderd than the one that is asked for may take: two lists of five seconds each.
const ELSEWHERE: Duration = Duration::from_secs(12);

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

/// How long coderds may be asked in a reconcile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// Until then.
    pub until: Instant,
    /// How much of it is kept for the coderd that is asked for.
    pub reserved: Duration,
}

impl TimeLimit {
    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// How coderds are reached and what they told: once in a reconcile, and again after a write of ours there.
pub(crate) struct Homes<'a> {
    access: &'a ControlPlaneAccess,
    control_planes: &'a ControlPlanes,
    namespace: &'a str,
    /// How long they may be asked.
    pub(crate) time: TimeLimit,
    /// By control plane and deployment: one coderd has many organizations.
    reached: BTreeMap<(String, String), Elsewhere>,
    lists: BTreeMap<Home, Keys>,
    /// Where something failed, and what: nothing more is asked there.
    failed: BTreeMap<Home, String>,
    /// Why the control plane of the spec could not be asked.
    unreached: Option<String>,
}

#[derive(Clone)]
enum Elsewhere {
    Client(Client),
    Unreachable(String),
    Gone,
}

impl<'a> Homes<'a> {
    pub(crate) fn new(
        access: &'a ControlPlaneAccess,
        control_planes: &'a ControlPlanes,
        namespace: &'a str,
        time: TimeLimit,
    ) -> Self {
        let (reached, lists, failed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { access, control_planes, namespace, time, reached, lists, failed, unreached: None }
    }

    /// Takes over the coderd that is asked for, of this control plane and deployment, which was reached with the credentials of
    /// the spec.
    pub(crate) fn know(&mut self, control_plane: &str, deployment: &str, client: &Client) {
        let place = (control_plane.to_owned(), deployment.to_owned());
        self.reached.insert(place, Elsewhere::Client(client.clone()));
    }

    /// What failed, where: nothing if everybody answered.
    pub(crate) fn told(&self) -> Option<String> {
        let all: BTreeSet<&str> = self.failed.values().chain(&self.unreached).map(String::as_str).collect();
        let all: Vec<&str> = all.into_iter().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Notes that something failed in a coderd: it is not asked again in this reconcile.
    pub(crate) fn fail(&mut self, home: &Home, why: &dyn std::fmt::Display) {
        let told = self.named(&home.control_plane, why);
        self.failed.insert(home.clone(), told);
    }

    /// Notes that the control plane of the spec cannot be asked: its earlier keys are asked for with the operator's own token.
    pub(crate) fn fail_control_plane(&mut self, uid: &str, why: &dyn std::fmt::Display) {
        self.unreached = Some(self.named(uid, why));
    }

    fn named(&self, uid: &str, why: &dyn std::fmt::Display) -> String {
        let all = self.control_planes.all();
        let named = all.iter().find(|one| one.meta().uid.as_deref() == Some(uid));
        let name = named.and_then(|one| one.meta().name.clone());
        let name = name.unwrap_or_else(|| format!("with uid {uid}"));
        format!("control plane {name}: {why}")
    }

    /// The keys of an organization of the coderd that is asked for that are wanted.
    pub(crate) async fn keys(&mut self, home: &Home, wanted: Wanted<'_>) -> Result<Keys, Error> {
        let late = Error::TimedOut { operation: Operation::ProvisionerKeys };
        match timeout(self.time.left(), self.ask(home, wanted)).await {
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
        let limit = self.time.left().saturating_sub(self.time.reserved).min(ELSEWHERE);
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

    /// Whether coderd would show the keys of an organization to the user of this token.
    pub(crate) async fn may_read(&mut self, home: &Home) -> Result<bool, Silent> {
        let Elsewhere::Client(client) = self.reach(home).await else { return Ok(false) };
        let late = Error::TimedOut { operation: Operation::Authcheck };
        let asked = timeout(self.time.left(), client.may_read_provisioner_keys(home.organization)).await;
        Ok(asked.map_err(|_| late)??)
    }

    /// Deletes a key by its name; whatever was listed there is listed again.
    pub(crate) async fn delete(&mut self, key: &Key) -> Result<Deletion, Silent> {
        let client = match self.reach(&key.home).await {
            Elsewhere::Client(client) => client,
            Elsewhere::Unreachable(why) => return Err(Silent::Unreached(why)),
            Elsewhere::Gone => return Ok(Deletion::Impossible),
        };
        self.forget(&key.home);
        let late = Error::TimedOut { operation: Operation::DeleteProvisionerKey };
        let deletion = client.delete_provisioner_key(key.home.organization, &key.name);
        Ok(timeout(self.time.left(), deletion).await.map_err(|_| late)??)
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
            Elsewhere::Client(client) => told_by(&client, home, wanted).await?,
            Elsewhere::Unreachable(why) => return Err(Silent::Unreached(why)),
            Elsewhere::Gone => Keys::Gone,
        };
        self.lists.insert(home.clone(), keys.clone());
        Ok(keys)
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
    async fn dial(&self, home: &Home) -> Elsewhere {
        let control_plane =
            match control_planes::of_uid(self.control_planes, self.namespace, &home.control_plane) {
                Found::There(control_plane) => control_plane,
                Found::Gone => {
                    return match self.is_there(&home.control_plane).await {
                        Ok(false) => self.of_same_database(home),
                        Ok(true) => Elsewhere::Unreachable("it is not in the watch yet".to_owned()),
                        Err(error) => Elsewhere::Unreachable(error.to_string()),
                    };
                }
                Found::Unreadable(why) => {
                    return Elsewhere::Unreachable(format!(
                        "its CoderControlPlane is invalid ({why}); correct it"
                    ));
                }
                Found::Unlisted => return Elsewhere::Unreachable("it is not listed yet".to_owned()),
            };
        match self.access.reach(&control_plane, Credentials::Operator).await {
            Ok(reached) => match reached.deployment() {
                Ok(deployment) if deployment == home.deployment => Elsewhere::Client(reached.client),
                Ok(_) => Elsewhere::Gone,
                Err(untold) => Elsewhere::Unreachable(untold.to_string()),
            },
            Err(Unreached::Going { .. }) => Elsewhere::Gone,
            Err(unreached) => Elsewhere::Unreachable(unreached.to_string()),
        }
    }

    /// The coderd of a control plane that is gone, if another one was reached on its database: one that was deleted and made
    /// anew, say. Whoever claims a database that it is not can have a key of the recorded id deleted in its own, and no other.
    fn of_same_database(&self, home: &Home) -> Elsewhere {
        let is_it = |deployment: &str| !home.deployment.is_empty() && deployment == home.deployment;
        let mut known = self.reached.iter().filter(|((_, deployment), _)| is_it(deployment));
        let client = known.find_map(|(_, reached)| match reached {
            Elsewhere::Client(client) => Some(Elsewhere::Client(client.clone())),
            Elsewhere::Unreachable(_) | Elsewhere::Gone => None,
        });
        // One that cannot be asked now may be it.
        let unreached = || self.unreached.clone().map(Elsewhere::Unreachable);
        client.or_else(unreached).unwrap_or(Elsewhere::Gone)
    }

    /// Whether the API server has a control plane of this uid: that it is gone is not concluded from a watch alone.
    async fn is_there(&self, uid: &str) -> Result<bool, CallError> {
        let mut is_there = false;
        let all = Target::of(CONTROL_PLANE, self.namespace, "");
        let look = |one: kube::core::ObjectMeta| is_there |= one.uid.as_deref() == Some(uid);
        self.access.kube.labelled_metadata(all, "", look).await?;
        Ok(is_there)
    }
}

fn place(home: &Home) -> (String, String) {
    (home.control_plane.clone(), home.deployment.clone())
}
