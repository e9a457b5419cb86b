//! Decides what a text must look like, in Rust and in CEL from the same definition, and how a text is shown.
//! Never decides which fields have to look like it.

use std::sync::OnceLock;

use regex::Regex;

/// A regular expression in the syntax that RE2 and Rust share.
pub struct Pattern {
    /// The expression; it holds no single quote, so that CEL can quote it raw.
    pub(crate) text: &'static str,
    /// What matches, for a message: `a DNS label`.
    pub(crate) what: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    const fn new(text: &'static str, what: &'static str) -> Self {
        Self { text, what, compiled: OnceLock::new() }
    }

    /// Whether the text matches. An expression that does not compile matches nothing; a test compiles them all.
    pub fn matches(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(self.text).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// DNS-1123 label.
pub static LABEL: Pattern = Pattern::new(
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
    "a DNS label (at most 63 of a-z, 0-9 and '-', no '-' at an end)",
);
/// DNS-1035 label, of any length: the limit of a name follows from the names derived from it.
pub(crate) static LETTER_LABEL: Pattern = Pattern::new(
    "^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "a DNS label that starts with a letter (a-z, 0-9 and '-', no '-' at the end)",
);
/// DNS-1123 label, of any length.
pub(crate) static ANY_LABEL: Pattern =
    Pattern::new("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a DNS label (a-z, 0-9 and '-', no '-' at an end)");
/// DNS-1123 subdomain.
pub static SUBDOMAIN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a Kubernetes name (a-z, 0-9, '-' and '.', a letter or digit at each end)",
);
/// Key of a Secret or ConfigMap.
pub(crate) static DATA_KEY: Pattern =
    Pattern::new("^[-._a-zA-Z0-9]+$", "a key of a Secret (letters, digits, '-', '_' and '.')");
/// Name of an environment variable.
pub(crate) static ENV_NAME: Pattern =
    Pattern::new("^[ -<>-~]+$", "a variable name (printable ASCII without '=')");
/// Name of an organization, user, workspace or template in coderd.
pub(crate) static CODER_NAME: Pattern = Pattern::new(
    "^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$",
    "a Coder name (letters and digits, single '-' between them)",
);
/// Key of a label or annotation.
pub static QUALIFIED_NAME: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$",
    "a key such as team or example.com/team",
);
/// Value of a label.
pub static LABEL_VALUE: Pattern = Pattern::new(
    "^([A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$",
    "a label value (at most 63 letters, digits, '-', '_' and '.', a letter or digit at each end)",
);
/// Reference to an image, as registries and container runtimes read it.
pub(crate) static IMAGE: Pattern = Pattern::new(
    r"^(([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?/)?[a-z0-9]+([-._]+[a-z0-9]+)*(/[a-z0-9]+([-._]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-zA-Z][-a-zA-Z0-9+._]*:[0-9a-fA-F]+)?$",
    "an image (registry/name:tag, without spaces)",
);
/// Time between two scrapes of Prometheus.
pub(crate) static INTERVAL: Pattern = Pattern::new(
    "^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
    "a duration such as 30s or 1m30s",
);
/// Host of an Ingress or HTTPRoute.
pub(crate) static HOST: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a host name (lower case, no scheme, port or path)",
);
/// What only looks like a host name.
pub(crate) static ADDRESS: Pattern = Pattern::new(r"^[0-9.]+$", "an IP address");
/// Wildcard host of an Ingress or HTTPRoute.
pub(crate) static WILDCARD_HOST: Pattern = Pattern::new(
    r"^\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a wildcard host ('*.' and a host name in lower case)",
);
/// Wildcard for applications as coderd takes it: one asterisk, first, in a host of two labels or more.
pub(crate) static WILDCARD_ADDRESS: Pattern = Pattern::new(
    r"^\*([-a-zA-Z0-9]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)+(:[0-9]{1,5})?$",
    "a wildcard address ('*', then a host name, no scheme or path)",
);
/// What coderd takes for a scheme, wherever it stands in a wildcard address: the end of a host before its port, too.
pub(crate) static SCHEME: Pattern = Pattern::new(r"^.*[hH][tT][tT][pP][sS]?:.*$", "an address with a scheme");
/// What coderd takes for the id of something: digits with or without hyphens, after `urn:uuid:`, or between any two characters.
pub(crate) static UUID: Pattern = Pattern::new(
    // The API server counts every letter of it: a longer one does not fit into the budget of a definition.
    r"(?i)^([0-9a-f]{32}|(urn:uuid:)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}.)$",
    "an id, not a name",
);
/// A URL that says more than where a server is.
pub(crate) static URL_WITH_PATH: Pattern = Pattern::new(r"^[a-z]+://[^/]*/.+$", "a URL with a path");
/// Address of a coderd: scheme, host, port and path, and nothing that could carry a secret.
pub(crate) static URL: Pattern = Pattern::new(
    r"^https?://([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/[-a-zA-Z0-9._~/%+]*)?$",
    "a URL (https://host[:port][/path], without user, password, query or fragment)",
);
/// Addresses a token may travel to without being read on the way: TLS, or a Service of the cluster.
pub(crate) static PROTECTED_URL: Pattern = Pattern::new(
    r"^(https://.*|http://[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?\.svc(\.cluster\.local)?)?(:[0-9]{1,5})?(/.*)?)$",
    "https, or http to a Service of this cluster",
);
/// Addresses that mean the machine the operator runs on, or the cloud below it.
pub(crate) static LOCAL_URL: Pattern = Pattern::new(
    r"(?i)^https?://(localhost|[^/:]*\.localhost|[0-9]+|0x[0-9a-f.x]+|127\.[0-9.]+|0\.[0-9.]+|169\.254\.[0-9.]+|\[::1?\]|\[::ffff:[^/]*|\[0+:[^/]*|\[fe[89ab][0-9a-f]:[^/]*|metadata\.google\.internal)(:[0-9]+)?(/.*)?$",
    "an address of the machine itself or of its cloud",
);

/// One thing a text must satisfy. Except for [`Form::Filled`], an empty text satisfies all of them: emptiness is a
/// problem of its own and is reported once.
pub(crate) enum Form {
    /// Not empty.
    Filled,
    /// Matches the pattern.
    Matches(&'static Pattern),
    /// Does not match the pattern.
    Avoids(&'static Pattern),
    /// Has at most so many bytes.
    AtMostBytes(usize),
    /// Does not contain this.
    Without(&'static str),
    /// Is one of these words.
    OneOf(&'static [&'static str]),
    /// Is none of these words.
    NotOneOf(&'static [&'static str]),
    /// Is none of these words, in any case.
    NotOneOfAnyCase(&'static [&'static str]),
}

impl Form {
    /// What is wrong with the text, if anything.
    pub(crate) fn problem(&self, text: &str) -> Option<String> {
        if self.holds(text) {
            return None;
        }
        Some(match self {
            Self::Filled => "is empty".to_owned(),
            Self::Matches(pattern) => format!("{} is not {}", quoted(text), pattern.what),
            Self::Avoids(pattern) => format!("{} is {}", quoted(text), pattern.what),
            Self::AtMostBytes(limit) => format!("has {} bytes, more than {limit}", text.len()),
            Self::Without(part) => format!("{} contains '{part}'", quoted(text)),
            Self::OneOf(words) => format!("{} is not one of {}", quoted(text), words.join(", ")),
            Self::NotOneOf(_) | Self::NotOneOfAnyCase(_) => format!("{} is reserved", quoted(text)),
        })
    }

    fn holds(&self, text: &str) -> bool {
        if let Self::Filled = self {
            return !text.is_empty();
        }
        text.is_empty()
            || match self {
                Self::Filled => true,
                Self::Matches(pattern) => pattern.matches(text),
                Self::Avoids(pattern) => !pattern.matches(text),
                Self::AtMostBytes(limit) => text.len() <= *limit,
                Self::Without(part) => !text.contains(part),
                Self::OneOf(words) => words.contains(&text),
                Self::NotOneOf(words) => !words.contains(&text),
                Self::NotOneOfAnyCase(words) => !words.iter().any(|word| word.eq_ignore_ascii_case(text)),
            }
    }

    /// The same in CEL: an expression that is true where the text named `value` is good. All but [`Form::Filled`]
    /// are true of an empty text by themselves or are joined with a test for it.
    pub(crate) fn cel(&self, value: &str) -> String {
        match self {
            Self::Filled => format!("{value} != ''"),
            Self::Matches(pattern) => format!("({value} == '' || {value}.matches(r'{}'))", pattern.text),
            Self::Avoids(pattern) => format!("!{value}.matches(r'{}')", pattern.text),
            Self::AtMostBytes(limit) => format!("size(bytes({value})) <= {limit}"),
            Self::Without(part) => format!("!{value}.contains('{part}')"),
            Self::OneOf(words) => format!("({value} == '' || {value} in {})", list(words)),
            Self::NotOneOf(words) => format!("!({value} in {})", list(words)),
            Self::NotOneOfAnyCase(words) => format!("!({value}.lowerAscii() in {})", list(words)),
        }
    }
}

/// A list of words in CEL.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// Letters that may be wrong in a name for it to be taken for a misspelt one.
const MISSPELT: usize = 2;

/// The name that was probably meant: the same but for case or for two letters that are wrong, missing, too many or swapped.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.filter(|known| known.len().abs_diff(name.len()) <= MISSPELT);
    let near = near.map(|known| (distance(&name.to_lowercase(), &known.to_lowercase()), known));
    // Of a short name nothing is left when two letters are wrong.
    let near = near.filter(|(distance, known)| *distance <= MISSPELT && distance * 3 <= known.len());
    near.min().map(|(_, known)| known)
}

/// Letters to change, add, take away or swap with their neighbour to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = row[j] + usize::from(a != b);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

/// Characters of a value that a message shows.
const SHOWN: usize = 40;

/// A value in a message: short, in one line, nothing but printable characters.
pub(crate) fn shown(text: &str) -> String {
    shortened(text, SHOWN)
}

/// A value in one line, of nothing but printable characters and no more of its own than this.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    let start: String = text.chars().take(limit).flat_map(char::escape_debug).collect();
    if text.chars().nth(limit).is_some() { format!("{start}...") } else { start }
}

/// A value in a message, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised_and_another_name_is_not() {
        let known = ["controlPlaneRef", "organizationName", "tags", "key"];
        let near = |name: &str| nearest(name, known.into_iter());
        for (name, meant) in [
            ("controlPlaneref", "controlPlaneRef"),
            ("organisationName", "organizationName"),
            ("tag", "tags"),
            ("tgas", "tags"),
            ("kye", "key"),
            ("controlPlanRf", "controlPlaneRef"),
        ] {
            assert_eq!(near(name), Some(meant), "{name}");
        }
        for name in ["", "image", "keep", "tests", "organization", &"x".repeat(100_000)] {
            assert_eq!(near(name), None, "{name}");
        }
    }

    static ALL: [&Pattern; 21] = [
        &LABEL,
        &LETTER_LABEL,
        &ANY_LABEL,
        &SUBDOMAIN,
        &DATA_KEY,
        &ENV_NAME,
        &CODER_NAME,
        &HOST,
        &ADDRESS,
        &WILDCARD_HOST,
        &WILDCARD_ADDRESS,
        &SCHEME,
        &UUID,
        &URL,
        &URL_WITH_PATH,
        &PROTECTED_URL,
        &LOCAL_URL,
        &QUALIFIED_NAME,
        &LABEL_VALUE,
        &INTERVAL,
        &IMAGE,
    ];

    #[test]
    fn every_pattern_compiles_and_can_be_quoted_raw() {
        for pattern in ALL {
            assert!(Regex::new(pattern.text).is_ok(), "{}", pattern.text);
            assert!(!pattern.text.contains('\''), "{}", pattern.text);
            assert!(pattern.text.trim_start_matches("(?i)").starts_with('^'), "{}", pattern.text);
            assert!(pattern.text.ends_with('$'), "{}", pattern.text);
        }
    }

    #[test]
    fn labels_and_durations() {
        for good in ["team", "example.com/team", "A_b.c", "a/b"] {
            assert!(QUALIFIED_NAME.matches(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "Example.com/a", "-a", "a b"] {
            assert!(!QUALIFIED_NAME.matches(bad), "{bad}");
        }
        assert!(LABEL_VALUE.matches("") && LABEL_VALUE.matches(&"a".repeat(63)));
        assert!(!LABEL_VALUE.matches(&"a".repeat(64)) && !LABEL_VALUE.matches("a&b"));
        assert!(INTERVAL.matches("30s") && INTERVAL.matches("1m30s") && INTERVAL.matches("0"));
        assert!(!INTERVAL.matches("30") && !INTERVAL.matches("30s1m") && !INTERVAL.matches("soon"));
    }

    #[test]
    fn urls() {
        for good in ["https://a", "http://coder.ns.svc:8080/x", "https://[2001:db8::1]:8443/", "https://A.b"]
        {
            assert!(URL.matches(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "ftp://a",
            "https://",
            "https://u:p@a",
            "https://a?b",
            "https://a#b",
            "https://a b",
            "https://a:123456",
            "https://a\n",
        ] {
            assert!(!URL.matches(bad), "{bad}");
        }
    }

    /// The cases are those of `uuid.Parse`, which coderd asks first.
    #[test]
    fn an_id_is_what_coderd_parses_as_one() {
        let id = "5a4d9a36-6a1f-4c7c-9d8e-3f9a6f0b2c11";
        let plain = id.replace('-', "");
        let wrapped = |before: &str, after: &str| format!("{before}{id}{after}");
        for taken in [id, &id.to_uppercase(), &plain, &wrapped("urn:uuid:", ""), &wrapped("URN:Uuid:", "")] {
            assert!(UUID.matches(taken), "{taken}");
        }
        for (before, after) in [("{", "}"), ("{", "x"), ("a", "b"), ("-", "-")] {
            assert!(UUID.matches(&wrapped(before, after)), "{before}{after}");
        }
        let half = id.replacen('-', "", 1);
        for name in [&id[1..], &half, &plain[1..], &format!("urn:uuid:{plain}"), &format!("{{{plain}}}")] {
            assert!(!UUID.matches(name), "{name}");
        }
        for (before, after) in [("{", ""), ("", "}"), ("ab", "cd"), ("uuid:", "")] {
            assert!(!UUID.matches(&wrapped(before, after)), "{before}{after}");
        }
    }

    #[test]
    fn plain_http_stays_in_the_cluster() {
        for good in [
            "https://example.com",
            "http://coder",
            "http://coder.ns.svc",
            "http://c.n.svc.cluster.local:80/x",
        ] {
            assert!(PROTECTED_URL.matches(good), "{good}");
        }
        for bad in [
            "http://example.com",
            "http://a.b",
            "http://evil.svc.example.com",
            "http://a.b.svc.cluster.local.evil.com",
            "http://10.0.0.1",
        ] {
            assert!(!PROTECTED_URL.matches(bad), "{bad}");
        }
    }

    #[test]
    fn the_machine_itself_is_recognised() {
        for bad in [
            "http://localhost",
            "https://LOCALHOST:8443/x",
            "https://127.0.0.1",
            "https://127.1",
            "http://2130706433",
            "https://0x7f000001",
            "https://169.254.169.254/latest",
            "https://[::1]",
            "https://[::]",
            "https://[fe80::1]:8443",
            "https://[::ffff:127.0.0.1]",
            "http://metadata.google.internal",
            "https://x.localhost",
            "https://0.0.0.0",
            "https://[0:0:0:0:0:0:0:1]",
        ] {
            assert!(LOCAL_URL.matches(bad), "{bad}");
        }
        for good in [
            "https://example.com",
            "https://10.0.0.1",
            "http://coder.ns.svc",
            "https://127.example.com",
            "https://localhost.example.com",
        ] {
            assert!(!LOCAL_URL.matches(good), "{good}");
        }
    }

    #[test]
    fn a_shown_value_is_short_and_in_one_line() {
        assert_eq!(quoted("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        assert!(quoted(&"x".repeat(1000)).len() < 50);
    }
}
