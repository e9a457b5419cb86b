//! Every write of a workspace proxy to the API server with everything that goes wrong with one, and what must be said of it. It
//! does nothing.

use super::{SECRET, first};
use crate::attached::Phase;
use crate::attached::write::{Cell, Struck, Told, WRONGS, Wrong};
use serde_json::{Value, json};

/// Another Secret for the token.
const MOVED: &str = "moved";

/// A write, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Finalizer,
    Account,
    Service,
    Ingress,
    Budget,
    /// That a registration is intended, the first write of the status.
    Intent,
    /// That it is asked for now, the second.
    Attempt,
    /// Whether a token could be kept, before one is made.
    Rehearsal,
    TokenSecret,
    /// That it is in use, the third.
    Use,
    Deployment,
    /// The conditions, from the fourth write of the status on.
    Status,
    Event,
    ReplacedSecret,
    FormerSecret,
    AnnotatedAccount,
    FormerBudget,
    FormerIngress,
    /// That it is gone from coderd, and what holds an object that is going.
    EndStatus,
    Release,
}

const WRITES: [Write; 20] = [
    Write::Finalizer,
    Write::Account,
    Write::Service,
    Write::Ingress,
    Write::Budget,
    Write::Intent,
    Write::Attempt,
    Write::Rehearsal,
    Write::TokenSecret,
    Write::Use,
    Write::Deployment,
    Write::Status,
    Write::Event,
    Write::ReplacedSecret,
    Write::FormerSecret,
    Write::AnnotatedAccount,
    Write::FormerBudget,
    Write::FormerIngress,
    Write::EndStatus,
    Write::Release,
];

/// The first spec with another value of a field.
fn with(field: &str, value: Value) -> Value {
    let mut spec = first();
    spec[field] = value;
    spec
}

/// The first spec without a field.
fn without(field: &str) -> Value {
    let mut spec = first();
    spec.as_object_mut().expect("a spec is an object").remove(field);
    spec
}

impl Write {
    fn phase(self) -> Phase {
        match self {
            Self::ReplacedSecret => Phase::Annotate("coder.com/rotate-token", "2026-11"),
            Self::FormerSecret => Phase::Apply(|| with("registration", json!({ "tokenSecretName": MOVED }))),
            Self::AnnotatedAccount => {
                Phase::Apply(|| with("serviceAccount", json!({ "annotations": { "example.com/a": "b" } })))
            }
            Self::FormerBudget => Phase::Apply(|| without("podDisruptionBudget")),
            Self::FormerIngress => Phase::Apply(|| without("expose")),
            Self::EndStatus | Self::Release => Phase::End,
            _ => Phase::Make,
        }
    }

    /// Method and the end of the path by which the write is known.
    fn request(self) -> (&'static str, &'static str) {
        match self {
            Self::Finalizer | Self::Release => ("PATCH", "/coderworkspaceproxies/eu"),
            Self::Intent | Self::Attempt | Self::Use | Self::Status | Self::EndStatus => {
                ("PATCH", "/coderworkspaceproxies/eu/status")
            }
            Self::Account => ("POST", "/serviceaccounts"),
            Self::AnnotatedAccount => ("PATCH", "/serviceaccounts/eu-wsproxy"),
            Self::Service => ("PATCH", "/services/wsproxy-eu"),
            Self::Ingress => ("PATCH", "/ingresses/wsproxy-eu"),
            Self::FormerIngress => ("DELETE", "/ingresses/wsproxy-eu"),
            Self::Budget => ("PATCH", "/poddisruptionbudgets/wsproxy-eu"),
            Self::FormerBudget => ("DELETE", "/poddisruptionbudgets/wsproxy-eu"),
            Self::Deployment => ("PATCH", "/deployments/wsproxy-eu"),
            Self::Rehearsal => ("POST", "/secrets?dryRun"),
            Self::TokenSecret => ("POST", "/secrets"),
            Self::ReplacedSecret => ("PATCH", "/secrets/eu-proxy-token"),
            Self::FormerSecret => ("DELETE", "/secrets/eu-proxy-token"),
            Self::Event => ("POST", "/events"),
        }
    }

    fn struck(self) -> Struck {
        match self {
            Self::Intent => Struck::Only(1),
            Self::Attempt => Struck::Only(2),
            Self::Use => Struck::Only(3),
            Self::Status => Struck::From(4),
            _ => Struck::All,
        }
    }

    /// How a message names it.
    fn operation(self) -> &'static str {
        match self {
            Self::Finalizer | Self::Release => "cannot patch CoderWorkspaceProxy",
            Self::Intent | Self::Attempt | Self::Use | Self::Status | Self::EndStatus => {
                "cannot write the status of CoderWorkspaceProxy"
            }
            Self::Account => "cannot create ServiceAccount",
            Self::AnnotatedAccount => "cannot patch ServiceAccount",
            Self::Service => "cannot apply Service",
            Self::Ingress => "cannot apply Ingress",
            Self::FormerIngress => "cannot delete Ingress",
            Self::Budget => "cannot apply PodDisruptionBudget",
            Self::FormerBudget => "cannot delete PodDisruptionBudget",
            Self::Deployment => "cannot apply Deployment",
            Self::Rehearsal | Self::TokenSecret => "cannot create Secret",
            Self::ReplacedSecret => "cannot patch Secret",
            Self::FormerSecret => "cannot delete Secret",
            Self::Event => "cannot record Event",
        }
    }
}

/// A cell.
pub fn of(write: Write, wrong: Wrong) -> Cell {
    use Write::*;
    use Wrong::{Conflict, Forbidden};
    let operation = write.operation();
    let told = match (write, wrong) {
        // Another uid or version: what was meant is gone, or is looked at again.
        (Finalizer | Status | EndStatus | Release, Conflict) => Told::Nothing,
        (FormerSecret | FormerBudget | FormerIngress, Conflict) => Told::Nothing,
        (Finalizer, Forbidden) => Told::Condition("Stalled", "True", "FinalizerRefused", operation),
        // Nothing runs as an account that is not there.
        (Account, Forbidden) => Told::Condition("Stalled", "True", "AccountNotOurs", operation),
        (AnnotatedAccount | Service | Budget | Deployment, Forbidden) => {
            Told::Condition("Stalled", "True", "ChildRefused", operation)
        }
        (Ingress, _) => Told::Condition("Exposed", "False", "ExposureFailed", operation),
        (
            Finalizer | Account | AnnotatedAccount | Service | Budget | FormerBudget | FormerIngress
            | Deployment,
            _,
        ) => Told::Condition("Ready", "False", "ApplyFailed", operation),
        (Rehearsal | TokenSecret | ReplacedSecret, Forbidden | Wrong::Outage | Wrong::Timeout) => {
            Told::Condition("ProxyTokenSecretReady", "False", "SecretWriteFailed", operation)
        }
        (Intent | Attempt | Rehearsal | Use | TokenSecret | ReplacedSecret | FormerSecret, _) => {
            Told::Condition("ProxyRegistered", "False", "RegistrationFailed", operation)
        }
        (Release, Forbidden) => Told::Condition("CleanedUp", "False", "FinalizerRefused", operation),
        (Release, _) => Told::Condition("CleanedUp", "False", "CleanupFailed", operation),
        (Status | EndStatus, _) => Told::Log("reconcile failed; it is tried again", operation),
        (Event, _) => Told::Log("Event not recorded", operation),
    };
    let (secret, gone): (_, &[_]) = match write {
        FormerSecret => (MOVED, &[("secret", SECRET)]),
        FormerBudget => (SECRET, &[("poddisruptionbudget", "wsproxy-eu")]),
        FormerIngress => (SECRET, &[("ingress", "wsproxy-eu")]),
        _ => (SECRET, &[]),
    };
    let tries = match (write, wrong) {
        // Somebody else's, by its uid: it is left alone until it is asked for again.
        (FormerBudget | FormerIngress, Conflict) => 1,
        // One takes as long as a write may.
        (_, Wrong::Timeout) => 1,
        _ if matches!(write.struck(), Struck::Only(_)) => 1,
        _ => 2,
    };
    let (phase, request, struck) = (write.phase(), write.request(), write.struck());
    let name = format!("{write:?}-{wrong:?}").to_lowercase();
    Cell { name, wrong, told, phase, request, struck, tries, secret, gone }
}

/// Every cell.
pub fn whole() -> Vec<Cell> {
    WRONGS.into_iter().flat_map(|wrong| WRITES.map(|write| of(write, wrong))).collect()
}

/// A part with each sort of write and each thing that goes wrong with one.
pub fn representative() -> Vec<Cell> {
    vec![
        of(Write::Finalizer, Wrong::Forbidden),
        of(Write::Service, Wrong::Outage),
        of(Write::Ingress, Wrong::Forbidden),
        of(Write::Attempt, Wrong::Outage),
        of(Write::Rehearsal, Wrong::Forbidden),
        of(Write::TokenSecret, Wrong::Conflict),
        of(Write::Use, Wrong::Conflict),
        of(Write::Status, Wrong::Outage),
        of(Write::ReplacedSecret, Wrong::Outage),
        of(Write::FormerSecret, Wrong::Forbidden),
        of(Write::FormerIngress, Wrong::Forbidden),
        of(Write::EndStatus, Wrong::Outage),
        of(Write::Release, Wrong::Conflict),
    ]
}
