//! One coderd over HTTP: each call is a request built purely, one trip of the transport, and an answer read purely.
//! It never retries, never follows a redirect to another place and never decides what an answer means for an object.

mod answers;
mod elements;
mod entitlements;
mod jobs;
mod key_daemons;
mod organizations;
mod path;
mod provisioner_keys;
mod proxies;
mod proxy_health;
mod requests;
mod short_text;
mod transport;

pub(super) use answers::Answer;
pub use answers::{BuildInfo, Me, Upload};
pub use entitlements::{EXTERNAL_PROVISIONERS, Entitlement, Entitlements, Feature, Tier, WORKSPACE_PROXIES};
pub use jobs::{PendingJobs, Tags};
pub use key_daemons::KeyDaemons;
pub use organizations::Organization;
pub use provisioner_keys::{Deletion, ProvisionerKey};
pub use proxies::{ProxyAppearance, ProxyDeletion, WorkspaceProxy, proxy_id_of_token};
pub use proxy_health::{ProxyHealth, ProxyStatus};
pub use transport::Limits;

use super::RateLimitHold;
use super::endpoint::Endpoint;
use super::error::Error;
use super::license::{Claims, License, Next, NotALicense, next};
use super::observer::Observer;
use super::resolve::Resolve;
use super::tls::TrustError;
use crate::confidential::Confidential;
use elements::{Reader, Unlisted};
use http::HeaderValue;
use requests::Request;
use std::sync::Arc;
use std::time::Instant;
use transport::Transport;

/// Licenses of a list that are looked at; nobody has more than a handful.
const MOST_LICENSES: usize = 1000;
/// Bytes of one of them: what it says of itself is shorter than its text, which is 64 KiB at most.
const LARGEST_LICENSE: usize = 128 << 10;

/// A client of one coderd, with or without a token. Clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<Transport>,
    token: Option<Confidential<String>>,
    hold: Option<RateLimitHold>,
    /// The host of the access URL, for a coderd that redirects whoever does not come by it.
    access_host: Option<HeaderValue>,
    observer: Observer,
}

/// What [`Client::apply_license`] found or did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// coderd had it, also when the upload of somebody else was faster.
    AlreadyThere {
        /// Its number in coderd.
        id: i32,
    },
    /// It was uploaded now.
    Uploaded {
        /// Its number in coderd.
        id: i32,
    },
}

/// Why a license was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// It cannot be read, so it was not sent.
    #[error(transparent)]
    License(#[from] NotALicense),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] Error),
}

impl Client {
    /// A client of `endpoint`. Nothing is dialled before the first call.
    pub fn new(
        endpoint: Endpoint,
        token: Option<Confidential<String>>,
        resolve: &Resolve,
        limits: Limits,
    ) -> Result<Self, TrustError> {
        let transport = Arc::new(Transport::new(endpoint, resolve.clone(), limits)?);
        Ok(Self { transport, token, hold: None, access_host: None, observer: Observer::default() })
    }

    /// The same coderd, over the same connections, with another token.
    pub fn with_token(&self, token: Confidential<String>) -> Self {
        Self { token: Some(token), ..self.clone() }
    }

    /// The same client that leaves coderd alone as long as coderd asked, whichever client was asked to.
    pub fn heeding(self, hold: RateLimitHold) -> Self {
        Self { hold: Some(hold), ..self }
    }

    /// The same client, of whose requests somebody hears.
    pub fn observed(self, observer: Observer) -> Self {
        Self { observer, ..self }
    }

    /// Whether coderd is up: the first question, which decides whether somebody is there who answers as coderd does. It
    /// says nothing about its database.
    pub async fn healthz(&self) -> Result<(), Error> {
        let answer = self.call(Request::healthz()).await.and_then(|answer| answer.says("OK"));
        answer.map_err(|error| error.of_first_question(self.transport.scheme()))
    }

    /// Version and identity, and this client as coderd wants to be asked. One that redirects to its access URL
    /// (`CODER_REDIRECT_TO_ACCESS_URL`) is asked again, at the same place, by the name it redirected to. No token is sent.
    pub async fn introduced(self) -> (Self, Result<BuildInfo, Error>) {
        let answer = match self.call(Request::build_info()).await {
            Ok(answer) => answer,
            Err(error) => return (self, Err(error)),
        };
        let Some(host) = answer.access_host() else { return (self, answer.json()) };
        let named = Self { access_host: Some(host), ..self };
        let info = named.build_info().await;
        (named, info)
    }

    /// The host, with its port if it has one, by which alone coderd lets anybody in, if it redirected us there.
    pub fn access_host(&self) -> Option<&str> {
        self.access_host.as_ref()?.to_str().ok()
    }

    /// Version and identity. Needs no token and sends none.
    pub async fn build_info(&self) -> Result<BuildInfo, Error> {
        self.call(Request::build_info()).await.and_then(|answer| answer.json())
    }

    /// What coderd is licensed for. Needs no token and sends none.
    pub async fn entitlements(&self) -> Result<Entitlements, Error> {
        self.call(Request::entitlements()).await.and_then(|answer| answer.json())
    }

    /// Whom the token belongs to: the proof that it works.
    pub async fn me(&self) -> Result<Me, Error> {
        self.call(Request::me()).await.and_then(|answer| answer.json())
    }

    /// The licenses the token's user may see: for anybody but an owner, none.
    pub async fn licenses(&self) -> Result<Vec<License>, Error> {
        let mut all = Vec::new();
        self.each_license(&mut |license| all.push(license)).await?;
        Ok(all)
    }

    /// Whether coderd has a license with these claims. Whoever answers chooses how much there is in its licenses: none is kept.
    async fn find_license(&self, claims: &Claims) -> Result<Next, Error> {
        let mut found = Next::Upload;
        let mut compare = |license: License| {
            if found == Next::Upload {
                found = next(&[license], claims);
            }
        };
        self.each_license(&mut compare).await?;
        Ok(found)
    }

    async fn each_license(&self, each: &mut (dyn FnMut(License) + Send)) -> Result<(), Error> {
        let mut left = MOST_LICENSES;
        let mut reader = |object: &[u8]| {
            left = left.checked_sub(1).ok_or(Unlisted::TooLarge(MOST_LICENSES))?;
            if object.len() > LARGEST_LICENSE {
                return Err(Unlisted::TooLarge(LARGEST_LICENSE));
            }
            each(serde_json::from_slice(object).map_err(|_| Unlisted::Malformed)?);
            Ok(())
        };
        self.list(Request::licenses(), &mut reader).await
    }

    /// Uploads a license.
    pub async fn upload_license(&self, jwt: &Confidential<String>) -> Result<Upload, Error> {
        self.call(Request::upload_license(jwt)).await.and_then(|answer| answer.upload())
    }

    /// Makes sure that coderd has this license: lists, uploads if it is not there, and takes coderd's word for a
    /// duplicate only after listing again.
    pub async fn apply_license(&self, jwt: &Confidential<String>) -> Result<Applied, ApplyError> {
        let claims = Claims::of(jwt)?;
        if let Next::AlreadyThere { id } = self.find_license(&claims).await? {
            return Ok(Applied::AlreadyThere { id });
        }
        match self.upload_license(jwt).await? {
            Upload::Accepted(license) => Ok(Applied::Uploaded { id: license.id }),
            Upload::Duplicate => match self.find_license(&claims).await? {
                Next::AlreadyThere { id } => Ok(Applied::AlreadyThere { id }),
                Next::Upload => Err(answers::unlisted_duplicate().into()),
            },
        }
    }

    /// Deletes a token of the token's own user by its id, the half before the dash.
    pub async fn delete_token_by_id(&self, id: &str) -> Result<(), Error> {
        self.call(Request::delete_token(id)).await.and_then(|answer| answer.done())
    }

    async fn call(&self, request: Request) -> Result<Answer, Error> {
        self.call_reading(request, None).await
    }

    /// A call for a list, of which nothing is held but what the reader keeps.
    async fn list(&self, request: Request, reader: &mut Reader<'_>) -> Result<(), Error> {
        self.call_reading(request, Some(reader)).await.and_then(|answer| answer.done())
    }

    async fn call_reading(&self, request: Request, reader: Option<&mut Reader<'_>>) -> Result<Answer, Error> {
        let hold = self.hold.as_ref();
        if let Some(left) = hold.and_then(|hold| hold.left(Instant::now())) {
            return Err(Error::RateLimited { operation: request.operation, retry_after: left });
        }
        let observed = self.observer.begin(request.operation);
        let (token, host) = (self.token.as_ref(), self.access_host.as_ref());
        let answer = self.transport.send(request, token, host, reader).await;
        observed.end(&answer);
        let answer = answer?;
        if let (Some(hold), Some(wait)) = (hold, answer.asks_to_wait()) {
            hold.begin(Instant::now() + wait);
        }
        Ok(answer)
    }
}
