//! Takes back the registrations of a workspace proxy that is being deleted, then lets it go; what holds it is told on it. Which
//! registration goes and when is decided in `registration::ending`.

use super::observe::{credentials, desired, former};
use super::proxy_event;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::registration::ending::{self, EndStep, Ending, Unrecorded};
use super::registration::record::Home;
use super::registration::seen::Sight;
use super::registration::steps::Left;
use super::registration::store::RecordStore;
use super::registration::work::{Registered, RegistrationError, RegistrationWork};
use super::resolve::owner;
use super::way::{Way, url};
use crate::coderd::Uuid;
use crate::control_plane_access::control_planes::Found;
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::reach::Reached;
use crate::control_plane_access::unreached::Unreached;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::secret::{Content, Secrets};
use crate::controller::object::{Object, Origin, complete};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::kubernetes::CallError;
use crate::kubernetes::events::EventDraft;
use crds::CoderWorkspaceProxy;
use crds::well_known::annotation;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Steps of an end in one reconcile: each registration takes two.
const MOST_STEPS: usize = 24;

/// Where an end stands.
enum End {
    /// The finalizer may go.
    LetGo(Vec<Left>),
    /// It is held, and why.
    Held(String),
}

/// The coderd that the spec names, as far as it was reached.
enum Here {
    /// It answers.
    Reached(Box<Reached>, Option<String>),
    /// It cannot be asked now, and why.
    Unreachable(String),
    /// It is gone, or the spec names none.
    Gone,
}

impl Reconciler {
    /// One reconcile of an object that is being deleted.
    pub(super) async fn finalize(&self, object: &Object<CoderWorkspaceProxy>) -> Result<Action, CallError> {
        if !object.has_finalizer() {
            return Ok(Action::AwaitChange);
        }
        let checksum_key = self.checksum_key();
        let sealing = match checksum_key.get(&self.kube).await {
            Ok(sealing) => sealing,
            Err(error) => {
                self.tell_held(object, Reason::CleanupFailed, &held(&error.to_string())).await?;
                return Ok(Action::BackOff(Duration::ZERO));
            }
        };
        let mut store = self.store(object, sealing);
        let mut registered = Registered::default();
        let of_others = self.of_others(object, true, sealing);
        let end = self.end(object, &mut store, of_others, &mut registered).await;
        let drafts: Vec<EventDraft> = registered
            .done
            .iter()
            .map(proxy_event::of_done)
            .chain(registered.left.iter().map(proxy_event::of_left))
            .collect();
        self.writer().publish(object, &drafts).await;
        let unproven = store.take_unproven();
        let object: Object<CoderWorkspaceProxy> =
            Object::new(object.key.clone(), Origin::Read, store.object().clone());
        let why = match end {
            Ok(End::LetGo(mut left)) => {
                left.extend(unproven.into_iter().map(Left));
                return self.end_with(&object, &left).await;
            }
            Ok(End::Held(why)) => why,
            // Somebody else was faster: what they wrote is looked at next time.
            Err(RegistrationError::Kubernetes(error)) if error.is_outdated() => return Err(error),
            Err(error) => error.to_string(),
        };
        self.tell_held(&object, Reason::CleanupFailed, &held(&why)).await?;
        Ok(Action::BackOff(Duration::ZERO))
    }

    async fn end_with(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        left: &[Left],
    ) -> Result<Action, CallError> {
        let drafts: Vec<EventDraft> = left.iter().map(proxy_event::of_left).collect();
        if self.let_go(object, &drafts, Reason::CleanupFailed).await? {
            self.forget(&object.key);
            return Ok(Action::AwaitChange);
        }
        Ok(Action::BackOff(Duration::ZERO))
    }

    async fn end(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        store: &mut RecordStore<'_>,
        of_others: BTreeSet<Uuid>,
        registered: &mut Registered,
    ) -> Result<End, RegistrationError> {
        let is_released = self.is_released(object).await?;
        let Some(complete) = complete::<CoderWorkspaceProxy>(&object.value, &self.config).ok() else {
            return self.end_unreadable(store, is_released);
        };
        let here = if is_released { Here::Gone } else { self.here(object, &complete).await };
        let (client, home, unreachable) = match &here {
            Here::Reached(reached, uid) => {
                let deployment = reached.deployment_id.clone().unwrap_or_default();
                (Some(&reached.client), Home { control_plane: uid.clone(), deployment }, None)
            }
            Here::Unreachable(why) => (None, nowhere(), Some(why.clone())),
            Here::Gone => (None, nowhere(), None),
        };
        let owner = owner(&complete);
        let secrets = Secrets { kube: &self.kube, owner: &owner, mark: annotation::TOKEN_OF };
        let desired = desired(object, &complete, home);
        let time = TimeLimit { until: Deadline::from(Instant::now()).until(), reserved: Duration::ZERO };
        let mut work = RegistrationWork {
            secrets,
            coderds: Coderds::new(&self.access, &self.control_planes, &object.key.namespace, time),
            client,
            desired: &desired,
            has_finalizer: true,
            rolled: None,
            may_roll: true,
            entitled: true,
            claimed: self.rival(object, &complete).is_some(),
            of_others,
            former: former(object),
            paused: true,
            tried: BTreeSet::new(),
            checked: BTreeMap::new(),
            failed: BTreeMap::new(),
        };
        let mut unrecorded = match store.record.registrations().next() {
            None if !is_released => unrecorded(&mut work, store, unreachable.is_some()).await?,
            _ => Unrecorded::Nothing,
        };
        for _ in 0..MOST_STEPS {
            let sights = sights(&mut work, store, is_released, unreachable.is_some()).await;
            let record = &store.record;
            let ending = Ending { record, unrecorded: &unrecorded, sights: &sights, is_released };
            match ending::next(&ending) {
                EndStep::Delete(one) => work.delete(store, &one, registered).await?,
                EndStep::Record(record, left) => {
                    store.save(*record).await?;
                    unrecorded = Unrecorded::Nothing;
                    registered.left.extend(left);
                }
                EndStep::Blocked => {
                    let why = unreachable.or_else(|| work.told());
                    return Ok(End::Held(why.unwrap_or_else(|| "coderd is unreachable".to_owned())));
                }
                EndStep::LetGo(left) => return Ok(End::LetGo(left)),
            }
        }
        Ok(End::Held("there was no time for all of its registrations".to_owned()))
    }

    /// The end of an object whose spec cannot be read: its registrations are left only if somebody says so.
    fn end_unreadable(&self, store: &RecordStore<'_>, is_released: bool) -> Result<End, RegistrationError> {
        if is_released || store.record.registrations().next().is_none() {
            let left = store.record.registrations().map(|one| Left(one.name.clone())).collect();
            return Ok(End::LetGo(left));
        }
        Ok(End::Held("the object cannot be read; correct it".to_owned()))
    }

    /// Reaches the coderd of the spec, with the credentials of the spec.
    async fn here(&self, object: &Object<CoderWorkspaceProxy>, complete: &CoderWorkspaceProxy) -> Here {
        let namespace = &object.key.namespace;
        let reached = match (self.control_plane_of(namespace, complete), Way::of(&complete.spec)) {
            (Some(Found::There(plane)), way) => {
                let credentials = match way {
                    Way::Bootstrap(given) => {
                        Credentials::of_bootstrap(namespace, Some(&given.credentials_secret_ref))
                    }
                    _ => Credentials::Operator,
                };
                let uid = plane.metadata.uid.clone();
                let reached = self.access.reach(&plane, credentials).await.and_then(Reached::identified);
                reached.map(|reached| (reached, uid))
            }
            (None, Way::Bootstrap(given)) => {
                let url = url(given);
                if !self.access.egress.allowed_urls.allow(url) {
                    return Here::Unreachable(format!("{url} is not allowed by --allow-url of the operator"));
                }
                let (secret, key) = credentials(given);
                let reached = self.access.reach_url(url, namespace, secret, key).await;
                reached.and_then(Reached::identified).map(|reached| (reached, None))
            }
            (Some(Found::Gone), Way::ControlPlane(name)) => {
                // With the control plane its coderd is gone; a watch alone does not say so.
                return match self.is_control_plane_gone(object, name).await {
                    Ok(true) => Here::Gone,
                    Ok(false) => Here::Unreachable("the control plane is not in the watch yet".to_owned()),
                    Err(error) => Here::Unreachable(error.to_string()),
                };
            }
            (Some(Found::Unlisted | Found::Unreadable(_)), _) => {
                return Here::Unreachable("the control plane cannot be read yet".to_owned());
            }
            _ => return Here::Gone,
        };
        match reached {
            Ok((reached, uid)) => Here::Reached(Box::new(reached), uid),
            Err(Unreached::Going { .. }) => Here::Gone,
            Err(unreached) => Here::Unreachable(unreached.to_string()),
        }
    }
}

/// What the Secret holds of which nothing is recorded.
async fn unrecorded(
    work: &mut RegistrationWork<'_>,
    store: &RecordStore<'_>,
    is_unreachable: bool,
) -> Result<Unrecorded, RegistrationError> {
    if work.client.is_some() {
        let ours = work.unrecorded(store).await?;
        return Ok(ours.map_or(Unrecorded::Nothing, Unrecorded::Ours));
    }
    let content = work.secrets.read(&work.desired.place).await?.content;
    let may_be = is_unreachable && matches!(content, Content::Plaintext(..));
    Ok(if may_be { Unrecorded::Unknown } else { Unrecorded::Nothing })
}

/// What is seen of every recorded registration. Where they are left anyway, nobody is asked; those that only an address led to are
/// where the spec leads, as long as that cannot be asked.
async fn sights(
    work: &mut RegistrationWork<'_>,
    store: &RecordStore<'_>,
    is_released: bool,
    is_unreachable: bool,
) -> Vec<Sight> {
    let mut sights = Vec::new();
    for one in store.record.registrations() {
        let is_unknown = is_released || is_unreachable && one.home.control_plane.is_none();
        sights.push(if is_unknown { Sight::Unreachable } else { work.sight(one).await });
    }
    sights
}

/// No coderd: nothing that is recorded is there.
fn nowhere() -> Home {
    Home { control_plane: None, deployment: "none".to_owned() }
}

/// What is said of an object that stays, with the way out.
fn held(why: &str) -> String {
    // The way out comes first: a long cause is cut.
    format!(
        "the workspace proxy cannot be removed from coderd yet; to leave it there, set the annotation \
         coder.com/release-external: \"true\". Cause: {why}"
    )
}
