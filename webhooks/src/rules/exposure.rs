//! Decides whether fields that belong together are there together: exposure, certificates, the ways of a proxy.
//! Never asks whether a gateway, a class or a certificate exists.

use super::{
    CelCheck, Check, EVERYWHERE, IN_RUST, IN_SCHEMA, NO_CEL, NOT_IN_CRD, Problem, Rule, Severity, Subject,
    When,
};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{ADDRESS, Form, HOST, WILDCARD_HOST};

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0301",
        title: "An object is exposed in one way, not two",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Object { find: both_ways, cel: both_ways_cel },
        fix: "keep ingress or gateway",
        why: "An Ingress and an HTTPRoute for one host would compete for it.",
        bad: "spec:\n  expose:\n    ingress: {host: coder.example.com}\n    gateway: {host: coder.example.com, parentRefs: [{name: public}]}",
        good: "spec:\n  expose:\n    ingress: {host: coder.example.com}",
    },
    Rule {
        code: "CODER0302",
        title: "An exposure sets ingress or gateway",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: neither_way, cel: neither_way_cel },
        fix: "set ingress or gateway, or remove expose",
        why: "An empty exposure exposes nothing, which is never what its author meant.",
        bad: "spec:\n  expose: {}",
        good: "spec:\n  expose:\n    ingress: {host: coder.example.com}",
    },
    Rule {
        code: "CODER0303",
        title: "A host is a host name",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose.ingress.host", "spec.expose.gateway.host"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&HOST), Form::Avoids(&ADDRESS)]),
        fix: "use a name such as coder.example.com",
        why: "Ingress and HTTPRoute take a name in lower case: no scheme, port, path, wildcard or IP address.",
        bad: "spec:\n  expose:\n    ingress: {host: https://coder.example.com}",
        good: "spec:\n  expose:\n    ingress: {host: coder.example.com}",
    },
    Rule {
        code: "CODER0304",
        title: "A wildcard host starts with '*.'",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose.ingress.wildcardHost", "spec.expose.gateway.wildcardHost"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&WILDCARD_HOST)]),
        fix: "use a name such as *.coder.example.com",
        why: "Each workspace application gets a host of its own below the wildcard.",
        bad: "spec:\n  expose:\n    ingress: {host: coder.example.com, wildcardHost: apps.example.com}",
        good: "spec:\n  expose:\n    ingress: {host: coder.example.com, wildcardHost: \"*.apps.example.com\"}",
    },
    Rule {
        code: "CODER0305",
        title: "A wildcard certificate has a wildcard host",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose.ingress.tls.wildcardSecretName"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: certificate_without_host, cel: certificate_without_host_cel },
        fix: "set wildcardHost or remove wildcardSecretName",
        why: "The Ingress lists a certificate together with the host it is for.",
        bad: "spec:\n  expose:\n    ingress:\n      host: coder.example.com\n      tls: {wildcardSecretName: wildcard-tls}",
        good: "spec:\n  expose:\n    ingress:\n      host: coder.example.com\n      wildcardHost: \"*.coder.example.com\"\n      tls: {wildcardSecretName: wildcard-tls}",
    },
    Rule {
        code: "CODER0306",
        title: "A route names a gateway",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.expose.gateway.parentRefs"],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_SCHEMA,
        check: Check::Object { find: no_gateway, cel: no_gateway_cel },
        fix: "name at least one Gateway",
        why: "An HTTPRoute that is attached to nothing routes nothing.",
        bad: "spec:\n  expose:\n    gateway: {host: coder.example.com, parentRefs: []}",
        good: "spec:\n  expose:\n    gateway: {host: coder.example.com, parentRefs: [{name: public}]}",
    },
    Rule {
        code: "CODER0307",
        title: "A proxy gets its token in one way",
        kinds: &[Kind::WorkspaceProxy],
        fields: &[
            "spec.controlPlaneRef",
            "spec.registration",
            "spec.bootstrap",
            "spec.primaryAccessURL",
            "spec.proxySessionTokenSecretRef",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Object { find: ways_to_a_token, cel: ways_to_a_token_cel },
        fix: "set controlPlaneRef, and registration only with it; or bootstrap; or primaryAccessURL and proxySessionTokenSecretRef",
        why: "A proxy needs the address of its control plane and a token that coderd gave it. Either the operator \
              registers it, through a control plane of this namespace or with an address and credentials of yours, and \
              keeps the token; or you have registered it yourself. primaryAccessURL may stand beside either: it is the \
              address that the proxy dials.",
        bad: "kind: CoderWorkspaceProxy\nspec:\n  primaryAccessURL: https://coder.example.com",
        good: "kind: CoderWorkspaceProxy\nspec:\n  primaryAccessURL: https://coder.example.com\n  proxySessionTokenSecretRef: {name: frankfurt-session}",
    },
    Rule {
        code: "CODER0308",
        title: "A token that is not used is not set",
        kinds: &[Kind::WorkspaceProxy],
        fields: &["spec.proxySessionTokenSecretRef"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: unused_token, cel: NO_CEL },
        fix: "remove it, or remove bootstrap",
        why: "With bootstrap the operator registers the proxy and uses the token it got from coderd.",
        bad: "spec:\n  bootstrap: {coderURL: https://coder.example.com, credentialsSecretRef: {name: registrar}}\n  proxySessionTokenSecretRef: {name: frankfurt-session}",
        good: "spec:\n  bootstrap: {coderURL: https://coder.example.com, credentialsSecretRef: {name: registrar}}",
    },
    Rule {
        code: "CODER0309",
        title: "The generated operator token has a name of its own",
        kinds: &[Kind::ControlPlane],
        fields: &["spec.operatorAccess.generatedTokenSecretName"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: ignored_token_name, cel: NO_CEL },
        fix: "remove it",
        why: "The token lives in the namespace of the operator, where templates cannot mount it, under a name that \
              follows from the control plane. The field is accepted so that older manifests apply, and ignored.",
        bad: "spec:\n  operatorAccess: {generatedTokenSecretName: coder-operator-token}",
        good: "spec:\n  operatorAccess: {disabled: false}",
    },
];

fn has(subject: &Subject<'_>, path: &str) -> bool {
    field::at(subject.object, path).is_some()
}

fn one(broken: bool, problem: impl FnOnce() -> Problem) -> Vec<Problem> {
    broken.then(problem).into_iter().collect()
}

fn both_ways(subject: &Subject<'_>) -> Vec<Problem> {
    let both = has(subject, "spec.expose.ingress") && has(subject, "spec.expose.gateway");
    one(both, || Problem::invalid("spec.expose", "sets ingress and gateway"))
}

fn both_ways_cel(_: Kind) -> Vec<CelCheck> {
    vec![CelCheck::counting("spec.expose", "(has(self.ingress) && has(self.gateway) ? 1 : 0)")]
}

fn neither_way(subject: &Subject<'_>) -> Vec<Problem> {
    let expose = field::at(subject.object, "spec.expose").filter(|expose| expose.is_object());
    let neither =
        expose.is_some_and(|expose| expose.get("ingress").is_none() && expose.get("gateway").is_none());
    one(neither, || {
        Problem::invalid("spec.expose", "sets neither ingress nor gateway").because(CauseReason::Required)
    })
}

fn neither_way_cel(_: Kind) -> Vec<CelCheck> {
    vec![CelCheck::counting("spec.expose", "(!has(self.ingress) && !has(self.gateway) ? 1 : 0)")]
}

fn certificate_without_host(subject: &Subject<'_>) -> Vec<Problem> {
    let secret = "spec.expose.ingress.tls.wildcardSecretName";
    let alone = has(subject, secret) && !has(subject, "spec.expose.ingress.wildcardHost");
    one(alone, || Problem::invalid(secret, "there is no wildcardHost"))
}

fn certificate_without_host_cel(_: Kind) -> Vec<CelCheck> {
    let text = "(has(self.tls) && has(self.tls.wildcardSecretName) && !has(self.wildcardHost) ? 1 : 0)";
    vec![CelCheck::counting("spec.expose.ingress", text)]
}

fn no_gateway(subject: &Subject<'_>) -> Vec<Problem> {
    let gateway = field::at(subject.object, "spec.expose.gateway").filter(|gateway| gateway.is_object());
    let parents =
        gateway.map(|gateway| gateway.get("parentRefs").and_then(|refs| refs.as_array()).map_or(0, Vec::len));
    one(parents == Some(0), || {
        Problem::invalid("spec.expose.gateway.parentRefs", "names no gateway").because(CauseReason::Required)
    })
}

fn no_gateway_cel(_: Kind) -> Vec<CelCheck> {
    let text = "(has(self.parentRefs) && size(self.parentRefs) > 0 ? 0 : 1)";
    vec![CelCheck::counting("spec.expose.gateway", text)]
}

/// As many problems as the CEL of the whole object counts. A token beside `bootstrap` has always been accepted, and is a
/// warning.
pub(super) fn ways_to_a_token(subject: &Subject<'_>) -> Vec<Problem> {
    let given = |path| has(subject, path);
    let [control_plane, bootstrap, registration, address, token] = [
        "spec.controlPlaneRef",
        "spec.bootstrap",
        "spec.registration",
        "spec.primaryAccessURL",
        "spec.proxySessionTokenSecretRef",
    ]
    .map(given);
    let besides = |field: &str, instead: &str| {
        let fix = format!(
            "keep controlPlaneRef and remove this, unless {instead}: then remove controlPlaneRef and registration"
        );
        Problem::invalid(field, "cannot be combined with controlPlaneRef").fixed_by(fix)
    };
    let alone = |fix: &str| Problem::invalid("spec.registration", "needs controlPlaneRef").fixed_by(fix);
    let missing = |problem: &str, fix: &str| {
        Problem::invalid("spec", problem).because(CauseReason::Required).fixed_by(fix)
    };
    if control_plane {
        let elsewhere = || besides("spec.bootstrap", "the control plane is not in this namespace");
        let by_hand = || besides("spec.proxySessionTokenSecretRef", "you registered the proxy yourself");
        return bootstrap.then(elsewhere).into_iter().chain(token.then(by_hand)).collect();
    }
    if bootstrap {
        let fix = "remove it: with bootstrap the name is bootstrap.proxyName; or set controlPlaneRef in place of bootstrap";
        return one(registration, || alone(fix));
    }
    if token {
        let fix = "remove it, or set controlPlaneRef in place of the address and the token";
        let address = one(!address, || {
            missing("primaryAccessURL is missing", "set it to the address of the control plane")
        });
        return one(registration, || alone(fix)).into_iter().chain(address).collect();
    }
    let problem = if registration {
        missing("controlPlaneRef is missing", "name a CoderControlPlane of this namespace in it")
    } else if address {
        let fix = "name the Secret with the token, or set controlPlaneRef or bootstrap to have the proxy registered";
        missing("proxySessionTokenSecretRef is missing", fix)
    } else {
        let fix = "set controlPlaneRef; or bootstrap; or primaryAccessURL and proxySessionTokenSecretRef";
        missing("has no control plane, and no address and token", fix)
    };
    vec![problem]
}

fn ways_to_a_token_cel(_: Kind) -> Vec<CelCheck> {
    let text = "(!has(self.spec) ? 1 : has(self.spec.controlPlaneRef) ? (has(self.spec.bootstrap) ? 1 : 0) + \
                (has(self.spec.proxySessionTokenSecretRef) ? 1 : 0) : \
                has(self.spec.bootstrap) ? (has(self.spec.registration) ? 1 : 0) : \
                has(self.spec.proxySessionTokenSecretRef) ? (has(self.spec.registration) ? 1 : 0) + \
                (has(self.spec.primaryAccessURL) ? 0 : 1) : 1)";
    vec![CelCheck::counting("", text)]
}

fn unused_token(subject: &Subject<'_>) -> Vec<Problem> {
    let path = "spec.proxySessionTokenSecretRef";
    // With a control plane it is refused.
    let unused =
        has(subject, path) && has(subject, "spec.bootstrap") && !has(subject, "spec.controlPlaneRef");
    one(unused, || Problem::invalid(path, "is not used with bootstrap"))
}

fn ignored_token_name(subject: &Subject<'_>) -> Vec<Problem> {
    let path = "spec.operatorAccess.generatedTokenSecretName";
    one(has(subject, path), || Problem::invalid(path, "is ignored"))
}
