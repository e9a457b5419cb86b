//! Looks at everything the next step of a registration depends on: the Secret, what coderd has under names and ids, whose token
//! something is. It changes nothing; what follows from it is decided in `steps`.

use super::mark::Mark;
use super::others::OfOthers;
use super::record::{Home, Record, Registration};
use super::seen::{Desired, Material, ProxyFacts, Seen, Sight};
use super::work::{RegistrationError, RegistrationWork};
use crate::coderd::client::{WorkspaceProxy, proxy_id_of_token};
use crate::coderd::{Client, Error, Uuid};
use crate::confidential::Confidential;
use crate::controller::attached::claims::is_same;
use crate::controller::attached::coderds::Coderd;
use crate::controller::attached::secret::{Content, Found, Proven, SecretPlace};
use crds::well_known::annotation;
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::future::Future;
use tokio::time::timeout;

/// What was seen before a step.
pub(super) struct Look {
    /// The Secret that is asked for: there is no look without it.
    pub(super) asked_for: Found,
    pub(super) material: Material,
    is_proven_here: bool,
    /// The place that pods read so far, if it is another one.
    pub(super) former: Option<(SecretPlace, Found, Material)>,
    /// None if the license does not cover them.
    pub(super) proxies: Option<Vec<WorkspaceProxy>>,
    facts: Option<Vec<ProxyFacts>>,
    retiring: Vec<Sight>,
    pending_elsewhere: Option<Sight>,
    rolled: bool,
    now: Timestamp,
}

impl RegistrationWork<'_> {
    /// What a step is decided from.
    pub(super) fn seen<'b>(&'b self, record: &'b Record, look: &'b Look) -> Seen<'b> {
        Seen {
            has_finalizer: self.has_finalizer,
            desired: self.desired,
            record,
            material: &look.material,
            is_immutable: look.asked_for.is_immutable(),
            is_proven_here: look.is_proven_here,
            former: look.former.as_ref().map(|(place, _, material)| (place, material)),
            proxies: look.facts.as_deref(),
            retiring: &look.retiring,
            pending_elsewhere: look.pending_elsewhere.as_ref(),
            rolled: look.rolled,
            may_roll: self.may_roll,
            admission_disabled: self.admission_disabled,
            entitled: self.entitled && look.proxies.is_some(),
            claimed: self.claimed,
            paused: self.paused,
            of_others: &self.of_others,
            now: look.now,
        }
    }

    /// Looks, as long as there is time.
    pub(super) async fn look(&mut self, record: &Record) -> Result<Look, RegistrationError> {
        let asked_for = self.secrets.read(&self.desired.place).await?;
        let material = self.material(record, &asked_for).await?;
        let mut former = None;
        if let Some(place) = self.former.clone().filter(|place| *place != self.desired.place) {
            let found = self.secrets.read(&place).await?;
            let material = self.material(record, &found).await?;
            former = Some((place, found, material));
        }
        let others = former.as_ref().map(|(_, _, material)| material);
        let proxies = self.proxies(record, [Some(&material), others].into_iter().flatten()).await?;
        let mut retiring = Vec::new();
        for one in &record.retiring {
            retiring.push(self.sight(one).await);
        }
        let pending_elsewhere = match &record.pending {
            Some(pending) if pending.home != self.desired.home => Some(self.sight(pending).await),
            _ => None,
        };
        let is_proven_here = match &record.current {
            Some(current) => self.is_proven_here(current).await?,
            None => false,
        };
        let checksum = asked_for.content.checksum();
        let rolled = self.rolled.as_ref().is_some_and(|with| {
            with.place == self.desired.place && Some(&with.checksum) == checksum.as_ref()
        });
        let facts = proxies.as_ref().map(|all| all.iter().map(facts).collect());
        let now = now();
        Ok(Look {
            asked_for,
            material,
            is_proven_here,
            former,
            proxies,
            facts,
            retiring,
            pending_elsewhere,
            rolled,
            now,
        })
    }

    /// The proxies of the coderd that is asked for that matter; none if its license does not cover them.
    async fn proxies<'m>(
        &self,
        record: &Record,
        materials: impl Iterator<Item = &'m Material>,
    ) -> Result<Option<Vec<WorkspaceProxy>>, RegistrationError> {
        let here = |one: &&Registration| one.home.deployment == self.desired.home.deployment;
        let recorded = || record.current.iter().chain(&record.pending).filter(here);
        let mut names: BTreeSet<&str> =
            recorded().filter(|one| one.id.is_none()).map(|one| one.name.as_str()).collect();
        names.insert(&self.desired.name);
        let mut ids: BTreeSet<Uuid> = recorded().filter_map(|one| one.id).collect();
        ids.extend(materials.filter_map(|material| match material {
            Material::Is(id, _) => Some(*id),
            _ => None,
        }));
        let mut found: Vec<WorkspaceProxy> = Vec::new();
        for name in names {
            match licensed(self.named(name).await)? {
                Some(proxy) => found.extend(proxy),
                None => return Ok(None),
            }
        }
        for id in ids {
            if found.iter().any(|one| one.id == id) {
                continue;
            }
            match licensed(self.in_time(self.client()?.workspace_proxy_unless_gone(id)).await)? {
                Some(proxy) => found.extend(proxy),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    async fn named(&self, name: &str) -> Result<Option<WorkspaceProxy>, RegistrationError> {
        self.in_time(of_name(self.client()?, name)).await
    }

    /// What a place holds. A token is shown to the coderd that it is marked for; one without a mark, which the older operator
    /// left, to the one that is asked for, unless the registration in use is known to be elsewhere.
    async fn material(&mut self, record: &Record, found: &Found) -> Result<Material, RegistrationError> {
        let (token, mark) = match &found.content {
            Content::Nothing => return Ok(Material::Absent),
            Content::Foreign => return Ok(Material::Foreign),
            Content::Plaintext(token, mark) => (token, mark.as_deref().and_then(Mark::read)),
        };
        let current = record.current.as_ref();
        let marked = marked(mark.as_ref(), current);
        // Behind another control plane the same database is the same coderd, once that is recorded.
        let is_current = current.is_some_and(|current| {
            let is_it = |mark: &Mark| current.id == Some(mark.id) && self.is_former(&mark.home);
            current.home == self.desired.home && mark.as_ref().is_some_and(is_it)
        });
        let may_see = |home: &Home| self.desired.home.is_reached_as(home);
        if let Some(home) = marked.filter(|home| !may_see(home) && !is_current) {
            return Ok(Material::Elsewhere(home.clone()));
        }
        let Some(id) = proxy_id_of_token(token) else { return Ok(Material::Rejected) };
        let rotation = mark.filter(|mark| mark.id == id).and_then(|mark| mark.rotation);
        Ok(match self.is_accepted(token).await? {
            Some(true) => Material::Is(id, rotation),
            Some(false) => Material::Ended(id),
            None => Material::Unproven,
        })
    }

    /// Whether the coderd that is asked for accepts a token; none if its license does not cover proxies.
    async fn is_accepted(&mut self, token: &Confidential<String>) -> Result<Option<bool>, RegistrationError> {
        let known_by = known_by(token);
        if let Some(known) = self.checked.get(&known_by) {
            return Ok(Some(*known));
        }
        let is_valid = licensed(self.in_time(self.client()?.is_proxy_token_valid(token)).await)?;
        self.checked.extend(is_valid.map(|is_valid| (known_by, is_valid)));
        Ok(is_valid)
    }

    /// Whether what the coderd that is asked for says is its database was reached another way before: by a control plane that is
    /// gone, or by an address whose tokens it may see.
    pub(crate) fn is_former(&self, home: &Home) -> bool {
        let here = &self.desired.home;
        match &home.control_plane {
            Some(uid) => self.coderds.is_unseen(uid) && here.has_database_of(home),
            None => here.is_reached_as(home),
        }
    }

    /// Whether a registration that was reached another way is in the coderd that is asked for: that says it has the same
    /// database, which anybody can say, and accepts the token in the Secret. Nobody is shown the token of a control plane that is
    /// still there.
    async fn is_proven_here(&mut self, one: &Registration) -> Result<bool, RegistrationError> {
        let is_moved = one.home != self.desired.home && self.is_former(&one.home);
        if self.client.is_none() || !is_moved {
            return Ok(false);
        }
        if let Some(uid) = &one.home.control_plane
            && !self.coderds.is_gone(uid).await?
        {
            return Ok(false);
        }
        for place in self.places() {
            let Content::Plaintext(token, _) = self.secrets.read(&place).await?.content else { continue };
            let is_its = one.id.is_some() && proxy_id_of_token(&token) == one.id;
            if is_its && self.is_accepted(&token).await? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the token in use may be.
    pub(crate) fn places(&self) -> Vec<SecretPlace> {
        places(&self.desired.place, self.former.as_ref())
    }

    /// What is seen of a registration where it is. One that does not answer holds nobody up.
    pub(crate) async fn sight(&mut self, one: &Registration) -> Sight {
        if self.failed.contains_key(&one.home) {
            return Sight::Unreachable;
        }
        let (uid, here) = (&one.home.control_plane, &self.desired.home);
        if self.client.is_some() && uid.is_some() && *uid == here.control_plane && one.home != *here {
            return Sight::OtherDatabase;
        }
        let client = match self.client_of(one).await {
            Coderd::Client(client) => client,
            Coderd::Unreachable(why) => {
                self.fail(one, &why);
                return Sight::Unreachable;
            }
            Coderd::Gone => return Sight::HomeGone,
        };
        let asked = of_registration(&client, one, &self.desired.origin);
        match timeout(self.coderds.time.left_elsewhere(), asked).await {
            Ok(Ok(Some(_))) => Sight::There,
            Ok(Ok(None)) => Sight::Absent,
            Ok(Err(Error::NotLicensed { .. } | Error::RouteMissing { .. })) => Sight::NotLicensed,
            Ok(Err(error)) => {
                self.fail(one, &error);
                Sight::Unreachable
            }
            Err(_) => {
                self.fail(one, &"it did not answer in time");
                Sight::Unreachable
            }
        }
    }

    /// The coderd that a registration is in. For one that only credentials of an earlier spec led to there is no way any more.
    pub(super) async fn client_of(&mut self, one: &Registration) -> Coderd {
        if let Some(client) = self.client.filter(|_| one.home == self.desired.home) {
            return Coderd::Client(client.clone());
        }
        if let Some(uid) = &one.home.control_plane {
            match self.coderds.is_gone(uid).await {
                Ok(false) if self.is_without_credentials(one, uid) => return Coderd::Gone,
                Ok(false) => return self.coderds.reach(uid, &one.home.deployment).await,
                Err(error) => return Coderd::Unreachable(error.to_string()),
                Ok(true) => {}
            }
        }
        // What says that it has the same database is believed only with a proof.
        match (self.is_proven_here(one).await, self.client) {
            (Ok(true), Some(client)) => Coderd::Client(client.clone()),
            (Err(error), _) => Coderd::Unreachable(error.to_string()),
            _ if one.home.control_plane.is_none() => Coderd::Gone,
            _ => self.coderds.unreached().cloned().map_or(Coderd::Gone, Coderd::Unreachable),
        }
    }

    fn is_without_credentials(&self, one: &Registration, uid: &str) -> bool {
        let leads_there = self.desired.brought && self.coderds.is_unreached(uid);
        is_without_credentials(one, self.coderds.gives_no_token(uid), leads_there)
    }

    /// Notes that something failed in a coderd: it is not asked again in this reconcile.
    pub(super) fn fail(&mut self, one: &Registration, why: &dyn std::fmt::Display) {
        let told = match &one.home.control_plane {
            Some(uid) => self.coderds.named(uid, why),
            None => why.to_string(),
        };
        self.failed.insert(one.home.clone(), told);
    }

    /// An answer that comes as long as there is time.
    pub(super) async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, RegistrationError> {
        let answer = timeout(self.coderds.time.left(), asked).await;
        Ok(answer.map_err(|_| RegistrationError::Late)??)
    }
}

/// The proxy of a registration, if it is there: of its id, or as it was asked for.
pub(super) async fn of_registration(
    client: &Client,
    one: &Registration,
    origin: &str,
) -> Result<Option<WorkspaceProxy>, Error> {
    match one.id {
        Some(id) => client.workspace_proxy_unless_gone(id).await,
        None => {
            let found = of_name(client, &one.name).await?;
            Ok(found.filter(|found| facts(found).is_made_for(one, origin)))
        }
    }
}

/// The proxy of a name. coderd finds it as it is written, and takes no other that differs in case alone, and a 404 need not be
/// coderd's own: before a name counts as free, all of them are looked at.
async fn of_name(client: &Client, name: &str) -> Result<Option<WorkspaceProxy>, Error> {
    match client.workspace_proxy(name).await? {
        None => client.workspace_proxy_in_any_case(name).await,
        found => Ok(found),
    }
}

/// The coderd that a token is of, as far as it is known: what its mark says, else the record. A mark that was written before
/// addresses were is of where its registration is recorded.
fn marked<'a>(mark: Option<&'a Mark>, current: Option<&'a Registration>) -> Option<&'a Home> {
    let Some(mark) = mark else { return current.map(|current| &current.home) };
    let is_its = |current: &&Registration| {
        mark.home.is_unlocated() && current.id == Some(mark.id) && current.home.has_database_of(&mark.home)
    };
    Some(current.filter(is_its).map_or(&mark.home, |current| &current.home))
}

/// Whether nobody has credentials any more for a registration behind a control plane: the operator has no token of its own there,
/// and the spec, which brought them, does not lead there now. Where it does, its coderd is awaited.
fn is_without_credentials(one: &Registration, gives_no_token: bool, leads_there: bool) -> bool {
    one.brought && gives_no_token && !leads_there
}

/// Where the token in use may be: where the spec asks for it, and where pods read it so far.
fn places(asked_for: &SecretPlace, former: Option<&SecretPlace>) -> Vec<SecretPlace> {
    let former = former.filter(|former| *former != asked_for);
    [asked_for].into_iter().chain(former).cloned().collect()
}

/// What an answer about a token is remembered by. Whoever writes a Secret chooses what is in it: nothing that two tokens could share.
fn known_by(token: &Confidential<String>) -> Vec<u8> {
    digest(&SHA256, token.expose().as_bytes()).as_ref().to_vec()
}

/// An answer; none where the license does not cover proxies.
fn licensed<T>(answer: Result<T, RegistrationError>) -> Result<Option<T>, RegistrationError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(RegistrationError::Coderd(Error::NotLicensed { .. } | Error::RouteMissing { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

fn facts(proxy: &WorkspaceProxy) -> ProxyFacts {
    ProxyFacts {
        id: proxy.id,
        name: proxy.name.clone(),
        display_name: proxy.display_name.clone(),
        icon: proxy.icon.clone(),
    }
}

impl Look {
    /// What the Secrets say was taken over before.
    pub(super) fn adoptions(&self) -> impl Iterator<Item = &str> {
        let former = self.former.as_ref().map(|(_, found, _)| found);
        [Some(&self.asked_for), former]
            .into_iter()
            .flatten()
            .filter_map(|found| found.annotation(annotation::ADOPTED))
    }

    /// What pods may be started with: the token of the registration in use, where the spec asks for it.
    pub(super) fn proven(&self, record: &Record, desired: &Desired) -> Option<Proven> {
        let current = record.current.as_ref().filter(|current| current.home == desired.home)?;
        let Material::Is(id, _) = &self.material else { return None };
        let checksum = self.asked_for.content.checksum().filter(|_| Some(*id) == current.id)?;
        Some(Proven { checksum, place: desired.place.clone() })
    }

    /// The name of the proxy of others that has the name that is asked for, if it could be taken over.
    pub(super) fn taken(&self, record: &Record, desired: &Desired, of_others: &OfOthers) -> Option<String> {
        taken(self.proxies.as_deref().unwrap_or_default(), record, desired, of_others)
    }

    /// The proxy in use, as coderd tells of it.
    pub(super) fn proxy(&self, record: &Record, desired: &Desired) -> Option<WorkspaceProxy> {
        let current = record.current.as_ref().filter(|current| current.home == desired.home)?;
        self.proxies.iter().flatten().find(|one| Some(one.id) == current.id).cloned()
    }
}

/// The name of the proxy of others that has the name that is asked for, as it is written, if it could be taken over: not that
/// of another object, not what was taken over before, and not the control plane itself.
fn taken(
    proxies: &[WorkspaceProxy],
    record: &Record,
    desired: &Desired,
    of_others: &OfOthers,
) -> Option<String> {
    let is_here = |current: &&Registration| current.home == desired.home;
    let current = record.current.as_ref().filter(is_here).and_then(|current| current.id);
    // An annotation acts once.
    let is_done = |one: &WorkspaceProxy| record.adopted.as_ref().is_some_and(|name| is_same(name, &one.name));
    let is_taken = |one: &&WorkspaceProxy| {
        let is_named = is_same(&one.name, &desired.name) && Some(one.id) != current && !is_done(one);
        is_named
            && one.id.to_string() != desired.home.deployment
            && !of_others.has_in_database(&desired.home, one.id)
    };
    proxies.iter().find(is_taken).map(|one| one.name.clone())
}

/// The time, as exact as a status keeps it.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests;
