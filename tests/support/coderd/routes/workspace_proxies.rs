//! Workspace proxies: registered with a token shown once, looked up by id or name, changed, deleted softly, and let in by
//! their own token.
//! It proves a token by the hash of its secret; the token itself is kept for the test alone and never printed.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::routes::entitlements::WORKSPACE_PROXY;
use crate::coderd::secrets::{self, Plaintext};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

mod control;

pub use control::{ProxyRefused, ProxyStatus, RegisteredProxy};

pub(in crate::coderd) const PROXY_TOKEN_HEADER: &str = "coder-external-proxy-token";
const SECRET_LENGTH: usize = 64;
/// The control plane itself, which coderd lists as the first of its proxies.
const PRIMARY: &str = "primary";

#[derive(Clone, Debug)]
pub(in crate::coderd) struct StoredProxy {
    id: Uuid,
    name: String,
    display_name: String,
    icon: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Proxies are deleted softly: by its id a deleted one is still found.
    deleted: bool,
    hashed_secret: Vec<u8>,
    token: Plaintext,
    regenerations: usize,
    /// What the proxy itself said when it came.
    url: String,
    version: String,
    derp_only: bool,
    health: Health,
}

/// What coderd keeps in memory of its last look at a proxy.
#[derive(Clone, Debug)]
struct Health {
    status: ProxyStatus,
    errors: Vec<String>,
    warnings: Vec<String>,
    checked_at: Timestamp,
}

impl StoredProxy {
    fn shown(&self) -> Value {
        // coderd forgets the health of what is deleted.
        let forgotten = Health::of(ProxyStatus::Unknown, Timestamp::GO_ZERO);
        let health = if self.deleted { &forgotten } else { &self.health };
        json!({
            "id": self.id.to_string(),
            "name": self.name,
            "display_name": self.display_name,
            "icon_url": self.icon,
            "healthy": health.status == ProxyStatus::Ok,
            "path_app_url": self.url,
            "wildcard_hostname": "",
            "derp_enabled": true,
            "derp_only": self.derp_only,
            "status": {
                "status": health.status.word(),
                "report": { "errors": health.errors, "warnings": health.warnings },
                "checked_at": health.checked_at.rfc3339(),
            },
            "created_at": self.created_at.rfc3339(),
            "updated_at": self.updated_at.rfc3339(),
            "deleted": self.deleted,
            "version": self.version,
        })
    }
}

impl Health {
    fn of(status: ProxyStatus, checked_at: Timestamp) -> Self {
        Self { status, errors: Vec::new(), warnings: Vec::new(), checked_at }
    }
}

/// A new token of a proxy with the hash that coderd keeps.
fn new_token(id: Uuid) -> (Plaintext, Vec<u8>) {
    let secret = secrets::random_string(SECRET_LENGTH);
    (Plaintext(format!("{id}:{secret}")), secrets::hash(&secret))
}

/// The words of coderd for a token that opens nothing, and its detail if it has one.
fn invalid(detail: &str) -> Reply {
    let text = "Invalid external proxy token";
    match detail {
        "" => Reply::error(StatusCode::UNAUTHORIZED, text),
        detail => Reply::detailed(StatusCode::UNAUTHORIZED, text, detail),
    }
}

fn missing() -> Reply {
    Reply::error(StatusCode::UNAUTHORIZED, "Missing required external proxy token")
}

impl ServerState {
    /// The proxy that a token opens the door for, or why it does not.
    pub(in crate::coderd) fn proxy_by_token(&self, token: &str) -> Result<Uuid, Reply> {
        let parts: Vec<&str> = token.split(':').collect();
        let [id, secret] = parts[..] else { return Err(invalid("")) };
        let id = Uuid::parse(id).filter(|_| secret.len() == SECRET_LENGTH).ok_or_else(|| invalid(""))?;
        let found = self.proxies.iter().find(|proxy| proxy.id == id);
        let proxy = found.ok_or_else(|| invalid("Proxy not found."))?;
        if proxy.deleted {
            return Err(invalid("Proxy has been deleted."));
        }
        if proxy.hashed_secret != secrets::hash(secret) {
            return Err(invalid("Invalid proxy token secret."));
        }
        Ok(id)
    }

    /// The control plane as a proxy, made up for each answer.
    fn primary_proxy(&self, now: Timestamp) -> Value {
        let health = Health::of(ProxyStatus::Ok, now);
        let primary = StoredProxy {
            id: self.deployment_id,
            name: PRIMARY.to_owned(),
            display_name: "Default".to_owned(),
            icon: "/emojis/1f3e1.png".to_owned(),
            created_at: now,
            updated_at: now,
            deleted: false,
            hashed_secret: Vec::new(),
            token: Plaintext::default(),
            regenerations: 0,
            url: self.url.clone(),
            version: String::new(),
            derp_only: false,
            health,
        };
        let mut shown = primary.shown();
        shown["derp_enabled"] = json!(false);
        shown
    }

    /// Whether another living proxy has the name, in any case.
    fn proxy_name_is_taken(&self, name: &str, by_other_than: Option<Uuid>) -> bool {
        let name = name.to_lowercase();
        let mut living = self.proxies.iter().filter(|proxy| !proxy.deleted);
        living.any(|proxy| proxy.name.to_lowercase() == name && Some(proxy.id) != by_other_than)
    }

    /// Stores a proxy, which is checked at once and has no address yet.
    fn insert_proxy(&mut self, wish: Wish, now: Timestamp) -> &StoredProxy {
        let id = Uuid::random();
        let (token, hashed_secret) = new_token(id);
        self.proxies.push(StoredProxy {
            id,
            name: wish.name,
            display_name: wish.display_name,
            icon: wish.icon,
            created_at: now,
            updated_at: now,
            deleted: false,
            hashed_secret,
            token,
            regenerations: 0,
            url: String::new(),
            version: String::new(),
            derp_only: false,
            health: Health::of(ProxyStatus::Unregistered, now),
        });
        &self.proxies[self.proxies.len() - 1]
    }
}

/// Which proxy a path means.
enum Meant {
    /// The control plane.
    Primary,
    /// One of the list.
    Proxy(usize),
}

/// By id a deleted one is meant too; by name, which counts as it is written, only a living one.
fn meant(state: &ServerState, inbound: &Inbound) -> Result<Meant, Reply> {
    let word = inbound.param("proxy");
    if word == "me" {
        // Which is another place, for proxies alone.
        return Err(missing());
    }
    if word == PRIMARY || word == state.deployment_id.to_string() {
        return Ok(Meant::Primary);
    }
    let position = match Uuid::parse(word) {
        Some(id) => state.proxies.iter().position(|proxy| proxy.id == id),
        None => state.proxies.iter().position(|proxy| proxy.name == word && !proxy.deleted),
    };
    position.map(Meant::Proxy).ok_or_else(Reply::not_found)
}

/// The body of a create or a change; coderd's decoder ignores what it does not know.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wish {
    id: String,
    name: String,
    display_name: String,
    icon: String,
    regenerate_token: bool,
}

impl Wish {
    fn read(inbound: &Inbound) -> Result<Self, Reply> {
        serde_json::from_slice(&inbound.body).map_err(|problem| Reply::not_json(&inbound.body, &problem))
    }

    /// A 400 that names each empty field of those that must not be.
    fn check(&self, required: &[&str]) -> Result<(), Reply> {
        let is_empty = |field: &str| match field {
            "id" => Uuid::parse(&self.id).is_none_or(|id| id == Uuid::NIL),
            "name" => self.name.is_empty(),
            "display_name" => self.display_name.is_empty(),
            _ => self.icon.is_empty(),
        };
        let shown = |field: &str| if field == "id" { Uuid::NIL.to_string() } else { String::new() };
        let problems: Vec<(String, String)> = required
            .iter()
            .filter(|field| is_empty(field))
            .map(|field| {
                let text = format!("Validation failed for tag \"required\" with value: \"{}\"", shown(field));
                ((*field).to_owned(), text)
            })
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(Reply::invalid("Validation failed.", &problems)) }
    }
}

fn internal(detail: &str) -> Reply {
    Reply::detailed(StatusCode::INTERNAL_SERVER_ERROR, "An internal server error occurred.", detail)
}

pub(in crate::coderd) fn create(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let wish = Wish::read(inbound)?;
    wish.check(&["name"])?;
    if wish.name.eq_ignore_ascii_case(PRIMARY) {
        let text = "The name \"primary\" is reserved for the primary region.";
        let detail = "Cannot name a workspace proxy 'primary'.";
        let validations = json!([{ "field": "name", "detail": "Reserved name" }]);
        let body = json!({ "message": text, "detail": detail, "validations": validations });
        return Err(Reply::json(StatusCode::BAD_REQUEST, &body));
    }
    if !inbound.caller().is_owner() {
        return Err(internal("unauthorized: rbac: forbidden"));
    }
    if state.proxy_name_is_taken(&wish.name, None) {
        let text = format!("Workspace proxy with name {:?} already exists.", wish.name);
        return Err(Reply::error(StatusCode::CONFLICT, &text));
    }
    let made = state.insert_proxy(wish, inbound.now);
    let body = json!({ "proxy": made.shown(), "proxy_token": made.token.0 });
    Ok(Reply::json(StatusCode::CREATED, &body))
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let living = state.proxies.iter().filter(|proxy| !proxy.deleted).map(StoredProxy::shown);
    let regions: Vec<Value> = [state.primary_proxy(inbound.now)].into_iter().chain(living).collect();
    Ok(Reply::json(StatusCode::OK, &json!({ "regions": regions })))
}

/// Every user sees every proxy.
pub(in crate::coderd) fn show(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let shown = match meant(state, inbound)? {
        Meant::Primary => state.primary_proxy(inbound.now),
        Meant::Proxy(at) => state.proxies[at].shown(),
    };
    Ok(Reply::json(StatusCode::OK, &shown))
}

pub(in crate::coderd) fn change(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let meant = meant(state, inbound)?;
    let wish = Wish::read(inbound)?;
    wish.check(&["id", "name", "display_name", "icon"])?;
    let at = match meant {
        Meant::Proxy(at) => at,
        Meant::Primary => return Err(primary_stays(&wish)),
    };
    if !inbound.caller().is_owner() {
        return Err(Reply::not_found());
    }
    let (id, deleted) = (state.proxies[at].id, state.proxies[at].deleted);
    if !deleted && state.proxy_name_is_taken(&wish.name, Some(id)) {
        let constraint = "workspace_proxies_lower_name_idx";
        let text = format!("pq: duplicate key value violates unique constraint \"{constraint}\"");
        return Err(internal(&text));
    }
    let proxy = &mut state.proxies[at];
    (proxy.name, proxy.display_name, proxy.icon) = (wish.name, wish.display_name, wish.icon);
    proxy.updated_at = inbound.now;
    let mut told = String::new();
    if wish.regenerate_token {
        (proxy.token, proxy.hashed_secret) = new_token(id);
        proxy.regenerations += 1;
        told.clone_from(&proxy.token.0);
    }
    Ok(Reply::json(StatusCode::OK, &json!({ "proxy": proxy.shown(), "proxy_token": told })))
}

/// coderd would change the display name and the icon of the control plane; no client of ours means to.
fn primary_stays(wish: &Wish) -> Reply {
    assert_ne!(wish.name, PRIMARY, "the double does not change how the control plane appears");
    let text = "Cannot update name of default primary proxy, did you mean to update the 'display name'?";
    let problem = ("name".to_owned(), "Cannot update name of default primary proxy".to_owned());
    Reply::invalid(text, &[problem])
}

pub(in crate::coderd) fn delete(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let at = match meant(state, inbound)? {
        Meant::Proxy(at) => at,
        Meant::Primary => return Err(Reply::error(StatusCode::BAD_REQUEST, "Cannot delete primary proxy")),
    };
    if !inbound.caller().is_owner() {
        return Err(Reply::not_found());
    }
    let proxy = &mut state.proxies[at];
    (proxy.deleted, proxy.updated_at) = (true, inbound.now);
    Ok(Reply::json(StatusCode::OK, &json!({ "message": "Proxy has been deleted!" })))
}

/// How agents are reached, as coderd tells every proxy, licensed or not.
pub(in crate::coderd) fn agent_connection(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let presented = inbound.headers.get(PROXY_TOKEN_HEADER).and_then(|value| value.to_str().ok());
    let Some(token) = presented.filter(|token| !token.is_empty()) else {
        let text = "API key or external proxy authentication required, but none provided";
        return Err(Reply::error(StatusCode::UNAUTHORIZED, text));
    };
    state.proxy_by_token(token)?;
    let port: Option<u16> = state.url.rsplit(':').next().and_then(|port| port.parse().ok());
    let node = json!({ "Name": "999b", "RegionID": 999, "HostName": "127.0.0.1", "STUNPort": -1, "DERPPort": port,
        "ForceHTTP": true });
    let relay = json!({ "EmbeddedRelay": true, "RegionID": 999, "RegionCode": "coder",
        "RegionName": "Coder Embedded Relay", "Nodes": [node] });
    let body = json!({ "derp_map": { "Regions": { "999": relay } }, "derp_force_websockets": false,
        "disable_direct_connections": false, "hostname_suffix": "coder" });
    Ok(Reply::json(StatusCode::OK, &body))
}
