//! What a workspace proxy has whose author brings a token: the Secret that holds it, and what is left of registrations of an earlier
//! spec. Those go once no pod uses them any more, but for one that the token is of: that is the author's now.

use super::deletion::nowhere;
use super::dereference::Dereferenced;
use super::observe::{External, desired, former, rolled};
use super::observed::{Outside, State};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::registration::end::{Circumstances, End};
use super::registration::ending::Unrecorded;
use super::registration::record::Record;
use super::registration::steps::{Left, Wait};
use super::registration::store::RecordStore;
use super::registration::stored::has_registrations;
use super::registration::work::{Registered, RegistrationError, RegistrationWork};
use super::resolve::owner;
use super::way::place;
use crate::coderd::client::proxy_id_of_token;
use crate::coderd::{Retry, Uuid};
use crate::confidential::Confidential;
use crate::control_plane_access::secret_value::{self, secret_value};
use crate::controller::attached::apply::Applied;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::secret::{Emptied, Proven, SecretPlace, Secrets};
use crate::controller::object::Subject;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::CallError;
use crds::CoderWorkspaceProxy;
use crds::names::workspace_proxy::token_secret;
use crds::well_known::{annotation, secret_key};
use ring::hmac;
use std::collections::BTreeSet;
use std::time::Duration;

/// What is signed besides the token, so that no other checksum is the same.
const BROUGHT: &str = "brought token of a workspace proxy\n";
/// Bytes of a checksum that are shown.
const SHOWN: usize = 16;

/// What the Secret of the author has.
struct Brought {
    state: State,
    proven: Option<Proven>,
    /// The proxy that the token is of.
    id: Option<Uuid>,
    retry: Option<Retry>,
}

impl Reconciler {
    /// A token that the author brings.
    pub(super) async fn given(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        applied: &Applied,
        deadline: &Deadline,
    ) -> Result<External, CallError> {
        let object = &subject.object;
        let Brought { state, proven, id, retry } = self.brought(subject, read).await;
        let is_news = proven.as_ref().is_some_and(|proven| self.is_news(object, read, proven));
        let plain = |outside: Outside, retry: Option<Retry>| External {
            proven: proven.clone(),
            is_news,
            ..External::without(outside, &object.value, retry)
        };
        // Until the former registration is gone, nothing about it is at rest.
        let waiting = |wait| Some(Registered { wait: Some(wait), ..Registered::default() });
        if !has_registrations(&object.value["status"]["registration"]) {
            return Ok(plain(Outside::given(state), retry));
        }
        let checksum_key = self.checksum_key();
        let sealing = match checksum_key.get(&self.kube).await {
            Ok(sealing) => sealing,
            Err(error) => {
                let outside = Outside::given(state).failed(error.to_string());
                let registered = waiting(Wait::Elsewhere);
                return Ok(External { registered, ..plain(outside, Some(Retry::Backoff)) });
            }
        };
        let mut store = self.store(object, sealing);
        let names: BTreeSet<&str> = store.record.registrations().map(|one| one.name.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        if proven.is_none() || rolled(applied) != proven {
            let outside = Outside::given_instead(state, &names, Wait::Rollout, None);
            return Ok(External { registered: waiting(Wait::Rollout), ..plain(outside, retry) });
        }
        let mut registered = Registered::default();
        let ended = self.end_former(subject, read, &mut store, id, deadline, &mut registered).await;
        self.objects.written(&object.key, store.object()["metadata"]["resourceVersion"].as_str());
        let (outside, retry) = match ended {
            Ok(None) => (Outside::given(state), retry),
            Ok(Some(why)) => {
                registered.wait = Some(Wait::Elsewhere);
                (Outside::given_instead(state, &names, Wait::Elsewhere, Some(&why)), retry)
            }
            // Somebody else was faster: what they wrote is looked at next time.
            Err(RegistrationError::Kubernetes(error)) if error.is_outdated() => return Err(error),
            Err(error) => {
                let why = error.to_string();
                let outside = Outside::given_instead(state, &names, Wait::Elsewhere, Some(&why));
                registered.error = Some(error);
                (outside, Some(Retry::Backoff))
            }
        };
        let object = store.object().clone();
        Ok(External { object, registered: Some(registered), ..plain(outside, retry) })
    }

    /// What the Secret of the author has.
    async fn brought(&self, subject: &Subject<CoderWorkspaceProxy>, read: &Dereferenced) -> Brought {
        let (namespace, place) = (&subject.object.key.namespace, place(&read.complete));
        let lacking = |why: String, retry: Option<Retry>| Brought {
            state: State::Pending(Reason::TokenSecretUnavailable, why),
            proven: None,
            id: None,
            retry,
        };
        match secret_value(&self.kube, namespace, &place.secret, &place.data_key).await {
            Ok(secret_value::Found::Text(token)) => {
                let checksum_key = self.checksum_key();
                let checksum = match checksum_key.get(&self.kube).await {
                    Ok(key) => checksum(key, &token),
                    Err(error) => return lacking(error.to_string(), Some(Retry::Backoff)),
                };
                let why = format!("Secret {} has the token", place.secret);
                Brought {
                    state: State::Yes(Reason::SecretReady, why),
                    id: proxy_id_of_token(&token),
                    proven: Some(Proven { checksum, place }),
                    retry: None,
                }
            }
            Ok(secret_value::Found::Lacking(why)) => lacking(why, None),
            Err(error) => lacking(error.to_string(), Some(Retry::Backoff)),
        }
    }

    /// Takes back what an earlier spec made; returns why not all of it is gone.
    async fn end_former(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        store: &mut RecordStore<'_>,
        brought: Option<Uuid>,
        deadline: &Deadline,
        registered: &mut Registered,
    ) -> Result<Option<String>, RegistrationError> {
        let (object, complete) = (&subject.object, &read.complete);
        let (owner, desired) = (owner(complete), desired(object, complete, nowhere()));
        let secrets = Secrets { kube: &self.kube, owner: &owner, mark: annotation::TOKEN_OF };
        let derived = SecretPlace {
            secret: token_secret(&object.key.name, &complete.spec),
            data_key: secret_key::TOKEN.to_owned(),
        };
        let mut left_secrets = Vec::new();
        // No pod reads it any more.
        for unread in BTreeSet::from([derived]).into_iter().chain(former(object)) {
            if unread.secret != desired.place.secret {
                let found = secrets.read(&unread).await?;
                let whole = goes_whole(&store.record, found.is_immutable());
                match secrets.empty(&unread, &found, whole).await? {
                    Emptied::Done => {}
                    Emptied::Changed => {
                        let secret = unread.secret;
                        return Ok(Some(format!("Secret {secret} was changed while it was being deleted")));
                    }
                    Emptied::Left => left_secrets.push(unread),
                }
            }
        }
        let (kept, left) = without_brought(&store.record, brought);
        if kept != store.record {
            store.save(kept).await?;
            registered.left.extend(left);
        }
        let time = TimeLimit { until: deadline.until(), reserved: Duration::ZERO };
        let coderds = Coderds::new(&self.access, &self.control_planes, &object.key.namespace, time);
        let mut work = RegistrationWork::for_end(secrets, coderds, None, &desired);
        work.of_others = self.of_others(object, store.sealing());
        let is_released = self.is_released(object).await?;
        let circumstances = Circumstances { unrecorded: Unrecorded::Nothing, is_released, unreachable: None };
        match work.end(store, circumstances, registered).await? {
            End::LetGo(left) => {
                registered.left.extend(left);
                registered.left_secrets = left_secrets;
                // What nobody can prove to be ours is told, and said no longer.
                registered.left.extend(store.take_unproven().into_iter().map(Left::named));
                if !store.object()["status"]["registration"].is_null() {
                    store.save(store.record.without_registrations()).await?;
                }
                Ok(None)
            }
            End::Held(why) => Ok(Some(why)),
        }
    }
}

/// The checksum by which pods are started again. Whoever reads Deployments sees it, and the author names any Secret: without our
/// key nobody guesses a value from it.
fn checksum(key: &hmac::Key, token: &Confidential<String>) -> String {
    let mut sum = hmac::Context::with_key(key);
    sum.update(BROUGHT.as_bytes());
    sum.update(token.expose().as_bytes());
    sum.sign().as_ref().iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the Secret of a former token is deleted: what was taken over before is written there, and the annotation acts once. From
/// one that nobody can change the token goes in no other way; the status knows what was taken over as well.
fn goes_whole(record: &Record, is_immutable: bool) -> bool {
    is_immutable || record.adopted.is_none()
}

/// Without the registration that the author's token is of: it is in use, and no longer ours to remove.
fn without_brought(record: &Record, brought: Option<Uuid>) -> (Record, Vec<Left>) {
    let theirs: Vec<_> =
        record.registrations().filter(|one| brought.is_some() && one.id == brought).collect();
    let kept = theirs.iter().fold(record.clone(), |record, one| record.without(one));
    // It is recorded twice while its token is being replaced.
    let mut names = BTreeSet::new();
    let left = theirs.into_iter().filter(|one| names.insert(one.name.as_str())).map(Left::of).collect();
    (kept, left)
}

#[cfg(test)]
mod tests {
    use super::super::registration::record::{Home, Registration};
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn nobody_has_the_checksum_of_a_brought_token_without_the_key() {
        let key = |bytes: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let token = |text: &str| Confidential::new(text.to_owned());
        let sum = checksum(&key(b"ours"), &token("a"));
        assert_eq!((sum.len(), &sum), (2 * SHOWN, &checksum(&key(b"ours"), &token("a"))));
        assert_ne!(sum, checksum(&key(b"theirs"), &token("a")));
        assert_ne!(sum, checksum(&key(b"ours"), &token("b")));
    }

    #[test]
    fn a_secret_that_tells_what_was_taken_over_is_emptied_if_it_can_be() {
        let adopted = Record { adopted: Some("eu".to_owned()), ..Record::default() };
        assert!(goes_whole(&Record::default(), false) && !goes_whole(&adopted, false));
        assert!(goes_whole(&adopted, true), "the API server refuses every change of it");
    }

    #[test]
    fn a_registration_whose_token_the_author_brings_is_left_to_them() {
        let one = |id: Option<Uuid>| Registration {
            home: Home::behind("u".to_owned(), "d".to_owned()),
            name: "eu".to_owned(),
            id,
            since: Timestamp::UNIX_EPOCH,
            attempted: true,
            brought: false,
        };
        let (mine, other) = (Uuid::random().ok(), Uuid::random().ok());
        let (current, pending, retiring) = (Some(one(mine)), Some(one(mine)), vec![one(other)]);
        let record = Record { current, pending, retiring: retiring.clone(), ..Record::default() };
        let rest = Record { retiring, ..Record::default() };
        assert_eq!(without_brought(&record, mine), (rest, vec![Left::of(&one(mine))]));
        assert_eq!(without_brought(&record, None), (record.clone(), Vec::new()));
    }
}
