//! Reaches one control plane for a reconciler of another kind or for the aggregated API: the address from its spec, its
//! Service as it is now, the token read when coderd has answered. It keeps nothing, and decides nothing about an answer but
//! who gave it. A token of a control plane goes to the Service of that very object and nowhere else.

use super::admission::is_admission_disabled;
use super::credentials::{Credentials, TokenPlace, place};
use super::in_force::in_force;
use super::introduction::{Identity, Unintroduced, introduce};
use super::operator_token::{self, NoToken};
use super::secret_value::{Found, secret_value};
use super::unreached::{Holder, Said, Unreached};
use super::{ControlPlaneAccess, client, service, trust};
use crate::coderd::{Client, Error, Operation};
use crate::confidential::Confidential;
use crate::kubernetes::{CallError, KindName, Target, is_controlled_by};
use crds::CoderControlPlane;
use crds::names::control_plane::operator_token_secret;
use crds::well_known::condition::{CODERD_REACHABLE, OPERATOR_ACCESS_READY};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const DEPLOYMENT: KindName = ["apps/v1", "Deployment", "deployments"];
const SERVICE: KindName = ["v1", "Service", "services"];
const SECRET: KindName = ["v1", "Secret", "secrets"];

/// A coderd that has said who it is and accepted a token.
#[derive(Debug)]
pub(crate) struct Reached {
    /// The way to it, with the token.
    pub client: Client,
    /// The identity of its database, if it told.
    pub deployment_id: Option<String>,
    /// Its version.
    pub version: String,
    /// Its address inside the cluster.
    pub url: String,
    /// Whether admission is disabled in the namespace of the control plane: then nothing is made there, whoever asks.
    pub admission_disabled: bool,
    /// Whether the token is the operator's own, and its user not an owner yet.
    is_of_less_than_owner: bool,
    access: Access,
}

/// What is told of the access, if something is wrong with it.
#[derive(Debug, Clone)]
struct Access {
    control_plane: String,
    place: TokenPlace,
    /// What the control plane says of coderd.
    coderd_said: Said,
    /// What the control plane says of the operator's access.
    access_said: Said,
}

impl Access {
    fn new(control_plane: &CoderControlPlane, place: TokenPlace) -> Self {
        Self {
            control_plane: name(control_plane).to_owned(),
            place,
            coderd_said: Said::of(control_plane, CODERD_REACHABLE),
            access_said: Said::of(control_plane, OPERATOR_ACCESS_READY),
        }
    }

    /// What it means that coderd did not say who it is.
    fn unanswered(&self, error: Error) -> Unreached {
        match error {
            Error::RateLimited { retry_after, .. } => Unreached::RateLimited { left: retry_after },
            error => Unreached::Unanswered { error, said: self.coderd_said.clone() },
        }
    }

    /// What it means that coderd did not confirm a token.
    fn unproven(&self, error: Error) -> Unreached {
        match (error, &self.place) {
            (Error::Unauthorized { .. }, TokenPlace::Named { holder, secret, .. }) => {
                Unreached::TokenRejected { holder: *holder, secret: secret.clone() }
            }
            (Error::Unauthorized { .. }, TokenPlace::Generated) => Unreached::OwnTokenRejected {
                control_plane: self.control_plane.clone(),
                said: self.access_said.clone(),
            },
            (error, _) => self.unanswered(error),
        }
    }
}

impl Reached {
    /// The same, if it told the identity of its database.
    pub(crate) fn identified(self) -> Result<Self, Unreached> {
        let told = self.deployment().map(drop);
        told.map(|()| self)
    }

    /// The same, if the token may be an owner's, for whoever asks for what coderd lets nobody else do. The control plane makes the
    /// operator's own user an owner as soon as something needs one.
    pub(crate) fn of_owner(self) -> Result<Self, Unreached> {
        if self.is_of_less_than_owner {
            return Err(Unreached::NotOwnerYet { control_plane: self.access.control_plane });
        }
        Ok(self)
    }

    /// The identity of its database, for whoever keeps something by it: one that does not tell is not another one.
    pub(crate) fn deployment(&self) -> Result<&str, Unreached> {
        let untold = || self.access.unanswered(Error::Malformed { operation: Operation::BuildInfo });
        self.deployment_id.as_deref().ok_or_else(untold)
    }

    /// What an error of a later call means for the access itself; nothing if it is about what was asked for.
    pub(crate) fn lost(&self, error: &Error) -> Option<Unreached> {
        is_of_access(error).then(|| self.access.unproven(error.clone()))
    }
}

/// A question to coderd that changes nothing there, for as long as there is time.
pub(crate) async fn within<T>(
    limit: Duration,
    operation: Operation,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, question).await.unwrap_or(Err(Error::TimedOut { operation }))
}

impl ControlPlaneAccess {
    /// The same as [`Self::reach`] for as long as there is time: one that drips its answers takes four calls of 15 seconds.
    pub(crate) async fn reach_within(
        &self,
        limit: Duration,
        control_plane: &CoderControlPlane,
        credentials: Credentials<'_>,
    ) -> Result<Reached, Unreached> {
        if let Ok(reached) = timeout(limit, self.reach(control_plane, credentials)).await {
            return reached;
        }
        let access = Access::new(control_plane, place(control_plane, credentials)?);
        Err(access.unanswered(Error::TimedOut { operation: Operation::Healthz }))
    }

    /// Reaches the coderd of a control plane with a token that it accepts, or says why not. The object is the one that the
    /// shared watch has; whatever decides where a token goes is read now.
    pub(crate) async fn reach(
        &self,
        control_plane: &CoderControlPlane,
        credentials: Credentials<'_>,
    ) -> Result<Reached, Unreached> {
        if control_plane.metadata.deletion_timestamp.is_some() {
            return Err(Unreached::Going { control_plane: name(control_plane).to_owned() });
        }
        let access = Access::new(control_plane, place(control_plane, credentials)?);
        let hold = self.holds.of(uid(control_plane));
        if let Some(left) = hold.left(Instant::now()) {
            return Err(Unreached::RateLimited { left });
        }
        let service = self.service(control_plane).await?;
        let running = self.running(control_plane, &service, &access.place).await?;
        let complete = running.as_ref().unwrap_or(control_plane);
        let trust = trust::read(&self.kube, namespace(complete), &complete.spec).await;
        let url = self.url(complete);
        let client = trust.and_then(|trust| client(&url, trust, &self.egress, hold));
        let (client, identity) = match introduce(client.map_err(Unreached::Misconfigured)?).await {
            Ok(introduced) => introduced,
            Err(Unintroduced::Absent(error) | Unintroduced::Silent(error)) => {
                tracing::warn!(url, error = %error.detail(), "coderd does not answer as it should");
                return Err(access.unanswered(error));
            }
        };
        let client = client.with_token(self.token(control_plane, &access.place).await?);
        let me = client.me().await.map_err(|error| access.unproven(error))?;
        let is_of_less_than_owner = access.place == TokenPlace::Generated && !me.is_owner();
        let Identity { version, deployment_id } = identity;
        let admission_disabled = running.is_some();
        Ok(Reached { client, deployment_id, version, url, admission_disabled, is_of_less_than_owner, access })
    }

    /// The same as [`Self::reach_url`] for as long as there is time.
    pub(crate) async fn reach_url_within(
        &self,
        limit: Duration,
        url: &str,
        namespace: &str,
        secret: &str,
        key: &str,
    ) -> Result<Reached, Unreached> {
        let reached = timeout(limit, self.reach_url(url, namespace, secret, key)).await;
        let late = Error::TimedOut { operation: Operation::Healthz };
        reached.unwrap_or(Err(Unreached::Unanswered { error: late, said: Said::default() }))
    }

    /// Reaches the coderd at an address that an author gave and the operator was allowed to dial, with a token that was given.
    /// Who answers there is known by a certificate of a public CA, or not at all.
    async fn reach_url(
        &self,
        url: &str,
        namespace: &str,
        secret: &str,
        key: &str,
    ) -> Result<Reached, Unreached> {
        let holder = Holder::Bootstrap;
        if secret.is_empty() {
            return Err(Unreached::TokenSecretRefInvalid { holder });
        }
        if is_admission_disabled(&self.kube, namespace).await? {
            return Err(Unreached::AdmissionDisabled { holder, namespace: namespace.to_owned() });
        }
        let hold = self.holds.of_credentials(url, namespace, secret, key);
        if let Some(left) = hold.left(Instant::now()) {
            return Err(Unreached::RateLimited { left });
        }
        let place = TokenPlace::Named {
            holder,
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            key: key.to_owned(),
        };
        let access = Access {
            control_plane: url.to_owned(),
            place,
            coderd_said: Said::default(),
            access_said: Said::default(),
        };
        let client = client(url, trust::Trust::default(), &self.egress, hold);
        let introduced = introduce(client.map_err(Unreached::Misconfigured)?).await;
        let (client, identity) = introduced.map_err(|unintroduced| match unintroduced {
            Unintroduced::Absent(error) | Unintroduced::Silent(error) => access.unanswered(error),
        })?;
        let token = named(secret_value(&self.kube, namespace, secret, key).await, holder)?;
        let client = client.with_token(token);
        client.me().await.map_err(|error| access.unproven(error))?;
        let Identity { version, deployment_id } = identity;
        let url = url.to_owned();
        Ok(Reached {
            client,
            deployment_id,
            version,
            url,
            admission_disabled: false,
            is_of_less_than_owner: false,
            access,
        })
    }

    /// The Service as it is now, if a token may go through it.
    async fn service(&self, control_plane: &CoderControlPlane) -> Result<Value, Unreached> {
        let found = self.kube.read(target(SERVICE, control_plane)).await?;
        match service::trusted(found.as_ref(), control_plane) {
            Ok(service) => Ok(service.clone()),
            Err(refusal) => {
                Err(Unreached::Service { refusal, service: service::name(control_plane).to_owned() })
            }
        }
    }

    /// The control plane with what its pods that run were given, where admission is disabled: nobody was asked about its
    /// spec then. A token that an author chose is not sent at all.
    async fn running(
        &self,
        control_plane: &CoderControlPlane,
        service: &Value,
        place: &TokenPlace,
    ) -> Result<Option<CoderControlPlane>, Unreached> {
        let home = namespace(control_plane);
        let is_disabled = is_admission_disabled(&self.kube, home).await?;
        if let TokenPlace::Named { holder, namespace, .. } = place
            && (is_disabled || namespace != home && is_admission_disabled(&self.kube, namespace).await?)
        {
            let namespace = if is_disabled { home } else { namespace }.to_owned();
            return Err(Unreached::AdmissionDisabled { holder: *holder, namespace });
        }
        if !is_disabled {
            return Ok(None);
        }
        let deployment = self.kube.read(target(DEPLOYMENT, control_plane)).await?;
        let deployment = deployment.filter(|live| is_controlled_by(live, uid(control_plane)));
        let spec = in_force(&control_plane.spec, deployment.as_ref(), Some(service));
        Ok(Some(CoderControlPlane { spec, ..control_plane.clone() }))
    }

    /// The token. It is handed on and not kept.
    async fn token(
        &self,
        control_plane: &CoderControlPlane,
        place: &TokenPlace,
    ) -> Result<Confidential<String>, Unreached> {
        match place {
            TokenPlace::Named { holder, namespace, secret, key } => {
                named(secret_value(&self.kube, namespace, secret, key).await, *holder)
            }
            TokenPlace::Generated => {
                let secret = operator_token_secret(namespace(control_plane), name(control_plane));
                let read = self.kube.read(Target::of(SECRET, self.kube.namespace(), &secret)).await;
                let holder = Holder::Operator;
                let read = read.map_err(|error| Unreached::TokenSecretUnread { holder, error })?;
                generated(read.as_ref(), control_plane, self.kube.namespace())
            }
        }
    }
}

/// The token in a Secret that an author named.
fn named(found: Result<Found, CallError>, holder: Holder) -> Result<Confidential<String>, Unreached> {
    match found {
        Ok(Found::Text(token)) => Ok(token),
        Ok(Found::Lacking(lacking)) => Err(Unreached::TokenSecretUnavailable { holder, lacking }),
        Err(error) => Err(Unreached::TokenSecretUnread { holder, error }),
    }
}

/// The token in the Secret that the operator makes, in its own namespace.
fn generated(
    secret: Option<&Value>,
    control_plane: &CoderControlPlane,
    operator_namespace: &str,
) -> Result<Confidential<String>, Unreached> {
    let (namespace, name) = (namespace(control_plane), name(control_plane));
    operator_token::current(secret, uid(control_plane)).map_err(|why| match why {
        NoToken::NotYet => Unreached::AccessNotReady {
            control_plane: name.to_owned(),
            said: Said::of(control_plane, OPERATOR_ACCESS_READY),
        },
        NoToken::Foreign => Unreached::TokenSecretForeign {
            secret: operator_token_secret(namespace, name),
            namespace: operator_namespace.to_owned(),
        },
    })
}

/// Whether an error says that coderd, or the way to it, or the token is no longer what it was. Whoever refuses a call that
/// sends no token says nothing of the token.
fn is_of_access(error: &Error) -> bool {
    match error {
        Error::Unauthorized { operation } => !operation.is_open(),
        Error::RateLimited { .. }
        | Error::NotCoderd { .. }
        | Error::Unreachable { .. }
        | Error::TimedOut { .. }
        | Error::Tls { .. }
        | Error::Refused { .. }
        | Error::Redirected { .. } => true,
        _ => false,
    }
}

/// The child of this kind that is called like the Deployment.
fn target<'a>(kind: KindName, control_plane: &'a CoderControlPlane) -> Target<'a> {
    Target::of(kind, namespace(control_plane), service::name(control_plane))
}

fn name(control_plane: &CoderControlPlane) -> &str {
    control_plane.metadata.name.as_deref().unwrap_or_default()
}

fn namespace(control_plane: &CoderControlPlane) -> &str {
    control_plane.metadata.namespace.as_deref().unwrap_or_default()
}

fn uid(control_plane: &CoderControlPlane) -> &str {
    control_plane.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
