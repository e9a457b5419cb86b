//! STAND-IN for the calls for workspace proxies, until the real ones come. It asks nobody.

use super::{Client, Error};
use crate::coderd::error::Operation;
use crate::coderd::uuid::Uuid;
use crate::confidential::Confidential;
use jiff::Timestamp;

const SECRET: usize = 64;

/// How a proxy is, by coderd's own check: about once a minute, from each replica of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyHealth {
    /// In one word.
    pub status: ProxyStatus,
    /// What keeps it from being healthy, cleaned and cut.
    pub errors: Vec<String>,
    /// What should be seen to, cleaned and cut.
    pub warnings: Vec<String>,
}

/// coderd's word for how a proxy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProxyStatus {
    /// It answers, and has nothing to complain of.
    Ok,
    /// Nothing answers at its address.
    Unreachable,
    /// It answers with an error, or something else answers.
    Unhealthy,
    /// It never came to say what its address is.
    Unregistered,
    /// coderd has not looked yet, or says a word we do not know.
    #[default]
    Unknown,
}

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

const NOT_YET: Error = Error::RouteMissing { operation: Operation::Entitlements };

#[allow(missing_docs, clippy::unused_async, reason = "a stand-in")]
impl Client {
    pub async fn workspace_proxy(&self, _: &str) -> Result<Option<WorkspaceProxy>, Error> {
        Err(NOT_YET)
    }
    pub async fn workspace_proxy_by_id(&self, _: Uuid) -> Result<Option<WorkspaceProxy>, Error> {
        Err(NOT_YET)
    }
    pub async fn create_workspace_proxy(
        &self,
        _: &ProxyAppearance<'_>,
    ) -> Result<(WorkspaceProxy, Confidential<String>), Error> {
        Err(NOT_YET)
    }
    pub async fn update_workspace_proxy(
        &self,
        _: Uuid,
        _: &ProxyAppearance<'_>,
    ) -> Result<WorkspaceProxy, Error> {
        Err(NOT_YET)
    }
    pub async fn regenerate_proxy_token(
        &self,
        _: Uuid,
        _: &ProxyAppearance<'_>,
    ) -> Result<Confidential<String>, Error> {
        Err(NOT_YET)
    }
    pub async fn delete_workspace_proxy(&self, _: Uuid) -> Result<ProxyDeletion, Error> {
        Err(NOT_YET)
    }
    pub async fn is_proxy_token_valid(&self, _: &Confidential<String>) -> Result<bool, Error> {
        Err(NOT_YET)
    }
}
