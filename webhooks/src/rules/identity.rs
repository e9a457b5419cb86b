//! Decides which names keys, organizations and proxies may have in coderd.
//! Never asks coderd: these are the rules it always has.

use crds::names::KEY_LIMIT;
use crds::well_known::reserved;
use serde_json::{Value, json};

use super::{
    CelCheck, Check, EVERYWHERE, IN_RUST, Layer, NO_CEL, NOT_IN_CRD, Problem, Rule, Severity, Subject, When,
};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{CODER_NAME, Form, UUID, quoted};

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0106",
        title: "A key name has at most 64 bytes and can be part of a path",
        kinds: &[Kind::Provisioner],
        fields: &["spec.key.name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::AtMostBytes(KEY_LIMIT), Form::Without("/"), Form::NotOneOf(&[".", ".."])]),
        fix: "choose a shorter name without '/', and not '.' or '..'",
        why: "coderd keeps 64 bytes of a key name, and it deletes keys by a path that ends with the name: a key with a \
              slash in its name, or named '.' or '..', could be created but never deleted.",
        bad: "spec:\n  key:\n    name: on-prem/eu",
        good: "spec:\n  key:\n    name: on-prem-eu",
    },
    Rule {
        code: "CODER0107",
        title: "A key name is not built-in, user-auth or psk",
        kinds: &[Kind::Provisioner],
        fields: &["spec.key.name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::NotOneOfAnyCase(&reserved::KEYS)]),
        fix: "choose another name",
        why: "coderd uses these names itself and refuses them for keys, in any case.",
        bad: "spec:\n  key:\n    name: psk",
        good: "spec:\n  key:\n    name: on-prem",
    },
    Rule {
        code: "CODER0108",
        title: "A key name is written in lower case",
        kinds: &[Kind::Provisioner],
        fields: &["spec.key.name"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: upper_case_key, cel: NO_CEL },
        fix: "write it in lower case",
        why: "coderd stores key names in lower case. The operator follows, but whoever looks for the name in coderd \
              finds another spelling.",
        bad: "spec:\n  key:\n    name: OnPrem",
        good: "spec:\n  key:\n    name: onprem",
    },
    Rule {
        code: "CODER0109",
        title: "An organization name is one that coderd accepts",
        kinds: &[Kind::Provisioner],
        fields: &["spec.organizationName"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[
            Form::AtMostBytes(32),
            Form::Matches(&CODER_NAME),
            Form::NotOneOf(&reserved::ORGANIZATIONS),
        ]),
        fix: "use the name of the organization: at most 32 letters and digits with single '-' between them",
        why: "coderd accepts no other name, so no such organization can exist; new and create are part of its URLs.",
        bad: "spec:\n  organizationName: Data Science",
        good: "spec:\n  organizationName: data-science",
    },
    Rule {
        code: "CODER0110",
        title: "A proxy name is not primary and can be part of a path",
        kinds: &[Kind::WorkspaceProxy],
        fields: &["spec.bootstrap.proxyName", "spec.registration.proxyName"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[
            Form::NotOneOfAnyCase(&reserved::PROXIES),
            Form::Without("/"),
            Form::NotOneOf(&[".", ".."]),
            Form::Avoids(&UUID),
        ]),
        fix: "choose another name",
        why: "primary is the control plane itself, and coderd looks up a proxy by a path that ends with its name, or with its \
              id: what looks like an id is never looked up as a name.",
        bad: "spec:\n  bootstrap:\n    coderURL: https://coder.example.com\n    credentialsSecretRef: {name: registrar}\n    proxyName: primary",
        good: "spec:\n  bootstrap:\n    coderURL: https://coder.example.com\n    credentialsSecretRef: {name: registrar}\n    proxyName: frankfurt",
    },
    Rule {
        code: "CODER0111",
        title: "A reference to a control plane names it",
        kinds: &[Kind::Provisioner, Kind::WorkspaceProxy],
        fields: &["spec.controlPlaneRef.name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Object { find: no_control_plane, cel: no_control_plane_cel },
        fix: "name a CoderControlPlane of this namespace",
        why: "Keys are created in a control plane, and the daemons run its builds; a proxy with controlPlaneRef is registered \
              there. Without a name there is nothing to do.",
        bad: "kind: CoderProvisioner\nspec: {}",
        good: "kind: CoderProvisioner\nspec:\n  controlPlaneRef:\n    name: coder",
    },
    Rule {
        code: "CODER0112",
        title: "Changing what identifies a key creates a new key",
        kinds: &[Kind::Provisioner],
        fields: &["spec.controlPlaneRef.name", "spec.organizationName", "spec.key.name", "spec.tags"],
        severity: Severity::Warn,
        when: When::Change,
        layers: &[Layer::Webhook],
        check: Check::Object { find: new_identity, cel: NO_CEL },
        fix: "nothing needs to be done; running builds finish first",
        why: "Control plane, organization, name and tags are part of the key in coderd and cannot be edited there. \
              The operator creates a new key, rolls the daemons over to it, and deletes the old one once they run.",
        bad: "spec:\n  tags:\n    environment: cloud   # was: on-prem",
        good: "spec:\n  tags:\n    environment: on-prem",
    },
    Rule {
        code: "CODER0113",
        title: "Tags have keys",
        kinds: &[Kind::Provisioner],
        fields: &["spec.tags"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: nameless_tag, cel: nameless_tag_cel },
        fix: "give the tag a name",
        why: "Builds ask for tags by name, so a tag without one can never match.",
        bad: "spec:\n  tags:\n    \"\": on-prem",
        good: "spec:\n  tags:\n    environment: on-prem",
    },
    Rule {
        code: "CODER0114",
        title: "The tags scope and owner are left to coderd",
        kinds: &[Kind::Provisioner],
        fields: &["spec.tags"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: overruled_tags, cel: NO_CEL },
        fix: "remove it",
        why: "A daemon with a key always has scope organization and no owner, whatever the key says.",
        bad: "spec:\n  tags:\n    scope: user\n    owner: alice",
        good: "spec:\n  tags:\n    scope: organization",
    },
];

fn upper_case_key(subject: &Subject<'_>) -> Vec<Problem> {
    let name = field::text_at(subject.object, "spec.key.name").unwrap_or_default();
    let problem =
        || Problem::invalid("spec.key.name", format!("coderd stores {} in lower case", quoted(name)));
    name.chars().any(char::is_uppercase).then(problem).into_iter().collect()
}

fn no_control_plane(subject: &Subject<'_>) -> Vec<Problem> {
    let path = "spec.controlPlaneRef.name";
    // Something that is no text is for the schema to refuse.
    let missing = field::at(subject.object, path).is_none_or(|name| name.as_str() == Some(""));
    // A proxy may do without one.
    let referred = subject.kind == Kind::Provisioner
        || field::at(subject.object, "spec.controlPlaneRef").is_some_and(Value::is_object);
    let problem = || Problem::invalid(path, "names no control plane").because(CauseReason::Required);
    (missing && referred).then(problem).into_iter().collect()
}

fn no_control_plane_cel(kind: Kind) -> Vec<CelCheck> {
    if kind == Kind::WorkspaceProxy {
        let text = "(has(self.name) && self.name != '' ? 0 : 1)";
        return vec![CelCheck::counting("spec.controlPlaneRef", text)];
    }
    vec![CelCheck::counting(
        "",
        "(has(self.spec) && has(self.spec.controlPlaneRef) && has(self.spec.controlPlaneRef.name) && \
         self.spec.controlPlaneRef.name != '' ? 0 : 1)",
    )]
}

/// What decides which key a provisioner needs, with the value that counts where the field is silent.
fn new_identity(subject: &Subject<'_>) -> Vec<Problem> {
    let Some(old) = subject.old else {
        return Vec::new();
    };
    let own_name = field::at(subject.object, "metadata.name").cloned().unwrap_or_default();
    let parts = [
        ("spec.controlPlaneRef.name", json!(""), "the key moves to another control plane"),
        (
            "spec.organizationName",
            json!(crds::well_known::default::ORGANIZATION),
            "the key moves to another organization",
        ),
        ("spec.key.name", own_name, "a key of the new name replaces the old one"),
        ("spec.tags", json!({}), "a key with the new tags replaces the old one"),
    ];
    let changed = parts.into_iter().filter(|(path, silent, _)| {
        let effective = |object: &Value| match field::at(object, path) {
            None => silent.clone(),
            Some(Value::String(text)) if text.is_empty() => silent.clone(),
            Some(value) => value.clone(),
        };
        effective(old) != effective(subject.object)
    });
    changed
        .map(|(path, _, effect)| Problem::invalid(path, format!("{effect} and the daemons restart")))
        .collect()
}

fn nameless_tag(subject: &Subject<'_>) -> Vec<Problem> {
    let nameless = field::at(subject.object, "spec.tags").is_some_and(|tags| tags.get("").is_some());
    nameless.then(|| Problem::invalid("spec.tags", "has a tag without a name")).into_iter().collect()
}

fn nameless_tag_cel(_: Kind) -> Vec<CelCheck> {
    vec![CelCheck::counting("spec.tags", "('' in self ? 1 : 0)")]
}

fn overruled_tags(subject: &Subject<'_>) -> Vec<Problem> {
    let tag = |name: &str| field::at(subject.object, "spec.tags").and_then(|tags| tags.get(name)?.as_str());
    let scope = tag("scope").filter(|scope| !scope.is_empty() && *scope != "organization");
    let owner = tag("owner").filter(|owner| !owner.is_empty());
    let scope = scope.map(|_| Problem::invalid("spec.tags.scope", "coderd sets it to organization"));
    let owner = owner.map(|_| Problem::invalid("spec.tags.owner", "coderd clears it"));
    scope.into_iter().chain(owner).collect()
}
