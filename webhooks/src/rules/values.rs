//! Decides which values make sense on their own: filled texts, numbers in range, probes that can work.
//! Never judges how fields go together.

use serde_json::Value;

use super::{
    CelCheck, Check, EVERYWHERE, IN_RUST, IN_SCHEMA, Layer, NO_CEL, Problem, Rule, Severity, Subject, When,
};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{Form, IMAGE, quoted};

/// Every object is held to it, so that it is named.
pub(crate) const SCHEMA: Rule = Rule {
    code: "CODER0201",
    title: "The object fits its schema",
    kinds: &Kind::ALL,
    fields: &["spec"],
    severity: Severity::Deny,
    when: When::Always,
    layers: &[Layer::Schema, Layer::Webhook, Layer::Lint],
    check: Check::Schema,
    fix: "see kubectl explain",
    why: "The API server would refuse the object too, but only after admission and as 422 Invalid, which Flux with \
          force takes as a reason to delete and recreate it. Here it is a 403 that lists every problem at once.",
    bad: "spec:\n  replicas: \"2\"",
    good: "spec:\n  replicas: 2",
};

pub(super) static RULES: &[Rule] = &[
    SCHEMA,
    Rule {
        code: "CODER0202",
        title: "A field that is set is not empty",
        kinds: &Kind::ALL,
        fields: &[
            "spec.service.type",
            "spec.licenseSecretRef.name",
            "spec.licenseSecretRef.key",
            "spec.operatorAccess.tokenSecretRef.name",
            "spec.operatorAccess.tokenSecretRef.key",
            "spec.imagePullSecrets[].name",
            "spec.tls.secretNames[]",
            "spec.certs.secrets[].name",
            "spec.certs.secrets[].key",
            "spec.serviceAccount.name",
            "spec.priorityClassName",
            "spec.metrics.serviceMonitor.interval",
            "spec.metrics.podMonitor.interval",
            "spec.rbac.workspaceNamespaces[]",
            "spec.expose.ingress.className",
            "spec.expose.ingress.host",
            "spec.expose.ingress.wildcardHost",
            "spec.expose.ingress.tls.secretName",
            "spec.expose.ingress.tls.wildcardSecretName",
            "spec.expose.gateway.host",
            "spec.expose.gateway.wildcardHost",
            "spec.expose.gateway.parentRefs[].name",
            "spec.expose.gateway.parentRefs[].namespace",
            "spec.expose.gateway.parentRefs[].sectionName",
            "spec.envFrom[].secretRef.name",
            "spec.envFrom[].configMapRef.name",
            "spec.extraEnv[].valueFrom.secretKeyRef.name",
            "spec.extraEnv[].valueFrom.secretKeyRef.key",
            "spec.extraEnv[].valueFrom.configMapKeyRef.name",
            "spec.extraEnv[].valueFrom.configMapKeyRef.key",
            "spec.initContainers[].name",
            "spec.organizationName",
            "spec.key.name",
            "spec.key.secretName",
            "spec.key.secretKey",
            "spec.accessURL",
            "spec.wildcardAccessURL",
            "spec.primaryAccessURL",
            "spec.proxySessionTokenSecretRef.name",
            "spec.proxySessionTokenSecretRef.key",
            "spec.bootstrap.coderURL",
            "spec.bootstrap.credentialsSecretRef.name",
            "spec.bootstrap.credentialsSecretRef.key",
            "spec.bootstrap.proxyName",
            "spec.bootstrap.generatedTokenSecretName",
            "spec.registration.proxyName",
            "spec.registration.displayName",
            "spec.registration.icon",
            "spec.registration.tokenSecretName",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Filled]),
        fix: "give a value or remove the field",
        why: "An empty string is what is left of a variable that was not set. Treating it as the default would hide \
              the mistake, and writing the default over it would leave GitOps tools with a permanent difference.",
        bad: "kind: CoderProvisioner\nspec:\n  organizationName: \"\"",
        good: "kind: CoderProvisioner\nspec:\n  organizationName: data-science",
    },
    Rule {
        code: "CODER0203",
        title: "An image that is set is a valid image reference",
        kinds: &Kind::ALL,
        fields: &["spec.image"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Filled, Form::Matches(&IMAGE)]),
        fix: "give a version such as ghcr.io/coder/coder:v2.36.1 or remove the field",
        why: "The image decides which version runs, and a newer coderd changes its database for good. A variable \
              that was not set must not decide that, and no pod starts from something that is not an image reference.",
        bad: "spec:\n  image: ghcr.io/coder/coder v2.36.1",
        good: "spec:\n  image: ghcr.io/coder/coder:v2.36.1",
    },
    Rule {
        code: "CODER0204",
        title: "The number of replicas is not negative",
        kinds: &Kind::ALL,
        fields: &["spec.replicas"],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_SCHEMA,
        check: Check::Number { min: 0, max: i32::MAX as i64 },
        fix: "use 0 to stop it, 1 or more to run it",
        why: "A Deployment does not accept a negative number.",
        bad: "spec:\n  replicas: -1",
        good: "spec:\n  replicas: 0",
    },
    Rule {
        code: "CODER0205",
        title: "A port lies between 1 and 65535",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.service.port"],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_SCHEMA,
        check: Check::Number { min: 1, max: 65_535 },
        fix: "use a port such as 80",
        why: "A Service does not accept any other port.",
        bad: "spec:\n  service:\n    port: 0",
        good: "spec:\n  service:\n    port: 80",
    },
    Rule {
        code: "CODER0206",
        title: "A Service is ClusterIP, NodePort or LoadBalancer",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.service.type"],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_SCHEMA,
        check: Check::Text(&[Form::OneOf(&["ClusterIP", "NodePort", "LoadBalancer"])]),
        fix: "use ClusterIP, NodePort or LoadBalancer",
        why: "These are the kinds of Service that have pods behind them. ExternalName has none.",
        bad: "spec:\n  service:\n    type: ExternalName",
        good: "spec:\n  service:\n    type: LoadBalancer",
    },
    Rule {
        code: "CODER0207",
        title: "A liveness or startup probe succeeds at the first success",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.livenessProbe.successThreshold", "spec.startupProbe.successThreshold"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Number { min: 0, max: 1 },
        fix: "remove it or use 1",
        why: "Kubernetes refuses a Deployment whose liveness or startup probe requires more than one success.",
        bad: "spec:\n  livenessProbe:\n    successThreshold: 3",
        good: "spec:\n  livenessProbe:\n    enabled: true",
    },
    Rule {
        code: "CODER0208",
        title: "The names of workspaces and templates stay as they are",
        kinds: &[Kind::ControlPlane],
        fields: &["spec.aggregation.names"],
        severity: Severity::Deny,
        when: When::Change,
        layers: &[Layer::Cel, Layer::Policy, Layer::Webhook],
        check: Check::Object { find: renamed, cel: renamed_cel },
        fix: "set it back; only a new control plane can choose",
        why: "Workspaces and templates would be renamed under their users, and manifests that name them would create \
              new ones.",
        bad: "spec:\n  aggregation:\n    names: Prefixed   # was: Short",
        good: "spec:\n  aggregation:\n    names: Short",
    },
    Rule {
        code: "CODER0209",
        title: "A mount names a volume",
        kinds: &Kind::ALL,
        fields: &["spec.volumeMounts[].name", "spec.initContainers[].volumeMounts[].name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: mount_without_volume, cel: NO_CEL },
        fix: "add it to spec.volumes or correct the name",
        why: "Kubernetes refuses a Deployment that mounts a volume it does not have.",
        bad: "spec:\n  volumeMounts:\n    - {name: cache, mountPath: /cache}",
        good: "spec:\n  volumes:\n    - {name: cache, emptyDir: {}}\n  volumeMounts:\n    - {name: cache, mountPath: /cache}",
    },
];

fn renamed(subject: &Subject<'_>) -> Vec<Problem> {
    let names = |object| field::text_at(object, "spec.aggregation.names").unwrap_or("Short");
    let changed = subject.old.is_some_and(|old| names(old) != names(subject.object));
    let problem = || {
        Problem::invalid("spec.aggregation.names", "cannot change: workspaces and templates would be renamed")
            .because(CauseReason::Forbidden)
    };
    changed.then(problem).into_iter().collect()
}

fn renamed_cel(_: Kind) -> Vec<CelCheck> {
    let names = |spec: &str| {
        format!(
            "(has({spec}.aggregation) && has({spec}.aggregation.names) ? {spec}.aggregation.names : 'Short')"
        )
    };
    vec![CelCheck::counting("spec", format!("{} == {}", names("self"), names("oldSelf")))]
}

/// Volumes the operator makes itself may be mounted a second time.
const OWN_VOLUMES: [&str; 2] = ["tls-", "ca-cert-"];

fn mount_without_volume(subject: &Subject<'_>) -> Vec<Problem> {
    let name_of = |item: &'_ Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    let volumes: std::collections::BTreeSet<String> =
        field::items_at(subject.object, "spec.volumes").iter().filter_map(name_of).collect();
    let known = |name: &str| volumes.contains(name) || OWN_VOLUMES.iter().any(|own| name.starts_with(own));
    let mut problems = Vec::new();
    for pattern in ["spec.volumeMounts[].name", "spec.initContainers[].volumeMounts[].name"] {
        field::each(subject.object, pattern, &mut |value, indices| {
            if let Some(name) = value.as_str().filter(|name| !known(name)) {
                let problem = format!("there is no volume {}", quoted(name));
                let problem = Problem::invalid(field::path(pattern, indices), problem);
                problems.push(problem.because(CauseReason::NotFound));
            }
        });
    }
    problems
}
