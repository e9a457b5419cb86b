//! What a test sees of workspace proxies and does to them, in the stead of people and of the proxies themselves.
//! It never answers a request.

use super::*;

/// How a proxy is, in coderd's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyStatus {
    /// It answers.
    Ok,
    /// Nothing answers at its address.
    Unreachable,
    /// It answers with an error.
    Unhealthy,
    /// It has not come yet.
    Unregistered,
    /// coderd has not looked yet.
    Unknown,
}

impl ProxyStatus {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unreachable => "unreachable",
            Self::Unhealthy => "unhealthy",
            Self::Unregistered => "unregistered",
            Self::Unknown => "unknown",
        }
    }
}

/// A proxy as it exists in coderd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredProxy {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The name users see.
    pub display_name: String,
    /// The icon users see.
    pub icon: String,
    /// How often its token was replaced.
    pub regenerations: usize,
    /// The address that it came with, empty before it has come.
    pub url: String,
}

/// Why a proxy was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyRefused {
    /// No license covers proxies (403).
    NotLicensed,
    /// The token is no proxy's, or not its last (401).
    InvalidToken,
}

impl ServerState {
    fn living_proxy(&mut self, name: &str) -> &mut StoredProxy {
        let found = self.proxies.iter_mut().find(|proxy| !proxy.deleted && proxy.name == name);
        found.unwrap_or_else(|| panic!("the double has no workspace proxy {name:?}"))
    }
}

impl Coderd {
    /// Registers a proxy as somebody else would, in the UI say, and gives the token only that person would know.
    ///
    /// # Panics
    /// If coderd would refuse the name.
    pub fn add_workspace_proxy(&self, name: &str) -> String {
        let now = self.clock().now();
        let mut state = self.state();
        let refused =
            name.is_empty() || name.eq_ignore_ascii_case(PRIMARY) || state.proxy_name_is_taken(name, None);
        assert!(!refused, "coderd refuses the proxy name {name:?}");
        let (name, display_name) = (name.to_owned(), name.to_owned());
        let wish = Wish { name, display_name, icon: "/emojis/1f3e1.png".to_owned(), ..Wish::default() };
        state.insert_proxy(wish, now).token.0.clone()
    }

    /// Deletes a proxy as somebody else would.
    ///
    /// # Panics
    /// If there is no such proxy.
    pub fn remove_workspace_proxy(&self, name: &str) {
        self.state().living_proxy(name).deleted = true;
    }

    /// Replaces the token of a proxy as somebody else would.
    ///
    /// # Panics
    /// If there is no such proxy.
    pub fn replace_proxy_token(&self, name: &str) {
        let mut state = self.state();
        let proxy = state.living_proxy(name);
        (proxy.token, proxy.hashed_secret) = new_token(proxy.id);
    }

    /// Changes how a proxy appears as somebody else would.
    ///
    /// # Panics
    /// If there is no such proxy.
    pub fn rename_workspace_proxy(&self, name: &str, new_name: &str, display_name: &str) {
        let mut state = self.state();
        let proxy = state.living_proxy(name);
        (proxy.name, proxy.display_name) = (new_name.to_owned(), display_name.to_owned());
    }

    /// The proxies that exist, oldest first, without the control plane and without the deleted.
    pub fn workspace_proxies(&self) -> Vec<RegisteredProxy> {
        let known = |proxy: &StoredProxy| RegisteredProxy {
            id: proxy.id,
            name: proxy.name.clone(),
            display_name: proxy.display_name.clone(),
            icon: proxy.icon.clone(),
            regenerations: proxy.regenerations,
            url: proxy.url.clone(),
        };
        self.state().proxies.iter().filter(|proxy| !proxy.deleted).map(known).collect()
    }

    /// The token of a proxy now, as whoever made it or replaced it was shown. For what a test asserts, never for what it does
    /// in a client's stead.
    pub fn token_of_proxy(&self, name: &str) -> Option<String> {
        let state = self.state();
        let found = state.proxies.iter().find(|proxy| !proxy.deleted && proxy.name == name);
        found.map(|proxy| proxy.token.0.clone())
    }

    /// The id of the proxy that a token still opens the door for.
    pub fn proxy_proven_by(&self, token: &str) -> Option<Uuid> {
        self.state().proxy_by_token(token).ok()
    }

    /// Lets a proxy come, as its process does at its start: it says where it is and which version, and is healthy then.
    pub fn proxy_comes(&self, token: &str, url: &str) -> Result<Uuid, ProxyRefused> {
        let now = self.clock().now();
        let mut state = self.state();
        if state.entitlements.require(WORKSPACE_PROXY).is_err() {
            return Err(ProxyRefused::NotLicensed);
        }
        let id = state.proxy_by_token(token).map_err(|_| ProxyRefused::InvalidToken)?;
        let version = state.version.clone();
        for proxy in state.proxies.iter_mut().filter(|proxy| proxy.id == id) {
            (proxy.url, proxy.version) = (url.to_owned(), version.clone());
            proxy.health = Health::of(ProxyStatus::Ok, now);
        }
        Ok(id)
    }

    /// Sets what coderd found when it last looked at a proxy.
    ///
    /// # Panics
    /// If there is no such proxy.
    pub fn set_proxy_health(&self, name: &str, status: ProxyStatus, errors: &[&str], warnings: &[&str]) {
        let checked_at = self.clock().now();
        let texts = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        let health = Health { status, errors: texts(errors), warnings: texts(warnings), checked_at };
        self.state().living_proxy(name).health = health;
    }
}
