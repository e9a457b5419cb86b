//! What was observed in a reconcile of a control plane, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::apply::Applied;
use super::dereference::Dereferenced;
use super::observe::External;
use super::reasons::Reason;
use super::subject::Subject;
use crate::controller::children::exposure::Exposure;
use crate::controller::children::withheld::Withheld;
use crate::controller::object_writer::Finalizing;
use crate::controller::status::observed::ObservedObject;

/// What coderd said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Coderd {
    /// It was not asked: no replica is there to answer. The word says why.
    NotProbed(Reason),
    /// It is there.
    Answered {
        /// Its version, if it told.
        version: Option<String>,
        /// The identity of its database, if it told now.
        deployment_id: Option<String>,
        /// What it could not tell.
        trouble: Option<String>,
    },
    /// It answered before and did not this once, with a message.
    Degraded {
        /// Its version, as it told before.
        version: Option<String>,
        /// What went wrong.
        message: String,
    },
    /// It did not, for a reason and a message.
    Unreachable(Reason, String),
}

/// How far something that needs coderd has come: access for the operator, or the license.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExternalState {
    /// Where it stands.
    pub phase: ExternalPhase,
    /// Why, as one word of the catalogue.
    pub reason: Reason,
    /// Why, for a person.
    pub message: String,
}

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExternalPhase {
    /// It was not asked for.
    NotRequested,
    /// It is in place.
    Granted,
    /// It will come by itself.
    Pending,
    /// It will not come before somebody acts.
    Refused,
}

/// The rights of coderd, where they are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Grants {
    /// Where they are not what is asked for.
    pub troubles: Vec<Ungranted>,
    /// What there is to say where they are.
    pub notes: Vec<String>,
}

/// A namespace where the rights of coderd are not what is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ungranted {
    /// Whether it is the control plane's own, where it decides alone.
    pub own_namespace: bool,
    /// Why, as one word of the catalogue.
    pub reason: Reason,
    /// Why, for a person.
    pub message: String,
}

/// Everything that was observed in a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// What is observed of an object of any kind.
    pub object: ObservedObject,
    /// The way from outside.
    pub exposure: Exposure,
    /// The rights of coderd; none where they are off.
    pub workspaces: Option<Grants>,
    /// coderd itself.
    pub coderd: Coderd,
    /// Access of the operator to coderd.
    pub access: ExternalState,
    /// Whether something cannot be done without access.
    pub access_needed: bool,
    /// The license.
    pub license: ExternalState,
    /// How far a Helm release is taken over, while it is.
    pub adoption: Option<String>,
}

impl Observed {
    /// Nothing was observed but this of the object, and nothing is asked for.
    pub(super) fn only(object: ObservedObject) -> Self {
        let not_requested = |what: &str| ExternalState {
            phase: ExternalPhase::NotRequested,
            reason: Reason::NotRequested,
            message: format!("{what} is not asked for"),
        };
        Self {
            object,
            exposure: Exposure::NotRequested,
            workspaces: Some(Grants::default()),
            coderd: Coderd::NotProbed(Reason::NoReplicaReady),
            access: not_requested("access of the operator"),
            access_needed: false,
            license: not_requested("a license"),
            adoption: None,
        }
    }

    /// What the steps of a reconcile returned.
    pub(super) fn new(
        subject: &Subject,
        read: &Dereferenced,
        withheld: &Withheld,
        applied: &Applied,
        external: &External,
        finalizing: &Finalizing,
    ) -> Self {
        let mut broken = subject.broken.clone();
        broken.causes.extend(read.downgrade.clone());
        let object = ObservedObject {
            unreadable: None,
            broken,
            account: applied.account.clone(),
            withheld: withheld.told(&subject.object.key.namespace),
            problems: applied.problems.clone(),
            rollout: applied.rollout.clone(),
            missing: read.contents.missing.clone(),
            unread: None,
            finalizer: None,
            late: external.late.clone(),
        };
        Self {
            object: object.with_finalizer(finalizing),
            exposure: applied.exposure.clone(),
            workspaces: applied.grants.clone(),
            coderd: external.coderd(),
            access: external.access(),
            access_needed: external.access_needed(),
            license: external.license(),
            adoption: applied.adoption.told.clone(),
        }
    }
}
