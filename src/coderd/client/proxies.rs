//! The calls for workspace proxies: registered with a token that is shown once, looked at, changed and removed by id.
//! It never keeps a proxy's token, never sends one in a URL, and never decides which proxy is whose.

mod in_list;

use super::answers::{Answer, time};
use super::proxy_health::ProxyHealth;
use super::requests::Request;
use super::short_text::{kept, said};
use super::{Client, Error};
use crate::coderd::error::Operation;
use crate::coderd::uuid::Uuid;
use crate::confidential::Confidential;
use http::StatusCode;
use in_list::{Wanted, Wrapped};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// coderd's words for a token that is no proxy's, or that of a deleted one, or not the last one.
const INVALID_TOKEN: &str = "Invalid external proxy token";
/// coderd's words for the deletion of the control plane itself, which it lists as a proxy.
const PRIMARY: &str = "Cannot delete primary proxy";
/// The index that holds names apart, in any case; the handler that changes a proxy answers a clash with a 500.
const NAMES_APART: &str = "workspace_proxies_lower_name_idx";
/// Characters behind the id in a token, which are letters and digits.
const SECRET: usize = 64;

/// A workspace proxy as coderd knows it. Name, display name and icon are as they are, so that they can be compared: whoever
/// shows them to people cleans them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceProxy {
    /// Its id.
    pub id: Uuid,
    /// Its name: coderd looks for it as it is written, and takes none that differs in case alone.
    pub name: String,
    /// The name users see.
    pub display_name: String,
    /// The icon users see.
    pub icon: String,
    /// When it was registered.
    pub created_at: Timestamp,
    /// How it is.
    pub health: ProxyHealth,
    /// The version it came with, cleaned and cut; none before it came.
    pub version: Option<String>,
    /// The address it came with, cleaned and cut; none before it came.
    pub access_url: Option<String>,
}

/// How a proxy shall appear. coderd makes one with nothing but a name, and then changes none of which anything is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyAppearance<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name users see.
    pub display_name: &'a str,
    /// The icon users see.
    pub icon: &'a str,
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyDeletion {
    /// It is gone now; coderd says the same of one that was deleted before.
    Deleted,
    /// This coderd never had it.
    NotThere,
    /// It is the control plane itself.
    Impossible,
}

/// The proxy that a token is for, if it has the form of one: whether coderd accepts it is another question.
pub fn proxy_id_of_token(token: &Confidential<String>) -> Option<Uuid> {
    let (id, secret) = token.expose().split_once(':')?;
    let is_secret = secret.len() == SECRET && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_secret { id.parse().ok() } else { None }
}

impl Client {
    /// The proxy of exactly this name. [`Error::NotFoundOrForbidden`] for a name that coderd cannot be asked for.
    pub async fn workspace_proxy(&self, name: &str) -> Result<Option<WorkspaceProxy>, Error> {
        let nowhere = Error::NotFoundOrForbidden { operation: Operation::WorkspaceProxy };
        let answer = self.call(Request::workspace_proxy(name).ok_or(nowhere)?).await?;
        // A name with the form of an id finds the proxy that has the id.
        Ok(answer.found_proxy()?.filter(|proxy| proxy.name == name))
    }

    /// The proxy that has this name in any case: coderd takes no second one, and finds a name only as it is written. The control
    /// plane itself is among those that it is looked for in.
    pub async fn workspace_proxy_in_any_case(&self, name: &str) -> Result<Option<WorkspaceProxy>, Error> {
        self.call(Request::workspace_proxies()).await?.json_with(Wrapped { wanted: Wanted::Named(name) })
    }

    /// The proxy of this id, unless it is gone: a 404 for an id need not be coderd's own, and coderd answers it to whoever may not
    /// look, so that one is gone only if the list of all of them does not have it either.
    pub async fn workspace_proxy_unless_gone(&self, id: Uuid) -> Result<Option<WorkspaceProxy>, Error> {
        match self.workspace_proxy_by_id(id).await? {
            None => self.listed_workspace_proxy(id).await,
            found => Ok(found),
        }
    }

    /// The proxy that the list of all of them has under this id, whatever its name is there.
    async fn listed_workspace_proxy(&self, id: Uuid) -> Result<Option<WorkspaceProxy>, Error> {
        self.call(Request::workspace_proxies()).await?.json_with(Wrapped { wanted: Wanted::Of(id) })
    }

    /// The proxy of this id, whatever its name is now, unless it was deleted.
    pub async fn workspace_proxy_by_id(&self, id: Uuid) -> Result<Option<WorkspaceProxy>, Error> {
        let found = self.call(Request::workspace_proxy_by_id(id)).await.and_then(Answer::found_proxy)?;
        match found {
            Some(other) if other.id != id => Err(Error::Malformed { operation: Operation::WorkspaceProxy }),
            found => Ok(found),
        }
    }

    /// Registers a proxy and gives its token, which coderd never shows again: an error after the request was sent may hide a
    /// proxy that was made. [`Error::Conflict`] if the name is taken, in any case; [`Error::Invalid`] if coderd refuses it;
    /// [`Error::NotLicensed`] without the license.
    pub async fn create_workspace_proxy(
        &self,
        proxy: &ProxyAppearance<'_>,
    ) -> Result<(WorkspaceProxy, Confidential<String>), Error> {
        let answer = self.call(Request::create_workspace_proxy(proxy)).await?;
        answer.shown_once(|body| {
            let (proxy, token) = Changed::read(body)?;
            Some((proxy.unless_deleted()?, token?))
        })
    }

    /// Changes how a proxy appears; its token stays. [`Error::Conflict`] if another has the name, in any case.
    pub async fn update_workspace_proxy(
        &self,
        id: Uuid,
        proxy: &ProxyAppearance<'_>,
    ) -> Result<WorkspaceProxy, Error> {
        self.call(Request::update_workspace_proxy(id, proxy)).await?.changed_proxy(id).map(|(proxy, _)| proxy)
    }

    /// Gives a proxy another token: the one it has ends at once. An error after the request was sent may hide that it has.
    pub async fn regenerate_proxy_token(
        &self,
        id: Uuid,
        proxy: &ProxyAppearance<'_>,
    ) -> Result<Confidential<String>, Error> {
        let operation = Operation::RegenerateProxyToken;
        let (_, token) = self.call(Request::regenerate_proxy_token(id, proxy)).await?.changed_proxy(id)?;
        token.ok_or(Error::Malformed { operation })
    }

    /// Removes a proxy by its id. coderd answers 404 also to those who may read the proxy and no more, so that it is looked
    /// for once more then: [`Error::Forbidden`] if it is still there.
    pub async fn delete_workspace_proxy(&self, id: Uuid) -> Result<ProxyDeletion, Error> {
        let deleted = self.call(Request::delete_workspace_proxy(id)).await.and_then(Answer::proxy_deletion);
        if deleted != Ok(ProxyDeletion::NotThere) || self.workspace_proxy_unless_gone(id).await?.is_none() {
            return deleted;
        }
        Err(Error::Forbidden { operation: Operation::DeleteWorkspaceProxy })
    }

    /// Whether coderd lets a proxy in with this token, by a question without effect. Needs neither license nor the client's
    /// own token, which is not sent. A text that is no token is not sent either.
    pub async fn is_proxy_token_valid(&self, token: &Confidential<String>) -> Result<bool, Error> {
        if proxy_id_of_token(token).is_none() {
            return Ok(false);
        }
        self.call(Request::verify_proxy_token(token)).await.and_then(Answer::verified_token)
    }
}

/// A proxy on the wire. coderd shows one by its id also after it was deleted.
#[derive(Deserialize)]
struct Shown {
    id: Uuid,
    #[serde(deserialize_with = "kept")]
    name: String,
    #[serde(default, deserialize_with = "kept")]
    display_name: String,
    #[serde(default, rename = "icon_url", deserialize_with = "kept")]
    icon: String,
    #[serde(deserialize_with = "time")]
    created_at: Timestamp,
    #[serde(default, rename = "status")]
    health: ProxyHealth,
    #[serde(default, deserialize_with = "said")]
    version: Option<String>,
    #[serde(default, rename = "path_app_url", deserialize_with = "said")]
    access_url: Option<String>,
    #[serde(default)]
    deleted: bool,
}

impl Shown {
    fn unless_deleted(self) -> Option<WorkspaceProxy> {
        let Self { id, name, display_name, icon, created_at, health, version, access_url, deleted } = self;
        let proxy = WorkspaceProxy { id, name, display_name, icon, created_at, health, version, access_url };
        (!deleted).then_some(proxy)
    }
}

/// A proxy that was made or changed, and its token if it has a new one.
#[derive(Deserialize)]
struct Changed<'a> {
    proxy: Shown,
    #[serde(default)]
    proxy_token: Option<&'a str>,
}

impl Changed<'_> {
    /// None for what is no answer. A token is one only of the proxy that it comes with: whoever answers chooses what we put
    /// into a Secret.
    fn read(body: &[u8]) -> Option<(Shown, Option<Confidential<String>>)> {
        let Changed { proxy, proxy_token } = serde_json::from_slice(body).ok()?;
        let Some(token) = proxy_token.filter(|token| !token.is_empty()) else { return Some((proxy, None)) };
        let token = Confidential::new(token.to_owned());
        (proxy_id_of_token(&token) == Some(proxy.id)).then_some((proxy, Some(token)))
    }
}

impl Answer {
    /// The proxy that was asked for; none if it is not there any more, or never was.
    fn found_proxy(self) -> Result<Option<WorkspaceProxy>, Error> {
        match self.json::<Shown>() {
            Ok(shown) => Ok(shown.unless_deleted()),
            Err(Error::NotFoundOrForbidden { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The proxy of this id as it is now, and its token if it has a new one.
    fn changed_proxy(self, id: Uuid) -> Result<(WorkspaceProxy, Option<Confidential<String>>), Error> {
        let operation = self.operation;
        if self.status == StatusCode::INTERNAL_SERVER_ERROR && self.said().detail.contains(NAMES_APART) {
            return Err(Error::Conflict { operation });
        }
        let (proxy, token) =
            self.shown_once(|body| Changed::read(body).filter(|(proxy, _)| proxy.id == id))?;
        // coderd changes a deleted one as well, which is of no use to anybody.
        Ok((proxy.unless_deleted().ok_or(Error::NotFoundOrForbidden { operation })?, token))
    }

    fn proxy_deletion(self) -> Result<ProxyDeletion, Error> {
        if self.status.is_success() {
            return Ok(ProxyDeletion::Deleted);
        }
        if self.status == StatusCode::BAD_REQUEST && self.said().message == PRIMARY {
            return Ok(ProxyDeletion::Impossible);
        }
        match self.refusal() {
            Error::NotFoundOrForbidden { .. } => Ok(ProxyDeletion::NotThere),
            other => Err(other),
        }
    }

    /// Only coderd's own words mean that a token is invalid, and only what it tells proxies that it is valid.
    fn verified_token(self) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Connection {
            #[serde(rename = "derp_map")]
            _relays: IgnoredAny,
        }
        if self.status == StatusCode::UNAUTHORIZED && self.said().message == INVALID_TOKEN {
            return Ok(false);
        }
        self.json::<Connection>().map(|_| true)
    }
}

#[cfg(test)]
mod tests;
