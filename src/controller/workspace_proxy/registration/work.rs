//! Brings the registration of a workspace proxy to what it should be: looks, lets `steps` decide, acts, and looks again. It decides
//! nothing itself, and every effect was recorded before it happens.

use super::cause::{Cause, cause};
use super::ending::Unrecorded;
use super::look::{Look, of_registration};
use super::others::OfOthers;
use super::record::{Home, Registration};
use super::seen::{Desired, Material};
use super::steps::{Left, Step, Wait, next, unrecorded};
use super::store::RecordStore;
use super::tokens::marks;
use crate::coderd::client::{ProxyAppearance, ProxyDeletion, WorkspaceProxy, proxy_id_of_token};
use crate::coderd::{Client, Error, Uuid};
use crate::controller::attached::coderds::{Coderd, Coderds};
use crate::controller::attached::secret::{Content, Emptied, Proven, SecretPlace, Secrets};
use crate::kubernetes::CallError;
use std::collections::{BTreeMap, BTreeSet};

/// Steps in one reconcile: more than any change needs.
const MOST_STEPS: usize = 16;

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    /// A call to coderd failed.
    #[error(transparent)]
    Coderd(#[from] Error),
    /// A call to the API server failed.
    #[error(transparent)]
    Kubernetes(#[from] CallError),
    /// The Secret cannot be written, so that no token is made, or that one which was made is lost.
    #[error("Secret {secret} cannot be written: {error}")]
    Unwritable {
        /// Its name.
        secret: String,
        /// What the API server says.
        error: CallError,
    },
    /// There was no time to ask.
    #[error("there was no time to ask coderd")]
    Late,
}

/// Something that was done in coderd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Done {
    /// A proxy was registered.
    Registered(String),
    /// Its token was replaced, and why.
    TokenReplaced(String, Cause),
    /// It has another name now.
    Renamed(String, String),
    /// A registration was removed.
    Removed(String),
}

/// What became of the registration.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    /// The token in use that the Secret of the spec was proven to hold.
    pub proven: Option<Proven>,
    /// The proxy in use, as coderd tells of it.
    pub proxy: Option<WorkspaceProxy>,
    /// Why not everything is done.
    pub wait: Option<Wait>,
    /// What failed in coderds that earlier registrations are in, with the names of their control planes.
    pub elsewhere: Option<String>,
    /// Whether a token that was made, or may have been, was not accepted or could not be kept.
    pub gave_up: bool,
    /// The proxy of others that has the name, as it is written, where that may be taken over.
    pub taken: Option<String>,
    /// Another object of the namespace of which it is not known what it has recorded.
    pub unread: Option<String>,
    /// What failed.
    pub error: Option<RegistrationError>,
    /// Registrations that were left behind.
    pub left: Vec<Left>,
    /// Secrets that were left with a token which nothing reads any more.
    pub left_secrets: Vec<SecretPlace>,
    /// What was done.
    pub done: Vec<Done>,
    /// Whether there was no time for all of it.
    pub is_cut: bool,
}

/// What a registration is brought into place with.
pub(crate) struct RegistrationWork<'a> {
    /// Where tokens are.
    pub secrets: Secrets<'a>,
    /// Other coderds.
    pub coderds: Coderds<'a>,
    /// The coderd that is asked for; none if it was not reached, for an object that is going.
    pub client: Option<&'a Client>,
    /// What is asked for.
    pub desired: &'a Desired,
    /// Whether our finalizer is on the object.
    pub has_finalizer: bool,
    /// What every pod runs with, if a rollout to it is complete.
    pub rolled: Option<Proven>,
    /// Whether the Deployment can be changed.
    pub may_roll: bool,
    /// Whether admission is disabled in the namespace.
    pub admission_disabled: bool,
    /// Whether the license covers workspace proxies.
    pub entitled: bool,
    /// Whether another object has the older claim.
    pub claimed: bool,
    /// Registrations that other objects have recorded.
    pub of_others: OfOthers,
    /// The place that pods read so far.
    pub former: Option<SecretPlace>,
    /// Whether no token is made now: one was made a moment ago.
    pub paused: bool,
    /// Registrations whose deletion was asked for in this reconcile.
    pub tried: BTreeSet<Registration>,
    /// Whether coderd accepts tokens, by their digest, since the last change there.
    pub checked: BTreeMap<Vec<u8>, bool>,
    /// Where something failed, and what: nothing more is asked there.
    pub failed: BTreeMap<Home, String>,
}

impl<'a> RegistrationWork<'a> {
    /// For registrations that are taken back: nothing is made.
    pub(crate) fn for_end(
        secrets: Secrets<'a>,
        coderds: Coderds<'a>,
        client: Option<&'a Client>,
        desired: &'a Desired,
    ) -> Self {
        Self {
            secrets,
            coderds,
            client,
            desired,
            has_finalizer: true,
            rolled: None,
            may_roll: true,
            admission_disabled: false,
            entitled: true,
            claimed: false,
            of_others: OfOthers::default(),
            former: None,
            paused: true,
            tried: BTreeSet::new(),
            checked: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }
}

impl RegistrationWork<'_> {
    /// Goes on until nothing can be done now, or there is no time left.
    pub(crate) async fn run(mut self, store: &mut RecordStore<'_>) -> Registered {
        let mut registered = Registered { is_cut: true, ..Registered::default() };
        for _ in 0..MOST_STEPS {
            match self.step(store, &mut registered).await {
                _ if self.coderds.time.left().is_zero() => break,
                Ok(true) => {}
                Ok(false) => {
                    registered.is_cut = false;
                    break;
                }
                Err(error) => {
                    (registered.error, registered.is_cut) = (Some(error), false);
                    break;
                }
            }
        }
        registered.elsewhere = self.told();
        registered.left.extend(store.take_unproven().into_iter().map(Left::named));
        registered
    }

    /// What failed in other coderds.
    pub(crate) fn told(&self) -> Option<String> {
        let all: BTreeSet<&str> = self.failed.values().map(String::as_str).collect();
        (!all.is_empty()).then(|| all.into_iter().collect::<Vec<_>>().join("; "))
    }

    /// One step; returns whether another may follow.
    async fn step(
        &mut self,
        store: &mut RecordStore<'_>,
        registered: &mut Registered,
    ) -> Result<bool, RegistrationError> {
        let look = self.look(&store.record).await?;
        store.recall(look.adoptions());
        registered.proven = look.proven(&store.record, self.desired);
        registered.proxy = look.proxy(&store.record, self.desired);
        registered.wait = None;
        let has_made =
            registered.done.iter().any(|done| !matches!(done, Done::Removed(_) | Done::Renamed(..)));
        registered.gave_up |= has_made && matches!(look.material, Material::Rejected | Material::Ended(_));
        registered.unread = self.of_others.unread().map(str::to_owned);
        registered.taken = look.taken(&store.record, self.desired, &self.of_others);
        let seen = self.seen(&store.record, &look);
        let (step, cause) = (next(&seen), cause(&seen));
        tracing::debug!(?step, "the next step of the proxy's registration");
        match step {
            // It is set before anything is worked on.
            Step::AddFinalizer | Step::Rest => return Ok(false),
            Step::Wait(wait) => {
                registered.wait = Some(wait);
                return Ok(false);
            }
            Step::Record(record, left) => {
                store.save(*record).await?;
                registered.left.extend(left);
            }
            Step::Create => return self.create(store, &look, registered).await,
            Step::Regenerate(id) => {
                let replaced = self.regenerate(store, &look, id, registered).await?;
                registered.done.extend(replaced.map(|name| Done::TokenReplaced(name, cause)));
            }
            Step::Update(id) => return self.update(&look, id, registered).await,
            Step::Copy(_) => self.copy(store, &look).await?,
            Step::Empty(_) => {
                // One that somebody changed in between is looked at again: forgotten, it would keep a working token.
                let emptied = match &look.former {
                    Some((place, found, _)) => {
                        self.secrets.empty(place, found, place.secret != self.desired.place.secret).await?
                    }
                    None => Emptied::Done,
                };
                let former = self.former.take();
                match emptied {
                    Emptied::Done => {}
                    Emptied::Changed => self.former = former,
                    Emptied::Left => registered.left_secrets.extend(former),
                }
            }
            Step::Delete(one) => self.delete(store, &one, registered).await?,
        }
        Ok(true)
    }

    /// What the Secret holds of which nothing is recorded, for an object that is going. A token of another coderd, or one of which
    /// coderd does not tell without a license, is left and named.
    pub(crate) async fn unrecorded(
        &mut self,
        store: &RecordStore<'_>,
    ) -> Result<Unrecorded, RegistrationError> {
        let look = self.look(&store.record).await?;
        if matches!(look.material, Material::Is(..)) && self.of_others.unread().is_some() {
            return Ok(Unrecorded::Unknown);
        }
        let seen = self.seen(&store.record, &look);
        let is_untold = match look.material {
            Material::Is(id, _) => {
                let of_others = self.of_others.has(&self.desired.home, id);
                look.proxies.is_none() || !self.claimed && !of_others
            }
            Material::Unproven | Material::Elsewhere(_) => true,
            Material::Absent | Material::Foreign | Material::Rejected | Material::Ended(_) => false,
        };
        let left = || {
            let Content::Plaintext(token, _) = &look.asked_for.content else { return Unrecorded::Nothing };
            let id = proxy_id_of_token(token).filter(|_| is_untold);
            id.map_or(Unrecorded::Nothing, |id| Unrecorded::Left(id.to_string()))
        };
        Ok(unrecorded(&seen).map_or_else(left, Unrecorded::Ours))
    }

    /// The coderd that is asked for.
    pub(super) fn client(&self) -> Result<&Client, RegistrationError> {
        self.client.ok_or(RegistrationError::Late)
    }

    pub(super) fn appearance<'a>(&'a self, name: &'a str) -> ProxyAppearance<'a> {
        let Desired { display_name, icon, .. } = self.desired;
        ProxyAppearance { name, display_name, icon }
    }

    /// Gives the proxy the name, display name and icon that are asked for.
    async fn update(
        &mut self,
        look: &Look,
        id: Uuid,
        registered: &mut Registered,
    ) -> Result<bool, RegistrationError> {
        let before = look.proxies.iter().flatten().find(|one| one.id == id).map(|one| one.name.clone());
        match self.client()?.update_workspace_proxy(id, &self.appearance(&self.desired.name)).await {
            Ok(_) => {}
            Err(Error::Conflict { .. }) => {
                registered.wait = Some(Wait::NameTaken);
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        let renamed = before.filter(|before| *before != self.desired.name);
        registered.done.extend(renamed.map(|before| Done::Renamed(before, self.desired.name.clone())));
        Ok(true)
    }

    /// Copies the token in use to where it is asked for.
    async fn copy(&self, store: &RecordStore<'_>, look: &Look) -> Result<(), RegistrationError> {
        let Some((_, found, Material::Is(id, rotation))) = &look.former else { return Ok(()) };
        let Content::Plaintext(token, _) = &found.content else { return Ok(()) };
        let mark = self.mark(*id, rotation.clone());
        let marks = marks(&mark, store.adoption());
        Ok(self.secrets.put_marked(&self.desired.place, &look.asked_for, token, &marks).await?)
    }

    /// Deletes a registration; one that coderd still has afterwards, or cannot delete, is left behind. What fails in another
    /// coderd than the one that is asked for is told, and keeps nothing here waiting.
    pub(crate) async fn delete(
        &mut self,
        store: &mut RecordStore<'_>,
        one: &Registration,
        registered: &mut Registered,
    ) -> Result<(), RegistrationError> {
        let asked = match self.tried.insert(one.clone()) {
            true => self.ask_to_delete(one).await,
            false => Ok(ProxyDeletion::Impossible),
        };
        match asked {
            Ok(ProxyDeletion::Deleted) => {
                store.save(store.record.without(one)).await?;
                registered.done.push(Done::Removed(one.name.clone()));
            }
            Ok(ProxyDeletion::NotThere) => store.save(store.record.without(one)).await?,
            Ok(ProxyDeletion::Impossible) => {
                store.save(store.record.without(one)).await?;
                registered.left.push(Left::of(one));
            }
            Err(why) => self.fail(one, &why),
        }
        Ok(())
    }

    async fn ask_to_delete(&mut self, one: &Registration) -> Result<ProxyDeletion, String> {
        let client = match self.client_of(one).await {
            Coderd::Client(client) => client,
            Coderd::Unreachable(why) => return Err(why),
            Coderd::Gone => return Ok(ProxyDeletion::Impossible),
        };
        let found =
            of_registration(&client, one, &self.desired.origin).await.map_err(|error| error.to_string())?;
        let Some(found) = found else { return Ok(ProxyDeletion::NotThere) };
        client.delete_workspace_proxy(found.id).await.map_err(|error| error.to_string())
    }
}
