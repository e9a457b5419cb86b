//! The leader's work on the CA: make it, rotate it, and put its bundle into everything that calls us.
//! It reads before it writes, writes only what differs, and every write fails if somebody else was faster.

use super::ca::{Ca, CaError};
use super::contents::{Authority, Phase};
use super::rotation::{Facts, Step, Times, step};
use super::{ROTATE_NOW, SECRET};
use crate::kubernetes::events::{Events, Reason};
use crate::kubernetes::{CallError, Kube, Objects, Reflected};
use crate::serving::injection::{self, Target};
use crate::serving::metrics::{Metrics, Named};
use crate::serving::own_certificates::Targets;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// The clock is looked at this often, whatever a timer says.
const LOOK: Duration = Duration::from_secs(60);

/// Everything the duty needs. It is started anew with every leadership.
#[derive(Clone)]
pub struct AuthorityDuty {
    /// The API server.
    pub kube: Kube,
    /// Wakes us when the Secret changes; its content is read anew before every decision.
    pub secret: Reflected<Secret>,
    /// What gets the bundle.
    pub targets: Targets,
    /// How long things last.
    pub times: Times,
    /// Where rotations are told.
    pub events: Events,
    /// Where the end of the CA and injections are shown.
    pub metrics: Metrics,
}

/// Why a pass did not finish.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Ca(#[from] CaError),
}

impl AuthorityDuty {
    /// Works until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut retry = FIRST_RETRY;
        loop {
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = self.pass() => outcome,
            };
            let wait = match outcome {
                Ok(wait) => {
                    retry = FIRST_RETRY;
                    wait.min(LOOK)
                }
                Err(error) => {
                    tracing::warn!(%error, "certificate authority pass failed; it is tried again");
                    let wait = retry;
                    retry = (retry * 2).min(LAST_RETRY);
                    wait
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.secret.changed() => {}
                () = self.targets.changed() => {}
            }
        }
    }

    /// One pass: the CA first, then the bundle. Returns how long nothing is due.
    async fn pass(&self) -> Result<Duration, PassError> {
        let secrets = self.kube.ours::<Secret>();
        let Some(secret) = secrets.get(SECRET).await? else {
            return self.create(&secrets).await;
        };
        let authority = match Authority::read(secret.data.as_ref().unwrap_or(&BTreeMap::new())) {
            Ok(authority) => authority,
            Err(reason) => {
                tracing::error!(%reason, "the CA Secret is unusable; a new CA takes its place");
                let fresh = Authority::first(self.fresh(Timestamp::now())?);
                return self.save(&secrets, secret, &fresh, None).await;
            }
        };
        let ends = authority.signer.not_after.as_second();
        self.metrics.certificate_not_after.get_or_create(&Named { name: "ca" }).set(ends);
        if !self.targets.synced().await {
            return Ok(LOOK);
        }
        self.inject(&authority).await?;
        self.advance(&secrets, secret, authority).await
    }

    async fn create(&self, secrets: &Objects<Secret>) -> Result<Duration, PassError> {
        let authority = Authority::first(self.fresh(Timestamp::now())?);
        let mut secret = Secret { type_: Some("Opaque".to_owned()), ..Secret::default() };
        secret.metadata.name = Some(SECRET.to_owned());
        secret.metadata.labels =
            Some(BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "coder-k8s".to_owned())]));
        secret.data = Some(authority.write());
        match secrets.create(&secret).await {
            Ok(_) => {
                self.tell(Reason::AuthorityCreated, "made the CA that signs our serving certificates").await
            }
            // Another leader was faster, a moment before it lost the lease: its CA is as good.
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Duration::ZERO)
    }

    async fn advance(
        &self,
        secrets: &Objects<Secret>,
        mut secret: Secret,
        mut authority: Authority,
    ) -> Result<Duration, PassError> {
        let now = Timestamp::now();
        let bundle = authority.bundle_pem();
        let namespace = self.kube.namespace();
        let facts = Facts {
            now,
            bundle_everywhere: self.targets.all(|target| target.carries(namespace, &bundle)),
            rotation_requested: secret.annotations().contains_key(ROTATE_NOW),
        };
        let told = match step(&authority, facts, &self.times) {
            Step::Wait(until) => return Ok(Duration::try_from(until.duration_since(now)).unwrap_or(LOOK)),
            Step::Replace => {
                let fresh = self.fresh(now)?;
                authority.trust(&fresh, now);
                authority = Authority { signer: fresh, next: None, phase: Phase::Stable, ..authority };
                Some((Reason::RotationCompleted, "the CA had ended; a new one took its place"))
            }
            Step::Distribute => {
                let fresh = self.fresh(now)?;
                authority.trust(&fresh, now);
                authority.next = Some(fresh);
                authority.phase = Phase::Distributing { injected_at: None };
                secret.annotations_mut().remove(ROTATE_NOW);
                Some((Reason::RotationStarted, "a new CA is being distributed"))
            }
            Step::NoteInjected => {
                authority.phase = Phase::Distributing { injected_at: Some(now) };
                None
            }
            Step::Promote => {
                if let Some(next) = authority.next.take() {
                    authority.signer = next;
                }
                authority.phase = Phase::Retiring { promoted_at: now };
                Some((Reason::RotationPromoted, "new certificates are signed by the new CA"))
            }
            Step::Complete => {
                authority.bundle = vec![authority.signer.certificate.clone()];
                authority.phase = Phase::Stable;
                Some((Reason::RotationCompleted, "the old CA is no longer trusted"))
            }
        };
        self.save(secrets, secret, &authority, told).await
    }

    async fn save(
        &self,
        secrets: &Objects<Secret>,
        mut secret: Secret,
        authority: &Authority,
        told: Option<(Reason, &str)>,
    ) -> Result<Duration, PassError> {
        secret.data = Some(authority.write());
        secrets.replace(&secret).await?;
        tracing::info!(phase = ?authority.phase, "CA Secret written");
        if let Some((reason, note)) = told {
            self.tell(reason, note).await;
        }
        Ok(Duration::ZERO)
    }

    async fn inject(&self, authority: &Authority) -> Result<(), CallError> {
        let bundle = authority.bundle_pem();
        self.inject_into("MutatingWebhookConfiguration", self.targets.mutating.all(), &bundle).await?;
        self.inject_into("ValidatingWebhookConfiguration", self.targets.validating.all(), &bundle).await?;
        self.inject_into("APIService", self.targets.api_services.all(), &bundle).await
    }

    async fn inject_into<T>(
        &self,
        kind: &'static str,
        targets: Vec<std::sync::Arc<T>>,
        bundle: &str,
    ) -> Result<(), CallError>
    where
        T: Target + Clone + Debug + DeserializeOwned + Serialize,
    {
        for target in targets {
            let Some(patch) = injection::patch(target.as_ref(), self.kube.namespace(), bundle) else {
                continue;
            };
            let name = target.name_any();
            match self.kube.everywhere::<T>().patch(&name, patch).await {
                Ok(_) => {
                    self.metrics.injections.get_or_create(&Named { name: kind }).inc();
                    tracing::info!(kind, name, "CA bundle injected");
                }
                // It changed or went since we read it; the watch brings it again if it is still there.
                Err(error) if error.is_outdated() || error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fresh(&self, now: Timestamp) -> Result<Ca, CaError> {
        Ca::generate(now, self.times.ca_lifetime)
    }

    async fn tell(&self, reason: Reason, note: &str) {
        self.events.record(reason, "v1", "Secret", SECRET, note.to_owned()).await;
    }
}
