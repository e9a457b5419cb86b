//! Kubernetes Events through one recorder: what an operator's user sees in `kubectl describe`.
//! Recording is best effort and never fails the work it tells about; notes never carry secret material.

use super::Kube;
use super::objects::{WRITE_LIMIT, within};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::sync::Arc;

/// Why an Event is recorded. A closed set: Events with one reason are folded into one.
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

    fn severity(self) -> EventType {
        match self {
            Self::AuthorityReplaced | Self::InjectionContested => EventType::Warning,
            _ => EventType::Normal,
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

/// The recorder all parts of the process share.
#[derive(Clone)]
pub struct Events {
    recorder: Arc<Recorder>,
    namespace: String,
}

impl Events {
    /// The one recorder; `instance` tells replicas apart.
    pub fn new(kube: &Kube, instance: &str) -> Self {
        let reporter =
            Reporter { controller: "coder.com/coder-k8s".to_owned(), instance: Some(instance.to_owned()) };
        let recorder = Recorder::new(kube.calls.clone(), reporter);
        Self { recorder: Arc::new(recorder), namespace: kube.namespace().to_owned() }
    }

    /// Records an Event about an object of our own namespace; with its uid, `kubectl describe` shows it.
    pub async fn record(&self, reason: Reason, about: ObjectReference, note: String) {
        let about = ObjectReference { namespace: Some(self.namespace.clone()), ..about };
        let event = Event {
            type_: reason.severity(),
            reason: reason.name().to_owned(),
            note: Some(note),
            action: reason.action().to_owned(),
            secondary: None,
        };
        let publish = self.recorder.publish(&event, &about);
        if let Err(error) = within(WRITE_LIMIT, || format!("record Event {}", reason.name()), publish).await {
            tracing::warn!(reason = reason.name(), %error, "Event not recorded");
        }
    }
}
