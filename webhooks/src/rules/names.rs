//! Decides whether the name of an object leaves room for every name that follows from it.
//! Never judges a stored object: a name cannot change, and what exists keeps working.

use crds::well_known::reserved;
use serde_json::Value;

use super::{CelCheck, Check, EVERYWHERE, IN_RUST, Problem, Rule, Severity, Subject, When};
use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;
use crate::text::{ANY_LABEL, LETTER_LABEL, Pattern, UUID, list, quoted};

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0101",
        title: "The name leaves room for the names derived from it",
        kinds: &Kind::ALL,
        fields: &["metadata.name", "metadata.generateName"],
        severity: Severity::Deny,
        when: When::Create,
        layers: EVERYWHERE,
        check: Check::Object { find: too_long, cel: too_long_cel },
        fix: "choose a shorter name",
        why: "Services, labels, Deployments and accounts are named after the object. A longer name would have to be \
              cut and hashed, and a manifest that refers to such a child could not be written before it exists.",
        bad: "kind: CoderProvisioner\nmetadata:\n  name: provisioners-of-the-data-science-department-in-frankfurt",
        good: "kind: CoderProvisioner\nmetadata:\n  name: data-science-frankfurt",
    },
    Rule {
        code: "CODER0102",
        title: "The whole name appears in the names of pods",
        kinds: &Kind::ALL,
        fields: &["metadata.name", "metadata.generateName"],
        severity: Severity::Warn,
        when: When::Create,
        layers: IN_RUST,
        check: Check::Object { find: long, cel: super::NO_CEL },
        fix: "choose a shorter name",
        why: "Kubernetes cuts the name of a Deployment in the names of its pods, so that dashboards and logs no \
              longer show which object a pod belongs to.",
        bad: "kind: CoderProvisioner\nmetadata:\n  name: provisioners-of-the-data-science-department",
        good: "kind: CoderProvisioner\nmetadata:\n  name: data-science",
    },
    Rule {
        code: "CODER0103",
        title: "The name is a DNS label that starts with a letter",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["metadata.name", "metadata.generateName"],
        severity: Severity::Deny,
        when: When::Create,
        layers: EVERYWHERE,
        check: Check::Object { find: not_a_letter_label, cel: letter_label_cel },
        fix: "use a-z, 0-9 and '-', start with a letter, end with a letter or digit",
        why: "The Service has the name of the object, and a Service name is a host name: no dots, and a letter first \
              on every supported version of Kubernetes.",
        bad: "metadata:\n  name: 2nd.coder",
        good: "metadata:\n  name: coder-2",
    },
    Rule {
        code: "CODER0104",
        title: "The name is a DNS label",
        kinds: &[Kind::Provisioner],
        fields: &["metadata.name", "metadata.generateName"],
        severity: Severity::Deny,
        when: When::Create,
        layers: EVERYWHERE,
        check: Check::Object { find: not_a_label, cel: label_cel },
        fix: "use a-z, 0-9 and '-', start and end with a letter or digit",
        why: "The name becomes a label of the pods and part of the names of their hosts, which have no dots.",
        bad: "metadata:\n  name: builders.eu",
        good: "metadata:\n  name: builders-eu",
    },
    Rule {
        code: "CODER0105",
        title: "The name is not one that coderd keeps for itself",
        kinds: &[Kind::Provisioner, Kind::WorkspaceProxy],
        fields: &["metadata.name"],
        severity: Severity::Deny,
        when: When::Create,
        layers: EVERYWHERE,
        check: Check::Object { find: reserved_by_coderd, cel: reserved_cel },
        fix: "choose another name, or set spec.key.name, spec.registration.proxyName or spec.bootstrap.proxyName",
        why: "Without a name of its own, the key or the proxy is named after the object, and coderd refuses these \
              names: built-in, user-auth and psk for keys, primary for proxies. A proxy that is named like an id would never \
              be found again.",
        bad: "kind: CoderProvisioner\nmetadata:\n  name: psk",
        good: "kind: CoderProvisioner\nmetadata:\n  name: builders",
    },
];

/// Bytes of `generateName` that Kubernetes keeps, and how many it adds.
const GENERATED: (usize, &str) = (58, "xxxxx");

/// The name an object has or, as far as it can be told from `generateName`, will have; and the field it comes from.
fn name(object: &Value) -> Option<(&'static str, String)> {
    let given = |path| field::text_at(object, path).filter(|name: &&str| !name.is_empty());
    if let Some(name) = given("metadata.name") {
        return Some(("metadata.name", name.to_owned()));
    }
    let prefix = given("metadata.generateName")?;
    let (kept, added) = GENERATED;
    let prefix = prefix.get(..prefix.floor_char_boundary(kept)).unwrap_or(prefix);
    Some(("metadata.generateName", format!("{prefix}{added}")))
}

fn too_long(subject: &Subject<'_>) -> Vec<Problem> {
    let limit = subject.kind.name_limits().hard;
    let Some((path, name)) = name(subject.object).filter(|(_, name)| name.len() > limit) else {
        return Vec::new();
    };
    let derived = subject.kind.derived_names(&name);
    let cause = derived.iter().find(|derived| !derived.fits());
    let cause = cause.map_or_else(String::new, |derived| format!(" for its {}", derived.kind.as_str()));
    vec![
        Problem::invalid(path, format!("{} characters are too many{cause}", name.len()))
            .fixed_by(format!("use at most {limit}")),
    ]
}

fn too_long_cel(kind: Kind) -> Vec<CelCheck> {
    let limit = kind.name_limits().hard;
    vec![CelCheck::counting("", format!("(size(self.metadata.name) <= {limit} ? 0 : 1)"))]
}

fn long(subject: &Subject<'_>) -> Vec<Problem> {
    let limits = subject.kind.name_limits();
    let long = name(subject.object).filter(|(_, name)| (limits.soft + 1..=limits.hard).contains(&name.len()));
    let problem = |(path, name): (&str, String)| {
        Problem::invalid(
            path,
            format!("has {} characters, so that pod names show only part of it", name.len()),
        )
        .fixed_by(format!("use at most {}", limits.soft))
    };
    long.map(problem).into_iter().collect()
}

fn not_like(subject: &Subject<'_>, pattern: &Pattern) -> Vec<Problem> {
    let odd = name(subject.object).filter(|(_, name)| !pattern.matches(name));
    let problem = |(path, _): (&str, String)| {
        let given = field::text_at(subject.object, path).unwrap_or_default();
        Problem::invalid(path, format!("{} is not {}", quoted(given), "a DNS label"))
    };
    odd.map(problem).into_iter().collect()
}

fn not_a_letter_label(subject: &Subject<'_>) -> Vec<Problem> {
    not_like(subject, &LETTER_LABEL)
}

fn letter_label_cel(_: Kind) -> Vec<CelCheck> {
    like_cel(&LETTER_LABEL)
}

fn not_a_label(subject: &Subject<'_>) -> Vec<Problem> {
    not_like(subject, &ANY_LABEL)
}

fn label_cel(_: Kind) -> Vec<CelCheck> {
    like_cel(&ANY_LABEL)
}

fn like_cel(pattern: &Pattern) -> Vec<CelCheck> {
    vec![CelCheck::counting("", format!("(self.metadata.name.matches(r'{}') ? 0 : 1)", pattern.text))]
}

fn reserved_by_coderd(subject: &Subject<'_>) -> Vec<Problem> {
    let own = field::text_at(subject.object, "metadata.name").unwrap_or_default();
    let chosen = |path: &str| field::text_at(subject.object, path).is_some_and(|name| !name.is_empty());
    let (is_taken, path) = match subject.kind {
        Kind::ControlPlane => return Vec::new(),
        Kind::Provisioner => (reserved::KEYS.contains(&own), Some("spec.key.name")),
        Kind::WorkspaceProxy => {
            // Otherwise the operator gives it no name in coderd.
            let registration = Registration::of(subject.kind, subject.object);
            let is_taken = reserved::PROXIES.contains(&own) || UUID.matches(own);
            (is_taken, registration.map(|made| made.proxy_name))
        }
    };
    let problem = |path: &str| {
        Problem::invalid("metadata.name", format!("{} is a name coderd reserves", quoted(own)))
            .fixed_by(format!("choose another name, or set {path}"))
    };
    let taken = path.filter(|path| is_taken && !chosen(path));
    taken.map(problem).into_iter().collect()
}

fn reserved_cel(kind: Kind) -> Vec<CelCheck> {
    let text = match kind {
        Kind::ControlPlane => return Vec::new(),
        Kind::Provisioner => format!(
            "(self.metadata.name in {} && !(has(self.spec) && has(self.spec.key) && has(self.spec.key.name) && \
             self.spec.key.name != '') ? 1 : 0)",
            list(&reserved::KEYS)
        ),
        Kind::WorkspaceProxy => format!(
            "((self.metadata.name in {} || self.metadata.name.matches(r'{}')) && has(self.spec) && \
             (has(self.spec.controlPlaneRef) ? \
             !(has(self.spec.registration) && has(self.spec.registration.proxyName) && \
             self.spec.registration.proxyName != '') : has(self.spec.bootstrap) && \
             !(has(self.spec.bootstrap.proxyName) && self.spec.bootstrap.proxyName != '')) ? 1 : 0)",
            list(&reserved::PROXIES),
            UUID.text
        ),
    };
    vec![CelCheck::counting("", text)]
}
