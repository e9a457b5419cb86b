//! Decides what is said of what a workspace proxy has outside of Kubernetes: its registration, its token, its health. Pure: it words
//! what was seen.

use super::observed::{Outside, State};
use super::reasons::Reason;
use super::registration::end;
use super::registration::steps::Wait;
use super::registration::work::{Registered, RegistrationError};
use crate::coderd::Error;
use crate::coderd::client::{ProxyHealth, ProxyStatus};
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::secret::SecretPlace;
use crate::foreign::Foreign;
use crds::CoderWorkspaceProxyStatus;
use crds::well_known::condition;

/// The field with the name in coderd.
const PROXY_NAME: &str = "spec.registration.proxyName (with bootstrap: spec.bootstrap.proxyName)";
/// The field with the name of the Secret.
const TOKEN_SECRET_NAME: &str =
    "spec.registration.tokenSecretName (with bootstrap: spec.bootstrap.generatedTokenSecretName)";

impl Outside {
    /// What is known of the way to coderd, and nothing of the registration.
    pub(super) fn of(reach: AccessStates<Reason>) -> Self {
        let limited = reach.rate_limited.clone().map(|why| State::Pending(Reason::RateLimited, why));
        let behind = reach.behind(condition::PROXY_REGISTERED);
        Self {
            registered: limited.unwrap_or_else(|| reach.behind(condition::WORKSPACE_PROXIES_ENTITLED)),
            reach,
            secret: behind.clone(),
            health: behind,
            wait: None,
            is_given: false,
        }
    }

    /// What the status told before, for a coderd that asked to be left alone.
    pub(super) fn as_told(status: &CoderWorkspaceProxyStatus) -> Self {
        let told = |about: &str| State::as_told(&status.conditions, about);
        let state = |about: &str| told(about).unwrap_or_else(State::waiting);
        let reach = AccessStates {
            control_plane: state(condition::CONTROL_PLANE_READY),
            access: state(condition::OPERATOR_ACCESS_READY),
            bootstrap: told(condition::BOOTSTRAP_SECRET_READY),
            entitled: state(condition::WORKSPACE_PROXIES_ENTITLED),
            rate_limited: None,
        };
        Self {
            registered: state(condition::PROXY_REGISTERED),
            secret: state(condition::PROXY_TOKEN_SECRET_READY),
            health: state(condition::PROXY_HEALTHY),
            ..Self::of(reach)
        }
    }

    /// The author brings a token, and a registration of an earlier spec is still there; nothing is said of one without a name.
    pub(super) fn given_instead(secret: State, name: &str, wait: Wait, elsewhere: Option<&str>) -> Self {
        if name.is_empty() {
            return Self::given(secret);
        }
        let name = Foreign::new(name);
        let why = match wait {
            Wait::Rollout => format!(
                "spec.proxySessionTokenSecretRef is used; the former registration {name} goes when no pod uses it any more"
            ),
            _ => format!(
                "spec.proxySessionTokenSecretRef is used; the former registration {name} cannot be removed yet: {}",
                elsewhere.unwrap_or("its control plane cannot be asked")
            ),
        };
        let registered = State::Yes(Reason::ProxyMoving, why);
        Self { registered, wait: Some(wait), ..Self::given(secret) }
    }

    /// The author brings a token: coderd is not asked.
    pub(super) fn given(secret: State) -> Self {
        let not_asked = || {
            let why = "spec.proxySessionTokenSecretRef is used; coderd is not asked".to_owned();
            State::Unknown(Reason::NotRequested, why)
        };
        let reach = AccessStates {
            control_plane: not_asked(),
            access: not_asked(),
            bootstrap: None,
            entitled: not_asked(),
            rate_limited: None,
        };
        Self { registered: not_asked(), health: not_asked(), secret, is_given: true, ..Self::of(reach) }
    }

    /// The address of `bootstrap` is not one that the operator may dial.
    pub(super) fn not_allowed(url: &str) -> Self {
        let why = format!(
            "no CoderControlPlane in this namespace serves at spec.bootstrap.coderURL now, and the URL is not allowed either; use \
             spec.controlPlaneRef, or start the operator with --allow-url={url}"
        );
        Self::without_question(true, Reason::URLNotAllowed, why)
    }

    /// The spec has no way to a token.
    pub(super) fn nowhere() -> Self {
        let why = "set spec.controlPlaneRef, spec.bootstrap, or spec.primaryAccessURL with spec.proxySessionTokenSecretRef";
        Self::without_question(false, Reason::TokenSourceMissing, why.to_owned())
    }

    /// Nobody is asked before the spec says something else.
    fn without_question(with_bootstrap: bool, reason: Reason, why: String) -> Self {
        let not_asked = State::Unknown(reason, "not asked; see ProxyRegistered".to_owned());
        let registered = State::Refused(reason, why);
        Self { registered, ..Self::of(AccessStates::left_unasked(with_bootstrap, &not_asked)) }
    }

    /// With something that keeps the operator from working on the registration.
    pub(super) fn failed(self, why: String) -> Self {
        Self { registered: State::Pending(Reason::RegistrationFailed, why), ..self }
    }

    /// With what became of the registration.
    pub(super) fn registered(
        self,
        registered: &Registered,
        name: &str,
        place: &SecretPlace,
        rival: Option<&str>,
    ) -> Self {
        let (state, secret) = states(registered, name, place, rival);
        let health = registered.proxy.as_ref().map(|proxy| health_of(&proxy.health));
        let health = health.unwrap_or_else(|| State::after(condition::PROXY_REGISTERED));
        Self { registered: state, secret, health, wait: registered.wait, ..self }
    }
}

/// What is said of the registration, and of the Secret.
fn states(registered: &Registered, name: &str, place: &SecretPlace, rival: Option<&str>) -> (State, State) {
    let works = registered.proven.is_some();
    let secret = if works {
        State::Yes(Reason::SecretReady, format!("Secret {} holds a token that coderd accepts", place.secret))
    } else {
        let why = "the Secret does not hold a token that coderd accepts yet";
        State::Pending(Reason::Progressing, why.to_owned())
    };
    match &registered.error {
        Some(error @ RegistrationError::Unwritable { .. }) => {
            let unwritten = State::Pending(Reason::SecretWriteFailed, error.to_string());
            return (registration(registered, works, name, rival), unwritten);
        }
        Some(error) => return (error_of(error), secret),
        None => {}
    }
    let secret = match registered.wait {
        Some(Wait::SecretNotOurs) => {
            let why = format!(
                "Secret {} exists and was not created for this object; it is left alone. Set {TOKEN_SECRET_NAME} to another name",
                place.secret
            );
            State::Refused(Reason::SecretNotOurs, why)
        }
        Some(Wait::SecretImmutable) => {
            let why = format!(
                "Secret {} is immutable, so no other token can be written to it; delete it, which gives pods a new token, or set \
                 {TOKEN_SECRET_NAME} to another name",
                place.secret
            );
            State::Refused(Reason::SecretImmutable, why)
        }
        _ => secret,
    };
    (registration(registered, works, name, rival), secret)
}

fn registration(registered: &Registered, works: bool, name: &str, rival: Option<&str>) -> State {
    let is_there = || State::Yes(Reason::ProxyRegistered, format!("coderd has the proxy {name}"));
    match registered.wait {
        Some(Wait::Claimed) => {
            let rival = rival.unwrap_or_default();
            let why = format!(
                "CoderWorkspaceProxy {rival} is older and claims the name {name}, of which coderd ignores the case; set {PROXY_NAME} \
                 to another name"
            );
            State::Refused(Reason::ProxyNameConflict, why)
        }
        Some(Wait::NameTaken) => name_taken(registered, name),
        Some(Wait::AdmissionDisabled) => held(),
        Some(Wait::TooMany) => {
            let why = "too many earlier registrations are in control planes that cannot be reached; make them reachable again, or \
                       delete those CoderControlPlanes that are gone for good, see status.registration.retiring";
            State::Refused(Reason::TooManyRetiring, why.to_owned())
        }
        Some(Wait::Coderd) => {
            let why = "coderd did not say what is needed; retrying";
            State::Pending(Reason::RegistrationFailed, why.to_owned())
        }
        Some(Wait::Pause) => {
            let why =
                "the token that coderd made last was lost or not accepted; another is made after a while";
            State::Pending(Reason::RegistrationFailed, why.to_owned())
        }
        Some(Wait::Contested) => contested(name),
        Some(Wait::Others) if works => {
            let why = unread(registered);
            let why = format!("the proxy is registered; a former registration cannot be removed yet: {why}");
            State::Yes(Reason::ProxyMoving, why)
        }
        Some(Wait::Others) => State::Pending(Reason::RegistrationFailed, unread(registered)),
        Some(Wait::Elsewhere) if works => {
            let why = registered.elsewhere.as_deref().unwrap_or("its control plane cannot be asked");
            let why = format!("the proxy is registered; a former registration cannot be removed yet: {why}");
            State::Yes(Reason::ProxyMoving, why)
        }
        Some(Wait::Rollout) if works => {
            let why = "the proxy is registered; its former registration or Secret goes when no pod uses it any more";
            State::Yes(Reason::ProxyMoving, why.to_owned())
        }
        Some(Wait::Entitlement | Wait::SecretNotOurs | Wait::SecretImmutable) | None if works => is_there(),
        Some(Wait::Entitlement) => {
            let why = "waiting for a license that includes workspace proxies";
            State::Pending(Reason::Progressing, why.to_owned())
        }
        Some(Wait::SecretNotOurs | Wait::SecretImmutable) => {
            let why = "waiting for the Secret, see ProxyTokenSecretReady";
            State::Pending(Reason::Progressing, why.to_owned())
        }
        Some(Wait::Elsewhere | Wait::Rollout) | None => {
            State::Pending(Reason::Progressing, "the proxy is being registered".to_owned())
        }
    }
}

/// What is said of a name that somebody else has, with the way out, if there is one.
fn name_taken(registered: &Registered, name: &str) -> State {
    let why = match registered.taken.as_deref().map(Foreign::new) {
        Some(name) => format!(
            "coderd has a proxy {name} that this object did not register; set {PROXY_NAME} to another name, or take \
             it over with the annotation coder.com/adopt-proxy: {name}, which ends the token it has"
        ),
        None => format!(
            "the name {name} is not free in coderd: another CoderWorkspaceProxy of this cluster has it, coderd itself, or what this \
             object took over once already; set {PROXY_NAME} to another name"
        ),
    };
    State::Refused(Reason::ProxyNameConflict, why)
}

/// What is said of other objects of which it is not known what they have recorded. One of another namespace is named in the log: who
/// has what there is not for everybody here.
fn unread(registered: &Registered) -> String {
    match &registered.unread {
        Some(name) => end::unread(name),
        None => "nothing is taken over: a CoderWorkspaceProxy of another namespace has a status that is longer than any that the \
                 operator writes, so that nobody knows which registrations it has; the operator's log names it, have its status \
                 emptied"
            .to_owned(),
    }
}

/// What is said while admission is disabled. Ready names the namespace and the command where more is held back.
fn held() -> State {
    let why = "nothing is registered, taken over, renamed, moved or rotated while the namespace has the label \
               coder.com/admission=disabled; remove the label to have it done";
    State::Refused(Reason::AdmissionDisabled, why.to_owned())
}

/// What is said of a token that somebody else replaces again and again.
fn contested(name: &str) -> State {
    let why = format!(
        "somebody else replaces the token of proxy {name} again and again: another object, perhaps of another cluster, has the \
         same registration. Delete the wrong one with deletionPolicy: Orphan; to take the token back here, give the annotation \
         coder.com/rotate-token another value"
    );
    State::Refused(Reason::TokenContested, why)
}

fn error_of(error: &RegistrationError) -> State {
    match error {
        RegistrationError::Coderd(Error::RateLimited { .. }) => {
            State::Pending(Reason::RateLimited, error.to_string())
        }
        RegistrationError::Coderd(Error::Forbidden { .. }) => State::Pending(
            Reason::RegistrationFailed,
            format!("{error}; only an owner of coderd may register workspace proxies: use the token of one"),
        ),
        error => State::Pending(Reason::RegistrationFailed, error.to_string()),
    }
}

/// What coderd's health check says of the proxy.
fn health_of(health: &ProxyHealth) -> State {
    let told = |what: &str| match health.errors.first() {
        Some(error) => format!("{what}: {error}"),
        None => what.to_owned(),
    };
    match health.status {
        ProxyStatus::Ok => match health.warnings.first() {
            Some(warning) => {
                State::Yes(Reason::Healthy, format!("coderd reaches the proxy, with a warning: {warning}"))
            }
            None => State::Yes(Reason::Healthy, "coderd reaches the proxy".to_owned()),
        },
        ProxyStatus::Unreachable => {
            let what = "coderd cannot reach the proxy at its access URL; check from coderd's pods that its name resolves, that the \
                        Ingress, route or load balancer leads to the Service, and that its certificate is trusted";
            State::Pending(Reason::ProxyUnreachable, told(what))
        }
        ProxyStatus::Unhealthy => State::Pending(
            Reason::ProxyUnhealthy,
            told("coderd reaches the proxy, which reports errors; check the pod logs"),
        ),
        ProxyStatus::Unregistered => State::Pending(
            Reason::WaitingForHealthCheck,
            "the proxy has not told coderd its address yet; if this lasts, check the pod logs".to_owned(),
        ),
        ProxyStatus::Unknown => State::Pending(
            Reason::WaitingForHealthCheck,
            "coderd has not checked the proxy yet; it does so about once a minute".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::attached::secret::Proven;
    use crate::controller::status::reasons::Class;

    fn said(wait: Option<Wait>, works: bool) -> (State, State) {
        let place = SecretPlace { secret: "s".to_owned(), data_key: "token".to_owned() };
        let proven = works.then(|| Proven { checksum: "c".to_owned(), place: place.clone() });
        let taken = Some("EU".to_owned());
        states(&Registered { proven, wait, taken, ..Registered::default() }, "eu", &place, Some("older"))
    }

    #[test]
    fn a_name_of_others_is_told_with_the_way_out() {
        for works in [true, false] {
            let State::Refused(Reason::ProxyNameConflict, why) = said(Some(Wait::NameTaken), works).0 else {
                panic!("a conflict needs somebody");
            };
            assert!(why.contains("coder.com/adopt-proxy: EU"), "as it is written: {why}");
            let State::Refused(_, why) = said(Some(Wait::Claimed), works).0 else { panic!() };
            assert!(why.contains("older"), "{why}");
        }
    }

    #[test]
    fn a_name_that_nobody_can_give_up_has_no_way_out_but_another() {
        let place = SecretPlace { secret: "s".to_owned(), data_key: "token".to_owned() };
        let registered = Registered { wait: Some(Wait::NameTaken), ..Registered::default() };
        let State::Refused(_, why) = states(&registered, "primary", &place, None).0 else { panic!() };
        assert!(!why.contains("adopt-proxy") && why.contains("proxyName"), "{why}");
        let State::Refused(reason, why) = said(Some(Wait::Contested), false).0 else { panic!() };
        assert!(reason == Reason::TokenContested && why.contains("coder.com/rotate-token"), "{why}");
    }

    #[test]
    fn what_needs_somebody_says_what_to_do() {
        let refused =
            [Wait::Claimed, Wait::NameTaken, Wait::AdmissionDisabled, Wait::TooMany, Wait::Contested];
        for wait in refused {
            let State::Refused(reason, why) = said(Some(wait), false).0 else { panic!("{wait:?}") };
            let is_told = ["set ", "remove ", "make ", "Delete "].iter().any(|step| why.contains(step));
            assert!(is_told && reason.class() == Class::NeedsYou, "{reason}: {why}");
        }
        for wait in [Wait::SecretNotOurs, Wait::SecretImmutable] {
            let State::Refused(reason, why) = said(Some(wait), false).1 else { panic!("{wait:?}") };
            assert!(why.contains(TOKEN_SECRET_NAME) && reason.class() == Class::NeedsYou, "{reason}: {why}");
        }
        let (status, errors) = (ProxyStatus::Unreachable, vec!["dial tcp: no route".to_owned()]);
        let away = health_of(&ProxyHealth { status, errors, warnings: Vec::new() });
        let State::Pending(Reason::ProxyUnreachable, why) = away else { panic!("{away:?}") };
        assert!(why.contains("; check ") && why.ends_with(": dial tcp: no route"), "{why}");
        assert_eq!(Reason::ProxyUnreachable.class(), Class::NeedsYou);
    }

    #[test]
    fn what_waits_for_the_label_of_the_namespace_names_it() {
        for works in [true, false] {
            let State::Refused(reason, why) = said(Some(Wait::AdmissionDisabled), works).0 else { panic!() };
            assert!(
                reason == Reason::AdmissionDisabled && why.contains("coder.com/admission=disabled"),
                "{why}"
            );
        }
    }

    #[test]
    fn what_works_is_registered_whatever_is_left_to_tidy() {
        let tidying = [Wait::Rollout, Wait::Elsewhere, Wait::Entitlement, Wait::Others].map(Some);
        for wait in tidying.into_iter().chain([None]) {
            assert!(matches!(said(wait, true).0, State::Yes(..)), "{wait:?}");
            assert!(matches!(said(wait, false), (State::Pending(..), State::Pending(..))), "{wait:?}");
        }
        assert!(matches!(said(Some(Wait::SecretNotOurs), false).1, State::Refused(Reason::SecretNotOurs, _)));
    }

    #[test]
    fn an_address_that_is_not_allowed_names_the_flag() {
        let State::Refused(reason, why) = Outside::not_allowed("https://a.example.com").registered else {
            panic!()
        };
        assert_eq!(reason, Reason::URLNotAllowed);
        assert!(why.contains("--allow-url=https://a.example.com"), "{why}");
    }
}
