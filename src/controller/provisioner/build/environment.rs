//! Decides the environment of daemons: what we set, in a fixed order, then what the spec gives, which wins.
//! Never sets tags or an organization: both belong to the key, and a daemon refuses them besides it.

use super::super::resolve::{Daemons, ResolvedProvisioner};
use crate::controller::children::last_by_key;
use crate::controller::workload::environment::{of_pod, of_secret, variable};
use crate::controller::workload::{monitoring, scratch, trust};
use k8s_openapi::api::core::v1::EnvVar;

/// Where the control plane is.
pub(crate) const URL: &str = "CODER_URL";
/// The key of the daemons.
pub(crate) const KEY: &str = "CODER_PROVISIONER_DAEMON_KEY";
/// What a daemon is called in coderd.
pub(crate) const NAME: &str = "CODER_PROVISIONER_DAEMON_NAME";

/// The environment of daemons.
pub(super) fn environment(provisioner: &ResolvedProvisioner, daemons: &Daemons) -> Vec<EnvVar> {
    let key = &daemons.key;
    let mut environment: Vec<EnvVar> =
        daemons.attachment.address.iter().map(|address| variable(URL, &address.url)).collect();
    environment.push(of_secret(KEY, &key.secret, &key.key));
    environment.push(of_pod(NAME, name_field(&provisioner.owner.workload)));
    environment.extend(trust::variable(&daemons.attachment.trusted));
    environment.extend(scratch::variable(&provisioner.pods, provisioner.names_image()));
    environment.extend(provisioner.pods.metrics.iter().flat_map(|_| monitoring::environment()));
    environment.extend(provisioner.spec.extra_env.iter().cloned());
    last_by_key(environment, |variable| &variable.name)
}

/// The field of a pod that its daemon is called by: its name, by which a person finds it. A daemon takes host names without
/// dots only, and pods of an object whose name has one, from before admission refused that, are called by their uid.
pub(crate) fn name_field(workload: &str) -> &'static str {
    if workload.contains('.') { "metadata.uid" } else { "metadata.name" }
}
