//! The work of the controller's lease: the reconcilers, each with a queue of its own and all with the same workers, while this
//! replica leads.
//! It wires them; what they do is not known here.

use super::leader_tasks::Work;
use super::process::Context;
use crate::coderd::{Egress, Observer};
use crate::control_plane_access::ControlPlaneAccess;
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::control_plane_access::holds::Holds;
use crate::controller::attached::reconcile::{ReconcileKind, reconcile};
use crate::controller::attached::reconciler::AttachedKind;
use crate::controller::attached::triggers::{Concerned, Triggers, follow_control_planes};
use crate::controller::children::{ChildCache, SharedChildCache};
use crate::controller::control_plane::{self, Dependants, follow_dependants, orphans};
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::controller::provisioner;
use crate::controller::runtime::context::ReconcilerContext;
use crate::controller::runtime::objects;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::telemetry::Telemetry;
use crate::controller::runtime::verify;
use crate::controller::runtime::watches::{self, OnWatchError, Router, WatchHandler};
use crate::controller::runtime::workers::Workers;
use crate::controller::workspace_proxy;
use crate::kubernetes::events::Events;
use crate::serving::metrics::{CoderdRequest, Metrics, Named};
use crds::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// As metrics, logs and whoever routes changes call them.
const CONTROL_PLANE: &str = CoderControlPlane::NAME[1];
const PROVISIONER: &str = CoderProvisioner::NAME[1];
const WORKSPACE_PROXY: &str = CoderWorkspaceProxy::NAME[1];

/// What the leader does: everything is looked at once, then again whenever something changes.
pub(super) fn work(context: &Context, control_planes: ControlPlanes, dependants: Dependants) -> Work {
    let reconcilers = Arc::new(Reconcilers::new(context, control_planes, dependants));
    Box::new(move |stop| {
        let reconcilers = reconcilers.clone();
        Box::pin(async move { reconcilers.lead(stop).await })
    })
}

/// The reconcilers, and what they share.
struct Reconcilers {
    children: Arc<SharedChildCache>,
    of_control_planes: Arc<control_plane::Reconciler>,
    of_provisioners: Arc<provisioner::Reconciler>,
    of_proxies: Arc<workspace_proxy::Reconciler>,
    control_planes: ControlPlanes,
    dependants: Dependants,
    metrics: Metrics,
    events: Events,
    orphan_times: orphans::Times,
    verify_interval: Duration,
}

type Keys = Queue<ObjectKey>;

impl Reconcilers {
    fn new(context: &Context, control_planes: ControlPlanes, dependants: Dependants) -> Self {
        let (access, children) =
            (access(context), Arc::new(SharedChildCache::of(&context.kube.scope().places())));
        let of_control_planes = control_plane::Reconciler::new(
            reconciler_context(context, CONTROL_PLANE, &access, &children),
            control_planes.clone(),
            context.flags.namespace_consent,
            dependants.clone(),
        );
        let of_provisioners = provisioner::Reconciler::new(
            reconciler_context(context, PROVISIONER, &access, &children),
            dependants.provisioners.clone(),
            control_planes.clone(),
            context.flags.verify_interval,
        );
        let of_proxies = workspace_proxy::Reconciler::new(
            reconciler_context(context, WORKSPACE_PROXY, &access, &children),
            dependants.proxies.clone(),
            control_planes.clone(),
            context.flags.verify_interval,
        );
        Self {
            children,
            of_control_planes: Arc::new(of_control_planes),
            of_provisioners: Arc::new(of_provisioners),
            of_proxies: Arc::new(of_proxies),
            control_planes,
            dependants,
            metrics: context.metrics.clone(),
            events: context.events.clone(),
            orphan_times: context.flags.orphan_times(),
            verify_interval: context.flags.verify_interval,
        }
    }

    /// One term of leadership.
    async fn lead(&self, stop: CancellationToken) {
        self.children.forget_all();
        self.of_control_planes.begin_term();
        self.of_provisioners.begin_term();
        self.of_proxies.begin_term();
        let workers = Workers::default();
        let (planes, daemons, proxies) =
            (Queue::with(&workers), Queue::with(&workers), Queue::with(&workers));
        let there = self.control_planes.clone();
        let _planes_shown = Telemetry::new(CONTROL_PLANE, self.metrics.clone())
            .show(&planes, move |namespace, name| there.named(namespace, name).is_some());
        let there = self.dependants.provisioners.clone();
        let _daemons_shown = Telemetry::new(PROVISIONER, self.metrics.clone())
            .show(&daemons, move |namespace, name| there.named(namespace, name).is_some());
        let there = self.dependants.proxies.clone();
        let _proxies_shown = Telemetry::new(WORKSPACE_PROXY, self.metrics.clone())
            .show(&proxies, move |namespace, name| there.named(namespace, name).is_some());
        let _jobs_shown = self.metrics.pending_jobs.show(self.of_provisioners.job_counts());
        let router = Arc::new(self.router(&planes, &daemons, &proxies));
        let kube = self.of_control_planes.kube();
        tokio::select! {
            () = watches::follow(kube, router.clone(), on_watch_error(&self.metrics)) => {}
            () = verify::follow(kube, &router, self.verify_interval) => {}
            () = self.reconcile_control_planes(&planes, stop.clone()) => {}
            () = self.reconcile_attached(&self.of_provisioners, &daemons, stop.clone()) => {}
            () = self.reconcile_attached(&self.of_proxies, &proxies, stop) => {}
            () = orphans::remove(kube, &self.events, &self.control_planes, self.orphan_times) => {}
        }
    }

    /// Whom the watches tell: every kind, with its own queue.
    fn router(&self, planes: &Keys, daemons: &Keys, proxies: &Keys) -> Router {
        let of_control_planes = control_plane::Triggers::new(
            self.control_planes.clone(),
            self.of_control_planes.grant_index().clone(),
            self.of_control_planes.kube().namespace(),
            planes.clone(),
        );
        let of_provisioners =
            Triggers::new(self.dependants.provisioners.clone(), self.control_planes.clone(), daemons.clone());
        let of_proxies =
            Triggers::new(self.dependants.proxies.clone(), self.control_planes.clone(), proxies.clone());
        let all: Vec<Box<dyn WatchHandler>> =
            vec![Box::new(of_control_planes), Box::new(of_provisioners), Box::new(of_proxies)];
        Router::new(self.children.clone(), all)
    }

    async fn reconcile_control_planes(&self, queue: &Keys, stop: CancellationToken) {
        let (reconciler, interval) = (&self.of_control_planes, self.verify_interval);
        // As it was before the first reconcile: whatever changes after that is told.
        let seen = self.dependants.seen();
        let reconciles = queue.run(stop, |key| {
            let reconciler = reconciler.clone();
            async move { reconciler.reconcile(key).await }
        });
        let (all, dependants) = (self.control_planes.clone(), self.dependants.clone());
        tokio::select! {
            () = reconciles => {}
            () = verify::follow_objects(reconciler.objects(), queue, interval) => {}
            () = objects::follow(all.clone(), queue.clone(), |key| reconciler.forget(key)) => {}
            () = follow_dependants(dependants, seen, all, queue.clone()) => {}
        }
    }

    /// Reconciles all objects of a kind that belongs to a control plane.
    async fn reconcile_attached<K: AttachedKind + Concerned, R: ReconcileKind<K>>(
        &self,
        reconciler: &Arc<R>,
        queue: &Keys,
        stop: CancellationToken,
    ) {
        let reconciles = queue.run(stop, |key| {
            let reconciler = reconciler.clone();
            async move { reconcile(&*reconciler, key).await }
        });
        let (all, planes) = (reconciler.all.clone(), self.control_planes.clone());
        tokio::select! {
            () = reconciles => {}
            () = verify::follow_objects(&reconciler.objects, queue, self.verify_interval) => {}
            () = objects::follow(all.clone(), queue.clone(), |key| reconciler.forget_object(key)) => {}
            () = follow_control_planes(planes, all, queue.clone()) => {}
        }
    }
}

/// What a reconciler of this kind works with.
fn reconciler_context(
    context: &Context,
    kind: &'static str,
    access: &ControlPlaneAccess,
    children: &Arc<SharedChildCache>,
) -> ReconcilerContext {
    ReconcilerContext {
        kube: context.kube.clone(),
        children: ChildCache::of(kind, children.clone()),
        events: context.events.clone(),
        telemetry: Telemetry::new(kind, context.metrics.clone()),
        config: context.flags.config(),
        access: access.clone(),
    }
}

fn on_watch_error(metrics: &Metrics) -> OnWatchError {
    let watch_errors = metrics.watch_errors.clone();
    Arc::new(move |kind| _ = watch_errors.get_or_create(&Named { name: kind }).inc())
}

/// How every reconciler reaches the coderd of a control plane: what one asked to be left alone for, the other heeds.
fn access(context: &Context) -> ControlPlaneAccess {
    ControlPlaneAccess {
        kube: context.kube.clone(),
        egress: Egress { observer: observer(&context.metrics), ..context.flags.egress() },
        holds: Holds::default(),
        cluster_domain: context.flags.config().cluster_domain,
    }
}

/// Counts every request to coderd.
fn observer(metrics: &Metrics) -> Observer {
    let durations = metrics.coderd_request_duration.clone();
    Observer::new(move |operation, ended, took| {
        let labels = CoderdRequest { operation: operation.name(), result: ended.name() };
        durations.get_or_create(&labels).observe(took.as_secs_f64());
    })
}
