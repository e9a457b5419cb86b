//! What the operator itself may do: in every namespace, in kube-system by one name, and in its own namespace.
//! It never holds what is only to be handed on: another account does.

use super::{Extent, GRANTS_ACCOUNT, Grant, Holder, KINDS, OPERATOR, OWNERS_OF_CHILDREN, On, Part, Role};
use crate::kubernetes::lease::{AUTHORITY_LEASE, CONTROLLER_LEASE};
use crate::serving::authority::SECRET as CA_SECRET;
use crds::well_known;

/// A verb that nobody else has. It is here, and not in the Role at home, because the operator may delete RoleBindings, by way of its
/// account for grants, and no ClusterRoleBinding.
pub const INJECTS_CA: &str = "inject-ca";

const WEBHOOK_CONFIGURATIONS: On = On::Resources {
    group: "admissionregistration.k8s.io",
    resources: &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
};

pub(super) const EVERYWHERE: Role = Role {
    name: OPERATOR,
    holder: Holder::OperatorEverywhere,
    purpose: "What the operator does in every namespace or outside of all.",
    grants: &[
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: KINDS },
            verbs: &["list", "watch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "The operator follows the objects it is there for.",
        },
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: KINDS },
            verbs: &["get", "patch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "A reconcile reads the object as it is now; the patch is for our finalizer alone.",
        },
        Grant {
            on: On::Resources {
                group: well_known::GROUP,
                resources: &[
                    "codercontrolplanes/status",
                    "coderprovisioners/status",
                    "coderworkspaceproxies/status",
                ],
            },
            verbs: &["patch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "It says what it observed; of a provisioner's keys and a proxy's registration before it makes or deletes one.",
        },
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: OWNERS_OF_CHILDREN },
            verbs: &["update"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Children hold back a deletion in the foreground until they are gone. Clusters that guard this \
                     (OpenShift does) ask for the right when a child is made; nothing is ever called with it.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["secrets", "configmaps"] },
            verbs: &["get", "list", "watch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Objects refer to Secrets and ConfigMaps by name: those are read when they are needed and never \
                     kept. Lists and watches ask for metadata only.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["namespaces"] },
            verbs: &["get"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "A namespace says by its labels whose workspaces it takes and whether admission is disabled there. A Role \
                     gives this right for the namespace that it is in.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["namespaces"] },
            verbs: &["list", "watch"],
            parts: &[Part::Controller],
            extent: Extent::Cluster,
            reason: "What a namespace says by its labels is followed, by metadata only.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["secrets"] },
            verbs: &["create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "The key of a provisioner and the token of a workspace proxy are kept in a Secret beside it, under a name that \
                     the spec may give. Only Secrets that the object controls are changed or removed.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["services"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "A child of every control plane and workspace proxy; it goes with its owner. None is ever deleted: clusters that \
                     guard owner references ask for that right when one is written on a Service that is there already, such as \
                     that of a Helm release.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["serviceaccounts"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Another child; one that the spec names no more is removed.",
        },
        Grant {
            on: On::Resources { group: "apps", resources: &["deployments"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "The same for its pods. Before the key of a provisioner that goes is deleted, its Deployment is removed, so \
                     that daemons finish their builds; that of a Helm release is removed without its pods when an annotation \
                     asks to take the release over.",
        },
        Grant {
            on: On::Resources { group: "apps", resources: &["replicasets"] },
            verbs: &["get", "list", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "The pods that such a Deployment leaves behind go with their ReplicaSets, once ours serve; asked only while a \
                     Helm release is taken over, for those that it had and nobody controls.",
        },
        Grant {
            on: On::Resources { group: "discovery.k8s.io", resources: &["endpointslices"] },
            verbs: &["get", "list"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Whether the Service leads past those pods; asked only before they go.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["pods"] },
            verbs: &["list"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Whether a rollout that is late is slow or stuck, whether the daemons of a provisioner that goes have \
                     ended, and which pod coderd does not hear of; asked only then, for the pods of one object.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["pods"] },
            verbs: &["delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "A daemon that coderd refused once never dials again: a pod of a provisioner that is ready, and that coderd \
                     has not heard of for minutes, is deleted, one a minute at most.",
        },
        Grant {
            on: On::Resources { group: "rbac.authorization.k8s.io", resources: &["roles", "rolebindings"] },
            verbs: &["get", "list", "watch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "What coderd may do where it runs workspaces. It is written and taken back as another account, \
                     coder-k8s-grants, which holds only what may be granted.",
        },
        Grant {
            on: On::Resources { group: "networking.k8s.io", resources: &["ingresses"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "How users reach coderd and its proxies from outside the cluster; removed when it is no longer asked for.",
        },
        Grant {
            on: On::Resources { group: "gateway.networking.k8s.io", resources: &["httproutes"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "The same by the Gateway API, where the cluster has it.",
        },
        Grant {
            on: On::Resources { group: "policy", resources: &["poddisruptionbudgets"] },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Keeps replicas apart from drains, where it is asked for.",
        },
        Grant {
            on: On::Resources {
                group: "monitoring.coreos.com",
                resources: &["servicemonitors", "podmonitors"],
            },
            verbs: &["get", "list", "watch", "create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Tells the Prometheus operator where to look, where there is one.",
        },
        Grant {
            on: On::Named {
                group: "apiextensions.k8s.io",
                resources: &["customresourcedefinitions"],
                names: &[
                    "httproutes.gateway.networking.k8s.io",
                    "servicemonitors.monitoring.coreos.com",
                    "podmonitors.monitoring.coreos.com",
                ],
            },
            verbs: &["list", "watch"],
            parts: &[Part::Controller],
            extent: Extent::Cluster,
            reason: "The last three kinds come with these definitions: nothing is asked about a kind that is not there, and \
                     its objects are followed as soon as it is.",
        },
        Grant {
            on: WEBHOOK_CONFIGURATIONS,
            verbs: &["list", "watch"],
            parts: &[Part::Certificates],
            extent: Extent::Cluster,
            reason: "Its certificate is good for the Services that these call, and it is ready when they trust its CA. Their \
                     names carry the prefix of an overlay, so the right cannot be limited by name.",
        },
        Grant {
            on: WEBHOOK_CONFIGURATIONS,
            verbs: &["patch"],
            parts: &[Part::Authority],
            extent: Extent::Cluster,
            reason: "It puts its CA in the caBundle of those labelled coder.com/inject-ca.",
        },
        Grant {
            on: On::Resources { group: "apiregistration.k8s.io", resources: &["apiservices"] },
            verbs: &["list", "watch"],
            parts: &[Part::Controller, Part::Certificates],
            extent: Extent::Cluster,
            reason: "The same for the aggregated API; whether there is one also decides who needs access to coderd.",
        },
        Grant {
            on: On::Resources { group: "apiregistration.k8s.io", resources: &["apiservices"] },
            verbs: &["patch"],
            parts: &[Part::Authority],
            extent: Extent::Cluster,
            reason: "Its CA goes in the caBundle of those as well.",
        },
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: &["codercontrolplanes"] },
            verbs: &[INJECTS_CA],
            parts: &[Part::Authority],
            extent: Extent::Cluster,
            reason: "Nothing is ever called with it: it is the mark by which the policy coder-k8s-ca-injection knows whose \
                     patches of these objects may change the caBundle and nothing else.",
        },
        Grant {
            on: On::Resources { group: "events.k8s.io", resources: &["events"] },
            verbs: &["create", "patch"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "It tells in Events, which are kept beside the object they are about, what it did and what went wrong, and \
                     counts repetitions in the Event that is there.",
        },
        Grant {
            on: On::Resources { group: "authentication.k8s.io", resources: &["tokenreviews"] },
            verbs: &["create"],
            parts: &[Part::Metrics],
            extent: Extent::Cluster,
            reason: "It asks the API server whose bearer token a caller shows.",
        },
        Grant {
            on: On::Resources { group: "authorization.k8s.io", resources: &["subjectaccessreviews"] },
            verbs: &["create"],
            parts: &[Part::Webhooks, Part::Metrics],
            extent: Extent::Cluster,
            reason: "It asks the API server whether a caller may do what it asks for.",
        },
    ],
};

pub(super) const FRONT_PROXY_READER: Role = Role {
    name: "coder-k8s-front-proxy-reader",
    holder: Holder::OperatorEverywhere,
    purpose: "The object is in kube-system, and a Role there would do. But the namespace transformer of kustomize \
              moves every namespaced object, a RoleBinding in kube-system too. A ClusterRole limited to one name \
              stays in force: it opens the ConfigMaps of that name and no other.",
    grants: &[Grant {
        on: On::Named {
            group: "",
            resources: &["configmaps"],
            names: &["extension-apiserver-authentication"],
        },
        verbs: &["list", "watch"],
        parts: &[Part::AggregatedApi],
        extent: Extent::Cluster,
        reason: "It holds the CA and the names by which the API server proves that a request to the aggregated \
                 API comes from it.",
    }],
};

pub(super) const AT_HOME: Role = Role {
    name: OPERATOR,
    holder: Holder::OperatorAtHome,
    purpose: "What the operator does in its own namespace only.",
    grants: &[
        Grant {
            on: On::Resources { group: "coordination.k8s.io", resources: &["leases"] },
            verbs: &["create"],
            parts: &[Part::Controller, Part::Authority],
            extent: Extent::Namespace,
            reason: "The first replica makes the leases; RBAC cannot limit a create by name.",
        },
        Grant {
            on: On::Named {
                group: "coordination.k8s.io",
                resources: &["leases"],
                names: &[CONTROLLER_LEASE],
            },
            verbs: &["get", "update"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Replicas agree by this lease on who reconciles.",
        },
        Grant {
            on: On::Named { group: "coordination.k8s.io", resources: &["leases"], names: &[AUTHORITY_LEASE] },
            verbs: &["get", "update"],
            parts: &[Part::Authority],
            extent: Extent::Namespace,
            reason: "Replicas agree by this lease on who keeps the CA.",
        },
        Grant {
            on: On::Resources { group: "events.k8s.io", resources: &["events"] },
            verbs: &["create", "patch"],
            parts: &[Part::Controller, Part::Authority],
            extent: Extent::Namespace,
            reason: "Events beside a lease tell who leads, those beside the Secret of the CA what became of it.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["secrets"] },
            verbs: &["create"],
            parts: &[Part::Authority],
            extent: Extent::Namespace,
            reason: "The first replica makes the Secret of the CA; RBAC cannot limit a create by name.",
        },
        Grant {
            on: On::Named { group: "", resources: &["secrets"], names: &[CA_SECRET] },
            verbs: &["list", "watch"],
            parts: &[Part::Certificates],
            extent: Extent::Namespace,
            reason: "Every replica follows the CA that signs its certificate.",
        },
        Grant {
            on: On::Named { group: "", resources: &["secrets"], names: &[CA_SECRET] },
            verbs: &["get", "update"],
            parts: &[Part::Authority],
            extent: Extent::Namespace,
            reason: "One replica rotates the CA; it reads it anew before it writes.",
        },
        Grant {
            on: On::Named { group: "", resources: &["serviceaccounts"], names: &[GRANTS_ACCOUNT] },
            verbs: &["impersonate"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Roles and RoleBindings are written as this account, so that nothing can be granted that it \
                     does not hold, whatever the operator itself may do. No other account can be impersonated.",
        },
        Grant {
            on: On::Resources { group: "", resources: &["secrets"] },
            verbs: &["get", "list", "watch", "create", "update", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Its own token for each control plane, which it makes, renews and takes back, and the key of its \
                     checksums, which it makes once. The name of a token is derived from the control plane's, so \
                     the right cannot be limited by name.",
        },
    ],
};
