//! The reconcilers: what runs is what the objects say. One folder a kind, each with the same path; what they share has
//! rooms of its own. They never write to an object that Git applies, but for its status and our finalizer.

pub(crate) mod attached;
pub(crate) mod checksum_key;
pub mod children;
pub mod control_plane;
mod finalizer;
pub mod identity;
pub(crate) mod object;
pub(crate) mod object_writer;
pub mod provisioner;
pub(crate) mod references;
mod render;
pub(crate) mod runtime;
pub(crate) mod status;
pub(crate) mod workload;
pub mod workspace_proxy;

pub(crate) use render::render;
