//! Takes back the registrations of a workspace proxy that is being deleted, then lets it go; what holds it is told on it. Which
//! registration goes and when is decided in `registration::ending`.

use super::dereference::recorded;
use super::observe::{credentials, desired, former, home_of};
use super::proxy_event;
use super::reconciler::Reconciler;
use super::registration::end::{Circumstances, End};
use super::registration::ending::Unrecorded;
use super::registration::others::OfOthers;
use super::registration::record::{Home, Record, Registration};
use super::registration::steps::Left;
use super::registration::store::RecordStore;
use super::registration::work::{Registered, RegistrationError, RegistrationWork};
use super::resolve::owner;
use super::way::{Way, service, url};
use crate::coderd::client::proxy_id_of_token;
use crate::coderd::{Client, Error};
use crate::control_plane_access::control_planes::Found;
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::reach::Reached;
use crate::control_plane_access::unreached::Unreached;
use crate::controller::attached::coderds::{Coderd, Coderds, TimeLimit};
use crate::controller::attached::ending::{DeleteKind, Release, hold, let_go};
use crate::controller::attached::secret::{Content, Secrets};
use crate::controller::object::{Object, Origin, complete};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::kubernetes::CallError;
use crate::kubernetes::events::EventDraft;
use crds::CoderWorkspaceProxy;
use crds::well_known::annotation;
use ring::hmac;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long a coderd elsewhere is asked to remove a registration while the namespace goes.
const WHILE_NAMESPACE_GOES: Duration = Duration::from_secs(10);

/// Registrations that are named when nobody knows whose they are.
const MOST_NAMED: usize = 16;

/// The coderd that the spec names, as far as it was reached.
enum Here {
    /// It answers.
    Reached(Box<Reached>, Option<String>),
    /// It cannot be asked now, and why.
    Unreachable(String),
    /// It is gone, or the spec names none.
    Gone,
}

impl DeleteKind<CoderWorkspaceProxy> for Reconciler {
    fn held(why: &str) -> String {
        // The way out comes first: a long cause is cut.
        format!(
            "the workspace proxy cannot be removed from coderd yet; to leave it there, set the annotation \
             coder.com/release-external: \"true\". Cause: {why}"
        )
    }

    fn named(object: &Object<CoderWorkspaceProxy>) -> Vec<EventDraft> {
        told(&named(object))
    }

    async fn delete(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        sealing: &hmac::Key,
    ) -> Result<Action, CallError> {
        let mut store = self.store(object, sealing);
        let mut registered = Registered::default();
        let of_others = self.of_others(object, sealing);
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
                left.extend(unproven.into_iter().map(Left::named));
                return let_go(self, &object, &told(&left)).await;
            }
            Ok(End::Held(why)) => why,
            // Somebody else was faster: what they wrote is looked at next time.
            Err(RegistrationError::Kubernetes(error)) if error.is_outdated() => return Err(error),
            Err(error) => error.to_string(),
        };
        hold(self, &object, &why).await
    }
}

impl Reconciler {
    async fn end(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        store: &mut RecordStore<'_>,
        of_others: OfOthers,
        registered: &mut Registered,
    ) -> Result<End, RegistrationError> {
        let release = self.release(object).await?;
        let Some(complete) = complete::<CoderWorkspaceProxy>(&object.value, &self.config).ok() else {
            return self.end_unreadable(store, release != Release::No);
        };
        if release != Release::Namespace {
            return self.take_back(object, &complete, store, of_others, registered, release).await;
        }
        if self.is_outside(object, &complete).await {
            let others = of_others.clone();
            let tried = self.take_back(object, &complete, store, others, registered, release).await;
            let why = match tried {
                Ok(End::LetGo(left)) => return Ok(End::LetGo(left)),
                Ok(End::Held(why)) => why,
                Err(RegistrationError::Kubernetes(error)) if error.is_outdated() => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            // Whatever comes of it holds no namespace, in which no Event can be written any more either.
            tracing::warn!(why, "a workspace proxy is left in coderd: its namespace is being deleted");
        }
        self.take_back(object, &complete, store, of_others, registered, Release::Asked).await
    }

    /// Whether an object registers in a coderd that does not go with its namespace.
    async fn is_outside(&self, object: &Object<CoderWorkspaceProxy>, complete: &CoderWorkspaceProxy) -> bool {
        let is_bootstrap = matches!(Way::of(&complete.spec), Way::Bootstrap(_));
        is_bootstrap
            && matches!(
                self.control_plane_now(&object.key.namespace, complete, recorded(object)).await,
                Ok(None)
            )
    }

    /// Takes back what is recorded, unless that is to be left. While the namespace goes there is little time for it.
    async fn take_back(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        complete: &CoderWorkspaceProxy,
        store: &mut RecordStore<'_>,
        of_others: OfOthers,
        registered: &mut Registered,
        release: Release,
    ) -> Result<End, RegistrationError> {
        let (now, is_released) = (Instant::now(), release == Release::Asked);
        let until = match release {
            Release::Namespace => now + WHILE_NAMESPACE_GOES,
            Release::No | Release::Asked => Deadline::from(now).until(),
        };
        let time = TimeLimit { until, reserved: Duration::ZERO };
        let limit = time.left() * 2 / 3;
        let namespace = &object.key.namespace;
        let plane = self.control_plane_now(namespace, complete, recorded(object)).await;
        let here = match &plane {
            _ if is_released => Here::Gone,
            Ok(plane) => self.here(object, complete, plane.as_ref(), limit).await,
            Err(error) => Here::Unreachable(error.to_string()),
        };
        let (client, home, unreachable) = match &here {
            Here::Reached(reached, uid) => {
                (Some(&reached.client), home_of(uid.clone(), complete, reached), None)
            }
            Here::Unreachable(why) => (None, nowhere(), Some(why.clone())),
            Here::Gone => (None, nowhere(), None),
        };
        if client.is_some() {
            store.locate(&home).await?;
        }
        let owner = owner(complete);
        let secrets = Secrets { kube: &self.kube, owner: &owner, mark: annotation::TOKEN_OF };
        let desired = desired(object, complete, home);
        let mut coderds = Coderds::new(&self.access, &self.control_planes, namespace, time);
        if let (Some(why), Ok(Some(plane))) = (&unreachable, &plane) {
            coderds.fail_control_plane(&uid_of(plane), why);
        }
        let mut work = RegistrationWork::for_end(secrets, coderds, client, &desired);
        (work.claimed, work.of_others) = (self.rival(object, complete).is_some(), of_others);
        work.former = former(object);
        if let Some(client) = client {
            let coderds = Coderds::new(&self.access, &self.control_planes, namespace, time);
            store.record = made_anew(&work, coderds, client, &store.record).await?;
        }
        let unrecorded = match store.record.registrations().next() {
            None if !is_released => unrecorded(&mut work, store, unreachable.is_some()).await?,
            _ => Unrecorded::Nothing,
        };
        work.end(store, Circumstances { unrecorded, is_released, unreachable }, registered).await
    }

    /// The end of an object whose spec cannot be read: its registrations are left only if somebody says so.
    fn end_unreadable(&self, store: &RecordStore<'_>, is_released: bool) -> Result<End, RegistrationError> {
        if is_released || store.record.registrations().next().is_none() {
            let left = store.record.registrations().map(Left::of).collect();
            return Ok(End::LetGo(left));
        }
        Ok(End::Held("the object cannot be read; correct it".to_owned()))
    }

    /// Reaches the coderd of the spec, behind this control plane if there is one, with the credentials of the spec.
    async fn here(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        complete: &CoderWorkspaceProxy,
        plane: Option<&Found>,
        limit: Duration,
    ) -> Here {
        let namespace = &object.key.namespace;
        let reached = match (plane, Way::of(&complete.spec)) {
            (Some(Found::There(plane)), way) => {
                let credentials = match way {
                    Way::Bootstrap(given) => {
                        Credentials::of_bootstrap(namespace, Some(&given.credentials_secret_ref))
                    }
                    _ => Credentials::Operator,
                };
                let uid = plane.metadata.uid.clone();
                let reached = self.access.reach_within(limit, plane, credentials).await;
                reached.and_then(Reached::identified).map(|reached| (reached, uid))
            }
            (None, Way::Bootstrap(given)) => {
                let url = url(given);
                if !self.access.egress.allowed_urls.allow(url) {
                    return Here::Unreachable(format!(
                        "start the operator with --allow-url={url}, which it is not allowed to dial"
                    ));
                }
                let (secret, key) = credentials(given);
                let reached = self.access.reach_url_within(limit, url, namespace, secret, key).await;
                reached.and_then(Reached::identified).map(|reached| (reached, None))
            }
            (Some(Found::Gone), way) => {
                let name = match way {
                    Way::Bootstrap(given) => service(url(given), namespace, &self.config.cluster_domain)
                        .map(|at| at.name)
                        .unwrap_or_default(),
                    Way::ControlPlane(name) => name.to_owned(),
                    Way::Given(_) | Way::Nowhere => return Here::Gone,
                };
                // With the control plane its coderd is gone; a watch alone does not say so.
                return match self.is_control_plane_gone(object, &name).await {
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

/// The record with the registration in use where the spec leads to, if its control plane is gone and another was made in front of the
/// same database, or if an address led there before. What a coderd says of itself proves nothing: the token in the Secret does, if it is accepted there.
async fn made_anew(
    work: &RegistrationWork<'_>,
    mut coderds: Coderds<'_>,
    client: &Client,
    record: &Record,
) -> Result<Record, RegistrationError> {
    let home = &work.desired.home;
    let is_elsewhere = |one: &&Registration| one.home.deployment == home.deployment && one.home != *home;
    let Some(current) = record.current.as_ref().filter(is_elsewhere) else { return Ok(record.clone()) };
    let is_same_database = match (&home.control_plane, &current.home.control_plane) {
        (Some(uid), Some(former)) => {
            coderds.know(uid, &home.deployment, client);
            matches!(coderds.reach(former, &home.deployment).await, Coderd::Client(_))
        }
        (None, Some(_)) => false,
        (_, None) => work.is_former(&current.home),
    };
    if !is_same_database || !is_proven(work, client, current).await? {
        return Ok(record.clone());
    }
    let moved = |one: &Registration| match one.home == current.home && one.id == current.id {
        true => Registration { home: home.clone(), brought: work.desired.brought, ..one.clone() },
        false => one.clone(),
    };
    let (current, pending) = (record.current.as_ref().map(moved), record.pending.as_ref().map(moved));
    Ok(Record { current, pending, ..record.clone() })
}

/// Whether a coderd accepts the token in the Secret, and it is of this registration.
async fn is_proven(
    work: &RegistrationWork<'_>,
    client: &Client,
    one: &Registration,
) -> Result<bool, RegistrationError> {
    for place in work.places() {
        let Content::Plaintext(token, _) = work.secrets.read(&place).await?.content else { continue };
        if one.id.is_none() || proxy_id_of_token(&token) != one.id {
            continue;
        }
        match timeout(work.coderds.time.left(), client.is_proxy_token_valid(&token)).await {
            Ok(Ok(true)) => return Ok(true),
            Ok(Ok(false) | Err(Error::NotLicensed { .. } | Error::RouteMissing { .. })) => {}
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(RegistrationError::Late),
        }
    }
    Ok(false)
}

/// The uid of a control plane, as far as it can be read.
fn uid_of(found: &Found) -> String {
    match found {
        Found::There(plane) => plane.metadata.uid.clone().unwrap_or_default(),
        Found::Gone | Found::Unlisted | Found::Unreadable(_) => String::new(),
    }
}

/// What the Secret holds of which nothing is recorded.
async fn unrecorded(
    work: &mut RegistrationWork<'_>,
    store: &RecordStore<'_>,
    is_unreachable: bool,
) -> Result<Unrecorded, RegistrationError> {
    if work.client.is_some() {
        return work.unrecorded(store).await;
    }
    let content = work.secrets.read(&work.desired.place).await?.content;
    Ok(without_coderd(&content, is_unreachable))
}

/// What a Secret holds of which nothing is recorded, where coderd is not asked. What nobody will ever tell of is named.
fn without_coderd(content: &Content, is_unreachable: bool) -> Unrecorded {
    let Content::Plaintext(token, _) = content else { return Unrecorded::Nothing };
    match proxy_id_of_token(token) {
        _ if is_unreachable => Unrecorded::Unknown,
        Some(id) => Unrecorded::Left(id.to_string()),
        None => Unrecorded::Nothing,
    }
}

/// The registrations that a status names, whoever wrote it.
fn named(object: &Object<CoderWorkspaceProxy>) -> Vec<Left> {
    let status = &object.value["status"]["registration"];
    let retiring = status["retiring"].as_array().into_iter().flatten();
    let all = [&status["current"], &status["pending"]].into_iter().chain(retiring);
    let names: BTreeSet<&str> = all.filter_map(|one| one["name"].as_str()).collect();
    names.into_iter().take(MOST_NAMED).map(|name| Left::named(name.to_owned())).collect()
}

/// No coderd: nothing that is recorded is there.
pub(super) fn nowhere() -> Home {
    Home { control_plane: None, address: None, deployment: "none".to_owned() }
}

/// What is told of registrations that are left in coderd.
fn told(all: &[Left]) -> Vec<EventDraft> {
    all.iter().map(proxy_event::of_left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidential::Confidential;
    use crate::controller::identity::ObjectKey;
    use serde_json::{Value, json};

    #[test]
    fn a_token_that_nobody_recorded_is_named_where_its_coderd_is_gone() {
        let id = crate::coderd::Uuid::random().unwrap();
        let token = |text: String| Content::Plaintext(Confidential::new(text), None);
        let of_a_proxy = token(format!("{id}:{}", "a".repeat(64)));
        assert_eq!(without_coderd(&of_a_proxy, true), Unrecorded::Unknown);
        assert_eq!(without_coderd(&of_a_proxy, false), Unrecorded::Left(id.to_string()));
        assert_eq!(without_coderd(&token("mine".to_owned()), false), Unrecorded::Nothing);
        for content in [Content::Nothing, Content::Foreign] {
            assert_eq!(without_coderd(&content, false), Unrecorded::Nothing);
        }
    }

    #[test]
    fn every_registration_that_a_status_names_is_told_once_whoever_wrote_it() {
        let of = |status: Value| {
            let object = json!({ "metadata": { "name": "a", "namespace": "b" }, "status": status });
            let key = ObjectKey { namespace: "b".to_owned(), name: "a".to_owned() };
            let all = named(&Object::new(key, Origin::Read, object));
            all.into_iter().map(|left| left.name).collect::<Vec<_>>()
        };
        let one = |name: &str| json!({ "name": name });
        let several = json!({ "registration": { "current": one("b"), "pending": one("b"),
            "retiring": [one("a"), one("b"), 7] } });
        assert_eq!(of(several), ["a", "b"]);
        assert!(of(json!({})).is_empty() && of(json!({ "registration": { "current": 3 } })).is_empty());
    }
}
