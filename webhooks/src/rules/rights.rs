//! Decides which additions are checked against the rights of the person who asks, and how that is explained.
//! Never checks anything itself: [`crate::authorization`] says what to ask and the webhook asks.

use super::{Check, Layer, Rule, Severity, When};
use crate::kind::Kind;

/// Only the webhook knows who asks.
const WEBHOOK: &[Layer] = &[Layer::Webhook];

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0502",
        title: "Whoever grants a right holds it",
        kinds: &[Kind::ControlPlane, Kind::Provisioner],
        fields: &["spec.rbac.workspacePerms", "spec.rbac.enableDeployments", "spec.rbac.extraRules"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who holds these rights in each workspace namespace to apply it",
        why: "The operator would write the Role for you. Kubernetes asks the author of a Role for the rights in it, \
              or for escalate or bind on roles; so do we, for what a change adds and in each namespace, the own one too.",
        bad: "spec:\n  rbac:\n    extraRules:\n      - {apiGroups: [\"\"], resources: [secrets], verbs: [get]}",
        good: "spec:\n  rbac:\n    extraRules: []",
    },
    Rule {
        code: "CODER0503",
        title: "Whoever adds a workspace namespace holds what coderd gets there",
        kinds: &[Kind::ControlPlane],
        fields: &["spec.rbac.workspaceNamespaces[]"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may manage pods, volume claims and Deployments there to apply it",
        why: "coderd may then make and delete pods in that namespace. The namespace must consent too, with the label \
              coder.com/workspaces-from.",
        bad: "spec:\n  rbac:\n    workspaceNamespaces: [kube-system]",
        good: "spec:\n  rbac:\n    workspaceNamespaces: [coder-workspaces]",
    },
    Rule {
        code: "CODER0506",
        title: "Whoever sends a Secret to an address may read it",
        kinds: &[Kind::WorkspaceProxy],
        fields: &[
            "spec.bootstrap.credentialsSecretRef",
            "spec.bootstrap.generatedTokenSecretName",
            "spec.bootstrap.coderURL",
            "spec.proxySessionTokenSecretRef",
            "spec.primaryAccessURL",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may get the Secret to apply it",
        why: "The operator or the proxy sends the token to the address in the manifest, which may be anybody's. A \
              new address is asked for again.",
        bad: "spec:\n  bootstrap: {coderURL: https://mine.example.com, credentialsSecretRef: {name: somebody-elses}}",
        good: "spec:\n  bootstrap: {coderURL: https://coder.example.com, credentialsSecretRef: {name: registrar}}",
    },
    Rule {
        code: "CODER0507",
        title: "Whoever leaves what Pod Security calls restricted may create pods",
        kinds: &[Kind::ControlPlane],
        fields: &[
            "spec.volumes[]",
            "spec.securityContext",
            "spec.podSecurityContext",
            "spec.podAnnotations",
            "spec.initContainers[]",
            "spec.lifecycle",
            "spec.priorityClassName",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "leave it out, or ask somebody who may create pods in this namespace to apply it",
        why: "Files and ports of the node, privileges and priority come with the pod, and the operator makes the pod. \
              Where an object has such powers already, whoever gives them to other code is asked too.",
        bad: "spec:\n  volumes:\n    - {name: node, hostPath: {path: /}}",
        good: "spec:\n  volumes:\n    - {name: cache, emptyDir: {}}",
    },
    Rule {
        code: "CODER0508",
        title: "A change adds no more rights than can be checked",
        kinds: &Kind::ALL,
        fields: &["spec"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "split the change, or ask somebody who may escalate or bind roles to apply it",
        why: "Each right is one question to the API server while it waits for us. At most 40 are asked about a \
              namespace and 200 for a request.",
        bad: "spec:\n  rbac:\n    workspaceNamespaces: [team-a, team-b, team-c, team-d, team-e, team-f, team-g, team-h]   # all new",
        good: "spec:\n  rbac:\n    workspaceNamespaces: [team-a]   # the others in further commits",
    },
    Rule {
        code: "CODER0509",
        title: "Whoever has pods run may run pods",
        kinds: &Kind::ALL,
        fields: &["spec", "metadata.annotations"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may create pods or Deployments in this namespace to apply it",
        why: "The author of an object chooses what its pods run, what they mount and whose account they use. Who may \
              create pods or Deployments there could do all of that without us; nobody else gets it from us. \
              Annotations that adopt, release or downgrade something count as such a change.",
        bad: "spec:\n  image: registry.example.com/mine:v2.36.1   # by somebody who may not create pods",
        good: "spec:\n  replicas: 2   # may be changed by everybody who may change the object",
    },
    Rule {
        code: "CODER0510",
        title: "Whoever exposes pods may do so by hand",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.service", "spec.expose.ingress", "spec.expose.gateway"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may create such objects in this namespace to apply it",
        why: "The operator would make the Ingress, the HTTPRoute or the Service for you: a host name, an address or a \
              port of every node that others may hold or that your administrator keeps closed. Annotations count, \
              because controllers act on them.",
        bad: "spec:\n  service: {type: LoadBalancer}   # by somebody who may not create Services",
        good: "spec:\n  service: {type: ClusterIP}",
    },
    Rule {
        code: "CODER0511",
        title: "With admission switched off, only those who may escalate roles change what runs",
        kinds: &Kind::ALL,
        fields: &["spec", "metadata.annotations"],
        severity: Severity::Deny,
        when: When::Always,
        layers: &[Layer::BreakGlass],
        check: Check::Access,
        fix: "ask somebody who may escalate roles in this namespace to apply it, or remove the label \
              coder.com/admission from the namespace",
        why: "The label coder.com/admission=disabled on a namespace keeps the webhooks out of it, and with them every \
              other question about rights. One is left, which the API server answers itself: a new object, and every \
              change but of suspend, replicas, resources and the like, needs escalate on roles.rbac.authorization.k8s.io \
              in that namespace. Rights in other namespaces (spec.rbac.workspaceNamespaces) need it in all namespaces, and \
              so that nobody flips the label while an object is looked at, setting, changing or removing it needs the \
              same right.",
        bad: "spec:\n  image: registry.example.com/mine:v2.36.1   # in a namespace with admission switched off",
        good: "spec:\n  replicas: 2",
    },
];
