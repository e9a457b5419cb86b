//! The operator and its instances from a Git repository, by the real Flux and the real Argo CD; `make test-gitops` runs it.
//! `make test` only compiles it: these tools take a quarter of an hour to build. What they are told is what is shipped: the
//! overlays with their Applications and Kustomizations, and those of the examples.

mod argocd;
mod coder;
mod elsewhere;
mod flux;
mod page;
mod plain;
mod rebuild;
mod site;
