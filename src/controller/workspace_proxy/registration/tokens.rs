//! Has coderd make registrations and tokens, and keeps each token in its Secret. Every effect was recorded before, and none is asked
//! for that could not be kept.

use super::look::{Look, now};
use super::mark::Mark;
use super::store::RecordStore;
use super::work::{Done, Registered, RegistrationError, RegistrationWork};
use crate::coderd::client::ProxyAppearance;
use crate::coderd::{Error, Uuid};
use crate::confidential::Confidential;
use crate::controller::attached::refusal::is_refusal;
use crate::controller::attached::secret::Content;
use crate::kubernetes::CallError;
use crds::well_known::annotation;
use std::collections::BTreeMap;

/// Further tries to keep a new token while somebody else changes its Secret.
const MOST_WRITES: usize = 3;
/// Characters of a token.
const LENGTH: usize = 101;

impl RegistrationWork<'_> {
    /// Makes the registration that is recorded as pending and keeps its token. That it is attempted is recorded first. If the token
    /// cannot be kept, the next look finds the proxy and replaces its token; if somebody else has taken over meanwhile, who knows
    /// nothing of it, it is deleted here.
    pub(super) async fn create(
        &mut self,
        store: &mut RecordStore<'_>,
        look: &Look,
        registered: &mut Registered,
    ) -> Result<bool, RegistrationError> {
        self.rehearse(store, look, None).await?;
        let before = store.record.pending.clone();
        store.save(store.record.attempting(now())).await?;
        let Some(pending) = store.record.pending.clone() else { return Ok(true) };
        (self.paused, self.checked) = (true, BTreeMap::new());
        let icon = self.desired.first_icon();
        let first = ProxyAppearance { icon: &icon, ..self.appearance(&pending.name) };
        let (proxy, token) = match self.client()?.create_workspace_proxy(&first).await {
            Ok(made) => made,
            Err(error) if is_refusal(&error) => {
                store.save(store.record.unattempted(before)).await?;
                // The next look tells whose it is.
                return if matches!(error, Error::Conflict { .. }) { Ok(true) } else { Err(error.into()) };
            }
            Err(error) => {
                registered.gave_up = true;
                return Err(error.into());
            }
        };
        if let Err(error) = self.keep(store, look, &token, proxy.id).await {
            registered.gave_up = true;
            if !store.is_still_pending(&pending).await? {
                tracing::warn!(
                    proxy = pending.name,
                    "somebody else works on this proxy; the new one is deleted"
                );
                self.client()?.delete_workspace_proxy(proxy.id).await?;
            }
            return Err(error);
        }
        registered.done.push(Done::Registered(pending.name));
        Ok(true)
    }

    /// Replaces the token of the registration that is recorded as pending. Whoever uses the one before is out from now on.
    /// Returns the name of the proxy whose token was replaced.
    pub(super) async fn regenerate(
        &mut self,
        store: &mut RecordStore<'_>,
        look: &Look,
        id: Uuid,
        registered: &mut Registered,
    ) -> Result<Option<String>, RegistrationError> {
        let Some(pending) = store.record.pending.clone() else { return Ok(None) };
        self.rehearse(store, look, Some(id)).await?;
        if !pending.attempted {
            store.save(store.record.attempting(now())).await?;
        }
        (self.paused, self.checked) = (true, BTreeMap::new());
        // Its name is changed by a step of its own.
        let found = look.proxies.iter().flatten().find(|one| one.id == id);
        let name = found.map_or(pending.name.as_str(), |found| found.name.as_str());
        let asked = self.client()?.regenerate_proxy_token(id, &self.appearance(name)).await;
        let token = match asked {
            Ok(token) => token,
            Err(error) => {
                // The one before still works.
                if !pending.attempted && is_refusal(&error) {
                    store.save(store.record.unattempted(Some(pending))).await?;
                }
                registered.gave_up |= !is_refusal(&error);
                return Err(error.into());
            }
        };
        let kept = self.keep(store, look, &token, id).await;
        registered.gave_up |= kept.is_err();
        kept?;
        Ok(Some(name.to_owned()))
    }

    /// Finds out whether a token could be kept with all that is written beside it, before one is made: the one before ends with
    /// that.
    async fn rehearse(
        &self,
        store: &RecordStore<'_>,
        look: &Look,
        id: Option<Uuid>,
    ) -> Result<(), RegistrationError> {
        let (place, token) = (&self.desired.place, Confidential::new("0".repeat(LENGTH)));
        let mark = id.map(|id| self.mark(id, self.desired.rotate.clone())).unwrap_or_default();
        let marks = marks(&mark, store.adoption());
        let tried = self.secrets.rehearse(place, &look.asked_for, &token, &marks).await;
        tried.map_err(|error| self.unwritable(error))
    }

    /// What it means that the Secret was not written: nothing but haste if somebody else was faster.
    fn unwritable(&self, error: CallError) -> RegistrationError {
        let secret = self.desired.place.secret.clone();
        if error.is_outdated() { error.into() } else { RegistrationError::Unwritable { secret, error } }
    }

    /// Puts a new token into its place. Somebody else's change of the Secret meanwhile, a label say, is no reason to lose it;
    /// somebody who works on the same object is.
    async fn keep(
        &self,
        store: &RecordStore<'_>,
        look: &Look,
        token: &Confidential<String>,
        id: Uuid,
    ) -> Result<(), RegistrationError> {
        let place = &self.desired.place;
        let mark = self.mark(id, self.desired.rotate.clone());
        let marks = marks(&mark, store.adoption());
        let mut kept = self.secrets.put_marked(place, &look.asked_for, token, &marks).await;
        for _ in 0..MOST_WRITES {
            let Err(error) = &kept else { break };
            let Some(pending) = &store.record.pending else { break };
            if !error.is_outdated() && !error.is_already_exists() || !store.is_still_pending(pending).await? {
                break;
            }
            let again = self.secrets.read(place).await?;
            if matches!(again.content, Content::Foreign) {
                break;
            }
            kept = self.secrets.put_marked(place, &again, token, &marks).await;
        }
        kept.map_err(|error| self.unwritable(error))
    }

    pub(super) fn mark(&self, id: Uuid, rotation: Option<String>) -> String {
        Mark { home: self.desired.home.clone(), id, rotation }.written()
    }
}

/// What a Secret says beside a token: of which registration it is, and what was taken over before.
pub(super) fn marks(mark: &str, adoption: Option<String>) -> Vec<(&'static str, String)> {
    let adoption = adoption.map(|adoption| (annotation::ADOPTED, adoption));
    [(annotation::TOKEN_OF, mark.to_owned())].into_iter().chain(adoption).collect()
}
