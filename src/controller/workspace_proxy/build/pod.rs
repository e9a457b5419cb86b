//! Decides the pods of a workspace proxy: one container `workspace-proxy` that runs `coder wsproxy server`.
//! Never leaves the command to the image: its entry point is `coder server`. Never mounts a token of the API server.

use super::super::resolve::{ProxyPods, ResolvedProxy};
use super::environment::environment;
use crate::controller::workload::pods::Pods;
use crate::controller::workload::{monitoring, ports, scratch, trust};
use crds::well_known::annotation;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

/// The container of the proxy in its pod.
pub(crate) const CONTAINER: &str = "workspace-proxy";

/// The template of the pods.
pub(super) fn template(resolved: &ResolvedProxy, proxy: &ProxyPods) -> PodTemplateSpec {
    let own = trust::volume(&proxy.attachment.trusted)
        .into_iter()
        .chain(scratch::volume(&resolved.pods, resolved.names_image()));
    let (volumes, mounts) = own.unzip();
    let pods = Pods { volumes, mounts, aliases: proxy.attachment.aliases(), ..pods(resolved) };
    let checksums = [
        (annotation::TOKEN_CHECKSUM, Some(proxy.token.checksum.as_str())),
        (annotation::TRUST_CHECKSUM, proxy.attachment.certificates.as_deref()),
        (annotation::CHECKSUM, resolved.consumed_checksum.as_deref()),
    ];
    let mut template = pods.template(container(resolved, proxy), &checksums);
    template.spec.get_or_insert_default().automount_service_account_token = Some(false);
    template
}

/// The pods, as their spec has them.
pub(super) fn pods(resolved: &ResolvedProxy) -> Pods<'_> {
    let ResolvedProxy { owner, pods: settings, spec, .. } = resolved;
    let (volumes, mounts, aliases) = (Vec::new(), Vec::new(), Vec::new());
    Pods { owner, settings, fields: spec.pod_fields(), volumes, mounts, aliases }
}

/// The container of the proxy.
fn container(resolved: &ResolvedProxy, proxy: &ProxyPods) -> Container {
    let mut args = vec!["wsproxy".to_owned(), "server".to_owned()];
    args.push(format!("--http-address=0.0.0.0:{}", ports::PROXY));
    args.extend((resolved.spec.derp_only == Some(true)).then(|| "--derp-only".to_owned()));
    args.extend(resolved.spec.extra_args.iter().cloned());
    let mut ports = vec![ports::port("http", ports::PROXY)];
    ports.extend(resolved.pods.certificates.serve_tls().then(|| ports::port("https", ports::HTTPS)));
    ports.extend(resolved.pods.metrics.iter().map(|_| monitoring::port()));
    Container {
        name: CONTAINER.to_owned(),
        image: Some(proxy.attachment.image.clone()),
        command: Some(vec!["coder".to_owned()]),
        args: Some(args),
        env: Some(environment(resolved, proxy)),
        ports: Some(ports),
        readiness_probe: resolved.probes.readiness.clone(),
        liveness_probe: resolved.probes.liveness.clone(),
        startup_probe: resolved.probes.startup.clone(),
        ..Default::default()
    }
}
