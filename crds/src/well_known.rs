//! Decides how finalizers, annotations, labels, default keys and condition types are spelled.
//! Never decides when one of them is set, read or removed.

/// API group of the three kinds.
pub const GROUP: &str = "coder.com";
/// The only served version of [`GROUP`].
pub const VERSION: &str = "v1alpha1";
/// Field manager of every server-side apply, and value of [`label::MANAGED_BY`].
pub const MANAGER: &str = "coder-k8s";
/// Secret in the operator's namespace with the key of [`annotation::CHECKSUM`].
pub const CHECKSUM_KEY_SECRET: &str = "coder-k8s-checksum-key";

/// Finalizers, one a kind. Their spelling is part of the API: an object stored long ago still carries them.
pub mod finalizer {
    /// On a CoderControlPlane: whatever no owner reference reaches, which is the Roles and RoleBindings in
    /// workspace namespaces and the operator token.
    pub const CONTROL_PLANE: &str = "coder.com/workspace-rbac-cleanup";
    /// On a CoderProvisioner: the provisioner key in coderd.
    pub const PROVISIONER: &str = "coder.com/provisioner-key-cleanup";
    /// On a CoderWorkspaceProxy that the operator registers: the registration in coderd.
    pub const WORKSPACE_PROXY: &str = "coder.com/workspace-proxy-cleanup";
}

/// Annotations. Those that people write on our objects are one list; the others are written by the operator.
pub mod annotation {
    /// One that the operator reads on our objects.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Read {
        /// How it is spelled.
        pub key: &'static str,
        /// The kinds that it means something on.
        pub kinds: &'static [&'static str],
        /// What it is given, in words.
        pub value: &'static str,
        /// The only value that counts, where there is one.
        pub only: Option<&'static str>,
        /// What it does.
        pub does: &'static str,
        /// Whether it acts: adding or changing it is reviewed by admission as a change of the spec is.
        pub acts: bool,
    }

    /// From one list: a constant for each, and [`READ`] with all of them.
    macro_rules! read {
        ($($name:ident = $key:literal $acts:ident on $kinds:expr, $value:literal, $only:expr, $does:literal;)*) => {
            $(#[doc = $does] pub const $name: &str = $key;)*
            /// Every one that the operator reads on our objects.
            pub const READ: &[Read] = &[$(Read {
                key: $name, kinds: $kinds, value: $value, only: $only, does: $does, acts: read!($acts),
            }),*];
        };
        (acts) => { true };
        (asks) => { false };
    }

    const CONTROL_PLANE: &str = "CoderControlPlane";
    const PROVISIONER: &str = "CoderProvisioner";
    const WORKSPACE_PROXY: &str = "CoderWorkspaceProxy";
    const EVERY_KIND: &[&str] = &[CONTROL_PLANE, PROVISIONER, WORKSPACE_PROXY];

    read! {
        RELEASE_EXTERNAL = "coder.com/release-external" acts on EVERY_KIND, "`true`", Some("true"),
            "Lets a deleted object go without removing what it made in coderd or in other namespaces.";
        ADOPT_KEY = "coder.com/adopt-key" acts on &[PROVISIONER], "name of a provisioner key", None,
            "Takes over a key in coderd that this object did not make: it is deleted when a new one is in use. Acts once.";
        ADOPT_PROXY = "coder.com/adopt-proxy" acts on &[WORKSPACE_PROXY], "name of a workspace proxy", None,
            "Takes over a registration in coderd that this object did not make, which ends the token it has. Acts once.";
        ROTATE_TOKEN = "coder.com/rotate-token" acts on &[WORKSPACE_PROXY], "any new value", None,
            "Replaces the token of the registration, once for each value.";
        ALLOW_DOWNGRADE = "coder.com/allow-downgrade" acts on &[CONTROL_PLANE], "a version of Coder", None,
            "Lets the control plane go back to this lower version.";
        ADOPT_HELM_RELEASE = "coder.com/adopt-helm-release" acts on &[CONTROL_PLANE], "name of a Helm release", None,
            "Takes over what Coder's chart installed in this namespace under the names of this object, without a gap: its pods go when those of this object serve. Acts once for each release.";
        RECONCILE_AT = "coder.com/reconcile-at" asks on EVERY_KIND, "any new value", None,
            "Asks for one more reconcile; `status.lastHandledReconcileAt` echoes it.";
    }

    /// Those that act: adding or changing one is reviewed by admission as a change of the spec is.
    pub const ACTING: [&str; number_of_acting()] = acting();

    const fn number_of_acting() -> usize {
        let (mut at, mut number) = (0, 0);
        while at < READ.len() {
            number += READ[at].acts as usize;
            at += 1;
        }
        number
    }

    const fn acting<const NUMBER: usize>() -> [&'static str; NUMBER] {
        let mut keys = [""; NUMBER];
        let (mut at, mut next) = (0, 0);
        while at < READ.len() {
            if READ[at].acts {
                keys[next] = READ[at].key;
                next += 1;
            }
            at += 1;
        }
        keys
    }

    /// On workspace Roles and RoleBindings: uid of the control plane that made them.
    pub const WORKSPACE_RBAC_OWNER_UID: &str = "coder.com/workspace-rbac-owner-uid";
    /// On a provisioner's pod template: a new key rolls the Deployment.
    pub const KEY_CHECKSUM: &str = "checksum/provisioner-key";
    /// On the Secret of a provisioner key: data key, control plane, deployment, organization and name of the key whose
    /// plaintext it holds, so that the plaintext is shown to no other coderd.
    pub const KEY_OF: &str = "coder.com/provisioner-key-of";
    /// On a workspace proxy's pod template: a new token rolls the Deployment.
    pub const TOKEN_CHECKSUM: &str = "checksum/proxy-token";
    /// On the Secret of a proxy's token: control plane, deployment and id of the registration whose token it holds, so that
    /// the token is shown to no other coderd, and the rotation it was made for.
    pub const TOKEN_OF: &str = "coder.com/proxy-token-of";
    /// On the Secret of a proxy's token: the proxy of others that its object took over, with a proof that the operator wrote it.
    pub const ADOPTED: &str = "coder.com/adopted-proxy";
    /// On a pod template: a new value in a Secret or ConfigMap that the spec lets pods read rolls the Deployment.
    pub const CHECKSUM: &str = "coder.com/checksum";
    /// On the pod template of a provisioner or a workspace proxy: another CA of a control plane with TLS rolls the Deployment.
    pub const TRUST_CHECKSUM: &str = "coder.com/trust-checksum";
    /// Fingerprint of the manifest an object was made from, so that a field no longer wanted is noticed.
    pub const FINGERPRINT: &str = "coder.com/fingerprint";
    /// On the CRDs: Argo CD must not keep a copy of something this large in an annotation. On children in other
    /// namespaces: Argo CD must not prune them.
    pub const ARGOCD_SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
    /// On children in other namespaces: they are no difference to what is in Git.
    pub const ARGOCD_COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
}

/// Labels, on children unless the constant says otherwise.
pub mod label {
    /// Which of our kinds a child belongs to; see [`super::app_name`].
    pub const NAME: &str = "app.kubernetes.io/name";
    /// Which object of that kind; see [`crate::names::instance_label`].
    pub const INSTANCE: &str = "app.kubernetes.io/instance";
    /// Always [`super::MANAGER`].
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// On workspace Roles and RoleBindings: name of the control plane.
    pub const CONTROL_PLANE: &str = "coder.com/control-plane";
    /// On workspace Roles and RoleBindings: namespace of the control plane.
    pub const CONTROL_PLANE_NAMESPACE: &str = "coder.com/control-plane-namespace";
    /// On a Deployment, not on its pods: the versions of the Secrets and ConfigMaps that
    /// [`super::annotation::CHECKSUM`] is of. An annotation would count as another generation.
    pub const CONSUMED_VERSIONS: &str = "coder.com/consumed-versions";
    /// On a namespace: consent that control planes of the named namespace run workspaces here.
    pub const WORKSPACES_FROM: &str = "coder.com/workspaces-from";
    /// On a namespace: `disabled` switches off our webhooks there, as a way out when they cannot answer.
    pub const ADMISSION: &str = "coder.com/admission";
    /// Value of [`ADMISSION`] that does it.
    pub const ADMISSION_DISABLED: &str = "disabled";
    /// On webhook configurations and APIServices: `"true"` asks for our `caBundle`.
    pub const INJECT_CA: &str = "coder.com/inject-ca";
}

/// Values of [`label::NAME`].
pub mod app_name {
    /// Children of a CoderControlPlane.
    pub const CONTROL_PLANE: &str = "coder-control-plane";
    /// Children of a CoderProvisioner.
    pub const PROVISIONER: &str = "coder-provisioner";
    /// Children of a CoderWorkspaceProxy.
    pub const WORKSPACE_PROXY: &str = "coder-workspace-proxy";
}

/// Keys read from a Secret when the reference names none.
pub mod secret_key {
    /// Session tokens: operator, proxy, credentials.
    pub const TOKEN: &str = "token";
    /// License.
    pub const LICENSE: &str = "license";
    /// Provisioner key.
    pub const PROVISIONER_KEY: &str = "key";
}

/// Values the reconciler and the webhook use where a manifest says nothing.
pub mod default {
    /// Image of the control plane and the proxy unless `--default-image` says otherwise; never `latest`.
    pub const IMAGE: &str = "ghcr.io/coder/coder:v2.36.1";
    /// DNS domain of the cluster unless `--cluster-domain` says otherwise.
    pub const CLUSTER_DOMAIN: &str = "cluster.local";
    /// Pods of every kind.
    pub const REPLICAS: i32 = 1;
    /// `service.type`.
    pub const SERVICE_TYPE: &str = "ClusterIP";
    /// `service.port`.
    pub const SERVICE_PORT: i32 = 80;
    /// Icon of a workspace proxy: a globe. coderd takes no empty one.
    pub const PROXY_ICON: &str = "/emojis/1f310.png";
    /// Seconds a workspace proxy may take to stop.
    pub const WORKSPACE_PROXY_GRACE_PERIOD_SECONDS: i64 = 60;
    /// Organization of a provisioner key.
    pub const ORGANIZATION: &str = "default";
    /// Seconds coderd may take to stop.
    pub const CONTROL_PLANE_GRACE_PERIOD_SECONDS: i64 = 60;
    /// Pods that may be missing where a budget does not say.
    pub const MAX_UNAVAILABLE: i32 = 1;
    /// Seconds between two probes.
    pub const PROBE_PERIOD_SECONDS: i32 = 10;
    /// Seconds that a probe may take.
    pub const PROBE_TIMEOUT_SECONDS: i32 = 1;
    /// Successes of a probe in a row that count.
    pub const PROBE_SUCCESSES: i32 = 1;
    /// Failures of a probe in a row that count.
    pub const PROBE_FAILURES: i32 = 3;
    /// Failures of the startup probe, ten seconds apart, before coderd is restarted: six hours. It answers only after it
    /// has migrated its database, which can take hours after a large jump, and a restart would begin it anew.
    pub const STARTUP_FAILURES: i32 = 2160;
    /// Seconds a provisioner may take to finish its builds.
    pub const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 600;
}

/// The ClusterRole with what the operator may grant to coderd, before any prefix an overlay gives it.
pub const HANDED_ON: &str = "coder-k8s-workspaces";

/// What coderd and its provisioners may do where they run workspaces, unless the spec says otherwise: one table for the
/// Roles that are written, for those who are asked whether they may grant it, and for the account that grants it.
pub mod workspace_access {
    /// What may be done with each kind of object.
    pub const VERBS: [&str; 8] =
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

    /// Kinds of objects, and the field that decides about them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Resources {
        /// Field of an object that grants them.
        pub field: &'static str,
        /// API group; empty for the core group.
        pub group: &'static str,
        /// Plural names.
        pub resources: &'static [&'static str],
    }

    /// Workspaces are pods with volumes.
    pub const PODS: Resources = Resources {
        field: "spec.rbac.workspacePerms",
        group: "",
        resources: &["pods", "persistentvolumeclaims"],
    };
    /// Many templates run a workspace as a Deployment.
    pub const DEPLOYMENTS: Resources =
        Resources { field: "spec.rbac.enableDeployments", group: "apps", resources: &["deployments"] };

    /// Each resource that is granted, with or without Deployments.
    pub fn granted(deployments: bool) -> impl Iterator<Item = (&'static Resources, &'static str)> {
        let rows = [&PODS].into_iter().chain(deployments.then_some(&DEPLOYMENTS));
        rows.flat_map(|row| row.resources.iter().map(move |resource| (row, *resource)))
    }
}

/// Names coderd keeps for itself. The rules in the schema spell them again, and a test holds them together.
pub mod reserved {
    /// Provisioner keys, in any case.
    pub const KEYS: [&str; 3] = ["built-in", "user-auth", "psk"];
    /// Organizations, in this case only.
    pub const ORGANIZATIONS: [&str; 2] = ["new", "create"];
    /// Workspace proxies, in any case: the control plane itself, and the path by which a proxy asks about itself.
    pub const PROXIES: [&str; 2] = ["primary", "me"];
}

/// Condition types. `Ready`, `Reconciling` and `Stalled` are those of kstatus.
pub mod condition {
    /// The object does what its spec asks for.
    pub const READY: &str = "Ready";
    /// Work is going on; absent or False when it is not.
    pub const RECONCILING: &str = "Reconciling";
    /// Nothing will change until somebody changes something; absent or False otherwise.
    pub const STALLED: &str = "Stalled";
    /// The Deployment of a control plane is rolled out.
    pub const DEPLOYMENT_AVAILABLE: &str = "DeploymentAvailable";
    /// The Ingress or HTTPRoute is in place.
    pub const EXPOSED: &str = "Exposed";
    /// The rights of coderd in workspace namespaces are in place.
    pub const WORKSPACE_RBAC_READY: &str = "WorkspaceRBACReady";
    /// coderd answers.
    pub const CODERD_REACHABLE: &str = "CoderdReachable";
    /// The spec breaks no rule; what breaks one is worked on all the same, as far as it goes.
    pub const SPEC_ACCEPTED: &str = "SpecAccepted";
    /// The object is left alone because its spec says so.
    pub const SUSPENDED: &str = "Suspended";
    /// What the object has outside its namespace is taken back; there only while that fails and holds up its deletion.
    pub const CLEANED_UP: &str = "CleanedUp";
    /// CoderControlPlane: what its children may do is what the spec asks for; there only while it is not, because
    /// admission is disabled in its namespace.
    pub const AUTHORITY_APPLIED: &str = "AuthorityApplied";
    /// CoderControlPlane: the license is in coderd.
    pub const LICENSE_APPLIED: &str = "LicenseApplied";
    /// CoderProvisioner, CoderWorkspaceProxy: the control plane exists and has an address.
    pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
    /// CoderProvisioner, CoderWorkspaceProxy: the token that `bootstrap` refers to is at hand; there only where it does.
    pub const BOOTSTRAP_SECRET_READY: &str = "BootstrapSecretReady";
    /// CoderProvisioner, CoderWorkspaceProxy: a token for coderd is at hand.
    pub const OPERATOR_ACCESS_READY: &str = "OperatorAccessReady";
    /// CoderProvisioner: the license covers external provisioners.
    pub const EXTERNAL_PROVISIONERS_ENTITLED: &str = "ExternalProvisionersEntitled";
    /// CoderProvisioner: the key exists in coderd.
    pub const PROVISIONER_KEY_READY: &str = "ProvisionerKeyReady";
    /// CoderProvisioner: the key is in its Secret.
    pub const PROVISIONER_KEY_SECRET_READY: &str = "ProvisionerKeySecretReady";
    /// CoderProvisioner, CoderWorkspaceProxy: the Deployment has ready pods.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";

    /// CoderWorkspaceProxy: the license covers workspace proxies.
    pub const WORKSPACE_PROXIES_ENTITLED: &str = "WorkspaceProxiesEntitled";
    /// CoderWorkspaceProxy: the proxy is registered in coderd as the spec asks for it.
    pub const PROXY_REGISTERED: &str = "ProxyRegistered";
    /// CoderWorkspaceProxy: the Secret that pods read holds a token that coderd accepts.
    pub const PROXY_TOKEN_SECRET_READY: &str = "ProxyTokenSecretReady";
    /// CoderWorkspaceProxy: what coderd's health check says of the proxy.
    pub const PROXY_HEALTHY: &str = "ProxyHealthy";

    /// Every one of them.
    pub const ALL: [&str; 23] = [
        READY,
        RECONCILING,
        STALLED,
        DEPLOYMENT_AVAILABLE,
        EXPOSED,
        WORKSPACE_RBAC_READY,
        CODERD_REACHABLE,
        SPEC_ACCEPTED,
        SUSPENDED,
        CLEANED_UP,
        AUTHORITY_APPLIED,
        LICENSE_APPLIED,
        CONTROL_PLANE_READY,
        BOOTSTRAP_SECRET_READY,
        OPERATOR_ACCESS_READY,
        EXTERNAL_PROVISIONERS_ENTITLED,
        PROVISIONER_KEY_READY,
        PROVISIONER_KEY_SECRET_READY,
        DEPLOYMENT_READY,
        WORKSPACE_PROXIES_ENTITLED,
        PROXY_REGISTERED,
        PROXY_TOKEN_SECRET_READY,
        PROXY_HEALTHY,
    ];
}
