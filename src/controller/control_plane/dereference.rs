//! Reads what a reconcile of a control plane works with, before it changes anything: the Deployment that runs, what the pods
//! consume, and whether admission is disabled. What comes of it is decided by pure functions elsewhere.

use super::desired::{self, Children, Inputs};
use super::held::Held;
use super::kept;
use super::reconcile::{Reconciler, Subject};
use super::references::{self, Contents, ReadError};
use crate::controller::drift;
use serde_json::{Value, json};
use std::time::Instant;

/// What was read, and the children that follow from it.
pub(super) struct Dereferenced {
    /// The Deployment as it is.
    pub(super) live: Option<Value>,
    pub(super) contents: Contents,
    pub(super) children: Children,
    /// What is held back; nothing where admission is in force.
    pub(super) held: Held,
    /// Whether admission is disabled, so that nothing is widened.
    pub(super) frozen: bool,
}

/// Why nothing is changed.
pub(super) enum Unread {
    /// Something could not be read this time.
    Failed(String),
    /// The object itself cannot be read.
    Unreadable(String),
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(&self, subject: &mut Subject) -> Result<Dereferenced, Unread> {
        let failed = |error: &dyn std::fmt::Display| Unread::Failed(error.to_string());
        let live = self.kube.read(subject.key.deployment()).await.map_err(|error| failed(&error))?;
        let labels = json!(desired::labels(&subject.resolved));
        let running = live.as_ref().filter(|live| drift::is_child_of(live, &subject.uid, &labels));
        subject.given = kept::with_what_runs(&subject.object, running);
        subject.broken.extend(kept::downgrade(&subject.object, running));
        // Without what runs the default image would count, which nobody asked for.
        subject.resolved = self.resolved(&subject.given).map_err(|error| {
            Unread::Unreadable(format!("the object cannot be read with what runs: {error}"))
        })?;
        let (key, deadline) = (self.checksum_key(), &subject.deadline);
        let read = references::read(&self.kube, &key, &subject.resolved, running, deadline).await;
        let contents = match read {
            Err(error @ ReadError::OutOfTime) => {
                subject.deadline.ended("reading what it refers to", Instant::now());
                let late = subject.deadline.told(Instant::now());
                return Err(Unread::Failed(late.unwrap_or_else(|| error.to_string())));
            }
            read => read.map_err(|error| failed(&error))?,
        };
        let children = desired::children(&Inputs {
            control_plane: &subject.resolved,
            consumed_checksum: contents.checksum.as_deref(),
            access_url_from_env_from: contents.provided,
            cluster_domain: &self.config.cluster_domain,
        });
        let held = self.held(subject, &children).await.map_err(|error| failed(&error))?;
        let (frozen, held) = (held.is_some(), held.unwrap_or_default());
        Ok(Dereferenced { live, contents, children, held, frozen })
    }
}
