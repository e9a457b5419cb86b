//! Decides every value that the children of a provisioner are built from, without an `Option` where there is a default. It is
//! the only input of `build`. Pure: what the cluster holds comes in as a value.
//!
//! What is not known leaves what runs as it is. A control plane that is gone, or a key that is not proven yet, stops no
//! daemon: image, address, trust and key are then those of the running Deployment, while replicas and everything else still
//! follow the spec. Where nothing runs either, there is no Deployment until all of it is known. The same holds for a control
//! plane that daemons cannot be led to: they keep all they have, the key too, which belongs to the address.

use super::build::URL;
use super::running_values;
use crate::controller::attached::attachment::{Attachment, ControlPlaneFacts, Given, SecretSource};
use crate::controller::children::ChildOwner;
use crate::controller::workload::monitoring;
use crate::controller::workload::pods::{self, PodSettings};
use crds::names::provisioner::{key_secret, key_secret_key, service_account, workload};
use crds::well_known::app_name;
use crds::{CoderProvisioner, CoderProvisionerSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

/// What the cluster says about an object before its children are built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    /// The control plane it refers to, if it is there.
    pub(crate) control_plane: Option<&'a ControlPlaneFacts>,
    /// Checksum of the key in the Secret that the spec names, once that key is proven to work.
    pub(crate) key_checksum: Option<&'a str>,
    /// The Deployment that runs, if it is this object's.
    pub(crate) running: Option<&'a Value>,
    /// Hash over every Secret and ConfigMap that the spec lets pods read; another one rolls the Deployment.
    pub(crate) consumed_checksum: Option<&'a str>,
}

impl Facts<'_> {
    /// Nothing is known.
    pub(crate) const NONE: Facts<'static> =
        Facts { control_plane: None, key_checksum: None, running: None, consumed_checksum: None };
}

/// A provisioner with every value that its children are built from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedProvisioner {
    /// Whom the children belong to.
    pub(crate) owner: ChildOwner,
    /// How many daemons.
    pub(crate) replicas: i32,
    /// Their pods.
    pub(crate) pods: PodSettings,
    /// What they may do in their namespace; nothing if the spec says so.
    pub(crate) permissions: Option<Permissions>,
    /// What they run with; none as long as it is not known and nothing runs.
    pub(crate) daemons: Option<Daemons>,
    /// Hash over everything that the spec lets pods read.
    pub(crate) consumed_checksum: Option<String>,
    /// The spec, for the fields that have no default.
    pub(crate) spec: CoderProvisionerSpec,
}

impl ResolvedProvisioner {
    /// Whether daemons run an image of their own, and not that of their control plane.
    pub(super) fn names_image(&self) -> bool {
        named_image(&self.spec).is_some()
    }
}

fn named_image(spec: &CoderProvisionerSpec) -> Option<&String> {
    spec.image.as_ref().filter(|image| !image.is_empty())
}

/// What daemons may do in their namespace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Permissions {
    /// Whether workspaces may be Deployments.
    pub(crate) deployments: bool,
    /// What the spec adds.
    pub(crate) extra_rules: Vec<PolicyRule>,
}

/// What daemons run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemons {
    /// What they have from their control plane.
    pub(crate) attachment: Attachment,
    /// Where their key is.
    pub(crate) key: SecretSource,
}

/// The provisioner with every value that its children are built from. `complete` has every default of admission in it.
pub(crate) fn resolve(complete: &CoderProvisioner, facts: Facts<'_>) -> ResolvedProvisioner {
    let (owner, spec) = (owner(complete), &complete.spec);
    let (account, metrics) =
        (service_account(&owner.name, spec), monitoring::resolve_of_pods(spec.metrics.as_ref()));
    ResolvedProvisioner {
        replicas: spec.replicas_or_default(),
        pods: pods::resolve(spec.pod_fields(), &account, &[], metrics, spec.grace_period_or_default()),
        permissions: permissions(spec),
        daemons: daemons(&owner.name, spec, facts),
        consumed_checksum: facts.consumed_checksum.map(str::to_owned),
        spec: spec.clone(),
        owner,
    }
}

/// Whom the children of a provisioner belong to.
pub(crate) fn owner(provisioner: &CoderProvisioner) -> ChildOwner {
    ChildOwner::of(&provisioner.metadata, "CoderProvisioner", app_name::PROVISIONER, workload)
}

fn permissions(spec: &CoderProvisionerSpec) -> Option<Permissions> {
    let given = spec.rbac.clone().unwrap_or_default();
    given
        .grants_workspaces()
        .then(|| Permissions { deployments: given.grants_deployments(), extra_rules: given.extra_rules })
}

fn daemons(name: &str, spec: &CoderProvisionerSpec, facts: Facts<'_>) -> Option<Daemons> {
    let has_address = gives_address(spec);
    let (plane, key_checksum) = match facts.control_plane {
        Some(plane) if plane.address.is_err() && !has_address => (None, None),
        plane => (plane, facts.key_checksum),
    };
    let running = facts.running.and_then(running_values::daemons);
    let given = Given { image: named_image(spec), has_address, host_aliases: &spec.host_aliases };
    let runs = running.as_ref().map(|runs| &runs.attachment);
    let attachment = Attachment::resolve(plane, runs, given)?;
    let proven = key_checksum.map(|checksum| SecretSource {
        secret: key_secret(name, spec),
        key: key_secret_key(spec).to_owned(),
        checksum: checksum.to_owned(),
    });
    let key = proven.or_else(|| running.map(|runs| runs.key))?;
    Some(Daemons { attachment, key })
}

/// Whether the spec says itself where the control plane is.
pub(super) fn gives_address(spec: &CoderProvisionerSpec) -> bool {
    spec.extra_env.iter().any(|variable| variable.name == URL)
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Provisioner;
    use serde_json::json;

    #[test]
    fn the_image_follows_the_control_plane_unless_the_spec_names_one() {
        let image = |given: Provisioner| given.resolved().daemons.unwrap().attachment.image;
        let given = || Provisioner::test().of_control_plane_with_image("coder:v2");
        assert_eq!(image(given()), "coder:v2");
        assert_eq!(image(given().with("image", json!("mine:v1"))), "mine:v1");
        assert_eq!(image(given().with("image", json!(""))), "coder:v2", "an empty one names none");
    }

    #[test]
    fn without_a_control_plane_or_a_proven_key_what_runs_stays() {
        let before = Provisioner::test().of_tls_control_plane(&["a"]).with_key_checksum("old");
        let ran = before.resolved().daemons;
        for left in [
            Provisioner::test().without_control_plane().without_key(),
            Provisioner::test().without_control_plane(),
        ] {
            assert_eq!(left.resolved().daemons, None, "nothing is known and nothing runs");
        }
        let running = || Provisioner::test().running(before.deployment());
        assert_eq!(running().without_control_plane().without_key().resolved().daemons, ran);
        let rotated = running().without_control_plane().with_key_checksum("new").resolved().daemons.unwrap();
        assert_eq!(
            (rotated.key.checksum.as_str(), rotated.attachment.address),
            ("new", ran.clone().unwrap().attachment.address)
        );
        let moved = running().without_key().with("key", json!({"secretName": "other"})).resolved();
        assert_eq!(moved.daemons.unwrap().key, ran.unwrap().key, "the new Secret is not proven yet");
        let scaled = running().without_control_plane().with("replicas", json!(0)).resolved();
        assert_eq!(scaled.replicas, 0, "the spec still says how many");
    }

    #[test]
    fn a_control_plane_that_daemons_cannot_be_led_to_changes_nothing_they_have() {
        let lost = |given: Provisioner| given.of_control_plane_without_address().with_key_checksum("new");
        assert_eq!(lost(Provisioner::test()).resolved().daemons, None);
        let before = Provisioner::test().of_tls_control_plane(&["a"]).with_key_checksum("old");
        let running = Provisioner::test().running(before.deployment());
        assert_eq!(lost(running.clone()).resolved().daemons, before.resolved().daemons);
        let given = json!([{"name": "CODER_URL", "value": "https://coder.example.com"}]);
        let mended = lost(running.with("extraEnv", given)).resolved().daemons.unwrap();
        assert_eq!(
            (mended.attachment.address, mended.key.checksum.as_str()),
            (None, "new"),
            "the spec knows the address"
        );
    }

    #[test]
    fn where_nothing_runs_there_is_no_deployment_until_all_is_known() {
        for given in [Provisioner::test().without_key(), Provisioner::test().without_control_plane()] {
            assert_eq!(given.children().deployment, None);
            assert!(given.children().service_account.is_some() && given.children().role.is_some());
        }
        assert!(Provisioner::test().children().deployment.is_some());
    }
}
