//! Starts the listeners of a mode, each with a gate that opens when it has answered once.

use super::kinds::reflect;
use super::modes::Part;
use super::process::{Context, Fatal, Running};
use crate::admission;
use crate::kubernetes::Selection;
use crate::serving::front_proxy::{self, FrontProxyTrust};
use crate::serving::leaf::CurrentLeaf;
use crate::serving::limits::{self, Limits};
use crate::serving::listener::Listener;
use crate::serving::tls::{ClientCertificates, server_config};
use crate::serving::{admin, probes, self_check};
use axum::Router;
use axum::body::Bytes;
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use std::net::SocketAddr;
use std::time::Duration;

/// No client sends more: the API server's own limit for a request.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// Probes answer from memory: there is nothing to wait for.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// One TLS listener.
struct Tls {
    name: &'static str,
    flag: &'static str,
    address: SocketAddr,
    clients: ClientCertificates,
    router: Router,
}

/// Binds every listener of the mode and serves; the probes last, when every gate exists.
pub async fn start(context: &Context, running: &mut Running, leaf: &CurrentLeaf) -> Result<(), Fatal> {
    if context.flags.app.runs(Part::AggregatedApi) {
        follow_front_proxy(context, running);
    }
    for listener in listeners(context) {
        start_tls(context, running, leaf, listener).await?;
    }
    let router = probes::router(context.readiness.clone());
    let address = context.flags.addresses.probe_address;
    let probes = Listener::bind("probes", "probe-address", address, router, context.metrics.clone()).await?;
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
    let admin = admin::router(
        context.kube.clone(),
        context.metrics.clone(),
        context.readiness.clone(),
        context.set_log_level.clone(),
    );
    let plain = ClientCertificates::NotAsked;
    let tls = |name, flag, address, clients, router| Tls { name, flag, address, clients, router };
    let mut listeners = vec![tls("metrics", "metrics-address", addresses.metrics_address, plain, admin)];
    if runs(Part::Webhooks) {
        let router = admission::router(context.kube.clone(), context.flags.config(), context.metrics.clone());
        listeners.push(tls("webhooks", "webhook-address", addresses.webhook_address, plain, router));
    }
    if runs(Part::AggregatedApi) {
        let asked = ClientCertificates::Requested;
        listeners.push(tls(
            "aggregated-api",
            "aggregated-address",
            addresses.aggregated_address,
            asked,
            nothing(),
        ));
    }
    if runs(Part::Mcp) {
        listeners.push(tls("mcp", "mcp-address", addresses.mcp_address, plain, nothing()));
    }
    listeners
}

/// A part that does not exist yet answers 404 to everything. The body is read first: a connection with an unread body
/// is closed after the answer, under the next call of a client that reuses it.
fn nothing() -> Router {
    let router =
        Router::new().fallback(async |_: Bytes| (StatusCode::NOT_FOUND, "nothing is served here yet\n"));
    limits::bounded(router, Limits { body: MAX_BODY, at_once: 16, time: Duration::from_secs(10) })
}

async fn start_tls(
    context: &Context,
    running: &mut Running,
    leaf: &CurrentLeaf,
    tls: Tls,
) -> Result<(), Fatal> {
    let gate = context.readiness.gate(tls.name);
    let config = server_config(leaf, tls.clients)?;
    let listener =
        Listener::bind(tls.name, tls.flag, tls.address, tls.router, context.metrics.clone()).await?;
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
    let config_map = reflect(context, running, "ConfigMap", objects, &selection);
    let unfollow = context.unfollow.clone();
    running.followers.spawn(async move {
        FrontProxyTrust::default().run(config_map, gate, unfollow).await;
        Ok(())
    });
}
