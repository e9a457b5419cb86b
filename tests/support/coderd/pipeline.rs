//! The journey of one request: recorded, judged, struck by a planned fault, limited, authenticated, handled.
//! It never holds the state's lock while it waits.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;

use super::clock::Timestamp;
use super::faults::Kind;
use super::identity::{Rejected, SESSION_HEADER, User};
use super::record::{Call, Credential, Entry, Outcome};
use super::reply::Reply;
use super::route::{self, Found, Route, Wanted};
use super::routes;
use super::routes::provisioner_keys::DAEMON_KEY_HEADER;
use super::routes::workspace_proxies::PROXY_TOKEN_HEADER;
use super::server::Shared;
use super::state::{Build, ServerState};
use super::strictness::{self, Violation};
use super::tls::OverTls;

/// More than coderd itself takes, so that its own limit can be played.
const LARGEST_BODY: usize = 128 << 20;
const SHORTEST_SECRET: usize = 20;
const REDACTED: &str = "<redacted>";

/// A request with its body read.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) method: String,
    pub(super) path: String,
    /// Path and query as sent.
    pub(super) raw_target: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) json: Option<Value>,
    pub(super) now: Timestamp,
    pub(super) over_tls: bool,
    params: Vec<(&'static str, String)>,
    caller: Option<User>,
}

impl Inbound {
    async fn read(request: Request, now: Timestamp) -> Self {
        let (head, body) = request.into_parts();
        let body = to_bytes(body, LARGEST_BODY).await.unwrap_or_default();
        Self {
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            raw_target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            query: query_pairs(head.uri.query().unwrap_or_default()),
            json: serde_json::from_slice(&body).ok(),
            headers: head.headers,
            body,
            now,
            over_tls: head.extensions.get::<OverTls>().is_some(),
            params: Vec::new(),
            caller: None,
        }
    }

    /// The value of a placeholder of the route's path.
    pub(super) fn param(&self, name: &str) -> &str {
        let value = self.params.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| value.as_str()).expect("handlers ask for placeholders of their own route")
    }

    /// The authenticated user; routes that want a session have one.
    pub(super) fn caller(&self) -> &User {
        self.caller.as_ref().expect("the route wants a session")
    }

    /// The credentials sent in their headers, to be searched for where they must not be. Short garbage is left out:
    /// it would be found by chance.
    pub(super) fn presented_secrets(&self) -> impl Iterator<Item = &str> {
        let headers = [SESSION_HEADER, DAEMON_KEY_HEADER, PROXY_TOKEN_HEADER].into_iter();
        let values = headers.filter_map(|name| self.headers.get(name)?.to_str().ok());
        values.filter(|value| value.len() >= SHORTEST_SECRET)
    }

    /// The URL of the server as the client wrote it.
    fn asked_at(&self) -> String {
        let host = self.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        format!("{}://{}", if self.over_tls { "https" } else { "http" }, host.unwrap_or_default())
    }

    fn redacted_target(&self) -> String {
        let query =
            self.query.iter().filter(|(name, _)| name.contains("token")).map(|(_, value)| value.as_str());
        let secrets = self.presented_secrets().chain(query).filter(|value| !value.is_empty());
        secrets.fold(self.raw_target.clone(), |target, secret| target.replace(secret, REDACTED))
    }
}

/// What the client gets to see.
enum Delivery {
    Whole(Reply),
    Half(Reply),
    Nothing,
}

/// Marks a response the server must swallow, cutting the connection instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutConnection;

/// Answers one request.
pub(super) async fn receive(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let mut inbound = Inbound::read(request, shared.clock.now()).await;
    let found = route::find(routes::TABLE, &inbound.method, &inbound.path);
    let route = match &found {
        Found::Route(route, params) => {
            inbound.params.clone_from(params);
            Some(*route)
        }
        Found::WrongMethod { .. } | Found::Nothing => None,
    };
    let entry = record(&shared, route, &inbound);
    let delivery = perform(&shared, &found, &mut inbound, &entry).await;
    respond(delivery, &entry, &shared.state().version)
}

fn record(shared: &Shared, route: Option<&Route>, inbound: &Inbound) -> Entry {
    let path = inbound.redacted_target();
    let request = format!("{} {path}", inbound.method);
    let mutating = inbound.method != "GET";
    let entry = shared.ledger.open(Call {
        index: 0,
        route: route.map_or_else(|| "unknown route".to_owned(), Route::name),
        method: inbound.method.clone(),
        path,
        credential: credential(&shared.state(), inbound),
        at: inbound.now,
        body: inbound.json.as_ref().filter(|_| mutating).map(|body| redacted(body, route)),
        outcome: Outcome::InFlight,
        processed: false,
    });
    for problem in strictness::problems(route, inbound) {
        shared.violations.add(Violation { call: entry.index, request: request.clone(), problem });
    }
    entry
}

fn credential(state: &ServerState, inbound: &Inbound) -> Credential {
    if let Some(plaintext) = inbound.headers.get(DAEMON_KEY_HEADER) {
        let key = plaintext.to_str().ok().and_then(|plaintext| state.key_by_plaintext(plaintext));
        return key.map_or(Credential::UnknownProvisionerKey, |key| Credential::ProvisionerKey(key.id));
    }
    if let Some(token) = inbound.headers.get(PROXY_TOKEN_HEADER) {
        let proxy = token.to_str().ok().and_then(|token| state.proxy_by_token(token).ok());
        return proxy.map_or(Credential::RefusedProxyToken, Credential::WorkspaceProxy);
    }
    if !inbound.headers.contains_key(SESSION_HEADER) {
        return Credential::None;
    }
    match state.authenticate(&inbound.headers, inbound.now) {
        Ok(user) => Credential::User(user.username),
        Err(_) => Credential::RefusedToken,
    }
}

/// The body with the route's secret fields replaced; the body of an unknown route may hold anything.
fn redacted(body: &Value, route: Option<&Route>) -> Value {
    let Some(route) = route else { return Value::from(REDACTED) };
    let mut body = body.clone();
    for field in route.secret_fields {
        if let Some(value) = body.get_mut(*field) {
            *value = Value::from(REDACTED);
        }
    }
    body
}

async fn perform(shared: &Shared, found: &Found, inbound: &mut Inbound, entry: &Entry) -> Delivery {
    let name = match found {
        Found::Route(route, _) => route.name(),
        Found::WrongMethod { .. } | Found::Nothing => String::new(),
    };
    let mut process = || {
        entry.processed();
        let reply = process(shared, found, inbound);
        let request = format!("{} {}", inbound.method, inbound.redacted_target());
        for problem in shared.objections() {
            shared.violations.add(Violation { call: entry.index, request: request.clone(), problem });
        }
        reply
    };
    let Some(plan) = shared.faults.strike(&name) else { return Delivery::Whole(process()) };
    match &plan.fault.0 {
        Kind::Answer(reply) => Delivery::Whole(reply.clone()),
        Kind::AnswerAfterProcessing(reply) => {
            process();
            Delivery::Whole(reply.clone())
        }
        Kind::HoldBefore(bound) => {
            plan.hold(*bound).await;
            Delivery::Whole(process())
        }
        Kind::HoldAfter(bound) => {
            let reply = process();
            plan.hold(*bound).await;
            Delivery::Whole(reply)
        }
        Kind::CutBefore => Delivery::Nothing,
        Kind::ResponseLost => {
            process();
            Delivery::Nothing
        }
        Kind::MalformedJson => Delivery::Whole(Reply { body: b"{\"malformed\": ".to_vec(), ..process() }),
        Kind::HalfBody => Delivery::Half(process()),
    }
}

/// What coderd itself would answer, with the effects it would have.
fn process(shared: &Shared, found: &Found, inbound: &mut Inbound) -> Reply {
    let mut state = shared.state();
    // A held call is judged by the time it is let through, as one that was slow on the wire.
    inbound.now = shared.clock.now();
    if let Some(elsewhere) = state.redirect.as_ref().and_then(|access_url| access_url.redirect(inbound)) {
        return elsewhere;
    }
    let caller = state.authenticate(&inbound.headers, inbound.now);
    if let Ok(user) = &caller {
        state.wake(user);
    }
    let under_api = inbound.path.starts_with("/api/v2");
    let mut limit_headers = Vec::new();
    if under_api {
        let path = route::decode(&inbound.path);
        match shared.limiter().admit(caller.as_ref().ok(), &inbound.headers, &path, inbound.now) {
            Ok(headers) => limit_headers = headers,
            Err(refusal) => return refusal,
        }
    }
    let mut reply = match found {
        Found::Route(route, _) if route.premium && state.build == Build::Agpl => {
            missing_in_agpl(&state, inbound, caller)
        }
        Found::Route(Route { feature: Some(feature), .. }, _) if !state.entitlements.enabled(feature) => {
            state.entitlements.require(feature).err().unwrap_or_else(Reply::not_found)
        }
        Found::Route(route, _) => match (route.wanted, caller) {
            // The enterprise half does not know the access URL there, and takes the place it was asked at.
            (Wanted::Session, Err(rejected)) if route.premium => rejected.reply(&inbound.asked_at()),
            (Wanted::Session, Err(rejected)) => rejected.reply(&state.url),
            (_, caller) => {
                inbound.caller = caller.ok();
                (route.handle)(&mut state, inbound).unwrap_or_else(|refusal| refusal)
            }
        },
        Found::WrongMethod { premium: true } if state.build == Build::Agpl => Reply::route_not_found(),
        Found::WrongMethod { .. } => Reply::empty(StatusCode::METHOD_NOT_ALLOWED),
        Found::Nothing if under_api => Reply::route_not_found(),
        Found::Nothing => Reply::empty(StatusCode::NOT_FOUND),
    };
    reply.headers.extend(limit_headers);
    reply
}

/// A route of the enterprise build in the open-source one. Below an organisation coderd looks at caller and organisation
/// before it finds that the rest of the path leads nowhere.
fn missing_in_agpl(state: &ServerState, inbound: &Inbound, caller: Result<User, Rejected>) -> Reply {
    let organization = inbound.params.iter().find(|(name, _)| *name == "org");
    match (organization, caller) {
        (None, _) => Reply::route_not_found(),
        (Some(_), Err(rejected)) => rejected.reply(&state.url),
        (Some((_, word)), Ok(user)) => match state.readable_organization(&user, word) {
            Ok(_) => Reply::route_not_found(),
            Err(refusal) => refusal,
        },
    }
}

fn respond(delivery: Delivery, entry: &Entry, version: &str) -> Response {
    let (reply, whole) = match delivery {
        Delivery::Whole(reply) => (reply, true),
        Delivery::Half(reply) => (reply, false),
        Delivery::Nothing => {
            entry.ended(Outcome::Cut);
            let mut response = Response::new(Body::empty());
            response.extensions_mut().insert(CutConnection);
            return response;
        }
    };
    entry.ended(Outcome::Answered(reply.status.as_u16()));
    let length = reply.body.len();
    // It comes from in front of coderd's own handlers, which would have signed it.
    let reply_is_a_redirect = reply.status == StatusCode::TEMPORARY_REDIRECT;
    let body = if whole { Body::from(reply.body) } else { half(reply.body) };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.extend(reply.headers);
    if !whole {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if reply_is_a_redirect {
        return response;
    }
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    if let Ok(version) = HeaderValue::from_str(version) {
        headers.insert(HeaderName::from_static("x-coder-build-version"), version);
    }
    response
}

/// The first half of a body, then an error. The pause between lets the server flush what it has: it would discard
/// it together with the connection otherwise.
fn half(mut body: Vec<u8>) -> Body {
    body.truncate(body.len() / 2);
    Body::from_stream(stream::unfold(Some(body), |remaining| async move {
        match remaining {
            Some(bytes) if !bytes.is_empty() => Some((Ok(Bytes::from(bytes)), Some(Vec::new()))),
            Some(_) => {
                tokio::task::yield_now().await;
                Some((Err(std::io::Error::other("the rest of the body is lost")), None))
            }
            None => None,
        }
    }))
}

/// Query pairs in order, decoded; `+` is a blank as in Go.
fn query_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decoded = |text: &str| route::decode(&text.replace('+', " "));
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_fields_and_bodies_of_unknown_routes_are_not_recorded() {
        let plain = Route::new("POST", "/api/v2/licenses", Wanted::Session, |_, _| Err(Reply::not_found()));
        let route = Route { secret_fields: &["license"], ..plain };
        let body = json!({ "license": "ey...", "name": "a" });
        assert_eq!(redacted(&body, Some(&route)), json!({ "license": REDACTED, "name": "a" }));
        assert_eq!(redacted(&body, None), json!(REDACTED));
    }

    #[test]
    fn query_pairs_are_decoded_as_go_decodes_them() {
        let pairs = query_pairs("a=1%2B1&b=x+y&c");
        let expected = [("a", "1+1"), ("b", "x y"), ("c", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
