//! How a host becomes an address: where `--resolve HOST[:PORT]=ADDR[:PORT]` leads it, as in curl (the first rule that fits
//! wins), by which name DNS is asked otherwise, and which answers are refused. It never asks DNS and never dials.

use super::addresses::{Cidr, Forbidden, forbidden};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// One rule of `--resolve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    host: Pattern,
    port: Option<u16>,
    address: IpAddr,
    to_port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exactly(String),
    /// `*.suffix`, kept with its dot: one or more labels before it.
    Below(String),
}

impl Pattern {
    fn fits(&self, host: &str) -> bool {
        match self {
            Self::Exactly(name) => name == host,
            Self::Below(suffix) => host.len() > suffix.len() && host.ends_with(suffix.as_str()),
        }
    }
}

/// Why a rule cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// There is no `=`.
    #[error("HOST[:PORT]=ADDR[:PORT] is needed, for example coder.example.com=192.0.2.1:8443")]
    Shape,
    /// The left side is no host.
    #[error("\"{0}\" is not a host name; a wildcard is `*.` and a suffix")]
    Host(String),
    /// The right side is no address.
    #[error(
        "\"{0}\" is not an IP address, with or without a port; an IPv6 address with a port is in brackets"
    )]
    Address(String),
    /// A port is no port.
    #[error("\"{0}\" is not a port")]
    Port(String),
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (from, to) = text.split_once('=').ok_or(RuleError::Shape)?;
        let (host, port) = host_and_port(from)?;
        let (address, to_port) = match to.parse::<SocketAddr>() {
            Ok(socket) => (socket.ip(), Some(socket.port())),
            Err(_) => (bare_address(to)?, None),
        };
        if to_port == Some(0) {
            return Err(RuleError::Port("0".to_owned()));
        }
        Ok(Self { host: pattern(&host)?, port, address, to_port })
    }
}

fn bare_address(text: &str) -> Result<IpAddr, RuleError> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| RuleError::Address(text.to_owned()))
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), RuleError> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(RuleError::Port(text.to_owned())),
        Ok(port) => Ok(port),
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| RuleError::Host(text.to_owned()))?;
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host.to_owned(), Some(port(digits)?))),
            None if rest.is_empty() => Ok((host.to_owned(), None)),
            None => Err(RuleError::Host(text.to_owned())),
        };
    }
    match text.split_once(':') {
        // More than one colon is an address of its own.
        Some((_, rest)) if rest.contains(':') => Ok((text.to_owned(), None)),
        Some((host, digits)) => Ok((host.to_owned(), Some(port(digits)?))),
        None => Ok((text.to_owned(), None)),
    }
}

fn pattern(host: &str) -> Result<Pattern, RuleError> {
    let refused = || RuleError::Host(host.to_owned());
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Pattern::Exactly(address.to_string()));
    }
    let normal = normalised(host);
    let (name, below) = normal.strip_prefix("*.").map_or((normal.as_str(), false), |name| (name, true));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let label = |label: &str| !label.is_empty() && label.bytes().all(plain);
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(refused());
    }
    Ok(if below { Pattern::Below(format!(".{name}")) } else { Pattern::Exactly(name.to_owned()) })
}

fn normalised(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase(),
    }
}

/// How hosts become addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolve {
    rules: Vec<Rule>,
    denied: Vec<Cidr>,
    /// Without dots around it; empty where none is known.
    cluster_domain: String,
}

impl Resolve {
    /// Takes the rules in their order.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The same that refuses these addresses, too.
    pub fn denying(self, denied: Vec<Cidr>) -> Self {
        Self { denied, ..self }
    }

    /// The same in a cluster with this DNS domain.
    pub fn in_cluster(self, domain: &str) -> Self {
        Self { cluster_domain: normalised(domain), ..self }
    }

    /// Where a rule leads this host and port, if one fits.
    pub fn lookup(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let host = normalised(host);
        let fits = |rule: &&Rule| rule.host.fits(&host) && rule.port.is_none_or(|only| only == port);
        let rule = self.rules.iter().find(fits)?;
        Some(SocketAddr::new(rule.address, rule.to_port.unwrap_or(port)))
    }

    /// Why DNS must not lead us to this address, if it must not.
    pub(super) fn refuses(&self, address: IpAddr) -> Option<Forbidden> {
        forbidden(address, &self.denied)
    }

    /// The name that DNS is asked for. Names of the cluster are asked for as absolute ones, with a dot behind them:
    /// otherwise the search domains of our pod come first, and whoever owns a namespace that is called like a part of
    /// the name receives what we send. Any other name stays as it was given, since it may need the search.
    pub(super) fn asked_name<'a>(&self, host: &'a str) -> Cow<'a, str> {
        let name = normalised(host);
        let domain = &self.cluster_domain;
        if domain.is_empty() || host.ends_with('.') {
            return Cow::Borrowed(host);
        }
        if Pattern::Below(format!(".{domain}")).fits(&name) {
            return Cow::Owned(format!("{name}."));
        }
        // `<name>.<namespace>.svc` means one thing only.
        if Pattern::Below(".svc".to_owned()).fits(&name) && name.split('.').count() >= 3 {
            return Cow::Owned(format!("{name}.{domain}."));
        }
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(rules: &[&str]) -> Resolve {
        Resolve::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn led(rules: &[&str], host: &str, port: u16) -> Option<String> {
        resolve(rules).lookup(host, port).map(|address| address.to_string())
    }

    #[test]
    fn a_name_is_led_with_and_without_ports() {
        assert_eq!(led(&["a.example=127.0.0.1:81"], "a.example", 80).as_deref(), Some("127.0.0.1:81"));
        assert_eq!(led(&["a.example=127.0.0.1"], "A.example.", 80).as_deref(), Some("127.0.0.1:80"));
        assert_eq!(led(&["a.example:443=127.0.0.1"], "a.example", 80), None);
        assert_eq!(led(&["a.example:80=[::1]:9"], "a.example", 80).as_deref(), Some("[::1]:9"));
        assert_eq!(led(&["a.example=::1"], "a.example", 80).as_deref(), Some("[::1]:80"));
    }

    #[test]
    fn a_wildcard_needs_a_label_before_its_suffix() {
        let rules = ["*.svc.cluster.local=127.0.0.1:81"];
        assert!(led(&rules, "coder.team.svc.cluster.local", 80).is_some());
        assert_eq!(led(&rules, "svc.cluster.local", 80), None);
        assert_eq!(led(&rules, "xsvc.cluster.local", 80), None);
    }

    #[test]
    fn the_first_rule_that_fits_wins() {
        let rules = ["a.b:80=127.0.0.1", "*.b=127.0.0.2"];
        assert_eq!(led(&rules, "a.b", 80).as_deref(), Some("127.0.0.1:80"));
        assert_eq!(led(&rules, "a.b", 81).as_deref(), Some("127.0.0.2:81"));
    }

    #[test]
    fn addresses_can_be_led_too() {
        assert_eq!(led(&["[::1]:80=127.0.0.1:9"], "[0:0::1]", 80).as_deref(), Some("127.0.0.1:9"));
        assert_eq!(led(&["127.0.0.1=127.0.0.1"], "127.0.0.1", 5).as_deref(), Some("127.0.0.1:5"));
    }

    #[test]
    fn names_of_the_cluster_are_asked_for_as_absolute_names() {
        let resolve = Resolve::default().in_cluster("K8s.example.com");
        for (host, asked) in [
            ("coder.team.svc.k8s.example.com", "coder.team.svc.k8s.example.com."),
            ("Coder.team.svc.K8S.example.com", "coder.team.svc.k8s.example.com."),
            ("pod.coder.team.svc.k8s.example.com", "pod.coder.team.svc.k8s.example.com."),
            ("coder.team.svc.k8s.example.com.", "coder.team.svc.k8s.example.com."),
            ("db.team.svc", "db.team.svc.k8s.example.com."),
            // They need the search, or mean something outside.
            ("db", "db"),
            ("db.team", "db.team"),
            ("team.svc", "team.svc"),
            ("db.example.com", "db.example.com"),
            ("xk8s.example.com", "xk8s.example.com"),
            ("coder.team.svc.cluster.local", "coder.team.svc.cluster.local"),
            ("10.0.0.1", "10.0.0.1"),
            ("fd12::1", "fd12::1"),
        ] {
            assert_eq!(resolve.asked_name(host), asked, "{host}");
        }
        assert_eq!(Resolve::default().asked_name("db.team.svc"), "db.team.svc", "no domain is known");
    }

    #[test]
    fn a_rule_fits_a_name_of_the_cluster_with_and_without_the_dot() {
        let resolve = resolve(&["*.svc.cluster.local=127.0.0.1:81"]).in_cluster("cluster.local");
        for host in ["coder.team.svc.cluster.local", "coder.team.svc.cluster.local."] {
            assert!(resolve.lookup(host, 80).is_some(), "{host}");
        }
    }

    #[test]
    fn broken_rules_say_what_is_wrong() {
        for (text, needle) in [
            ("a.example", "HOST[:PORT]=ADDR[:PORT]"),
            ("=127.0.0.1", "host name"),
            ("*=127.0.0.1", "host name"),
            ("a.*.b=127.0.0.1", "host name"),
            ("a..b=127.0.0.1", "host name"),
            ("a:0=127.0.0.1", "not a port"),
            ("a:x=127.0.0.1", "not a port"),
            ("a=b.example", "not an IP address"),
            ("a=127.0.0.1:99999", "not an IP address"),
            ("a=127.0.0.1:0", "not a port"),
            ("a=", "not an IP address"),
            ("[::1=127.0.0.1", "host name"),
        ] {
            let error = text.parse::<Rule>().unwrap_err().to_string();
            assert!(error.contains(needle), "{text}: {error}");
        }
    }
}
