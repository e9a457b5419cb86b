//! coder-k8s: a Kubernetes operator that lets a Git repository run Coder.
//! `app` composes the rooms below; CONTRIBUTING.md has the map.

pub mod app;
pub mod confidential;
pub mod kubernetes;
pub mod manifests;
pub mod serving;
