//! Which database a connection URL names, and how its server must prove itself.
//! It never reads a file that the URL points to, and no error repeats the URL.

use super::parameters;
use crate::confidential::Confidential;
use std::fmt;

/// How much TLS a URL asks for, in the words of lib/pq.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// None.
    Disable,
    /// If the server offers it. coderd's own driver does not know this word; libpq's tools do.
    Prefer,
    /// TLS, whoever the server is. The default, as in coderd's driver (libpq's would be `prefer`).
    Require,
    /// TLS, and a certificate from an authority we trust.
    VerifyCa,
    /// TLS, and a certificate for this host from an authority we trust.
    VerifyFull,
}

/// A connection URL, read.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<Confidential<String>>,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) extra_ca: Option<String>,
}

/// Why a URL cannot be used. None repeats it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It cannot be read.
    #[error("the database URL cannot be read: {0}")]
    Shape(&'static str),
    /// It lacks what we need.
    #[error("the database URL has no {0}")]
    Missing(&'static str),
    /// A control character, written as it is or percent-encoded: nobody means it, and who reads it next may obey it.
    #[error("{0} of the database URL has a control character")]
    Control(&'static str),
    /// A parameter that we refuse.
    #[error("the database URL's parameter {name} is not supported: {reason}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Why.
        reason: &'static str,
    },
}

const A_FILE: &str = "it names a file of coderd's container, which the operator does not have";
const ELSEWHERE: &str = "it leads to another place than the host of the URL";

/// Parameters that would read a file or change where we connect or look.
const REFUSED: [(&str, &str); 13] = [
    ("sslcert", A_FILE),
    ("sslkey", A_FILE),
    ("sslrootcert", A_FILE),
    ("sslcrl", A_FILE),
    ("sslpassword", A_FILE),
    ("sslinline", "certificates inside a URL are not read"),
    ("passfile", A_FILE),
    ("servicefile", A_FILE),
    ("service", ELSEWHERE),
    ("hostaddr", ELSEWHERE),
    ("krbsrvname", "Kerberos is not supported"),
    ("search_path", "coderd's tables are looked for in the schema public"),
    ("options", "settings of the server belong to the operator"),
];

impl DatabaseUrl {
    /// Reads `postgres://` and `postgresql://` URLs and lists of `name=value`, as coderd's driver does. Parameters that
    /// only tune coderd's own sessions are ignored.
    pub fn parse(text: &Confidential<String>) -> Result<Self, UrlError> {
        let pairs = parameters::pairs(text.expose().trim()).map_err(UrlError::Shape)?;
        let controls = |text: &str| text.contains(char::is_control);
        if let Some((name, _)) = pairs.iter().find(|(name, value)| controls(name) || controls(value)) {
            return Err(UrlError::Control(part(name)));
        }
        if let Some((name, reason)) =
            REFUSED.iter().find(|(name, _)| pairs.iter().any(|(given, _)| given == name))
        {
            return Err(UrlError::Parameter { name, reason });
        }
        // The last one counts, as in the driver.
        let last =
            |wanted: &str| pairs.iter().rev().find(|(name, value)| name == wanted && !value.is_empty());
        let value = |wanted: &str| last(wanted).map(|(_, value)| value.to_string());
        let user = value("user").ok_or(UrlError::Missing("user"))?;
        Ok(Self {
            host: host(value("host").ok_or(UrlError::Missing("host"))?)?,
            port: port(value("port"))?,
            password: value("password").map(Confidential::new),
            database: value("dbname").unwrap_or_else(|| user.clone()),
            ssl_mode: ssl_mode(value("sslmode").as_deref())?,
            extra_ca: None,
            user,
        })
    }

    /// Whether the server has to prove itself by an authority.
    pub fn verifies(&self) -> bool {
        matches!(self.ssl_mode, SslMode::VerifyCa | SslMode::VerifyFull)
    }

    /// Trusts these authorities (PEM) too, for `verify-ca` and `verify-full`.
    pub fn trusting(mut self, extra_ca: impl Into<String>) -> Self {
        self.extra_ca = Some(extra_ca.into());
        self
    }

    /// The host, to be shown in a condition.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// What a parameter is called where it is told; others may hold anything.
fn part(name: &str) -> &'static str {
    match name {
        "user" => "the user",
        "password" => "the password",
        "host" => "the host",
        "port" => "the port",
        "dbname" => "the database name",
        _ => "a parameter",
    }
}

fn host(host: String) -> Result<String, UrlError> {
    let refused = |reason| Err(UrlError::Parameter { name: "host", reason });
    match host {
        _ if host.starts_with(['/', '@']) => {
            refused("it is a Unix socket, which only coderd's container has")
        }
        _ if host.contains(',') => {
            refused("it names several hosts; name one, or the address in front of them")
        }
        _ if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)) => {
            refused("it is not a host name")
        }
        _ => Ok(host),
    }
}

fn port(port: Option<String>) -> Result<u16, UrlError> {
    let refused = UrlError::Parameter { name: "port", reason: "it is not a port" };
    match port.as_deref().map(str::parse) {
        None => Ok(5432),
        Some(Ok(port)) if port > 0 => Ok(port),
        Some(_) => Err(refused),
    }
}

fn ssl_mode(word: Option<&str>) -> Result<SslMode, UrlError> {
    match word {
        Some("disable") => Ok(SslMode::Disable),
        Some("prefer") => Ok(SslMode::Prefer),
        None | Some("require") => Ok(SslMode::Require),
        Some("verify-ca") => Ok(SslMode::VerifyCa),
        Some("verify-full") => Ok(SslMode::VerifyFull),
        Some(_) => Err(UrlError::Parameter {
            name: "sslmode",
            reason: "one of disable, prefer, require, verify-ca and verify-full is needed",
        }),
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DatabaseUrl([confidential])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatabaseUrl, UrlError> {
        DatabaseUrl::parse(&Confidential::new(text.to_owned()))
    }

    #[test]
    fn defaults_are_those_of_coderds_driver() {
        let url = parse(" postgres://coder@db.team.svc\n").unwrap();
        assert_eq!((url.host(), url.port, url.database.as_str()), ("db.team.svc", 5432, "coder"));
        assert_eq!((url.password, url.ssl_mode), (None, SslMode::Require));
    }

    #[test]
    fn only_a_server_that_is_verified_needs_authorities() {
        let verifies = |mode: &str| parse(&format!("postgres://u@db/c?sslmode={mode}")).unwrap().verifies();
        assert!(verifies("verify-ca") && verifies("verify-full"));
        assert!(!verifies("disable") && !verifies("prefer") && !verifies("require"));
    }

    #[test]
    fn both_forms_name_the_same_database() {
        let url = parse("postgresql://u:p@db:5433/c?sslmode=verify-full&application_name=x").unwrap();
        assert_eq!(url, parse("host=db port=5433 user=u password=p dbname=c sslmode=verify-full").unwrap());
        assert_eq!(url.password.unwrap().expose(), "p");
    }

    #[test]
    fn files_sockets_and_detours_are_refused_by_name() {
        for (text, name) in [
            ("postgres://u@db/c?sslrootcert=/etc/passwd", "sslrootcert"),
            ("postgres://u@db/c?sslcert=/a&sslkey=/b", "sslcert"),
            ("host=db user=u passfile=/a", "passfile"),
            ("host=db user=u service=x", "service"),
            ("host=/var/run/postgresql user=u", "host"),
            ("postgres://u@%2Fvar%2Frun/c", "host"),
            ("postgres://u@db/c?host=/var/run", "host"),
            ("host=a,b user=u", "host"),
            ("host=db user=u hostaddr=10.0.0.1", "hostaddr"),
            ("host=db user=u port=0", "port"),
            ("host=db user=u sslmode=allow", "sslmode"),
            ("host=db user=u search_path=x", "search_path"),
        ] {
            match parse(text) {
                Err(UrlError::Parameter { name: refused, .. }) => assert_eq!(refused, name, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn control_characters_are_refused_in_every_part() {
        for (text, part) in [
            ("postgres://u%00x:p@db/c", "the user"),
            ("postgres://u:p%0Aw@db/c", "the password"),
            ("postgres://u:p\u{7}/w@db/c", "the password"),
            ("postgres://u:p@d%1bb/c", "the host"),
            ("postgres://u:p@db/c%7f", "the database name"),
            ("postgres://u:p@db/c\u{1}", "the database name"),
            ("postgres://u:p@db/c?user=x%C2%85", "the user"),
            ("postgres://u:p@db/c?port=5%0d432", "the port"),
            ("postgres://u:p@db/c?options=-c%00x", "a parameter"),
            ("postgres://u:p@db/c?application_name=a%0ab", "a parameter"),
            ("postgres://u:p@db/c?a%0ab=c", "a parameter"),
            ("host=db user='a\nb'", "the user"),
            ("host=db user=u password='a\tb'", "the password"),
            ("host=db user=u dbname=a\u{0}b", "the database name"),
            ("host=db user=u sslmode='dis\u{0}able'", "a parameter"),
        ] {
            assert_eq!(parse(text), Err(UrlError::Control(part)), "{text:?}");
        }
        assert!(parse("host=db\n\tuser=u\n").is_ok(), "white space between parameters is none of theirs");
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        for text in ["postgres://u@d\u{202e}b/c", "postgres://u@d%20b/c", "host=d;b user=u", "host=dä user=u"]
        {
            let refused = parse(text).unwrap_err();
            assert!(matches!(refused, UrlError::Parameter { name: "host", .. }), "{text:?}: {refused}");
        }
        for text in ["postgres://u@[fd12::1]/c", "host=db_1.team-a.svc. user=u", "host=10.0.0.1 user=u"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn nothing_prints_the_url() {
        let canary = "hunter2hunter2";
        for text in [
            format!("postgres://{canary}:{canary}@db:x/{canary}?sslmode={canary}"),
            format!("postgres://{canary}:{canary}@db/{canary}?sslmode={canary}"),
            format!("mysql://{canary}"),
            format!("host=db user={canary} password={canary} port={canary}"),
            format!("host='/{canary}' user=u"),
        ] {
            let shown = format!("{:?} {}", parse(&text), parse(&text).unwrap_err());
            assert!(!shown.contains(canary), "{shown}");
        }
        let shown = format!("{:?}", parse(&format!("postgres://{canary}:{canary}@{canary}/{canary}")));
        assert!(!shown.contains(canary), "{shown}");
    }

    #[test]
    fn user_and_host_must_be_named() {
        assert_eq!(parse("host=db"), Err(UrlError::Missing("user")));
        assert_eq!(parse("user=u"), Err(UrlError::Missing("host")));
    }
}
