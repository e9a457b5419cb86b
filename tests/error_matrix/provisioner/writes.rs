//! Every write of a provisioner to the API server with everything that goes wrong with one, and what must be said of it. It
//! does nothing.

use super::{SECRET, first};
use crate::attached::Phase;
use crate::attached::write::{Cell, Struck, Told, WRONGS, Wrong};
use serde_json::{Value, json};

/// Another Secret for the key.
const MOVED: &str = "moved";

/// A write, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Finalizer,
    Account,
    Role,
    RoleBinding,
    Budget,
    /// That a key is intended, the first write of the status.
    Intent,
    /// That it is asked for now, the second.
    Attempt,
    KeySecret,
    /// That it is in use, the third.
    Use,
    Deployment,
    /// The conditions, from the fourth write of the status on.
    Status,
    Event,
    RotatedSecret,
    FormerSecret,
    AnnotatedAccount,
    FormerBudget,
    StoppedDeployment,
    /// What holds an object that is going.
    EndStatus,
    Release,
}

const WRITES: [Write; 19] = [
    Write::Finalizer,
    Write::Account,
    Write::Role,
    Write::RoleBinding,
    Write::Budget,
    Write::Intent,
    Write::Attempt,
    Write::KeySecret,
    Write::Use,
    Write::Deployment,
    Write::Status,
    Write::Event,
    Write::RotatedSecret,
    Write::FormerSecret,
    Write::AnnotatedAccount,
    Write::FormerBudget,
    Write::StoppedDeployment,
    Write::EndStatus,
    Write::Release,
];

/// The first spec with another field.
fn with(field: &str, value: Value) -> Value {
    let mut spec = first();
    spec[field] = value;
    spec
}

impl Write {
    fn phase(self) -> Phase {
        match self {
            // Other tags are another key.
            Self::RotatedSecret => Phase::Apply(|| with("tags", json!({ "zone": "eu" }))),
            Self::FormerSecret => Phase::Apply(|| with("key", json!({ "secretName": MOVED }))),
            Self::AnnotatedAccount => {
                Phase::Apply(|| with("serviceAccount", json!({ "annotations": { "example.com/a": "b" } })))
            }
            Self::FormerBudget => Phase::Apply(|| json!({})),
            Self::StoppedDeployment | Self::EndStatus | Self::Release => Phase::End,
            _ => Phase::Make,
        }
    }

    /// Method and the end of the path by which the write is known.
    fn request(self) -> (&'static str, &'static str) {
        match self {
            Self::Finalizer | Self::Release => ("PATCH", "/coderprovisioners/builders"),
            Self::Intent | Self::Attempt | Self::Use | Self::Status | Self::EndStatus => {
                ("PATCH", "/coderprovisioners/builders/status")
            }
            Self::Account => ("POST", "/serviceaccounts"),
            Self::AnnotatedAccount => ("PATCH", "/serviceaccounts/builders-provisioner"),
            Self::Role => ("PATCH", "/roles/provisioner-builders"),
            Self::RoleBinding => ("PATCH", "/rolebindings/provisioner-builders"),
            Self::Budget => ("PATCH", "/poddisruptionbudgets/provisioner-builders"),
            Self::FormerBudget => ("DELETE", "/poddisruptionbudgets/provisioner-builders"),
            Self::Deployment => ("PATCH", "/deployments/provisioner-builders"),
            Self::StoppedDeployment => ("DELETE", "/deployments/provisioner-builders"),
            Self::KeySecret => ("POST", "/secrets"),
            Self::RotatedSecret => ("PATCH", "/secrets/builders-provisioner-key"),
            Self::FormerSecret => ("DELETE", "/secrets/builders-provisioner-key"),
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
            Self::Finalizer | Self::Release => "cannot patch CoderProvisioner",
            Self::Intent | Self::Attempt | Self::Use | Self::Status | Self::EndStatus => {
                "cannot write the status of CoderProvisioner"
            }
            Self::Account => "cannot create ServiceAccount",
            Self::AnnotatedAccount => "cannot patch ServiceAccount",
            Self::Role => "cannot apply Role",
            Self::RoleBinding => "cannot apply RoleBinding",
            Self::Budget => "cannot apply PodDisruptionBudget",
            Self::FormerBudget => "cannot delete PodDisruptionBudget",
            Self::Deployment => "cannot apply Deployment",
            Self::StoppedDeployment => "cannot delete Deployment",
            Self::KeySecret => "cannot create Secret",
            Self::RotatedSecret => "cannot patch Secret",
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
    let not_ready = |reason| Told::Condition("Ready", "False", reason, operation);
    let told = match (write, wrong) {
        // Another uid or version: what was meant is gone, or is looked at again.
        (Finalizer | Status | EndStatus | Release, Conflict) => Told::Nothing,
        (FormerSecret | FormerBudget | StoppedDeployment, Conflict) => Told::Nothing,
        (Finalizer, Forbidden) => Told::Condition("Stalled", "True", "FinalizerRefused", operation),
        // Nothing runs as an account that is not there.
        (Account, Forbidden) => Told::Condition("Stalled", "True", "AccountNotOurs", operation),
        (AnnotatedAccount | Role | RoleBinding | Budget | Deployment, Forbidden) => {
            Told::Condition("Stalled", "True", "ChildRefused", operation)
        }
        (
            Finalizer | Account | AnnotatedAccount | Role | RoleBinding | Budget | FormerBudget | Deployment,
            _,
        ) => not_ready("ApplyFailed"),
        (Intent | Attempt | Use | KeySecret | RotatedSecret | FormerSecret, _) => {
            Told::Condition("ProvisionerKeyReady", "False", "ProvisionerKeyFailed", operation)
        }
        (Release, Forbidden) => Told::Condition("CleanedUp", "False", "FinalizerRefused", operation),
        (StoppedDeployment | Release, _) => Told::Condition("CleanedUp", "False", "CleanupFailed", operation),
        (Status | EndStatus, _) => Told::Log("reconcile failed; it is tried again", operation),
        (Event, _) => Told::Log("Event not recorded", operation),
    };
    let (secret, gone): (_, &[_]) = match write {
        FormerSecret => (MOVED, &[("secret", SECRET)]),
        FormerBudget => (SECRET, &[("poddisruptionbudget", "provisioner-builders")]),
        _ => (SECRET, &[]),
    };
    let tries = match (write, wrong) {
        // Somebody else's, by its uid: it is left alone until it is asked for again.
        (FormerBudget, Conflict) => 1,
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
        of(Write::Account, Wrong::Outage),
        of(Write::RoleBinding, Wrong::Forbidden),
        of(Write::Attempt, Wrong::Outage),
        of(Write::KeySecret, Wrong::Conflict),
        of(Write::Use, Wrong::Conflict),
        of(Write::Deployment, Wrong::Timeout),
        of(Write::Status, Wrong::Outage),
        of(Write::Event, Wrong::Forbidden),
        of(Write::RotatedSecret, Wrong::Outage),
        of(Write::FormerSecret, Wrong::Forbidden),
        of(Write::StoppedDeployment, Wrong::Forbidden),
        of(Write::Release, Wrong::Conflict),
    ]
}
