//! The coderds that an object has something in: the one that is asked for, and those that earlier specs named. Each is reached
//! with its own control plane's token, at its own address, once in a reconcile. What is asked there is not known here.

use crate::coderd::Client;
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::{self, ControlPlanes, Found};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::plan::{Plan, plan};
use crate::control_plane_access::unreached::Unreached;
use crate::kubernetes::{CallError, KindName, Target};
use kube::Resource;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The kind of control planes.
pub(crate) const CONTROL_PLANE: KindName = ["coder.com/v1alpha1", "CoderControlPlane", "codercontrolplanes"];
/// How long another coderd than the one that is asked for may take: two lists of five seconds each.
const ELSEWHERE: Duration = Duration::from_secs(12);

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

    /// What another coderd than the one that is asked for may have of it.
    pub(crate) fn left_elsewhere(&self) -> Duration {
        self.left().saturating_sub(self.reserved).min(ELSEWHERE)
    }
}

/// A coderd that something is recorded in.
#[derive(Clone)]
pub(crate) enum Coderd {
    /// It answers.
    Client(Client),
    /// It cannot be asked now, and why.
    Unreachable(String),
    /// It is gone for good: its control plane, or the database behind it.
    Gone,
}

/// How coderds are reached, each once in a reconcile: by control plane and deployment.
pub(crate) struct Coderds<'a> {
    access: &'a ControlPlaneAccess,
    control_planes: &'a ControlPlanes,
    namespace: &'a str,
    /// How long they may be asked.
    pub(crate) time: TimeLimit,
    reached: BTreeMap<(String, String), Coderd>,
    /// The uid of the control plane of the spec, and why it could not be asked.
    unreached: Option<(String, String)>,
}

impl<'a> Coderds<'a> {
    /// Those of an object in a namespace.
    pub(crate) fn new(
        access: &'a ControlPlaneAccess,
        control_planes: &'a ControlPlanes,
        namespace: &'a str,
        time: TimeLimit,
    ) -> Self {
        Self { access, control_planes, namespace, time, reached: BTreeMap::new(), unreached: None }
    }

    /// Takes over the coderd that is asked for, which was reached with the credentials of the spec.
    pub(crate) fn know(&mut self, control_plane: &str, deployment: &str, client: &Client) {
        let place = (control_plane.to_owned(), deployment.to_owned());
        self.reached.insert(place, Coderd::Client(client.clone()));
    }

    /// Notes that the control plane of the spec cannot be asked: what was made there earlier is asked for with the operator's own
    /// token.
    pub(crate) fn fail_control_plane(&mut self, uid: &str, why: &dyn std::fmt::Display) {
        self.unreached = Some((uid.to_owned(), self.named(uid, why)));
    }

    /// Why it could not be asked.
    pub(crate) fn unreached(&self) -> Option<&String> {
        self.unreached.as_ref().map(|(_, why)| why)
    }

    /// Whether the control plane of this uid is the one of the spec that could not be asked.
    pub(crate) fn is_unreached(&self, uid: &str) -> bool {
        self.unreached.as_ref().is_some_and(|(of, _)| of == uid)
    }

    /// What is said of a control plane, with its name.
    pub(crate) fn named(&self, uid: &str, why: &dyn std::fmt::Display) -> String {
        let all = self.control_planes.all();
        let named = all.iter().find(|one| one.meta().uid.as_deref() == Some(uid));
        let name = named.and_then(|one| one.meta().name.clone());
        let name = name.unwrap_or_else(|| format!("with uid {uid}"));
        format!("control plane {name}: {why}")
    }

    /// The coderd with this database behind the control plane of this uid.
    pub(crate) async fn reach(&mut self, control_plane: &str, deployment: &str) -> Coderd {
        let place = (control_plane.to_owned(), deployment.to_owned());
        if let Some(known) = self.reached.get(&place) {
            return known.clone();
        }
        let reached = self.dial(control_plane, deployment).await;
        self.reached.insert(place, reached.clone());
        reached
    }

    /// Only the very control plane that was recorded is asked, with its own token; and only the very database behind it.
    async fn dial(&self, uid: &str, deployment: &str) -> Coderd {
        let control_plane = match control_planes::of_uid(self.control_planes, self.namespace, uid) {
            Found::There(control_plane) => control_plane,
            Found::Gone => {
                return match self.is_there(uid).await {
                    Ok(false) => self.of_same_database(deployment),
                    Ok(true) => Coderd::Unreachable("it is not in the watch yet".to_owned()),
                    Err(error) => Coderd::Unreachable(error.to_string()),
                };
            }
            Found::Unreadable(why) => {
                return Coderd::Unreachable(format!("its CoderControlPlane is invalid ({why}); correct it"));
            }
            Found::Unlisted => return Coderd::Unreachable("it is not listed yet".to_owned()),
        };
        match self
            .access
            .reach_within(self.time.left_elsewhere(), &control_plane, Credentials::Operator)
            .await
        {
            Ok(reached) => match reached.deployment() {
                Ok(found) if found == deployment => Coderd::Client(reached.client),
                Ok(_) => Coderd::Gone,
                Err(untold) => Coderd::Unreachable(untold.to_string()),
            },
            Err(Unreached::Going { .. }) => Coderd::Gone,
            Err(unreached) => Coderd::Unreachable(unreached.to_string()),
        }
    }

    /// The coderd of a control plane that is gone, if another one was reached on its database: one that was deleted and made
    /// anew, say. Whoever claims a database that it is not can have what has the recorded id deleted in its own, and no other.
    fn of_same_database(&self, deployment: &str) -> Coderd {
        let is_it = |found: &str| !deployment.is_empty() && found == deployment;
        let mut known = self.reached.iter().filter(|((_, found), _)| is_it(found));
        let client = known.find_map(|(_, reached)| match reached {
            Coderd::Client(client) => Some(Coderd::Client(client.clone())),
            Coderd::Unreachable(_) | Coderd::Gone => None,
        });
        // One that cannot be asked now may be it.
        let unreached = || self.unreached().cloned().map(Coderd::Unreachable);
        client.or_else(unreached).unwrap_or(Coderd::Gone)
    }

    /// Whether the spec of the control plane of this uid gives the operator no token: no waiting changes that.
    pub(crate) fn gives_no_token(&self, uid: &str) -> bool {
        match control_planes::of_uid(self.control_planes, self.namespace, uid) {
            Found::There(control_plane) => {
                matches!(plan(&control_plane.spec), Plan::Disabled | Plan::NoUrl | Plan::Unresolvable(_))
            }
            Found::Gone | Found::Unlisted | Found::Unreadable(_) => false,
        }
    }

    /// Whether the control plane of this uid is gone, as far as a watch can say.
    pub(crate) fn is_unseen(&self, uid: &str) -> bool {
        matches!(control_planes::of_uid(self.control_planes, self.namespace, uid), Found::Gone)
    }

    /// Whether the control plane of this uid is gone: the API server says so too.
    pub(crate) async fn is_gone(&self, uid: &str) -> Result<bool, CallError> {
        Ok(self.is_unseen(uid) && !self.is_there(uid).await?)
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
