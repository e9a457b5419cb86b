//! What every reconciler is given by the composition root, whatever its kind. It does nothing.

use super::telemetry::Telemetry;
use crate::control_plane_access::ControlPlaneAccess;
use crate::controller::children::ChildCache;
use crate::kubernetes::Kube;
use crate::kubernetes::events::Events;
use webhooks::Config;

/// What a reconciler works with.
pub(crate) struct ReconcilerContext {
    /// The API server.
    pub(crate) kube: Kube,
    /// What is known of its children.
    pub(crate) children: ChildCache,
    /// Where it tells what it did.
    pub(crate) events: Events,
    /// Where it is measured.
    pub(crate) telemetry: Telemetry,
    /// What rules and defaults depend on.
    pub(crate) config: Config,
    /// How the coderd of a control plane is reached.
    pub(crate) access: ControlPlaneAccess,
}
