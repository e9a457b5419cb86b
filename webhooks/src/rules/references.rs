//! Decides whether a name that refers to something can be the name of it.
//! Never asks whether that something exists: in Git it may come later.

use crds::names::SUBDOMAIN_LIMIT;

use super::{Check, EVERYWHERE, Rule, Severity, When};
use crate::kind::Kind;
use crate::text::{DATA_KEY, Form, LABEL, SUBDOMAIN};

/// A name Kubernetes accepts for most objects.
const OBJECT_NAME: &[Form] = &[Form::AtMostBytes(SUBDOMAIN_LIMIT), Form::Matches(&SUBDOMAIN)];

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0115",
        title: "The name of a Secret or ConfigMap is one Kubernetes accepts",
        kinds: &Kind::ALL,
        fields: &[
            "spec.licenseSecretRef.name",
            "spec.operatorAccess.tokenSecretRef.name",
            "spec.imagePullSecrets[].name",
            "spec.tls.secretNames[]",
            "spec.certs.secrets[].name",
            "spec.expose.ingress.tls.secretName",
            "spec.expose.ingress.tls.wildcardSecretName",
            "spec.envFrom[].secretRef.name",
            "spec.envFrom[].configMapRef.name",
            "spec.extraEnv[].valueFrom.secretKeyRef.name",
            "spec.extraEnv[].valueFrom.configMapKeyRef.name",
            "spec.key.secretName",
            "spec.bootstrap.credentialsSecretRef.name",
            "spec.bootstrap.generatedTokenSecretName",
            "spec.registration.tokenSecretName",
            "spec.proxySessionTokenSecretRef.name",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(OBJECT_NAME),
        fix: "use the name of the object: a-z, 0-9, '-' and '.'",
        why: "No Secret or ConfigMap can have such a name, so the reference could never be resolved. Often it is a \
              path, a variable that was not substituted, or a trailing space.",
        bad: "spec:\n  licenseSecretRef:\n    name: Coder_License",
        good: "spec:\n  licenseSecretRef:\n    name: coder-license",
    },
    Rule {
        code: "CODER0116",
        title: "The key of a Secret or ConfigMap is one Kubernetes accepts",
        kinds: &Kind::ALL,
        fields: &[
            "spec.licenseSecretRef.key",
            "spec.operatorAccess.tokenSecretRef.key",
            "spec.certs.secrets[].key",
            "spec.extraEnv[].valueFrom.secretKeyRef.key",
            "spec.extraEnv[].valueFrom.configMapKeyRef.key",
            "spec.key.secretKey",
            "spec.bootstrap.credentialsSecretRef.key",
            "spec.proxySessionTokenSecretRef.key",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[
            Form::AtMostBytes(SUBDOMAIN_LIMIT),
            Form::Matches(&DATA_KEY),
            Form::NotOneOf(&[".", ".."]),
        ]),
        fix: "use the key inside the Secret: letters, digits, '-', '_' and '.'",
        why: "No Secret or ConfigMap can have such a key.",
        bad: "spec:\n  licenseSecretRef:\n    name: coder-license\n    key: data/license",
        good: "spec:\n  licenseSecretRef:\n    name: coder-license\n    key: license",
    },
    Rule {
        code: "CODER0117",
        title: "The name of an object is one Kubernetes accepts",
        kinds: &Kind::ALL,
        fields: &[
            "spec.serviceAccount.name",
            "spec.priorityClassName",
            "spec.controlPlaneRef.name",
            "spec.expose.ingress.className",
            "spec.expose.gateway.parentRefs[].name",
            "spec.expose.gateway.parentRefs[].sectionName",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(OBJECT_NAME),
        fix: "use the name of the object: a-z, 0-9, '-' and '.'",
        why: "No object can have such a name, so the reference could never be resolved.",
        bad: "kind: CoderProvisioner\nspec:\n  controlPlaneRef:\n    name: Coder",
        good: "kind: CoderProvisioner\nspec:\n  controlPlaneRef:\n    name: coder",
    },
    Rule {
        code: "CODER0118",
        title: "The name of a namespace is one Kubernetes accepts",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.rbac.workspaceNamespaces[]", "spec.expose.gateway.parentRefs[].namespace"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&LABEL)]),
        fix: "use the name of the namespace: at most 63 of a-z, 0-9 and '-'",
        why: "No namespace can have such a name, so nothing could ever be granted or found there.",
        bad: "spec:\n  rbac:\n    workspaceNamespaces: [Team.A]",
        good: "spec:\n  rbac:\n    workspaceNamespaces: [team-a]",
    },
];
