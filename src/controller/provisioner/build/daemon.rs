//! Decides the pods of provisioner daemons: one container `provisioner` that runs `coder provisioner start`.
//! Never sets a probe: a daemon answers nobody, and whether it is alive is asked of its control plane.

use super::super::resolve::{Daemons, ResolvedProvisioner};
use super::environment::environment;
use crate::controller::children::non_empty;
use crate::controller::workload::pods::Pods;
use crate::controller::workload::{monitoring, scratch, trust};
use crds::well_known::annotation;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

/// The container of a daemon in its pod.
pub(crate) const CONTAINER: &str = "provisioner";

/// The template of the pods.
pub(super) fn template(provisioner: &ResolvedProvisioner, daemons: &Daemons) -> PodTemplateSpec {
    let own = trust::volume(&daemons.attachment.trusted)
        .into_iter()
        .chain(scratch::volume(&provisioner.pods, provisioner.names_image()));
    let (volumes, mounts) = own.unzip();
    let pods = Pods { volumes, mounts, aliases: daemons.attachment.aliases(), ..pods(provisioner) };
    let checksums = [
        (annotation::KEY_CHECKSUM, Some(daemons.key.checksum.as_str())),
        (annotation::TRUST_CHECKSUM, daemons.attachment.certificates.as_deref()),
        (annotation::CHECKSUM, provisioner.consumed_checksum.as_deref()),
    ];
    pods.template(container(provisioner, daemons), &checksums)
}

/// The pods, as their spec has them.
pub(super) fn pods(provisioner: &ResolvedProvisioner) -> Pods<'_> {
    let ResolvedProvisioner { owner, pods: settings, spec, .. } = provisioner;
    let (volumes, mounts, aliases) = (Vec::new(), Vec::new(), Vec::new());
    Pods { owner, settings, fields: spec.pod_fields(), volumes, mounts, aliases }
}

/// The container of a daemon.
fn container(provisioner: &ResolvedProvisioner, daemons: &Daemons) -> Container {
    let mut args = vec!["provisioner".to_owned(), "start".to_owned()];
    args.extend(provisioner.spec.extra_args.iter().cloned());
    let ports: Vec<_> = provisioner.pods.metrics.iter().map(|_| monitoring::port()).collect();
    Container {
        name: CONTAINER.to_owned(),
        image: Some(daemons.attachment.image.clone()),
        command: Some(vec!["coder".to_owned()]),
        args: Some(args),
        env: Some(environment(provisioner, daemons)),
        ports: non_empty(&ports),
        ..Default::default()
    }
}
