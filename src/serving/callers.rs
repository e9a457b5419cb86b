//! Who is calling and may they: a bearer token is reviewed by the API server, then the access it asks for.
//! Nobody is anonymous, nothing is decided here that Kubernetes does not decide, and no caller makes us ask it without end.

use super::peer::Peer;
use super::rates::{Rate, Rates};
use super::tokens::{Digest, Tokens};
use super::turns::Turns;
use crate::confidential::Confidential;
use crate::kubernetes::{CallError, Kube};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// SubjectAccessReviews that one caller may cause. Whoever reaches the webhook port can make up a review, and each costs
/// the API server some. A thousand objects that each add ten rights pass at once; beyond that, callers come back later.
const QUESTIONS: Rate = Rate { burst: 10_000, per_second: 500 };
/// SubjectAccessReviews under way, half of them for one caller. The API server queues what one account asks: behind more
/// of them, our own renewals of leases would wait.
const AT_ONCE: u32 = 16;
/// TokenReviews that one caller may cause: Prometheus needs one in ten seconds, whoever guesses tokens gets no further.
const TOKEN_REVIEWS: Rate = Rate { burst: 60, per_second: 3 };

/// Why a caller is turned away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    /// No token, or one the API server does not know.
    #[error("a bearer token the API server accepts is needed")]
    Unauthenticated,
    /// Known, but without the right.
    #[error("{user} may not {verb} {path}")]
    Forbidden {
        /// Who asked.
        user: String,
        /// For what.
        verb: String,
        /// On which path.
        path: String,
    },
    /// This caller has made us ask too often.
    #[error("too many tokens or questions of this caller; try again")]
    TooMany,
    /// The API server could not be asked.
    #[error("the API server could not be asked: {0}")]
    Unavailable(#[from] CallError),
}

/// The token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Confidential<String>, Denied> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim).unwrap_or_default();
    if token.is_empty() { Err(Denied::Unauthenticated) } else { Ok(Confidential::new(token.to_owned())) }
}

/// Those who ask the API server on behalf of callers. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Callers {
    kube: Kube,
    tokens: Arc<Mutex<Tokens>>,
    token_reviews: Arc<Mutex<Rates>>,
    questions: Arc<Mutex<Rates>>,
    asking: Turns,
}

impl Callers {
    /// Nobody has asked yet.
    pub(crate) fn new(kube: Kube) -> Self {
        let rates = |rate| Arc::new(Mutex::new(Rates::new(rate, Instant::now())));
        Self {
            kube,
            tokens: Arc::default(),
            token_reviews: rates(TOKEN_REVIEWS),
            questions: rates(QUESTIONS),
            asking: Turns::of(AT_ONCE),
        }
    }

    /// Succeeds when the bearer of the token may `verb` the non-resource `path`.
    pub(crate) async fn authorise(
        &self,
        peer: Peer,
        token: Confidential<String>,
        verb: &str,
        path: &str,
    ) -> Result<(), Denied> {
        let user = self.authenticate(peer, token).await?;
        let name = user.username.clone().unwrap_or_default();
        if self.allowed(peer, || access(user, verb, path)).await? {
            return Ok(());
        }
        Err(Denied::Forbidden { user: name, verb: verb.to_owned(), path: path.to_owned() })
    }

    /// Whether a user may do something to a resource; `peer` is who says that this user asks.
    pub(crate) async fn may(
        &self,
        peer: Peer,
        user: &UserInfo,
        attributes: ResourceAttributes,
    ) -> Result<bool, Denied> {
        let spec =
            || SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..subject(user.clone()) };
        self.allowed(peer, spec).await
    }

    /// Whoever is above its rate is told at once: waiting would hold what others need. A question within it waits for its
    /// turn, as long as the request it serves; it is made only then, so that what waits is small.
    async fn allowed(
        &self,
        peer: Peer,
        spec: impl FnOnce() -> SubjectAccessReviewSpec,
    ) -> Result<bool, Denied> {
        take(&self.questions, peer)?;
        let _turn = self.asking.take(peer, 1).await;
        let review = SubjectAccessReview { spec: spec(), ..SubjectAccessReview::default() };
        let answer = self.kube.everywhere::<SubjectAccessReview>().create(&review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn authenticate(&self, peer: Peer, token: Confidential<String>) -> Result<UserInfo, Denied> {
        let digest = Digest::of(&token);
        if let Some(known) = lock(&self.tokens).owner(digest, Instant::now()) {
            return known.ok_or(Denied::Unauthenticated);
        }
        take(&self.token_reviews, peer)?;
        let user = self.review(token).await?;
        lock(&self.tokens).learn(digest, user.clone(), Instant::now());
        user.ok_or(Denied::Unauthenticated)
    }

    async fn review(&self, token: Confidential<String>) -> Result<Option<UserInfo>, CallError> {
        let spec = TokenReviewSpec { token: Some(token.expose().clone()), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.kube.everywhere::<TokenReview>().create(&review).await?;
        let status = answer.status.unwrap_or_default();
        Ok(status.user.filter(|_| status.authenticated == Some(true)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(rates: &Mutex<Rates>, peer: Peer) -> Result<(), Denied> {
    lock(rates).take(peer, 1, Instant::now()).map_err(|_| Denied::TooMany)
}

fn access(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some(verb.to_owned()),
        }),
        ..subject(user)
    }
}

fn subject(user: UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_objects_at_once_pass_and_endless_questions_do_not() {
        let peer = |ip: &str| Peer::from(ip.parse::<std::net::IpAddr>().unwrap());
        let (attacker, honest, now) = (peer("127.0.0.2"), peer("127.0.0.1"), Instant::now());
        let mut rates = Rates::new(QUESTIONS, now);
        let passed = (0..100_000).filter(|_| rates.take(attacker, 1, now).is_ok()).count();
        assert_eq!(passed, 10_000);
        assert!((0..1000).all(|_| rates.take(honest, 10, now).is_ok()));
    }

    #[test]
    fn only_a_bearer_token_counts() {
        let with = |value: &str| bearer(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(with("Bearer abc").unwrap().expose(), "abc");
        assert!(matches!(with("Basic abc"), Err(Denied::Unauthenticated)));
        assert!(matches!(with("Bearer "), Err(Denied::Unauthenticated)));
        assert!(matches!(bearer(&HeaderMap::new()), Err(Denied::Unauthenticated)));
    }
}
