//! Writes the status of a control plane, and only if it differs from what is there.
//! What it says is decided in `status`.

use super::dereference::Unread;
use super::observed::Observed;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::status;
use super::subject::Object;
use super::{access, license};
use crate::controller::runtime::schedule::Action;
use crate::controller::status::conditions::Finding;
use crate::controller::status::observed::ObservedObject;
use crate::controller::status::partial;
use crate::kubernetes::CallError;
use crds::CoderControlPlaneStatus;
use crds::well_known::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

impl Reconciler {
    /// Nothing is changed while it is unknown what the pods consume.
    pub(super) async fn write_unread(&self, object: &Object, unread: Unread) -> Result<Action, CallError> {
        match unread {
            Unread::Unreadable(why) => self.write_unreadable(object, why).await,
            Unread::Failed(why) => {
                let observed = Observed::only(ObservedObject::failed(why));
                self.write_summary(object, object.status.clone(), &observed).await?;
                Ok(Action::BackOff(Duration::ZERO))
            }
        }
    }

    pub(super) async fn write_unreadable(&self, object: &Object, why: String) -> Result<Action, CallError> {
        let mut status = object.status.clone();
        let mut observed = Observed::only(ObservedObject::unreadable(why));
        if let Some(access) = access::not_renewed(&status) {
            observed.access = access;
            status.operator_access_ready = None;
        }
        self.write_summary(object, status, &observed).await?;
        Ok(Action::AwaitChange)
    }

    /// Writes only the three of kstatus, and what cannot be kept of an object that cannot be read: what runs goes on
    /// running as it was.
    async fn write_summary(
        &self,
        object: &Object,
        status: CoderControlPlaneStatus,
        observed: &Observed,
    ) -> Result<(), CallError> {
        let mut besides = Vec::new();
        if observed.object.unreadable.is_some() {
            besides.push(condition::SPEC_ACCEPTED);
            if observed.access.reason == access::NOT_RENEWED {
                besides.push(condition::OPERATOR_ACCESS_READY);
            }
        }
        let (findings, now) = (status::findings(observed), Time(Timestamp::now()));
        self.write(object, partial::summary(object, status, findings, &besides, &now)).await
    }

    /// Writes that it is suspended, and what was found out all the same.
    pub(super) async fn write_suspended(
        &self,
        object: &Object,
        status: CoderControlPlaneStatus,
        found: Vec<Finding>,
    ) -> Result<(), CallError> {
        let now = Time(Timestamp::now());
        self.write(object, partial::suspended(object, status, Reason::Suspended, found, &now)).await
    }

    /// Says on an object that is going why it is still there.
    pub(super) async fn write_cleanup_failed(&self, object: &Object, why: &str) -> Result<(), CallError> {
        let (reason, progressing) = (Reason::CleanupFailed, Reason::Progressing);
        let now = Time(Timestamp::now());
        let before = (object.status.clone(), None);
        self.write(object, partial::cleanup_failed(object, before, reason, progressing, why, &now)).await
    }

    /// Writes the status if it differs from what is there, then tells what changed.
    pub(super) async fn write(
        &self,
        object: &Object,
        after: CoderControlPlaneStatus,
    ) -> Result<(), CallError> {
        let of_license = license::event_drafts(&object.status, &after);
        self.writer().write_status(object, &after, &of_license).await
    }
}
