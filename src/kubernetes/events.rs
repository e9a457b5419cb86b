//! Kubernetes Events through one recorder: what an operator's user sees in `kubectl describe`.
//! Recording is best effort and never fails the work it tells about; notes never carry secret material.

use super::Kube;
use super::event_recorder::{Recorder, Said};
use super::wording::{is_cut, sentence, whole};
use k8s_openapi::api::core::v1::ObjectReference;
use std::sync::Arc;

/// Why an Event is recorded. A closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A replica took over a duty.
    LeaderElected,
    /// The CA that signs our serving certificates was made.
    AuthorityCreated,
    /// The CA was unusable or had ended, and a new one took its place at once.
    AuthorityReplaced,
    /// Somebody else keeps overwriting a `caBundle`.
    InjectionContested,
    /// A new CA is being distributed.
    RotationStarted,
    /// New certificates are signed by the new CA.
    RotationPromoted,
    /// The old CA is no longer trusted.
    RotationCompleted,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::LeaderElected => "LeaderElected",
            Self::AuthorityCreated => "AuthorityCreated",
            Self::AuthorityReplaced => "AuthorityReplaced",
            Self::InjectionContested => "InjectionContested",
            Self::RotationStarted => "RotationStarted",
            Self::RotationPromoted => "RotationPromoted",
            Self::RotationCompleted => "RotationCompleted",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::AuthorityReplaced | Self::InjectionContested => Severity::Warning,
            _ => Severity::Normal,
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::LeaderElected => "Elect",
            Self::AuthorityCreated | Self::AuthorityReplaced => "Create",
            Self::InjectionContested => "Inject",
            Self::RotationStarted | Self::RotationPromoted | Self::RotationCompleted => "Rotate",
        }
    }
}

/// Whether an Event is good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something went as it should.
    Normal,
    /// Something somebody should look at.
    Warning,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One Event about an object, before it is published. Those that agree in everything are folded into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDraft {
    /// Good or bad.
    pub severity: Severity,
    /// Why, as one word of a catalogue.
    pub reason: String,
    /// What it is about: the type of a condition, or what was done.
    pub action: String,
    /// For a person.
    pub note: String,
}

/// Who reports, as Events name it.
const CONTROLLER: &str = "coder.com/coder-k8s";
/// Bytes of a note.
const LARGEST_NOTE: usize = 1024;

/// The recorder all parts of the process share.
#[derive(Clone)]
pub struct Events {
    recorder: Arc<Recorder>,
    namespace: String,
}

impl Events {
    /// The one recorder; `instance` tells replicas apart.
    pub fn new(kube: &Kube, instance: &str) -> Self {
        let recorder = Recorder::new(kube, CONTROLLER, instance);
        Self { recorder: Arc::new(recorder), namespace: kube.namespace().to_owned() }
    }

    /// Records an Event about an object of our own namespace; with its uid, `kubectl describe` shows it.
    pub async fn record(&self, reason: Reason, about: ObjectReference, note: String) {
        let about = ObjectReference { namespace: Some(self.namespace.clone()), ..about };
        let draft = EventDraft {
            severity: reason.severity(),
            reason: reason.name().to_owned(),
            action: reason.action().to_owned(),
            note,
        };
        self.publish(&draft, &about).await;
    }

    /// Publishes an Event about an object wherever it is. It is news, not work: a failure is logged and that is all.
    pub async fn publish(&self, draft: &EventDraft, about: &ObjectReference) {
        let mut note = sentence(&draft.note);
        // The API server counts bytes, and refuses a note that has more.
        note.truncate(note.floor_char_boundary(LARGEST_NOTE));
        if is_cut(&note) {
            tracing::info!(
                reason = draft.reason,
                note = whole(&draft.note),
                "the whole of an Event that is cut"
            );
        }
        let said =
            Said { type_: draft.severity.name(), reason: &draft.reason, action: &draft.action, note: &note };
        if let Err(error) = self.recorder.publish(said, about).await {
            tracing::warn!(reason = draft.reason, %error, "Event not recorded");
        }
    }
}
