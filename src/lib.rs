//! coder-k8s: a Kubernetes operator that lets a Git repository run Coder.
//! `app` composes the rooms below; CONTRIBUTING.md has the map.

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
// What no other crate uses is `pub(crate)`, so that the compiler sees what nobody uses.
#![deny(unreachable_pub)]

mod admission;
pub mod app;
pub mod coderd;
pub mod confidential;
mod control_plane_access;
pub mod controller;
mod convert;
mod foreign;
pub mod kubernetes;
pub mod lint;
pub mod manifests;
pub mod serving;
pub mod trust;
