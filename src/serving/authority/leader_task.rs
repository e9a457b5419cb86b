//! The leader's work on the CA: make it, rotate it, and have its bundle put into everything that calls us.
//! It reads before it writes, writes only what differs, and every write fails if somebody else was faster.

use super::ca::{Ca, CaError};
use super::contents::{Authority, Phase};
use super::injector::Injector;
use super::rotation::{Facts, Step, Times, step};
use super::{ROTATE_NOW, SECRET, STATE_ANNOTATION};
use crate::kubernetes::events::{Events, Reason};
use crate::kubernetes::{CallError, Kube, Objects, Reflected};
use crate::serving::metrics::Metrics;
use crate::serving::own_certificates::Targets;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// The clock is looked at this often, whatever a timer says.
const LOOK: Duration = Duration::from_secs(60);

/// Everything the task needs. It is started anew with every leadership.
#[derive(Clone)]
pub(crate) struct AuthorityTask {
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
    /// Where injections are counted.
    pub metrics: Metrics,
}

/// Why a reconcile did not finish.
#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Ca(#[from] CaError),
}

impl AuthorityTask {
    /// Works until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut retry = FIRST_RETRY;
        let mut injector = Injector::new(self.kube.clone(), self.metrics.clone());
        loop {
            let outcome = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                outcome = self.reconcile(&mut injector) => outcome,
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
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.secret.changed() => {}
                () = self.targets.changed() => {}
            }
        }
    }

    /// One reconcile: the CA first, then the bundle. Returns how long nothing is due.
    async fn reconcile(&self, injector: &mut Injector) -> Result<Duration, ReconcileError> {
        let secrets = self.kube.ours::<Secret>();
        let Some(secret) = secrets.get(SECRET).await? else {
            return self.create(&secrets).await;
        };
        let authority = match Authority::read(secret.data.as_ref().unwrap_or(&BTreeMap::new())) {
            Ok(authority) => authority,
            Err(reason) => {
                tracing::error!(%reason, "the CA Secret is unusable; a new CA takes its place");
                let replaced = Authority::replacing(self.fresh(Timestamp::now())?, &secret, Timestamp::now());
                let told = (Reason::AuthorityReplaced, "the CA Secret was unusable; a new CA took its place");
                return self.save(&secrets, secret, &replaced, Some(told)).await;
            }
        };
        if !self.targets.synced().await {
            return Ok(LOOK);
        }
        // A target that cannot be written must not keep the CA from being rotated, nor the others from being trusted.
        let injected = injector.inject(&self.targets, &authority.bundle_pem()).await;
        if let Some(contested) = injected.contested {
            let note = format!(
                "somebody else keeps overwriting the caBundle of {contested}; leave that field to us"
            );
            self.events.record(Reason::InjectionContested, secret.object_ref(&()), note).await;
        }
        let wait = self.advance(&secrets, secret, authority).await?;
        injected.outcome?;
        Ok(wait.min(injected.again_after))
    }

    async fn create(&self, secrets: &Objects<Secret>) -> Result<Duration, ReconcileError> {
        let authority = Authority::first(self.fresh(Timestamp::now())?);
        let mut secret = Secret { type_: Some("Opaque".to_owned()), ..Secret::default() };
        secret.metadata.name = Some(SECRET.to_owned());
        secret.labels_mut().insert("app.kubernetes.io/managed-by".to_owned(), "coder-k8s".to_owned());
        fill(&mut secret, &authority);
        match secrets.create(&secret).await {
            Ok(created) => {
                let note = "made the CA that signs our serving certificates".to_owned();
                self.events.record(Reason::AuthorityCreated, created.object_ref(&()), note).await;
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
    ) -> Result<Duration, ReconcileError> {
        let now = Timestamp::now();
        let facts = self.facts(&secret, &authority, now);
        let told = match step(&authority, facts, &self.times) {
            Step::Wait(until) => return Ok(Duration::try_from(until.duration_since(now)).unwrap_or(LOOK)),
            Step::Replace => {
                authority = Authority::replacing(self.fresh(now)?, &secret, now);
                Some((Reason::AuthorityReplaced, "the CA had ended; a new one took its place"))
            }
            Step::Distribute => {
                authority.distribute(self.fresh(now)?, now);
                secret.annotations_mut().remove(ROTATE_NOW);
                Some((Reason::RotationStarted, "a new CA is being distributed"))
            }
            Step::NoteInjected => {
                authority.phase = Phase::Distributing { injected_at: Some(now) };
                None
            }
            Step::ForgetInjected => {
                authority.phase = Phase::Distributing { injected_at: None };
                None
            }
            Step::Promote => {
                authority.promote(now);
                Some((Reason::RotationPromoted, "new certificates are signed by the new CA"))
            }
            Step::Complete => {
                authority.complete();
                Some((Reason::RotationCompleted, "the old CA is no longer trusted"))
            }
        };
        self.save(secrets, secret, &authority, told).await
    }

    fn facts(&self, secret: &Secret, authority: &Authority, now: Timestamp) -> Facts {
        let bundle = authority.bundle_pem();
        Facts {
            now,
            bundle_everywhere: self.targets.all(|target| target.carries(self.kube.namespace(), &bundle)),
            rotation_requested: secret.annotations().contains_key(ROTATE_NOW),
        }
    }

    async fn save(
        &self,
        secrets: &Objects<Secret>,
        mut secret: Secret,
        authority: &Authority,
        told: Option<(Reason, &str)>,
    ) -> Result<Duration, ReconcileError> {
        fill(&mut secret, authority);
        secrets.replace(&secret).await?;
        tracing::info!(phase = ?authority.phase, "CA Secret written");
        if let Some((reason, note)) = told {
            self.events.record(reason, secret.object_ref(&()), note.to_owned()).await;
        }
        Ok(Duration::ZERO)
    }

    fn fresh(&self, now: Timestamp) -> Result<Ca, CaError> {
        Ca::generate(now, self.times.ca_lifetime)
    }
}

/// Data, and the same in words that `kubectl describe` shows.
fn fill(secret: &mut Secret, authority: &Authority) {
    secret.data = Some(authority.write());
    secret.annotations_mut().insert(STATE_ANNOTATION.to_owned(), authority.in_words());
}
