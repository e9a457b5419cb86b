//! What every reconcile of a workspace proxy works with, and what is remembered between two of them.
//! Nothing that is remembered is an authority: a restart forgets all of it.

use super::reasons::Reason;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::attached::reconciler::{AttachedKind, AttachedReconciler};
use crate::controller::finalizer::Finalizer;
use crate::controller::object::ReconciledKind;
use crate::controller::runtime::context::ReconcilerContext;
use crate::kubernetes::{Kept, KindName, Reflected};
use crds::well_known::finalizer;
use crds::{CoderWorkspaceProxy, CoderWorkspaceProxyStatus};
use std::ops::Deref;
use std::time::Duration;
use webhooks::Kind;

impl ReconciledKind for CoderWorkspaceProxy {
    type Reason = Reason;
    const NAME: KindName = ["coder.com/v1alpha1", "CoderWorkspaceProxy", "coderworkspaceproxies"];
    const RULES: Kind = Kind::WorkspaceProxy;
    const FINALIZER: Finalizer = Finalizer(finalizer::WORKSPACE_PROXY);
}

/// Reconciles workspace proxies.
pub(crate) struct Reconciler(AttachedReconciler<CoderWorkspaceProxy>);

impl Deref for Reconciler {
    type Target = AttachedReconciler<CoderWorkspaceProxy>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Every workspace proxy of the cluster, as the shared watch has it.
pub(crate) type WorkspaceProxies = Reflected<Kept<CoderWorkspaceProxy>>;

impl Reconciler {
    /// A reconciler of workspace proxies.
    pub(crate) fn new(
        context: ReconcilerContext,
        proxies: WorkspaceProxies,
        control_planes: ControlPlanes,
        verify_interval: Duration,
    ) -> Self {
        Self(AttachedReconciler::new(context, proxies, control_planes, verify_interval))
    }
}

impl AttachedKind for CoderWorkspaceProxy {
    fn workload(name: &str) -> String {
        crds::names::workspace_proxy::workload(name)
    }

    fn set_pods(status: &mut CoderWorkspaceProxyStatus, replicas: i32, ready_replicas: i32) {
        (status.replicas, status.ready_replicas) = (Some(replicas), Some(ready_replicas));
    }
}
