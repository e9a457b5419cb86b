//! Takes back every registration that is recorded, for an object that is going or whose author brings a token: looks, lets `ending`
//! decide, acts, and looks again. It decides nothing itself.

use super::ending::{self, EndStep, Ending, Unrecorded};
use super::seen::Sight;
use super::steps::Left;
use super::store::RecordStore;
use super::work::{Registered, RegistrationError, RegistrationWork};

/// Steps of an end in one reconcile: each registration takes two.
const MOST_STEPS: usize = 24;

/// Where an end stands.
pub(crate) enum End {
    /// Nothing is left that has to go; what stays in coderd.
    LetGo(Vec<Left>),
    /// It is held, and why.
    Held(String),
}

/// What an end is decided from besides what is recorded.
pub(crate) struct Circumstances {
    /// What the Secret holds of which nothing is recorded.
    pub unrecorded: Unrecorded,
    /// Whether registrations are to be left in coderd.
    pub is_released: bool,
    /// Why the coderd of the spec cannot be asked, if it cannot.
    pub unreachable: Option<String>,
}

/// What is said of another object of which it is not known what it has recorded.
pub(crate) fn unread(name: &str) -> String {
    format!(
        "CoderWorkspaceProxy {name} has a status that is longer than any that the operator writes, so that nobody knows which \
         registrations it has; empty its status, or delete it"
    )
}

impl RegistrationWork<'_> {
    /// Goes on until nothing is left, or something holds it.
    pub(crate) async fn end(
        &mut self,
        store: &mut RecordStore<'_>,
        circumstances: Circumstances,
        registered: &mut Registered,
    ) -> Result<End, RegistrationError> {
        let Circumstances { mut unrecorded, is_released, unreachable } = circumstances;
        for _ in 0..MOST_STEPS {
            let sights = self.sights(store, is_released, unreachable.is_some()).await;
            let record = &store.record;
            let (unrecorded_now, of_others) = (&unrecorded, &self.of_others);
            let ending =
                Ending { record, unrecorded: unrecorded_now, sights: &sights, is_released, of_others };
            match ending::next(&ending) {
                EndStep::Delete(one) => self.delete(store, &one, registered).await?,
                EndStep::Record(record, left) => {
                    store.save(*record).await?;
                    unrecorded = Unrecorded::Nothing;
                    registered.left.extend(left);
                }
                EndStep::Blocked => {
                    let why = unreachable.or_else(|| self.told());
                    let why = why.or_else(|| self.of_others.unread().map(unread));
                    return Ok(End::Held(why.unwrap_or_else(|| "coderd is unreachable".to_owned())));
                }
                EndStep::LetGo(left) => return Ok(End::LetGo(left)),
            }
        }
        Ok(End::Held("there was no time for all of its registrations".to_owned()))
    }

    /// What is seen of every recorded registration. Where they are left anyway, nobody is asked; those that only an address led to
    /// are where the spec leads, as long as that cannot be asked.
    async fn sights(
        &mut self,
        store: &RecordStore<'_>,
        is_released: bool,
        is_unreachable: bool,
    ) -> Vec<Sight> {
        let mut sights = Vec::new();
        for one in store.record.registrations() {
            let is_unknown = is_released || is_unreachable && one.home.control_plane.is_none();
            sights.push(if is_unknown { Sight::Unreachable } else { self.sight(one).await });
        }
        sights
    }
}
