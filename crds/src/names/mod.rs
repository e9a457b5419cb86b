//! Decides every name that follows from the name of one of our objects, and how long that name may be.
//! Never renames: a rule here is as fixed as the names it has already given in clusters.

pub mod control_plane;
pub mod hash;
pub mod provisioner;
mod shorten;
pub mod workspace_proxy;

use crate::well_known::{MANAGER, label};
use crate::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};
use shorten::{Rule, Trim};
use std::collections::BTreeMap;

/// Longest DNS label, label value and Service name.
pub const LABEL_LIMIT: usize = 63;
/// Longest DNS subdomain, and so the longest name of most objects.
pub const SUBDOMAIN_LIMIT: usize = 253;
/// Longest provisioner key name coderd accepts.
pub const KEY_LIMIT: usize = 64;
/// Longest Deployment name that its pods carry whole: Kubernetes adds up to 17 characters and stops at 63.
pub const WHOLE_IN_POD_NAME_LIMIT: usize = LABEL_LIMIT - "-1234567890-12345".len();

const INSTANCE_LABEL: Rule = Rule { prefix: "", suffix: "", limit: LABEL_LIMIT, trim: Trim::Nothing };

/// Value of the label `app.kubernetes.io/instance`.
pub fn instance_label(name: &str) -> String {
    INSTANCE_LABEL.apply(name)
}

/// The three labels of every child in its owner's namespace, which are also the selector of the pods.
pub fn child_labels(app_name: &str, name: &str) -> BTreeMap<String, String> {
    let instance = instance_label(name);
    let labels =
        [(label::NAME, app_name), (label::INSTANCE, instance.as_str()), (label::MANAGED_BY, MANAGER)];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A name as coderd compares it with others: it does not tell upper and lower case apart.
pub fn as_coderd_compares(name: &str) -> String {
    name.to_lowercase()
}

/// What a derived name is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DerivedKind {
    /// apps/v1 Deployment.
    Deployment,
    /// v1 Service.
    Service,
    /// v1 ServiceAccount.
    ServiceAccount,
    /// v1 Secret.
    Secret,
    /// rbac.authorization.k8s.io/v1 Role.
    Role,
    /// rbac.authorization.k8s.io/v1 RoleBinding.
    RoleBinding,
    /// networking.k8s.io/v1 Ingress.
    Ingress,
    /// gateway.networking.k8s.io/v1 HTTPRoute.
    HttpRoute,
    /// Value of the label `app.kubernetes.io/instance`.
    InstanceLabel,
    /// Provisioner key in coderd.
    ProvisionerKey,
    /// Workspace proxy in coderd.
    ProxyRegistration,
}

impl DerivedKind {
    /// How it is called in a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::Service => "Service",
            Self::ServiceAccount => "ServiceAccount",
            Self::Secret => "Secret",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::Ingress => "Ingress",
            Self::HttpRoute => "HTTPRoute",
            Self::InstanceLabel => "label app.kubernetes.io/instance",
            Self::ProvisionerKey => "provisioner key",
            Self::ProxyRegistration => "workspace proxy in coderd",
        }
    }

    /// Bytes such a name may have.
    pub const fn limit(self) -> usize {
        match self {
            Self::Service | Self::InstanceLabel => LABEL_LIMIT,
            Self::ProvisionerKey => KEY_LIMIT,
            _ => SUBDOMAIN_LIMIT,
        }
    }
}

/// One name that follows from an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedName {
    /// What it is the name of.
    pub kind: DerivedKind,
    /// The name.
    pub name: String,
    /// True where the spec gives the name, so that the name of the object plays no part.
    pub chosen: bool,
    /// True where the name had to be cut and hashed, so that nobody can guess it from the manifest.
    pub shortened: bool,
}

impl DerivedName {
    fn same(kind: DerivedKind, object: &str) -> Self {
        Self { kind, name: object.to_owned(), chosen: false, shortened: false }
    }

    fn by_rule(kind: DerivedKind, rule: &Rule, object: &str) -> Self {
        Self { kind, name: rule.apply(object), chosen: false, shortened: !rule.fits(object) }
    }

    fn chosen_or(kind: DerivedKind, chosen: Option<String>, rule: &Rule, object: &str) -> Self {
        match chosen {
            Some(name) => Self { kind, name, chosen: true, shortened: false },
            None => Self::by_rule(kind, rule, object),
        }
    }

    /// Whether the name of the object is short enough for this name.
    pub fn fits(&self) -> bool {
        self.chosen || (!self.shortened && self.name.len() <= self.kind.limit())
    }
}

/// How long the name of an object may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// Longest name with which every derived name is valid and whole.
    pub hard: usize,
    /// Longest name that also appears whole in the names of pods.
    pub soft: usize,
}

impl NameLimits {
    /// Limits of a CoderControlPlane.
    pub fn control_plane() -> Self {
        let spec = CoderControlPlaneSpec::default();
        // The longest namespace: the limit must not depend on where the object lives.
        let namespace = "n".repeat(LABEL_LIMIT);
        Self::of(|name| control_plane::derived(&namespace, name, &spec))
    }

    /// Limits of a CoderProvisioner.
    pub fn provisioner() -> Self {
        let spec = CoderProvisionerSpec::default();
        Self::of(|name| provisioner::derived(name, &spec))
    }

    /// Limits of a CoderWorkspaceProxy.
    pub fn workspace_proxy() -> Self {
        let bootstrap = Some(crate::workspace_proxy::ProxyBootstrapSpec::default());
        let spec = CoderWorkspaceProxySpec { bootstrap, ..Default::default() };
        Self::of(|name| workspace_proxy::derived(name, &spec))
    }

    fn of(derived: impl Fn(&str) -> Vec<DerivedName>) -> Self {
        let longest = |fits: &dyn Fn(&DerivedName) -> bool| {
            (1..=SUBDOMAIN_LIMIT)
                .take_while(|length| derived(&"a".repeat(*length)).iter().all(fits))
                .last()
                .unwrap_or_default()
        };
        let in_pod_name = |name: &DerivedName| {
            name.kind != DerivedKind::Deployment || name.name.len() <= WHOLE_IN_POD_NAME_LIMIT
        };
        Self { hard: longest(&DerivedName::fits), soft: longest(&|name| name.fits() && in_pod_name(name)) }
    }
}
