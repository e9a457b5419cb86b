//! Starts the listeners of a mode, each with a gate that opens when it has answered once.

use super::kinds::reflect;
use super::modes::{Mode, Part};
use super::process::{Context, Fatal, Running};
use crate::admission;
use crate::kubernetes::Selection;
use crate::serving::callers::Callers;
use crate::serving::connections::Connections;
use crate::serving::front_proxy::{self, FrontProxyTrust};
use crate::serving::leaf::CurrentLeaf;
use crate::serving::listener::Listener;
use crate::serving::tls::server_config;
use crate::serving::{admin, probes, self_check};
use axum::Router;
use k8s_openapi::api::core::v1::ConfigMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Probes answer from memory: there is nothing to wait for.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// The kubelet gives a probe one second and opens a connection for each: no other caller may hold a place for longer.
const PROBE_LIFE: Duration = Duration::from_secs(2);

/// One TLS listener.
struct Tls {
    name: &'static str,
    flag: &'static str,
    address: SocketAddr,
    router: Router,
}

/// Binds every listener of the mode and serves; the probes last, when every gate exists.
pub(super) async fn start(context: &Context, running: &mut Running, leaf: &CurrentLeaf) -> Result<(), Fatal> {
    if context.flags.app.runs(Part::AggregatedApi) {
        follow_front_proxy(context, running);
    }
    to_come(context);
    let (connections, of_probes) = Connections::of_process();
    for listener in listeners(context) {
        start_tls(context, running, leaf, listener, connections.clone()).await?;
    }
    let router = probes::router(context.readiness.clone());
    let address = context.flags.addresses.probe_address;
    let metrics = context.metrics.clone();
    let probes = Listener::bind("probes", "probe-address", address, router, of_probes, metrics).await?;
    let probes = probes.with_life(PROBE_LIFE);
    // Probes are answered to the end: the kubelet shall hear "not ready" while everything else drains.
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        probes.serve(unfollow, PROBE_GRACE).await;
        Ok(())
    });
    Ok(())
}

fn listeners(context: &Context) -> Vec<Tls> {
    let addresses = &context.flags.addresses;
    let runs = |part| context.flags.app.runs(part);
    let callers = Callers::new(context.kube.clone());
    let admin = admin::router(
        callers.clone(),
        context.metrics.clone(),
        context.readiness.clone(),
        context.set_log_level.clone(),
    );
    let tls = |name, flag, address, router| Tls { name, flag, address, router };
    let mut listeners = vec![tls("metrics", "metrics-address", addresses.metrics_address, admin)];
    if runs(Part::Webhooks) {
        let router = admission::router(callers, context.flags.config(), context.metrics.clone());
        listeners.push(tls("webhooks", "webhook-address", addresses.webhook_address, router));
    }
    listeners
}

/// A part that does not exist yet has no port: nobody is kept busy with a connection that leads nowhere. A mode of
/// which nothing else is left is never ready, so that no rollout replaces by it what still serves.
fn to_come(context: &Context) {
    let addresses = &context.flags.addresses;
    let parts = [
        (Part::AggregatedApi, Mode::AggregatedApiserver, "aggregated-api", addresses.aggregated_address),
        (Part::Mcp, Mode::McpHttp, "mcp", addresses.mcp_address),
    ];
    for (_, alone, name, address) in parts.into_iter().filter(|(part, ..)| context.flags.app.runs(*part)) {
        tracing::warn!(part = name, %address, "not in this version; its port is not opened");
        if context.flags.app == alone {
            context.readiness.gate(name).close("a version that has it");
        }
    }
}

async fn start_tls(
    context: &Context,
    running: &mut Running,
    leaf: &CurrentLeaf,
    tls: Tls,
    connections: Connections,
) -> Result<(), Fatal> {
    let gate = context.readiness.gate(tls.name);
    let config = server_config(leaf)?;
    let metrics = context.metrics.clone();
    let listener = Listener::bind(tls.name, tls.flag, tls.address, tls.router, connections, metrics).await?;
    let listener = listener.with_tls(config);
    let (stop, grace, leaf) = (context.stop.clone(), context.flags.shutdown_grace, leaf.clone());
    let address = listener.address();
    running.workers.spawn(async move {
        let checking = self_check::run(address, leaf, gate, stop.clone());
        tokio::join!(listener.serve(stop.clone(), grace), checking);
        Ok(())
    });
    Ok(())
}

fn follow_front_proxy(context: &Context, running: &mut Running) {
    let gate = context.readiness.gate("front-proxy trust");
    let objects = context.kube.within::<ConfigMap>(front_proxy::NAMESPACE);
    let selection = Selection::Named(front_proxy::CONFIG_MAP.to_owned());
    let config_map = reflect(context, running, "ConfigMap", vec![objects], &selection);
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        FrontProxyTrust::default().run(config_map, gate, unfollow).await;
        Ok(())
    });
}
