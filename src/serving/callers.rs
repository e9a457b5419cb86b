//! Who is calling and may they: a bearer token is reviewed by the API server, then the access it asks for.
//! Nobody is anonymous, and nothing is decided here that Kubernetes does not decide.

use crate::confidential::Confidential;
use crate::kubernetes::{CallError, Kube};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

/// Why a caller is turned away.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
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
    /// The API server could not be asked.
    #[error("the API server could not be asked: {0}")]
    Unavailable(#[from] CallError),
}

/// The token of a request.
pub fn bearer(headers: &HeaderMap) -> Result<Confidential<String>, Denied> {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim).unwrap_or_default();
    if token.is_empty() { Err(Denied::Unauthenticated) } else { Ok(Confidential::new(token.to_owned())) }
}

/// Succeeds when the bearer of the token may `verb` the non-resource `path`.
pub async fn authorise(
    kube: &Kube,
    token: Confidential<String>,
    verb: &str,
    path: &str,
) -> Result<(), Denied> {
    let user = authenticate(kube, token).await?;
    let name = user.username.clone().unwrap_or_default();
    let review = SubjectAccessReview { spec: access(user, verb, path), ..SubjectAccessReview::default() };
    let answer = kube.everywhere::<SubjectAccessReview>().create(&review).await?;
    if answer.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    Err(Denied::Forbidden { user: name, verb: verb.to_owned(), path: path.to_owned() })
}

/// Whether a user may do something to a resource.
pub async fn may(kube: &Kube, user: &UserInfo, attributes: ResourceAttributes) -> Result<bool, CallError> {
    let spec = SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..subject(user.clone()) };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = kube.everywhere::<SubjectAccessReview>().create(&review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn authenticate(kube: &Kube, token: Confidential<String>) -> Result<UserInfo, Denied> {
    let spec = TokenReviewSpec { token: Some(token.expose().clone()), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let answer = kube.everywhere::<TokenReview>().create(&review).await?;
    let status = answer.status.unwrap_or_default();
    match status.user {
        Some(user) if status.authenticated == Some(true) => Ok(user),
        _ => Err(Denied::Unauthenticated),
    }
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
    fn only_a_bearer_token_counts() {
        let with = |value: &str| bearer(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(with("Bearer abc").unwrap().expose(), "abc");
        assert!(matches!(with("Basic abc"), Err(Denied::Unauthenticated)));
        assert!(matches!(with("Bearer "), Err(Denied::Unauthenticated)));
        assert!(matches!(bearer(&HeaderMap::new()), Err(Denied::Unauthenticated)));
    }
}
