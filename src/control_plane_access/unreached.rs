//! Why a control plane is not reached, by what has to be done about it: each variant is one reason of a condition. Pure.
//! No variant holds a token, and none repeats what a status says but for the word of a reason.

use super::introduction::hint;
use super::service::{Refusal, Told};
use crate::coderd::{Error, Retry};
use crate::kubernetes::CallError;
use crds::CoderControlPlane;
use std::fmt;
use std::time::Duration;

/// Who gives a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The control plane, to the operator.
    Operator,
    /// `spec.bootstrap.credentialsSecretRef` of the object that wants to reach it.
    Bootstrap,
}

impl Holder {
    fn field(self) -> &'static str {
        match self {
            Self::Operator => "spec.operatorAccess.tokenSecretRef of the control plane",
            Self::Bootstrap => "spec.bootstrap.credentialsSecretRef",
        }
    }
}

/// Which condition of the object that wants to reach it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// `ControlPlaneReady`: coderd was not reached, and no token was read.
    ControlPlane,
    /// None of these ceases to hold: coderd is there, and asked to be left alone for a while.
    RateLimit,
    /// `OperatorAccessReady`.
    OperatorAccess,
    /// `BootstrapSecretReady`.
    Bootstrap,
}

/// Why a control plane is not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    /// It is being deleted.
    #[error(
        "control plane {control_plane} is being deleted; set spec.controlPlaneRef to another one, or delete this object"
    )]
    Going {
        /// Its name.
        control_plane: String,
    },
    /// Something of it could not be read from the API server this time.
    #[error(transparent)]
    Unread(#[from] CallError),
    /// No token goes through its Service.
    #[error("{}", Told(*refusal, service))]
    Service {
        /// Why.
        refusal: Refusal,
        /// The Service.
        service: String,
    },
    /// What its coderd serves with cannot be used.
    #[error("{0}")]
    Misconfigured(String),
    /// coderd does not answer, or not as it should.
    #[error("{}", unanswered(error, said))]
    Unanswered {
        /// What went wrong.
        error: Error,
        /// What the control plane says of it.
        said: Said,
    },
    /// coderd asked to be left alone.
    // Without the time that is left: a message that changes by the second would be written by the second.
    #[error("coderd is rate limiting the operator (429); retrying after the time it set")]
    RateLimited {
        /// What is left of that time.
        left: Duration,
    },
    /// Nobody was asked whether an author may have what would be sent.
    #[error(
        "no token that an author chose is sent while admission is disabled; run kubectl label namespace {namespace} \
         coder.com/admission- to have it sent"
    )]
    AdmissionDisabled {
        /// Whose token.
        holder: Holder,
        /// Where the label is.
        namespace: String,
    },
    /// The spec of the control plane denies the operator access.
    #[error(
        "spec.operatorAccess.disabled of control plane {control_plane} is true; set it to false to give the operator access"
    )]
    AccessDisabled {
        /// Its name.
        control_plane: String,
    },
    /// The operator has no token of its own yet.
    #[error("{}", said.of_token(control_plane))]
    AccessNotReady {
        /// Its name.
        control_plane: String,
        /// What the control plane says of it.
        said: Said,
    },
    /// The operator's own user may not do yet what only an owner may.
    #[error(
        "waiting for control plane {control_plane} to make the operator's user an owner of its coderd: nobody else may register \
         workspace proxies"
    )]
    NotOwnerYet {
        /// Its name.
        control_plane: String,
    },
    /// Nothing gives the operator a token.
    #[error(
        "the operator has no token source for control plane {control_plane}; set its spec.operatorAccess.tokenSecretRef, \
         or CODER_PG_CONNECTION_URL in its spec.extraEnv"
    )]
    TokenSecretRefMissing {
        /// Its name.
        control_plane: String,
    },
    /// The reference names no Secret.
    #[error("{} has no name; set it to that of a Secret", holder.field())]
    TokenSecretRefInvalid {
        /// Whose reference.
        holder: Holder,
    },
    /// The name of the operator's own Secret is taken.
    #[error(
        "Secret {secret} in namespace {namespace} was not created by the operator; it is left alone: find out whose it is and remove it from there"
    )]
    TokenSecretForeign {
        /// The Secret.
        secret: String,
        /// Where it is.
        namespace: String,
    },
    /// The Secret, its key or its content is not there.
    #[error("{lacking} (referenced by {})", holder.field())]
    TokenSecretUnavailable {
        /// Who refers to it.
        holder: Holder,
        /// What is lacking, and what to do.
        lacking: String,
    },
    /// The Secret could not be read this time.
    #[error("{error} (Secret referenced by {})", holder.field())]
    TokenSecretUnread {
        /// Who refers to it.
        holder: Holder,
        /// What went wrong.
        error: CallError,
    },
    /// coderd does not accept a token that somebody gave.
    #[error("coderd does not accept the token of {} (401); put another one into Secret {secret}", holder.field())]
    TokenRejected {
        /// Who refers to it.
        holder: Holder,
        /// The Secret.
        secret: String,
    },
    /// coderd does not accept the operator's own token.
    #[error(
        "coderd does not accept the operator's token for control plane {control_plane} (401); the operator is issuing a new one{said}"
    )]
    OwnTokenRejected {
        /// Its name.
        control_plane: String,
        /// What the control plane says of it.
        said: Said,
    },
}

impl Unreached {
    /// Which condition tells.
    pub(crate) fn about(&self) -> About {
        match self {
            Self::Going { .. }
            | Self::Unread(_)
            | Self::Service { .. }
            | Self::Misconfigured(_)
            | Self::Unanswered { .. } => About::ControlPlane,
            Self::RateLimited { .. } => About::RateLimit,
            Self::AccessDisabled { .. }
            | Self::AccessNotReady { .. }
            | Self::NotOwnerYet { .. }
            | Self::TokenSecretRefMissing { .. }
            | Self::TokenSecretForeign { .. }
            | Self::OwnTokenRejected { .. } => About::OperatorAccess,
            Self::AdmissionDisabled { holder, .. }
            | Self::TokenSecretRefInvalid { holder, .. }
            | Self::TokenSecretUnavailable { holder, .. }
            | Self::TokenSecretUnread { holder, .. }
            | Self::TokenRejected { holder, .. } => match holder {
                Holder::Operator => About::OperatorAccess,
                Holder::Bootstrap => About::Bootstrap,
            },
        }
    }

    /// When to try again.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { left } => Retry::After(*left),
            Self::Unanswered { error, .. } => error.retry(),
            // They come by themselves: the control plane makes them.
            Self::Unread(_)
            | Self::TokenSecretUnread { .. }
            | Self::Service { refusal: Refusal::Missing, .. }
            | Self::AccessNotReady { .. }
            | Self::NotOwnerYet { .. }
            | Self::OwnTokenRejected { .. } => Retry::Backoff,
            Self::Going { .. }
            | Self::Service { .. }
            | Self::Misconfigured(_)
            | Self::AdmissionDisabled { .. }
            | Self::AccessDisabled { .. }
            | Self::TokenSecretRefMissing { .. }
            | Self::TokenSecretRefInvalid { .. }
            | Self::TokenSecretForeign { .. }
            | Self::TokenSecretUnavailable { .. }
            | Self::TokenRejected { .. } => Retry::WhenChanged,
        }
    }
}

/// What a control plane says of itself, for a person: one word of one condition. Nothing is decided by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said(Option<(&'static str, String)>);

/// Words by which a control plane says that the operator gets a token without anybody's help: nothing needed one until now, or it
/// is being made.
pub(crate) const COMING: [&str; 2] = ["NotNeeded", "Preparing"];

/// Letters of a reason that are repeated; ours are shorter. Others may write a status.
const LONGEST_REASON: usize = 40;

impl Said {
    /// What its condition of this type says, if there is one and it is not true.
    pub(crate) fn of(control_plane: &CoderControlPlane, type_: &'static str) -> Self {
        let conditions = control_plane.status.iter().flat_map(|status| &status.conditions);
        let untrue = conditions.filter(|one| one.type_ == type_ && one.status != "True");
        let is_word = |word: &str| {
            word.len() <= LONGEST_REASON && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let mut words =
            untrue.map(|one| one.reason.as_str()).filter(|word| !word.is_empty() && is_word(word));
        Self(words.next().map(|word| (type_, word.to_owned())))
    }

    /// Whether it says that a token comes by itself.
    pub(crate) fn is_coming(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, word)| COMING.contains(&word.as_str()))
    }

    /// That the operator has no token yet.
    fn of_token(&self, control_plane: &str) -> String {
        if self.is_coming() {
            return format!("the operator is being given a token for control plane {control_plane}");
        }
        format!("the operator has no token for control plane {control_plane} yet{self}")
    }
}

/// What is said of a coderd that does not answer. Where no replica is ready nobody could: why that is so is the control plane's to
/// say.
fn unanswered(error: &Error, said: &Said) -> String {
    // Whoever leads us somewhere is not told what is wrong there: behind `NotCoderd` may be any of these, or what needs somebody.
    let is_silent =
        matches!(error, Error::Unreachable { .. } | Error::TimedOut { .. } | Error::NotCoderd { .. });
    if is_silent && said.0.as_ref().is_some_and(|(_, word)| word == "NoReplicaReady") {
        return format!("waiting: the control plane has no ready replica{said}");
    }
    let comes_by_itself =
        matches!(error, Error::Unreachable { .. } | Error::TimedOut { .. } | Error::Server { .. });
    let waiting = if comes_by_itself { "waiting: " } else { "" };
    format!("{waiting}{error}{}{said}", hint(error))
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((type_, word)) = &self.0 else { return Ok(()) };
        write!(out, "; see condition {type_} ({word}) of the CoderControlPlane")
    }
}

#[cfg(test)]
mod tests;
