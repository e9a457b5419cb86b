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
    let ResolvedProxy { owner, pods: settings, spec, .. } = resolved;
    let own = trust::volume(&proxy.attachment.trusted)
        .into_iter()
        .chain(scratch::volume(settings, resolved.names_image()));
    let (volumes, mounts) = own.unzip();
    let aliases = proxy.attachment.aliases();
    let pods = Pods { owner, settings, fields: spec.pod_fields(), volumes, mounts, aliases };
    let checksum = (annotation::TOKEN_CHECKSUM, Some(proxy.token.checksum.as_str()));
    let mut template = pods.template(container(resolved, proxy), checksum);
    if let Some(certificates) = &proxy.attachment.certificates {
        let annotations = template.metadata.get_or_insert_default().annotations.get_or_insert_default();
        annotations.insert(annotation::CHECKSUM.to_owned(), certificates.clone());
    }
    template.spec.get_or_insert_default().automount_service_account_token = Some(false);
    template
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
