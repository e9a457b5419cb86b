//! Keeps this replica's leaf: signed by the shared CA, for the Services that call us, renewed and re-signed in time.
//! It runs on every replica, leader or not, and only ever reads the cluster.

use super::authority::Authority;
use super::injection::{self, Target};
use super::leaf::{CurrentLeaf, Leaf, service_names};
use super::metrics::{Metrics, Named};
use super::readiness::Gate;
use crate::kubernetes::Reflected;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Wall clocks jump and machines sleep: look at the clock at least this often instead of trusting a timer.
const LOOK: Duration = Duration::from_secs(60);

/// The pause before a certificate that is due and could not be made is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The objects that call us, kept in memory.
#[derive(Clone)]
pub(crate) struct Targets {
    /// Mutating webhooks.
    pub mutating: Reflected<MutatingWebhookConfiguration>,
    /// Validating webhooks.
    pub validating: Reflected<ValidatingWebhookConfiguration>,
    /// Aggregated APIs.
    pub api_services: Reflected<APIService>,
}

impl Targets {
    /// Returns when all three have been listed once; `false` when we stopped before.
    pub(crate) async fn synced(&self) -> bool {
        self.mutating.synced().await && self.validating.synced().await && self.api_services.synced().await
    }

    /// Returns when one of them changed.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = self.mutating.changed() => {}
            () = self.validating.changed() => {}
            () = self.api_services.changed() => {}
        }
    }

    /// Whether a statement holds for every target.
    pub(crate) fn all(&self, holds: impl Fn(&dyn Fields) -> bool) -> bool {
        self.mutating.all().iter().all(|target| holds(target.as_ref()))
            && self.validating.all().iter().all(|target| holds(target.as_ref()))
            && self.api_services.all().iter().all(|target| holds(target.as_ref()))
    }

    fn services(&self, namespace: &str) -> BTreeSet<String> {
        let mut services = BTreeSet::new();
        let collect =
            |target: &dyn Fields, into: &mut BTreeSet<String>| into.extend(target.services(namespace));
        self.mutating.all().iter().for_each(|target| collect(target.as_ref(), &mut services));
        self.validating.all().iter().for_each(|target| collect(target.as_ref(), &mut services));
        self.api_services.all().iter().for_each(|target| collect(target.as_ref(), &mut services));
        services
    }
}

/// [`Target`] without its associated types, so that the three kinds can be asked alike.
pub(crate) trait Fields {
    /// See [`injection::carries`].
    fn carries(&self, namespace: &str, bundle: &str) -> bool;
    /// See [`injection::trusts`].
    fn trusts(&self, namespace: &str, certificate: &str) -> bool;
    /// The Services of our namespace it calls.
    fn services(&self, namespace: &str) -> Vec<String>;
}

impl<T: Target> Fields for T {
    fn carries(&self, namespace: &str, bundle: &str) -> bool {
        injection::carries(self, namespace, bundle)
    }

    fn trusts(&self, namespace: &str, certificate: &str) -> bool {
        injection::trusts(self, namespace, certificate)
    }

    fn services(&self, namespace: &str) -> Vec<String> {
        injection::our_fields(self, namespace).into_iter().map(|field| field.service).collect()
    }
}

/// What the leaf depends on besides the Secret.
pub(crate) struct OwnCertificates {
    /// The CA Secret.
    pub secret: Reflected<Secret>,
    /// Who calls us.
    pub targets: Targets,
    /// Names beyond those of the targets.
    pub names: Vec<String>,
    /// Our namespace.
    pub namespace: String,
    /// The cluster's DNS domain.
    pub cluster_domain: String,
    /// The life of a leaf.
    pub leaf_lifetime: Duration,
    /// Where the leaf is served from.
    pub leaf: CurrentLeaf,
    /// Opens when the leaf is good.
    pub certificate_gate: Gate,
    /// Opens when every target trusts our signer for the first time.
    pub bundle_gate: Gate,
    /// Where the ends of leaf and CA are shown.
    pub metrics: Metrics,
    /// Every name wanted since the process started.
    pub known_names: BTreeSet<String>,
}

impl OwnCertificates {
    /// Follows the Secret, the targets and the clock until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        self.certificate_gate.close(format!("Secret {}", super::authority::SECRET));
        self.bundle_gate
            .close("our CA in the caBundle of every labelled webhook configuration and APIService");
        let synced = async { self.secret.synced().await && self.targets.synced().await };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            synced = synced => if !synced { return },
        }
        let mut complaint = String::new();
        loop {
            let reason = self.refresh(Timestamp::now()).err().unwrap_or_default();
            if reason != complaint && !reason.is_empty() {
                tracing::warn!(reason, "no new certificate; the one in use stays");
            }
            complaint = reason;
            let look = LOOK.min(self.until_renewal());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.secret.changed() => {}
                () = self.targets.changed() => {}
                () = tokio::time::sleep(look) => {}
            }
        }
    }

    fn refresh(&mut self, now: Timestamp) -> Result<(), String> {
        let outcome = match self.authority() {
            Ok(None) => Ok(()),
            Err(reason) => Err(reason),
            Ok(Some(authority)) => {
                let ends = authority.signer.not_after.as_second();
                self.metrics.certificate_not_after.get_or_create(&Named { name: "ca" }).set(ends);
                let renewed = self.renew(&authority, now);
                self.check_bundle(&authority);
                renewed
            }
        };
        self.check_leaf(now);
        outcome
    }

    /// What the Secret holds; `None` while nobody made it yet.
    fn authority(&self) -> Result<Option<Authority>, String> {
        let Some(secret) = self.secret.one() else { return Ok(None) };
        let read = Authority::read(secret.data.as_ref().unwrap_or(&Default::default()));
        read.map(Some).map_err(|error| error.to_string())
    }

    fn renew(&mut self, authority: &Authority, now: Timestamp) -> Result<(), String> {
        // Names are only ever added: a target that is deleted and made anew must find its Service still served.
        let wanted = self.names();
        self.known_names.extend(wanted);
        let (signer, leaf) = (&authority.signer, self.leaf.get());
        let kept = leaf.as_ref().is_some_and(|leaf| {
            let due = leaf.is_due(signer, &self.known_names, now);
            // A signer that some target does not trust yet waits, as long as the leaf in use is good.
            let early = !leaf.is_aged(now) && !self.is_trusted(&signer.certificate);
            !due || early
        });
        if kept {
            return Ok(());
        }
        let leaf = Leaf::mint(signer, self.known_names.clone(), now, self.leaf_lifetime);
        let leaf = leaf.map_err(|error| error.to_string())?;
        tracing::info!(not_after = %leaf.not_after, names = ?leaf.names(), "serving a new certificate");
        self.leaf.set(leaf);
        Ok(())
    }

    fn is_trusted(&self, certificate: &str) -> bool {
        self.targets.all(|target| target.trusts(&self.namespace, certificate))
    }

    fn names(&self) -> BTreeSet<String> {
        let services = self.targets.services(&self.namespace).into_iter().chain(self.names.iter().cloned());
        services.flat_map(|service| service_names(&service, &self.namespace, &self.cluster_domain)).collect()
    }

    /// Opens for good: a bundle that is wiped later is put back at once, and an unready replica would not help.
    fn check_bundle(&self, authority: &Authority) {
        if self.is_trusted(&authority.signer.certificate) {
            self.bundle_gate.open();
        }
    }

    fn check_leaf(&self, now: Timestamp) {
        match self.leaf.get() {
            None => self.certificate_gate.close(format!("Secret {}", super::authority::SECRET)),
            Some(leaf) if now >= leaf.not_after => {
                self.certificate_gate.close("a certificate that has not ended")
            }
            Some(leaf) => {
                self.certificate_gate.open();
                let gauge = self.metrics.certificate_not_after.get_or_create(&Named { name: "leaf" });
                gauge.set(leaf.not_after.as_second());
            }
        }
    }

    fn until_renewal(&self) -> Duration {
        let due = self.leaf.get().map(|leaf| leaf.renew_at.duration_since(Timestamp::now()));
        due.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default().max(RETRY)
    }
}
