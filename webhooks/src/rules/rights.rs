//! Decides which additions are checked against the rights of the person who asks, and how that is explained.
//! Never checks anything itself: [`crate::authorization`] says what to ask and the webhook asks.

use super::{Check, Layer, Rule, Severity, When};
use crate::kind::Kind;

/// Only the webhook knows who asks.
const WEBHOOK: &[Layer] = &[Layer::Webhook];

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0502",
        title: "Whoever grants a right must hold it",
        kinds: &[Kind::ControlPlane, Kind::Provisioner],
        fields: &["spec.rbac.workspacePerms", "spec.rbac.enableDeployments", "spec.rbac.extraRules"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who holds the right there, or who may escalate or bind roles there, to apply it",
        why: "The operator writes the Role on your behalf. Kubernetes requires the author of a Role to hold the permissions \
              in it, or escalate or bind on roles. So do we, for what a change adds, in every namespace that it adds \
              it to, that of the object included.",
        bad: "spec:\n  rbac:\n    extraRules:\n      - {apiGroups: [\"\"], resources: [secrets], verbs: [get]}",
        good: "spec:\n  rbac:\n    extraRules: []",
    },
    Rule {
        code: "CODER0503",
        title: "Whoever adds a workspace namespace must hold what coderd is granted there",
        kinds: &[Kind::ControlPlane],
        fields: &["spec.rbac.workspaceNamespaces[]"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who holds there all that the Role grants, or who may escalate or bind roles there, to apply \
              it",
        why: "coderd may then create and delete pods in that namespace, and do what spec.rbac.extraRules adds. The \
              namespace must consent too, with the label coder.com/workspaces-from.",
        bad: "spec:\n  rbac:\n    workspaceNamespaces: [kube-system]",
        good: "spec:\n  rbac:\n    workspaceNamespaces: [coder-workspaces]",
    },
    Rule {
        code: "CODER0506",
        title: "Whoever has a Secret sent somewhere must be allowed to read it",
        kinds: &[Kind::Provisioner, Kind::WorkspaceProxy],
        fields: &[
            "spec.bootstrap.credentialsSecretRef",
            "spec.bootstrap.generatedTokenSecretName",
            "spec.registration.tokenSecretName",
            "spec.bootstrap.coderURL",
            "spec.controlPlaneRef.name",
            "spec.proxySessionTokenSecretRef",
            "spec.primaryAccessURL",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may get the Secret to apply it",
        why: "The operator or the proxy sends the token to the address or the control plane in the manifest, which may \
              be anybody's. Every new one requires the right again.",
        bad: "kind: CoderWorkspaceProxy\nspec:\n  bootstrap: {coderURL: https://mine.example.com, credentialsSecretRef: {name: somebody-elses}}",
        good: "kind: CoderWorkspaceProxy\nspec:\n  bootstrap: {coderURL: https://coder.example.com, credentialsSecretRef: {name: registrar}}",
    },
    Rule {
        code: "CODER0507",
        title: "Whoever exceeds the Pod Security level restricted must be allowed to create pods",
        kinds: &Kind::ALL,
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
        why: "Files and ports of the node, privileges and priority come with the pod, and the operator creates the \
              pod. Where an object has such privileges already, whoever gives them to other code needs the right too.",
        bad: "spec:\n  volumes:\n    - {name: node, hostPath: {path: /}}",
        good: "spec:\n  volumes:\n    - {name: cache, emptyDir: {}}",
    },
    Rule {
        code: "CODER0508",
        title: "A change adds no more permissions than can be checked",
        kinds: &Kind::ALL,
        fields: &["spec"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "split the change, or ask somebody who may escalate or bind roles to apply it",
        why: "Each right takes one SubjectAccessReview, while the API server waits for our answer. At most 40 are made \
              for a namespace and 200 for a request.",
        bad: "spec:\n  rbac:\n    workspaceNamespaces: [team-a, team-b, team-c, team-d, team-e, team-f, team-g, team-h]   # all new",
        good: "spec:\n  rbac:\n    workspaceNamespaces: [team-a]   # the others in further commits",
    },
    Rule {
        code: "CODER0509",
        title: "Whoever changes what pods run must be allowed to run pods",
        kinds: &Kind::ALL,
        fields: &["spec", "metadata.annotations"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may create pods or Deployments in this namespace to apply it",
        why: "The author of an object chooses what its pods run, what they mount and which ServiceAccount they use. \
              Whoever may create pods or Deployments in the namespace could do all of that without the operator; \
              nobody else can do it by way of the operator. Annotations that adopt, rotate, release or downgrade \
              something count as such a change.",
        bad: "spec:\n  image: registry.example.com/mine:v2.36.1   # by somebody who may not create pods",
        good: "spec:\n  replicas: 2   # may be changed by anybody who may change the object",
    },
    Rule {
        code: "CODER0510",
        title: "Whoever exposes pods must be allowed to do so by hand",
        kinds: &[Kind::ControlPlane, Kind::WorkspaceProxy],
        fields: &["spec.service", "spec.expose.ingress", "spec.expose.gateway"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may create such objects in this namespace to apply it",
        why: "The operator creates the Ingress, the HTTPRoute or the Service on your behalf: a host name, an address \
              or a port on every node, which may belong to others or be kept closed by your administrator. Annotations \
              count too, because controllers act on them.",
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
        why: "In a namespace with the label coder.com/admission=disabled the webhooks are not called, so that no other \
              right is checked. One check is left, which the API server makes by itself: a new object, and every \
              change except to suspend, replicas, resources and the like, requires escalate on \
              roles.rbac.authorization.k8s.io in that namespace. Rights in other namespaces \
              (spec.rbac.workspaceNamespaces) require it in all namespaces. Setting, changing or removing the label \
              requires the same right, so that nobody can flip it while an object is being admitted.",
        bad: "spec:\n  image: registry.example.com/mine:v2.36.1   # in a namespace with admission switched off",
        good: "spec:\n  replicas: 2",
    },
    Rule {
        code: "CODER0512",
        title: "Whoever chooses the Secret of a key or token must be allowed to create Secrets",
        kinds: &[Kind::Provisioner, Kind::WorkspaceProxy],
        fields: &[
            "spec.key.secretName",
            "spec.key.secretKey",
            "spec.registration.tokenSecretName",
            "spec.bootstrap.generatedTokenSecretName",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "leave it out, or ask somebody who may create Secrets in this namespace to apply it",
        why: "The operator writes what coderd answers into that Secret, and coderd may be the author's own. Pods of others \
              that look for a Secret of that name would read it.",
        bad: "kind: CoderProvisioner\nspec:\n  key: {secretName: shop-db, secretKey: url}   # by somebody who may not create Secrets",
        good: "kind: CoderProvisioner\nspec:\n  key: {name: builders}",
    },
    Rule {
        code: "CODER0513",
        title: "Whoever has a Helm release taken over must be allowed to delete Deployments",
        kinds: &[Kind::ControlPlane],
        fields: &["metadata.annotations"],
        severity: Severity::Deny,
        when: When::Always,
        layers: WEBHOOK,
        check: Check::Access,
        fix: "ask somebody who may delete Deployments in this namespace to apply it",
        why: "On behalf of the author of coder.com/adopt-helm-release the operator deletes the Deployment of the release that it \
              names, and its pods once others serve in their place.",
        bad: "kind: CoderControlPlane\nmetadata:\n  annotations:\n    coder.com/adopt-helm-release: coder   # by somebody who may not \
              delete Deployments",
        good: "kind: CoderControlPlane\nmetadata:\n  annotations: {}",
    },
];
