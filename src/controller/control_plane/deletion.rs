//! Takes back what a control plane that is going has outside its namespace, then lets it go; what fails is told on it.
//! It never removes what is not this object's, and lets go only after everything that must be taken back is.

use super::access::{self, TokenEvent};
use super::prune::{self, Wanted};
use super::reconciler::Reconciler;
use super::subject::Object;
use crate::control_plane_access::operator_token::OWNER_UID;
use crate::controller::runtime::schedule::Action;
use crate::kubernetes::events::EventDraft;
use crate::kubernetes::{CallError, Target};
use crds::CoderControlPlaneSpec;
use crds::well_known::annotation;
use serde_json::from_value;
use std::time::Duration;

impl Reconciler {
    /// One reconcile of an object that is being deleted.
    pub(super) async fn finalize(&self, object: &Object) -> Result<Action, CallError> {
        if !object.has_finalizer() {
            return Ok(Action::AwaitChange);
        }
        match self.let_go(object).await {
            Ok(None) => {
                self.forget(&object.key);
                Ok(Action::AwaitChange)
            }
            Ok(Some(left)) => {
                self.tell_cleanup_failed(object, &left).await;
                Ok(Action::BackOff(Duration::ZERO))
            }
            Err(error) => {
                if !error.is_outdated() {
                    self.tell_cleanup_failed(object, &error.to_string()).await;
                }
                Err(error)
            }
        }
    }

    /// Whoever waits for the deletion looks at the object, not at our log.
    async fn tell_cleanup_failed(&self, object: &Object, why: &str) {
        if let Err(unwritten) = self.write_cleanup_failed(object, why).await {
            tracing::debug!(%unwritten, "why the object is held could not be written");
        }
    }

    /// Takes everything back and lets the object go, unless something is left, which is returned.
    async fn let_go(&self, object: &Object) -> Result<Option<String>, CallError> {
        let concerns = |place: &str| self.may_have_rights_in(object, place);
        let mut left = prune::grants(&self.kube, object.owner(), Wanted::NOTHING, concerns).await?;
        left.stuck.extend(self.take_back(object).await?);
        if left.is_nothing() {
            return self.writer().release(object).await;
        }
        Ok(left.told_stuck().or_else(|| left.told_unread()))
    }

    /// Whether coderd may have rights in a namespace that nobody may look at: its spec names it, or we have seen some there.
    pub(super) fn may_have_rights_in(&self, object: &Object, place: &str) -> bool {
        let named = object.value["spec"]["rbac"]["workspaceNamespaces"].as_array();
        let is_named = named.into_iter().flatten().any(|one| one.as_str().map(str::trim) == Some(place));
        is_named || self.grant_index.has(&object.key, place)
    }

    /// Takes back the operator's access; what of it is still there is returned.
    async fn take_back(&self, object: &Object) -> Result<Option<String>, CallError> {
        let owner = object.owner();
        let spec: CoderControlPlaneSpec = from_value(object.value["spec"].clone()).unwrap_or_default();
        let release = object.annotation(annotation::RELEASE_EXTERNAL) == Some("true");
        let token_events = access::end(&self.kube, &self.access.egress, owner, &spec, release).await?;
        let drafts: Vec<EventDraft> = token_events.iter().map(TokenEvent::draft).collect();
        self.writer().publish(object, &drafts).await;
        let (namespace, name) = (self.kube.namespace(), owner.secret());
        let secret = Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name: &name };
        let again = self.kube.read(secret).await?;
        let ours = again.filter(|again| again["metadata"]["annotations"][OWNER_UID] == object.uid);
        Ok(ours.map(|_| format!("Secret {namespace}/{name}")))
    }
}
