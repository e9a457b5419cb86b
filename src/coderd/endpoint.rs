//! Where one coderd is reached: scheme, host, port, and whom we trust there.
//! It reads URLs and refuses those that carry more than a place; it never dials.

use http::Uri;
use http::uri::Authority;
use std::fmt;

/// Plain HTTP or TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS, for a Service of the same cluster.
    Http,
    /// With TLS.
    Https,
}

/// The place of a coderd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Plain HTTP or TLS.
    pub scheme: Scheme,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// More certificates we trust there, as PEM; the system's are trusted anyway.
    pub extra_ca: Option<String>,
    /// The name its certificate must have, if it is not the host.
    pub server_name: Option<String>,
    /// The certificates it is configured with, as PEM, the leaf of each first. Where there are some, exactly one of these
    /// leaves counts, or another that an authority we trust made out for a name of theirs; the host's name does not.
    pub certificates: Vec<String>,
}

/// Why a text names no place of a coderd. None repeats the text: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It cannot be read.
    #[error("this is not a URL with http or https, a host and at most a port")]
    Shape,
    /// It has a user or a password.
    #[error("the URL must not carry a user or password")]
    Userinfo,
    /// It has a path, query or fragment: coderd lives at the root of its host.
    #[error("the URL must end after host and port: coderd is served at the root of its host")]
    MoreThanAHost,
}

impl Endpoint {
    /// Reads `http(s)://host[:port][/]`.
    pub fn parse(url: &str) -> Result<Self, EndpointError> {
        let uri: Uri = url.parse().map_err(|_| EndpointError::Shape)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(EndpointError::Shape),
        };
        let authority = uri.authority().ok_or(EndpointError::Shape)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::Userinfo);
        }
        if !["", "/"].contains(&uri.path()) || uri.query().is_some() || url.contains('#') {
            return Err(EndpointError::MoreThanAHost);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = explicit_port(authority).ok_or(EndpointError::Shape)?.unwrap_or(scheme.default_port());
        if host.is_empty() {
            return Err(EndpointError::Shape);
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            extra_ca: None,
            server_name: None,
            certificates: Vec::new(),
        })
    }

    /// Trusts these certificates too.
    pub fn trusting(mut self, extra_ca: impl Into<String>) -> Self {
        self.extra_ca = Some(extra_ca.into());
        self
    }

    /// Expects this name in the certificate instead of the host.
    pub fn named(mut self, server_name: impl Into<String>) -> Self {
        self.server_name = Some(server_name.into());
        self
    }

    /// Expects these certificates instead of one for the host.
    pub fn presenting(mut self, certificates: Vec<String>) -> Self {
        self.certificates = certificates;
        self
    }

    /// The name its certificate must have.
    pub(super) fn expected_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or_else(|| self.name())
    }

    /// The host without the dot that makes a name absolute: that is for DNS, and neither in certificates nor in headers.
    fn name(&self) -> &str {
        self.host.strip_suffix('.').unwrap_or(&self.host)
    }
}

/// The port a URL names, none if it names none; an answer only for one that can be a port.
pub(super) fn explicit_port(authority: &Authority) -> Option<Option<u16>> {
    let rest = authority.as_str().strip_prefix(authority.host())?;
    match rest.strip_prefix(':') {
        Some(digits) => digits.parse().ok().filter(|port| *port > 0).map(Some),
        None => rest.is_empty().then_some(None),
    }
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// As a URL without a trailing slash.
impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(out, "{scheme}://{open}{}{close}:{}", self.name(), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for (url, shown) in [
            ("http://coder.team.svc.cluster.local", "http://coder.team.svc.cluster.local:80"),
            ("https://coder.example.com/", "https://coder.example.com:443"),
            ("https://coder.example.com:8443", "https://coder.example.com:8443"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("http://[::1]", "http://[::1]:80"),
            ("https://coder.example.com.", "https://coder.example.com:443"),
        ] {
            assert_eq!(Endpoint::parse(url).unwrap().to_string(), shown);
        }
        let absolute = Endpoint::parse("https://coder.example.com.").unwrap();
        assert_eq!((&*absolute.host, absolute.expected_name()), ("coder.example.com.", "coder.example.com"));
    }

    #[test]
    fn anything_more_than_a_place_is_refused_without_repeating_it() {
        for (url, error) in [
            ("ftp://a", EndpointError::Shape),
            ("coder.example.com", EndpointError::Shape),
            ("http://", EndpointError::Shape),
            ("http://a:0", EndpointError::Shape),
            ("http://a:", EndpointError::Shape),
            ("http://a:99999", EndpointError::Shape),
            ("http://u:hunter2@a", EndpointError::Userinfo),
            ("http://hunter2@a", EndpointError::Userinfo),
            ("http://a/path", EndpointError::MoreThanAHost),
            ("http://a?token=hunter2", EndpointError::MoreThanAHost),
            ("http://a/#x", EndpointError::MoreThanAHost),
        ] {
            let refused = Endpoint::parse(url).unwrap_err();
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("hunter2"));
        }
    }
}
