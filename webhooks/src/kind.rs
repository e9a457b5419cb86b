//! Decides which of our kinds a rule, a default or a right is about.
//! Never reads an object.

use std::sync::LazyLock;

use crds::names::{self, DerivedName, NameLimits};
use crds::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};

/// A kind of `coder.com/v1alpha1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// CoderControlPlane.
    ControlPlane,
    /// CoderProvisioner.
    Provisioner,
    /// CoderWorkspaceProxy.
    WorkspaceProxy,
}

impl Kind {
    /// Every kind, in the order in which everything generated lists them.
    pub const ALL: [Self; 3] = [Self::ControlPlane, Self::Provisioner, Self::WorkspaceProxy];

    /// As in `kind:` of a manifest.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "CoderControlPlane",
            Self::Provisioner => "CoderProvisioner",
            Self::WorkspaceProxy => "CoderWorkspaceProxy",
        }
    }

    /// As in the path of a request.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::ControlPlane => "codercontrolplanes",
            Self::Provisioner => "coderprovisioners",
            Self::WorkspaceProxy => "coderworkspaceproxies",
        }
    }

    /// The kind a manifest calls by this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind a request calls by this plural.
    pub fn from_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }

    /// How long a name may be, computed once from the names that follow from it.
    pub fn name_limits(self) -> NameLimits {
        static LIMITS: LazyLock<[NameLimits; 3]> = LazyLock::new(|| {
            [NameLimits::control_plane(), NameLimits::provisioner(), NameLimits::workspace_proxy()]
        });
        let [control_plane, provisioner, workspace_proxy] = *LIMITS;
        match self {
            Self::ControlPlane => control_plane,
            Self::Provisioner => provisioner,
            Self::WorkspaceProxy => workspace_proxy,
        }
    }

    /// The names that follow from `name` when the spec chooses none.
    pub(crate) fn derived_names(self, name: &str) -> Vec<DerivedName> {
        match self {
            Self::ControlPlane => names::control_plane::derived("", name, &CoderControlPlaneSpec::default()),
            Self::Provisioner => names::provisioner::derived(name, &CoderProvisionerSpec::default()),
            Self::WorkspaceProxy => {
                names::workspace_proxy::derived(name, &CoderWorkspaceProxySpec::default())
            }
        }
    }
}
