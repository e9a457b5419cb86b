//! CoderControlPlane as a kind that is reconciled, and the object of a reconcile. Nothing is decided here.

use super::KIND;
use super::reasons::Reason;
use crate::controller::finalizer::Finalizer;
use crate::controller::object::{self, ReconciledKind};
use crate::kubernetes::KindName;
use crds::CoderControlPlane;
use crds::well_known::finalizer;
use webhooks::Kind;

/// A control plane as the API server has it.
pub(super) type Object = object::Object<CoderControlPlane>;
/// One that our types can read.
pub(super) type Subject = object::Subject<CoderControlPlane>;

impl ReconciledKind for CoderControlPlane {
    type Reason = Reason;

    const NAME: KindName = KIND;
    const RULES: Kind = Kind::ControlPlane;
    const FINALIZER: Finalizer = Finalizer(finalizer::CONTROL_PLANE);
}
