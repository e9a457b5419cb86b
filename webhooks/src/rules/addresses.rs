//! Decides where tokens may travel and where secrets may stand.
//! Never resolves a host and never repeats a value that may be a secret.

use serde_json::Value;

use super::{Check, EVERYWHERE, IN_RUST, NO_CEL, Problem, Rule, Severity, Subject, When};
use crate::field;
use crate::kind::Kind;
use crate::text::{Form, LOCAL_URL, PROTECTED_URL, SCHEME, URL, URL_WITH_PATH, WILDCARD_ADDRESS, shown};

/// Addresses a token is sent to.
const ADDRESSES: &[&str] = &["spec.primaryAccessURL", "spec.bootstrap.coderURL"];

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0401",
        title: "An address is a plain URL",
        kinds: &[Kind::WorkspaceProxy],
        fields: &["spec.primaryAccessURL", "spec.bootstrap.coderURL", "spec.accessURL"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&URL)]),
        fix: "use https://host[:port][/path], without user, password or query",
        why: "A user, a password or a query in an address would show up in Git, in the status and in logs.",
        bad: "spec:\n  primaryAccessURL: https://admin:secret@coder.example.com",
        good: "spec:\n  primaryAccessURL: https://coder.example.com",
    },
    Rule {
        code: "CODER0402",
        title: "An address outside the cluster is https",
        kinds: &[Kind::WorkspaceProxy],
        fields: ADDRESSES,
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&PROTECTED_URL)]),
        fix: "use https, or http://<service>.<namespace>.svc for a Service",
        why: "The token goes to this address with every request. Outside the cluster, plain HTTP shows it to everyone \
              on the network in between.",
        bad: "spec:\n  primaryAccessURL: http://coder.example.com",
        good: "spec:\n  primaryAccessURL: http://coder.coder.svc",
    },
    Rule {
        code: "CODER0403",
        title: "An address is not the machine the operator runs on",
        kinds: &[Kind::WorkspaceProxy],
        fields: ADDRESSES,
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Avoids(&LOCAL_URL)]),
        fix: "use the address users open",
        why: "Loopback, link-local and metadata addresses reach services that trust their neighbours, not coderd.",
        bad: "spec:\n  bootstrap: {coderURL: http://169.254.169.254, credentialsSecretRef: {name: registrar}}",
        good: "spec:\n  bootstrap: {coderURL: https://coder.example.com, credentialsSecretRef: {name: registrar}}",
    },
    Rule {
        code: "CODER0404",
        title: "A secret comes from a Secret, not from the manifest",
        kinds: &Kind::ALL,
        fields: &["spec.extraEnv[].value"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: secret_in_variable, cel: NO_CEL },
        fix: "use valueFrom.secretKeyRef",
        why: "A value in a manifest is readable in Git, in the API and in every backup of both.",
        bad: "spec:\n  extraEnv:\n    - {name: CODER_OIDC_CLIENT_SECRET, value: hunter2}",
        good: "spec:\n  extraEnv:\n    - name: CODER_OIDC_CLIENT_SECRET\n      valueFrom: {secretKeyRef: {name: oidc, key: client-secret}}",
    },
    Rule {
        code: "CODER0405",
        title: "A secret is not an argument",
        kinds: &Kind::ALL,
        fields: &["spec.extraArgs[]"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: secret_in_argument, cel: NO_CEL },
        fix: "use extraEnv with valueFrom.secretKeyRef",
        why: "Arguments are readable in Git, in the API and in the process list of the node.",
        bad: "spec:\n  extraArgs: [\"--postgres-url=postgres://coder:hunter2@db/coder\"]",
        good: "spec:\n  extraEnv:\n    - name: CODER_PG_CONNECTION_URL\n      valueFrom: {secretKeyRef: {name: database, key: url}}",
    },
    Rule {
        code: "CODER0406",
        title: "A wildcard address starts with '*'",
        kinds: &[Kind::WorkspaceProxy],
        fields: &["spec.wildcardAccessURL"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&WILDCARD_ADDRESS), Form::Avoids(&SCHEME)]),
        fix: "use a host such as *.frankfurt.example.com",
        why: "Each workspace application gets a host of its own: the asterisk stands for its name. A proxy does not start \
              with a scheme or a path in it, nor with an asterisk in another place.",
        bad: "spec:\n  wildcardAccessURL: https://*.frankfurt.example.com",
        good: "spec:\n  wildcardAccessURL: \"*.frankfurt.example.com\"",
    },
    Rule {
        code: "CODER0407",
        title: "The access URL of a proxy has no path",
        kinds: &[Kind::WorkspaceProxy],
        fields: &["spec.accessURL"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Avoids(&URL_WITH_PATH)]),
        fix: "use https://host[:port], and give the proxy a host of its own",
        why: "A proxy serves a whole host. When it starts it tells coderd its access URL, and coderd refuses one with a path: \
              the proxy would end and be started again and again.",
        bad: "spec:\n  accessURL: https://example.com/frankfurt",
        good: "spec:\n  accessURL: https://frankfurt.example.com",
    },
];

/// Endings of names whose values are secrets.
const SECRET_NAMES: [&str; 9] = [
    "PASSWORD",
    "PASSWD",
    "SECRET",
    "TOKEN",
    "PSK",
    "PRIVATE_KEY",
    "ACCESS_KEY",
    "API_KEY",
    "ENCRYPTION_KEYS",
];

/// Whether a name, in the spelling of a variable, promises a secret.
fn names_a_secret(name: &str) -> bool {
    let spelled = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
    let ends_with = |ending: &str| {
        name.len() >= ending.len()
            && name.bytes().rev().map(spelled).zip(ending.bytes().rev()).all(|(a, b)| a == b)
    };
    SECRET_NAMES.iter().any(|ending| ends_with(ending))
}

/// Whether a value is a URL with a password, as `postgres://user:password@host`.
fn carries_a_password(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else {
        return false;
    };
    user.split_once(':').is_some_and(|(_, password)| !password.is_empty() && !is_reference(password))
}

/// `$(NAME)` and `${NAME}` stand for a value that comes from elsewhere.
fn is_reference(value: &str) -> bool {
    value.starts_with("$(") || value.starts_with("${")
}

fn is_secret(name: &str, value: &str) -> bool {
    !value.is_empty() && !is_reference(value) && (names_a_secret(name) || carries_a_password(value))
}

fn text_of<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn secret_in_variable(subject: &Subject<'_>) -> Vec<Problem> {
    let variables = field::items_at(subject.object, "spec.extraEnv").iter().enumerate();
    variables
        .map(|(index, item)| (index, text_of(item, "name"), text_of(item, "value")))
        .filter(|(_, name, value)| is_secret(name, value))
        .map(|(index, name, _)| {
            let problem = format!("{} looks like a secret in plain text", shown(name));
            Problem::invalid(format!("spec.extraEnv[{index}].value"), problem)
        })
        .collect()
}

fn secret_in_argument(subject: &Subject<'_>) -> Vec<Problem> {
    let arguments = field::items_at(subject.object, "spec.extraArgs").iter().enumerate();
    arguments
        .filter(|(_, argument)| {
            let argument = argument.as_str().unwrap_or_default();
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            is_secret(name, value) || carries_a_password(argument)
        })
        .map(|(index, _)| {
            Problem::invalid(format!("spec.extraArgs[{index}]"), "looks like a secret in plain text")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_settings() {
        for (name, value) in [
            ("CODER_OIDC_CLIENT_SECRET", "x"),
            ("--oidc-client-secret", "x"),
            ("CODER_PG_CONNECTION_URL", "postgres://u:p@h/d"),
            ("GITHUB_TOKEN", "x"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("CODER_OIDC_CLIENT_SECRET", ""),
            ("CODER_OIDC_CLIENT_SECRET", "$(OTHER)"),
            ("CODER_PG_CONNECTION_URL", "postgres://h/d"),
            ("CODER_PG_CONNECTION_URL", "postgres://u:$(PASSWORD)@h/d"),
            ("CODER_PG_CONNECTION_URL", "postgres://u@h/d"),
            ("CODER_ACCESS_URL", "https://coder.example.com/a:b@c"),
            ("CODER_MAX_TOKEN_LIFETIME", "24h"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }
}
