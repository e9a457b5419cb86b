//! Decides what `coder.com/v1alpha1` looks like: its kinds, their schemas and the names derived from them.
//! Never talks to a cluster, to coderd or to a clock, so that every other part can depend on it.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

pub mod control_plane;
pub mod defaults;
pub mod exposure;
mod kind_status;
mod missing_spec;
pub mod names;
pub mod provisioner;
pub mod schema;
pub mod shared;
pub mod well_known;
pub mod workload;
pub mod workspace_proxy;

pub use control_plane::{CoderControlPlane, CoderControlPlaneSpec, CoderControlPlaneStatus};
pub use kind_status::KindStatus;
pub use provisioner::{CoderProvisioner, CoderProvisionerSpec, CoderProvisionerStatus};
pub use schema::{custom_resource_definition, custom_resource_definitions};
pub use workspace_proxy::{CoderWorkspaceProxy, CoderWorkspaceProxySpec, CoderWorkspaceProxyStatus};
