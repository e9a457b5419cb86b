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

pub mod admission;
pub mod app;
pub mod coderd;
pub mod confidential;
pub mod control_plane_access;
pub mod controller;
pub mod foreign;
pub mod kubernetes;
pub mod lint;
pub mod manifests;
pub mod serving;
pub mod trust;
