//! The coderds that the keys of a provisioner are in: the one that is asked for, and those that earlier specs named. Each is
//! asked with its own control plane's token, at its own address, once in a reconcile and as long as there is time; what its
//! lists show is what `steps` sees.

use super::lists::{Keys, Wanted, told_by};
use super::record::{Home, Key, Record};
use super::seen::{Listed, Sight};
use crate::coderd::client::Deletion;
use crate::coderd::{Client, Error, Operation};
use crate::controller::attached::coderds::{Coderd, Coderds, TimeLimit};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::timeout;

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
}

impl<'a> Homes<'a> {
    pub(crate) fn new(coderds: Coderds<'a>) -> Self {
        Self { coderds, lists: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// Takes over the coderd that is asked for, of this control plane and deployment, which was reached with the credentials of
    /// the spec.
    pub(crate) fn know(&mut self, control_plane: &str, deployment: &str, client: &Client) {
        self.coderds.know(control_plane, deployment, client);
    }

    /// How long they may be asked.
    pub(crate) fn time(&self) -> TimeLimit {
        self.coderds.time
    }

    /// Gives them at least so much more time: something must end, however late it is.
    pub(crate) fn extend(&mut self, by: Duration) {
        let until = &mut self.coderds.time.until;
        *until = (*until).max(Instant::now() + by);
    }

    /// What failed, where: nothing if everybody answered.
    pub(crate) fn told(&self) -> Option<String> {
        let all: BTreeSet<&str> =
            self.failed.values().chain(self.coderds.unreached()).map(String::as_str).collect();
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
        self.coderds.fail_control_plane(uid, why);
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

    /// Whether coderd would show the keys of an organization to the user of this token.
    pub(crate) async fn may_read(&mut self, home: &Home) -> Result<bool, Silent> {
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
