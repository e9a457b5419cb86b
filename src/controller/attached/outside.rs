//! Decides what is said of the way to a control plane: whether it is there, the access to it, the license. Pure: it words what was
//! seen, in the same words for every kind that belongs to one.

use crate::coderd::Retry;
use crate::control_plane_access::control_planes::Found;
use crate::control_plane_access::entitlement::{FeatureEntitlement, LicensedFeature};
use crate::control_plane_access::unreached::{About, Unreached};
use crate::controller::status::conditions::Finding;
use crate::controller::status::reasons::{KindReason, SharedReason};
use crate::controller::status::summary::Because;
use crate::controller::workload::rollout::Rollout;
use crds::CoderControlPlane;
use crds::well_known::condition::{BOOTSTRAP_SECRET_READY, DEPLOYMENT_READY, OPERATOR_ACCESS_READY};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// How far something outside has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State<R> {
    /// Nobody asked for it, or nobody could be asked yet.
    Unknown(R, String),
    /// It is as it should be.
    Yes(R, String),
    /// It comes by itself, or is tried again.
    Pending(R, String),
    /// It will not come before somebody acts.
    Refused(R, String),
}

/// The reasons that every kind has which belongs to a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessReason {
    AdmissionDisabled,
    BootstrapSecretReady,
    BootstrapSecretUnavailable,
    CleanupFailed,
    ControlPlaneAvailable,
    ControlPlaneUnavailable,
    Entitled,
    EntitlementsQueryFailed,
    Forbidden,
    InGracePeriod,
    MinimumReplicasReady,
    NoReplicasReady,
    NotEntitled,
    NotRequested,
    NotSupported,
    OperatorAccessDisabled,
    OperatorAccessNotReady,
    OperatorAccessReady,
    OperatorTokenSecretRefInvalid,
    OperatorTokenSecretRefMissing,
    OperatorTokenSecretUnavailable,
    ScaledToZero,
    WaitingForAccess,
    WaitingForControlPlane,
}

/// Gives a kind's reasons those of [`AccessReason`]. One that lacks one of them does not compile.
macro_rules! access_reasons {
    ($name:ident) => {
        $crate::controller::attached::outside::access_reasons! { $name:
            AdmissionDisabled, BootstrapSecretReady, BootstrapSecretUnavailable, CleanupFailed,
            ControlPlaneAvailable, ControlPlaneUnavailable, Entitled, EntitlementsQueryFailed, Forbidden, InGracePeriod, MinimumReplicasReady,
            NoReplicasReady, NotEntitled,
            NotRequested, NotSupported, OperatorAccessDisabled, OperatorAccessNotReady, OperatorAccessReady,
            OperatorTokenSecretRefInvalid, OperatorTokenSecretRefMissing, OperatorTokenSecretUnavailable,
            ScaledToZero, WaitingForAccess, WaitingForControlPlane
        }
    };
    ($name:ident: $($reason:ident),+) => {
        impl From<$crate::controller::attached::outside::AccessReason> for $name {
            fn from(reason: $crate::controller::attached::outside::AccessReason) -> Self {
                use $crate::controller::attached::outside::AccessReason;
                match reason { $(AccessReason::$reason => Self::$reason,)+ }
            }
        }
    };
}
pub(crate) use access_reasons;

/// The reasons of a kind that belongs to a control plane.
pub(crate) trait AttachedReason: KindReason + From<AccessReason> {}
impl<R: KindReason + From<AccessReason>> AttachedReason for R {}

impl<R: AttachedReason> State<R> {
    /// Something that nobody can tell before the control plane answers.
    pub(crate) fn waiting() -> Self {
        Self::Unknown(AccessReason::WaitingForControlPlane.into(), "waiting for the control plane".to_owned())
    }

    /// Something that nobody can tell before the token works of which this condition speaks.
    fn waiting_for_access(condition: &str) -> Self {
        Self::Unknown(AccessReason::WaitingForAccess.into(), format!("waiting for {condition}"))
    }

    /// Something that comes after what this condition speaks of.
    pub(crate) fn after(condition: &str) -> Self {
        Self::Unknown(SharedReason::Progressing.into(), format!("waiting for {condition}"))
    }

    fn yes(reason: AccessReason, message: &str) -> Self {
        Self::Yes(reason.into(), message.to_owned())
    }

    fn pending(reason: AccessReason, message: impl Into<String>) -> Self {
        Self::Pending(reason.into(), message.into())
    }

    fn refused(reason: AccessReason, message: impl Into<String>) -> Self {
        Self::Refused(reason.into(), message.into())
    }

    /// The condition that says it.
    pub(crate) fn finding(&self, type_: &'static str) -> Finding {
        match self {
            Self::Unknown(reason, message) => Finding::unknown(type_, *reason, &**message),
            Self::Yes(reason, message) => Finding::yes(type_, *reason, &**message),
            Self::Pending(reason, message) | Self::Refused(reason, message) => {
                Finding::no(type_, *reason, &**message)
            }
        }
    }

    /// Why it will not come before somebody acts.
    pub(crate) fn is_refused(&self) -> Option<Because<R>> {
        match self {
            Self::Refused(reason, message) => Some((*reason, message.clone())),
            Self::Unknown(..) | Self::Yes(..) | Self::Pending(..) => None,
        }
    }

    /// Why it is still to come.
    pub(crate) fn is_pending(&self) -> Option<Because<R>> {
        match self {
            Self::Pending(reason, message) => Some((*reason, message.clone())),
            Self::Unknown(..) | Self::Yes(..) | Self::Refused(..) => None,
        }
    }

    /// Whether it is not what it should be, and nobody knows when it will be.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Refused(..) | Self::Pending(..))
    }

    /// As a condition has told it, for a coderd that asked to be left alone: nothing is known better.
    pub(crate) fn as_told(conditions: &[Condition], about: &str) -> Option<Self> {
        let one = conditions.iter().find(|one| one.type_ == about)?;
        let (reason, message) = (R::named(&one.reason)?, one.message.clone());
        Some(match one.status.as_str() {
            "True" => Self::Yes(reason, message),
            "False" => Self::Pending(reason, message),
            _ => Self::Unknown(reason, message),
        })
    }
}

/// The way to a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessStates<R> {
    pub(crate) control_plane: State<R>,
    pub(crate) access: State<R>,
    /// Only where the spec brings credentials.
    pub(crate) bootstrap: Option<State<R>>,
    pub(crate) entitled: State<R>,
    /// That coderd asked to be left alone.
    pub(crate) rate_limited: Option<String>,
}

impl<R: AttachedReason> AccessStates<R> {
    /// Nothing outside could be asked.
    pub(crate) fn unasked(with_bootstrap: bool) -> Self {
        let not_asked = || State::waiting();
        Self {
            control_plane: not_asked(),
            access: if with_bootstrap { not_used() } else { not_asked() },
            bootstrap: with_bootstrap.then(not_asked),
            entitled: not_asked(),
            rate_limited: None,
        }
    }

    /// Nobody is asked, for this reason.
    pub(crate) fn left_unasked(with_bootstrap: bool, why: &State<R>) -> Self {
        Self {
            control_plane: why.clone(),
            access: if with_bootstrap { not_used() } else { why.clone() },
            bootstrap: with_bootstrap.then(|| why.clone()),
            entitled: why.clone(),
            rate_limited: None,
        }
    }

    /// What waits behind the access as long as nothing else is known of it, and comes after `condition` once there is access.
    pub(crate) fn behind(&self, condition: &str) -> State<R> {
        let works = |state: &State<R>| matches!(state, State::Yes(..));
        match &self.bootstrap {
            _ if !works(&self.control_plane) => self.entitled.clone(),
            Some(bootstrap) if !works(bootstrap) => State::waiting_for_access(BOOTSTRAP_SECRET_READY),
            None if !works(&self.access) => State::waiting_for_access(OPERATOR_ACCESS_READY),
            _ => State::after(condition),
        }
    }

    /// There is no control plane to be asked.
    fn without_control_plane(with_bootstrap: bool, why: String) -> Self {
        // It may come later, as the order of a Git repository wants it.
        let control_plane = State::pending(AccessReason::ControlPlaneUnavailable, why);
        Self { control_plane, ..Self::unasked(with_bootstrap) }
    }

    /// Nobody knows yet which control planes there are.
    fn unlisted(with_bootstrap: bool) -> Self {
        let why = "listing the control planes of the cluster";
        Self {
            control_plane: State::pending(AccessReason::WaitingForControlPlane, why),
            ..Self::unasked(with_bootstrap)
        }
    }

    /// The control plane that was found under this name; or what is said where it was not, and when to look again.
    pub(crate) fn of_found<'a>(
        found: &'a Found,
        name: &str,
        with_bootstrap: bool,
    ) -> Result<&'a CoderControlPlane, (Box<Self>, Option<Retry>)> {
        let why = match found {
            Found::There(control_plane) => return Ok(control_plane),
            Found::Unlisted => {
                return Err((Box::new(Self::unlisted(with_bootstrap)), Some(Retry::Backoff)));
            }
            Found::Gone => {
                let field = match with_bootstrap {
                    true => "spec.bootstrap.coderURL, or allow it by --allow-url of the operator",
                    false => "spec.controlPlaneRef",
                };
                format!(
                    "there is no CoderControlPlane {name} in this namespace; create it, or correct {field}"
                )
            }
            Found::Unreadable(why) => format!(
                "CoderControlPlane {name} is invalid ({why}); correct it, see its condition SpecAccepted"
            ),
        };
        Err((Box::new(Self::without_control_plane(with_bootstrap, why)), None))
    }

    /// The control plane could not be reached.
    pub(crate) fn unreached(with_bootstrap: bool, unreached: &Unreached) -> Self {
        let said = Self::unasked(with_bootstrap);
        let (about, why) = (unreached.about(), unreached.to_string());
        match about {
            About::ControlPlane => {
                let control_plane = State::pending(AccessReason::ControlPlaneUnavailable, why);
                Self { control_plane, ..said }
            }
            About::RateLimit => Self { control_plane: there(), rate_limited: Some(why), ..said },
            About::OperatorAccess => {
                let entitled = State::waiting_for_access(OPERATOR_ACCESS_READY);
                Self { control_plane: there(), access: access(unreached, why), entitled, ..said }
            }
            About::Bootstrap => {
                let entitled = State::waiting_for_access(BOOTSTRAP_SECRET_READY);
                let bootstrap = Some(bootstrap(unreached, why));
                Self { control_plane: there(), bootstrap, entitled, ..said }
            }
        }
    }

    /// The control plane answered; what the license covers is not known.
    pub(crate) fn reached(with_bootstrap: bool) -> Self {
        let ready = State::yes(AccessReason::OperatorAccessReady, "coderd accepts the operator's token");
        let given = State::yes(AccessReason::BootstrapSecretReady, "coderd accepts the token that was given");
        Self {
            control_plane: there(),
            access: if with_bootstrap { not_used() } else { ready },
            bootstrap: with_bootstrap.then_some(given),
            ..Self::unasked(with_bootstrap)
        }
    }

    /// With what the license covers.
    pub(crate) fn licensed(self, feature: LicensedFeature, answer: &FeatureEntitlement) -> Self {
        Self { entitled: entitled(feature, answer), ..self }
    }
}

fn there<R: AttachedReason>() -> State<R> {
    State::yes(AccessReason::ControlPlaneAvailable, "the control plane answers")
}

fn not_used<R: AttachedReason>() -> State<R> {
    let why = "spec.bootstrap.credentialsSecretRef is used instead";
    State::Unknown(AccessReason::NotRequested.into(), why.to_owned())
}

fn access<R: AttachedReason>(unreached: &Unreached, why: String) -> State<R> {
    match unreached {
        Unreached::AccessDisabled { .. } => State::refused(AccessReason::OperatorAccessDisabled, why),
        Unreached::TokenSecretRefMissing { .. } => {
            State::refused(AccessReason::OperatorTokenSecretRefMissing, why)
        }
        Unreached::TokenSecretRefInvalid { .. } | Unreached::TokenSecretForeign { .. } => {
            State::refused(AccessReason::OperatorTokenSecretRefInvalid, why)
        }
        Unreached::TokenSecretUnavailable { .. } | Unreached::TokenSecretUnread { .. } => {
            State::pending(AccessReason::OperatorTokenSecretUnavailable, why)
        }
        Unreached::AdmissionDisabled { .. } => State::refused(AccessReason::AdmissionDisabled, why),
        // The first that needs a token is what the control plane makes one for.
        Unreached::AccessNotReady { said, .. } if said.is_coming() => {
            State::pending(AccessReason::WaitingForAccess, why)
        }
        Unreached::NotOwnerYet { .. } => State::pending(AccessReason::WaitingForAccess, why),
        _ => State::pending(AccessReason::OperatorAccessNotReady, why),
    }
}

fn bootstrap<R: AttachedReason>(unreached: &Unreached, why: String) -> State<R> {
    match unreached {
        Unreached::TokenSecretRefInvalid { .. } => {
            State::refused(AccessReason::BootstrapSecretUnavailable, why)
        }
        Unreached::AdmissionDisabled { .. } => State::refused(AccessReason::AdmissionDisabled, why),
        _ => State::pending(AccessReason::BootstrapSecretUnavailable, why),
    }
}

fn entitled<R: AttachedReason>(feature: LicensedFeature, answer: &FeatureEntitlement) -> State<R> {
    let what = feature.plural();
    match answer {
        FeatureEntitlement::Entitled => {
            State::Yes(AccessReason::Entitled.into(), format!("the license covers {what}"))
        }
        FeatureEntitlement::Grace => {
            let why =
                format!("the license has expired; {what} keep working during its grace period; renew it");
            State::Yes(AccessReason::InGracePeriod.into(), why)
        }
        FeatureEntitlement::NotEntitled => {
            let left = feature.left_alone();
            let why = format!("coderd's license does not include {what}; add one that does. {left}");
            // The license may be on its way, with everything else of the same Git repository.
            State::pending(AccessReason::NotEntitled, why)
        }
        FeatureEntitlement::NotSupported => {
            let why = format!(
                "this build of coderd (open source) has no {what}; set spec.image of the CoderControlPlane to \
                 a ghcr.io/coder/coder image"
            );
            State::refused(AccessReason::NotSupported, why)
        }
        FeatureEntitlement::Forbidden(error) => State::refused(
            AccessReason::Forbidden,
            format!("{error}; check for a proxy or service mesh in front of the coderd Service"),
        ),
        FeatureEntitlement::Failed(error) => {
            State::pending(AccessReason::EntitlementsQueryFailed, error.to_string())
        }
    }
}

/// The condition that says whether pods are ready.
pub(crate) fn deployment<R: AttachedReason>(rollout: &Rollout, ready_replicas: i32) -> Finding {
    let about = DEPLOYMENT_READY;
    let reason = R::from(AccessReason::NoReplicasReady);
    match rollout {
        Rollout::ScaledToZero => {
            let reason = R::from(AccessReason::ScaledToZero);
            Finding::yes(about, reason, "no replicas are requested and none run")
        }
        Rollout::Unseen | Rollout::Absent => {
            Finding::no(about, reason, "there is no Deployment yet; Ready says why")
        }
        _ if ready_replicas > 0 => {
            let pods = if ready_replicas == 1 { "pod is" } else { "pods are" };
            let reason = R::from(AccessReason::MinimumReplicasReady);
            Finding::yes(about, reason, format!("{ready_replicas} {pods} ready"))
        }
        Rollout::Stuck(message)
        | Rollout::Slow(message)
        | Rollout::UnderWay(message)
        | Rollout::Unavailable(message) => Finding::no(about, reason, &**message),
        Rollout::Complete(_) => Finding::no(about, reason, "no pod is ready"),
    }
}

/// The same for a Deployment that was removed because its object is being deleted.
pub(crate) fn removed<R: AttachedReason>() -> Finding {
    let reason = R::from(AccessReason::NoReplicasReady);
    Finding::no(DEPLOYMENT_READY, reason, "the Deployment was removed; the object is being deleted")
}
