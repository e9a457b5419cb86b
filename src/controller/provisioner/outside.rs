//! Decides what is said of what a provisioner has outside of Kubernetes: the control plane, the access to it, the license, the
//! key and its Secret. Pure: it words what was seen.

use super::key::record::SecretPlace;
use super::key::steps::Wait;
use super::key::work::{self, Keyed};
use super::observed::{Outside, State};
use super::reasons::Reason;
use crate::coderd::Error;
use crate::control_plane_access::entitlement::FeatureEntitlement;
use crate::control_plane_access::unreached::{About, Unreached};
use crate::controller::checksum_key::KeyError;
use crds::CoderProvisionerStatus;
use crds::well_known::condition;
use std::collections::BTreeSet;

impl Outside {
    /// Nothing outside could be asked.
    fn unasked(with_bootstrap: bool) -> Self {
        let not_asked = || State::waiting();
        Self {
            control_plane: not_asked(),
            access: if with_bootstrap { not_used() } else { not_asked() },
            bootstrap: with_bootstrap.then(not_asked),
            entitled: not_asked(),
            key: not_asked(),
            secret: not_asked(),
            wait: None,
            daemons: None,
        }
    }

    /// There is no control plane to be asked.
    pub(super) fn without_control_plane(with_bootstrap: bool, why: String) -> Self {
        // It may come later, as the order of a Git repository wants it.
        let control_plane = State::Pending(Reason::ControlPlaneUnavailable, why);
        Self { control_plane, ..Self::unasked(with_bootstrap) }
    }

    /// Nobody knows yet which control planes there are.
    pub(super) fn unlisted(with_bootstrap: bool) -> Self {
        let why = "listing the control planes of the cluster".to_owned();
        Self {
            control_plane: State::Pending(Reason::WaitingForControlPlane, why),
            ..Self::unasked(with_bootstrap)
        }
    }

    /// The control plane could not be reached.
    pub(super) fn unreached(with_bootstrap: bool, unreached: &Unreached) -> Self {
        let said = Self::unasked(with_bootstrap);
        let (about, why) = (unreached.about(), unreached.to_string());
        match about {
            About::ControlPlane => {
                Self { control_plane: State::Pending(Reason::ControlPlaneUnavailable, why), ..said }
            }
            About::RateLimit => {
                Self { control_plane: there(), key: State::Pending(Reason::RateLimited, why), ..said }
            }
            About::OperatorAccess => Self { control_plane: there(), access: access(unreached, why), ..said },
            About::Bootstrap => {
                let bootstrap = Some(bootstrap(unreached, why));
                Self { control_plane: there(), bootstrap, ..said }
            }
        }
    }

    /// The control plane answered; the organization, or what the license covers, is not known.
    pub(super) fn reached(with_bootstrap: bool) -> Self {
        let ready = State::Yes(Reason::OperatorAccessReady, "coderd accepts the operator's token".to_owned());
        let given =
            State::Yes(Reason::BootstrapSecretReady, "coderd accepts the token that was given".to_owned());
        Self {
            control_plane: there(),
            access: if with_bootstrap { not_used() } else { ready },
            bootstrap: with_bootstrap.then_some(given),
            ..Self::unasked(with_bootstrap)
        }
    }

    /// With what the license covers.
    pub(super) fn licensed(self, answer: &FeatureEntitlement) -> Self {
        Self { entitled: entitled(answer), ..self }
    }

    /// With what became of the keys.
    pub(super) fn keyed(self, keyed: &Keyed, place: &SecretPlace, rival: Option<&str>) -> Self {
        let (key, secret) = key(keyed, place, rival);
        Self { key, secret, wait: keyed.wait, daemons: keyed.daemons.as_ref().map(BTreeSet::len), ..self }
    }

    /// As a status has told it, for a coderd that asked to be left alone: nothing is known better.
    pub(super) fn as_told(status: &CoderProvisionerStatus) -> Self {
        let told = |about: &str| {
            let one = status.conditions.iter().find(|one| one.type_ == about);
            let (one, reason) = one.and_then(|one| Some((one, Reason::parse(&one.reason)?)))?;
            let message = one.message.clone();
            Some(match one.status.as_str() {
                "True" => State::Yes(reason, message),
                "False" => State::Pending(reason, message),
                _ => State::Unknown(reason, message),
            })
        };
        let state = |about: &str| told(about).unwrap_or_else(State::waiting);
        Self {
            control_plane: state(condition::CONTROL_PLANE_READY),
            access: state(condition::OPERATOR_ACCESS_READY),
            bootstrap: told(condition::BOOTSTRAP_SECRET_READY),
            entitled: state(condition::EXTERNAL_PROVISIONERS_ENTITLED),
            key: state(condition::PROVISIONER_KEY_READY),
            secret: state(condition::PROVISIONER_KEY_SECRET_READY),
            wait: None,
            daemons: status.daemons.and_then(|daemons| usize::try_from(daemons).ok()),
        }
    }

    /// Without the operator's own key, by which it knows what it has recorded.
    pub(super) fn unsealed(self, error: &KeyError) -> Self {
        Self { key: State::Pending(Reason::ProvisionerKeyFailed, error.to_string()), ..self }
    }

    /// With an organization that coderd does not show.
    pub(super) fn unorganized(self, name: &str, error: &Error) -> Self {
        let key = match error {
            Error::NotFoundOrForbidden { .. } => State::Pending(
                Reason::OrganizationMissing,
                format!(
                    "coderd has no organization {name}, or does not show it; create it, or correct spec.organizationName"
                ),
            ),
            error => failed(error),
        };
        Self { key, ..self }
    }
}

fn there() -> State {
    State::Yes(Reason::ControlPlaneAvailable, "the control plane answers".to_owned())
}

fn not_used() -> State {
    State::Unknown(Reason::NotRequested, "spec.bootstrap.credentialsSecretRef is used instead".to_owned())
}

fn access(unreached: &Unreached, why: String) -> State {
    match unreached {
        Unreached::AccessDisabled { .. } => State::Refused(Reason::OperatorAccessDisabled, why),
        Unreached::TokenSecretRefMissing { .. } => State::Refused(Reason::OperatorTokenSecretRefMissing, why),
        Unreached::TokenSecretRefInvalid { .. } | Unreached::TokenSecretForeign { .. } => {
            State::Refused(Reason::OperatorTokenSecretRefInvalid, why)
        }
        Unreached::TokenSecretUnavailable { .. } | Unreached::TokenSecretUnread { .. } => {
            State::Pending(Reason::OperatorTokenSecretUnavailable, why)
        }
        Unreached::AdmissionDisabled { .. } => State::Refused(Reason::AdmissionDisabled, why),
        _ => State::Pending(Reason::OperatorAccessNotReady, why),
    }
}

fn bootstrap(unreached: &Unreached, why: String) -> State {
    match unreached {
        Unreached::TokenSecretRefInvalid { .. } => State::Refused(Reason::BootstrapSecretUnavailable, why),
        Unreached::AdmissionDisabled { .. } => State::Refused(Reason::AdmissionDisabled, why),
        _ => State::Pending(Reason::BootstrapSecretUnavailable, why),
    }
}

fn entitled(answer: &FeatureEntitlement) -> State {
    match answer {
        FeatureEntitlement::Entitled => {
            State::Yes(Reason::Entitled, "the license covers external provisioners".to_owned())
        }
        FeatureEntitlement::Grace => {
            let why = "the license has expired; external provisioners keep working during its grace period; renew it";
            State::Yes(Reason::InGracePeriod, why.to_owned())
        }
        FeatureEntitlement::NotEntitled => {
            let why = "coderd's license does not include external provisioners; add one that does. Running daemons are left \
                       alone; no key is created or deleted until then";
            // The license may be on its way, with everything else of the same Git repository.
            State::Pending(Reason::NotEntitled, why.to_owned())
        }
        FeatureEntitlement::NotSupported => {
            let why = "this build of coderd (open source) has no external provisioners; set spec.image of the CoderControlPlane to \
                       a ghcr.io/coder/coder image";
            State::Refused(Reason::NotSupported, why.to_owned())
        }
        FeatureEntitlement::Forbidden(error) => State::Refused(
            Reason::Forbidden,
            format!("{error}; check for a proxy or service mesh in front of the coderd Service"),
        ),
        FeatureEntitlement::Failed(error) => {
            State::Pending(Reason::EntitlementsQueryFailed, error.to_string())
        }
    }
}

/// What is said of the key, and of its Secret.
fn key(keyed: &Keyed, place: &SecretPlace, rival: Option<&str>) -> (State, State) {
    let in_place = keyed.proven.is_some();
    let secret = if in_place {
        State::Yes(Reason::SecretReady, format!("Secret {} holds the key", place.secret))
    } else {
        State::Pending(
            Reason::Progressing,
            "the Secret does not hold a key that coderd accepts yet".to_owned(),
        )
    };
    if let Some(error) = &keyed.error {
        return (error_of(error), secret);
    }
    let works = in_place && keyed.is_asked_for && !keyed.is_cut;
    let key = match keyed.wait {
        Some(Wait::SecretNotOurs) => {
            let why = format!(
                "Secret {} belongs to somebody else; delete it, or set spec.key.secretName to another name",
                place.secret
            );
            return (waiting_for_secret(works), State::Refused(Reason::SecretNotOurs, why));
        }
        Some(Wait::SecretImmutable) => {
            let why = format!(
                "Secret {} is immutable, so that no other key can be written to it; delete it, which gives daemons a new key, or \
                 set spec.key.secretName to another name",
                place.secret
            );
            return (waiting_for_secret(works), State::Refused(Reason::SecretImmutable, why));
        }
        _ => key_of(keyed, in_place, rival),
    };
    (key, secret)
}

/// What is said of the key where nothing is wrong with its Secret.
fn key_of(keyed: &Keyed, in_place: bool, rival: Option<&str>) -> State {
    let works = in_place && keyed.is_asked_for && !keyed.is_cut;
    match keyed.wait {
        Some(Wait::SecretNotOurs | Wait::SecretImmutable) => waiting_for_secret(works),
        Some(Wait::Claimed) => {
            let why = format!(
                "CoderProvisioner {} is older and has this key name in this organization; set spec.key.name to another",
                rival.unwrap_or_default()
            );
            State::Refused(Reason::KeyNameConflict, why)
        }
        Some(Wait::TooMany) => {
            let why = "too many earlier keys cannot be deleted because their control planes are unreachable, or too many \
                       earlier Secrets are still used by pods; restore access to those control planes and let the rollout \
                       finish, see status.key";
            State::Refused(Reason::TooManyRetiring, with_elsewhere(why, keyed))
        }
        Some(Wait::Coderd) => {
            let why = "coderd did not return its provisioner keys; retrying";
            State::Pending(Reason::ProvisionerKeyFailed, why.to_owned())
        }
        Some(Wait::Pause) => {
            let why = "a key could not be made, or coderd did not know it right after; another is made after a while";
            State::Pending(Reason::ProvisionerKeyFailed, why.to_owned())
        }
        Some(Wait::Elsewhere) if works => {
            let why = keyed.elsewhere.as_deref().unwrap_or("its control plane cannot be asked");
            State::Yes(
                Reason::KeyRotating,
                format!(
                    "the new key is in use; an earlier key (see status.key.retiring) cannot be deleted yet: {why}"
                ),
            )
        }
        Some(Wait::Rollout) if works => {
            let why = "the key is in coderd; the one it replaces is deleted when no daemon uses it any more";
            State::Yes(Reason::KeyRotating, with_elsewhere(why, keyed))
        }
        Some(Wait::Entitlement) | None if works => State::Yes(
            Reason::ProvisionerKeyReady,
            "the key is in coderd, as the spec asks for it".to_owned(),
        ),
        Some(Wait::Elsewhere | Wait::Rollout | Wait::Entitlement) | None if in_place => {
            let why = "the key in use is not the one that the spec asks for; that is made when the one before has gone";
            State::Pending(Reason::KeyRotating, with_elsewhere(why, keyed))
        }
        Some(Wait::Entitlement) => State::Pending(
            Reason::Progressing,
            "waiting for a license that includes external provisioners".to_owned(),
        ),
        Some(Wait::Elsewhere | Wait::Rollout) | None => {
            State::Pending(Reason::Progressing, with_elsewhere("the key is being made", keyed))
        }
    }
}

/// With what failed in coderds that earlier keys are in.
fn with_elsewhere(why: &str, keyed: &Keyed) -> String {
    match &keyed.elsewhere {
        Some(elsewhere) => format!("{why}; an earlier key cannot be deleted yet: {elsewhere}"),
        None => why.to_owned(),
    }
}

fn waiting_for_secret(works: bool) -> State {
    if works {
        return State::Yes(Reason::ProvisionerKeyReady, "the key is in coderd".to_owned());
    }
    State::Pending(Reason::Progressing, "waiting for the Secret, see ProvisionerKeySecretReady".to_owned())
}

fn error_of(error: &work::KeyError) -> State {
    match error {
        work::KeyError::Coderd(error) => failed(error),
        work::KeyError::Kubernetes(error) => State::Pending(Reason::ProvisionerKeyFailed, error.to_string()),
        work::KeyError::Late => State::Pending(Reason::ProvisionerKeyFailed, error.to_string()),
        work::KeyError::Filtered => State::Refused(Reason::ProvisionerKeyFailed, error.to_string()),
    }
}

fn failed(error: &Error) -> State {
    match error {
        Error::RateLimited { .. } => State::Pending(Reason::RateLimited, error.to_string()),
        error => State::Pending(Reason::ProvisionerKeyFailed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::work::Proven;
    use super::*;

    fn keyed(wait: Option<Wait>) -> Keyed {
        let place = place();
        let proven = Some(Proven { checksum: "c".to_owned(), place });
        Keyed { proven, is_asked_for: true, wait, ..Keyed::default() }
    }

    fn place() -> SecretPlace {
        SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() }
    }

    fn said(keyed: &Keyed) -> State {
        key(keyed, &place(), None).0
    }

    #[test]
    fn a_key_of_an_earlier_spec_is_never_what_is_asked_for() {
        for wait in [None, Some(Wait::Rollout), Some(Wait::Entitlement), Some(Wait::Elsewhere)] {
            assert!(matches!(said(&keyed(wait)), State::Yes(..)), "{wait:?}");
            let former = Keyed { is_asked_for: false, ..keyed(wait) };
            assert!(matches!(said(&former), State::Pending(Reason::KeyRotating, _)), "{wait:?}");
            let cut = Keyed { is_cut: true, ..keyed(wait) };
            assert!(matches!(said(&cut), State::Pending(Reason::KeyRotating, _)), "{wait:?}");
        }
        let immutable = Keyed { is_asked_for: false, ..keyed(Some(Wait::SecretImmutable)) };
        assert!(matches!(said(&immutable), State::Pending(..)));
    }

    #[test]
    fn what_fails_in_a_former_control_plane_is_told_with_its_name_and_holds_nothing() {
        let why = Some("control plane old: deleting a provisioner key failed".to_owned());
        let elsewhere = Keyed { elsewhere: why, ..keyed(Some(Wait::Elsewhere)) };
        let State::Yes(Reason::KeyRotating, message) = said(&elsewhere) else { panic!("{elsewhere:?}") };
        assert!(
            message.contains("status.key.retiring") && message.contains("control plane old"),
            "{message}"
        );
    }
}
