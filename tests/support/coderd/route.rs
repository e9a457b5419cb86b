//! How a request line finds its route, with the path rules of Go's `net/url` and the chi router.
//! It never runs a handler.

use std::fmt::Write as _;

use super::pipeline::Inbound;
use super::reply::Answer;
use super::state::ServerState;

/// What a handler is: all state is in memory, so none of them waits.
pub(super) type Handler = fn(&mut ServerState, &Inbound) -> Answer;

/// Which credential belongs on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Outside the API: sending a credential there only spreads it.
    Nothing,
    /// Open to all; a session token only decides whose rate limit counts.
    OptionalSession,
    /// `Coder-Session-Token`, 401 without.
    Session,
    /// `Coder-Provisioner-Daemon-Key` and no session token.
    DaemonKey,
    /// `Coder-External-Proxy-Token` and no session token.
    ProxyToken,
}

/// One route with everything the client may send to it.
#[derive(Clone, Copy)]
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) wanted: Wanted,
    pub(super) premium: bool,
    /// What must be licensed before anybody is asked who they are.
    pub(super) feature: Option<&'static str>,
    pub(super) query: &'static [&'static str],
    pub(super) body: &'static [&'static str],
    pub(super) secret_fields: &'static [&'static str],
    pub(super) handle: Handler,
}

impl Route {
    pub(super) const fn new(
        method: &'static str,
        path: &'static str,
        wanted: Wanted,
        handle: Handler,
    ) -> Self {
        Self {
            method,
            path,
            wanted,
            premium: false,
            feature: None,
            query: &[],
            body: &[],
            secret_fields: &[],
            handle,
        }
    }

    /// Exists only in the enterprise build.
    pub(super) const fn premium(mut self) -> Self {
        self.premium = true;
        self
    }

    /// Exists only in the enterprise build, and works for nobody without the feature.
    pub(super) const fn licensed_for(mut self, feature: &'static str) -> Self {
        self.feature = Some(feature);
        self.premium()
    }

    /// The query parameters coderd reads.
    pub(super) const fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }

    /// The leaves of the JSON body: `name`, `tags.*` for a free map, `list[].field` for an array of objects.
    pub(super) const fn body(mut self, leaves: &'static [&'static str]) -> Self {
        self.body = leaves;
        self
    }

    /// The fields of the body that are never recorded.
    pub(super) const fn secret_fields(mut self, names: &'static [&'static str]) -> Self {
        self.secret_fields = names;
        self
    }

    /// How tests name the route: method and path without `/api/v2`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, self.path.strip_prefix("/api/v2").unwrap_or(self.path))
    }

    /// The values of the path's placeholders, if the path fits.
    fn bind(&self, segments: &[&str]) -> Option<Vec<(&'static str, String)>> {
        let pattern: Vec<&'static str> = self.path.split('/').collect();
        if pattern.len() != segments.len() {
            return None;
        }
        let mut bound = Vec::new();
        for (expected, given) in pattern.into_iter().zip(segments) {
            match expected.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !given.is_empty() => bound.push((name, (*given).to_owned())),
                Some(_) => return None,
                None if expected == *given => {}
                None => return None,
            }
        }
        Some(bound)
    }
}

/// What the table says about a request line.
pub(super) enum Found {
    Route(&'static Route, Vec<(&'static str, String)>),
    /// The path is known with other methods, in this build or only in the enterprise one.
    WrongMethod {
        premium: bool,
    },
    Nothing,
}

/// Finds the route for a method and a raw path; fixed segments win over placeholders, as in chi, which tries the
/// placeholder again when the fixed path lacks the method (a key may be named `daemons`).
pub(super) fn find(table: &'static [Route], method: &str, raw_path: &str) -> Found {
    let path = routed_path(raw_path);
    let segments: Vec<&str> = path.split('/').collect();
    let fitting = table.iter().filter_map(|route| Some((route, route.bind(&segments)?)));
    let mut fitting: Vec<_> = fitting.collect();
    fitting.sort_by_key(|(_, bound)| bound.len());
    let any = !fitting.is_empty();
    let premium = fitting.iter().all(|(route, _)| route.premium);
    match fitting.into_iter().find(|(route, _)| route.method == method) {
        Some((route, bound)) => Found::Route(route, bound),
        None if any => Found::WrongMethod { premium },
        None => Found::Nothing,
    }
}

/// The path chi routes on: decoded when the client escaped exactly as Go would have, else as it came. A client that
/// escapes more or less than Go does therefore asks for a name with per-cent signs in it, and misses.
fn routed_path(raw: &str) -> String {
    let decoded = decode(raw);
    if go_escape(&decoded) == raw { decoded } else { raw.to_owned() }
}

/// Percent-decoding of a path; broken escapes stay as they are.
pub(super) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn go_escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_escaped_as_go_does_is_decoded() {
        assert_eq!(routed_path("/a%20b"), "/a b");
        assert_eq!(routed_path("/a%C3%A4"), "/aä");
        assert_eq!(routed_path("/a:b@c"), "/a:b@c");
    }

    #[test]
    fn a_path_escaped_otherwise_is_routed_as_it_came() {
        assert_eq!(routed_path("/a%2Fb"), "/a%2Fb");
        assert_eq!(routed_path("/a%3Ab"), "/a%3Ab");
        assert_eq!(routed_path("/my%2Dkey"), "/my%2Dkey");
    }
}
