//! Which external URLs objects may name: those below a prefix given with `--allow-url`.
//! It compares scheme, host, port and whole path segments; it never compares text, and never dials.

use super::endpoint::explicit_port;
use http::Uri;
use std::str::FromStr;

/// One `--allow-url`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    scheme: String,
    host: String,
    port: u16,
    path: Vec<String>,
}

/// Why a prefix or URL cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// It is no URL.
    #[error("a URL with http or https and a host is needed, for example https://coder.example.com")]
    Shape,
    /// It has a user or a password.
    #[error("the URL must not carry a user or password")]
    Userinfo,
    /// It has parts that a prefix cannot have.
    #[error("the URL must not have a query, a fragment, `..` or an escaped character in its path")]
    Parts,
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let uri: Uri = text.parse().map_err(|_| PrefixError::Shape)?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(PrefixError::Shape),
        };
        let authority = uri.authority().ok_or(PrefixError::Shape)?;
        if authority.as_str().contains('@') {
            return Err(PrefixError::Userinfo);
        }
        let odd_path =
            uri.path().contains(['%', '\\']) || uri.path().split('/').any(|part| [".", ".."].contains(&part));
        if uri.query().is_some() || text.contains('#') || odd_path {
            return Err(PrefixError::Parts);
        }
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let port = explicit_port(authority).ok_or(PrefixError::Shape)?.unwrap_or(default_port);
        if host.is_empty() {
            return Err(PrefixError::Shape);
        }
        let path = uri.path().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Ok(Self { scheme: scheme.to_owned(), host, port, path })
    }
}

/// Every `--allow-url`; none allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedUrls(Vec<Prefix>);

impl AllowedUrls {
    /// Takes the prefixes.
    pub fn new(prefixes: Vec<Prefix>) -> Self {
        Self(prefixes)
    }

    /// Whether the URL lies below one of them. What cannot be read is not allowed.
    pub fn allow(&self, url: &str) -> bool {
        let Ok(url) = url.parse::<Prefix>() else { return false };
        self.0.iter().any(|prefix| {
            (&prefix.scheme, &prefix.host, prefix.port) == (&url.scheme, &url.host, url.port)
                && url.path.starts_with(&prefix.path)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_a_prefix_is_allowed() {
        let prefixes =
            ["https://coder.example.com", "http://a:8080/team"].map(|prefix| prefix.parse().unwrap());
        let allowed = AllowedUrls::new(prefixes.to_vec());
        for url in ["https://CODER.example.com:443/", "https://coder.example.com/x", "http://a:8080/team/x"] {
            assert!(allowed.allow(url), "{url}");
        }
        for url in [
            "http://coder.example.com",
            "https://coder.example.com.evil.example",
            "https://coder.example.com@evil.example",
            "https://coder.example.com:8443",
            "https://coder.example.com:99999",
            "http://a:8080/teams",
            "http://a:8080/team/../x",
            "http://a:8080/team/%2e%2e/x",
            "nonsense",
        ] {
            assert!(!allowed.allow(url), "{url}");
        }
        assert!(!AllowedUrls::default().allow("https://coder.example.com"));
    }

    #[test]
    fn a_prefix_is_a_plain_url() {
        assert_eq!("ftp://a".parse::<Prefix>(), Err(PrefixError::Shape));
        assert_eq!("https://u:p@a".parse::<Prefix>(), Err(PrefixError::Userinfo));
        assert_eq!("https://a/?x".parse::<Prefix>(), Err(PrefixError::Parts));
    }
}
