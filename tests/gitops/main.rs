//! The operator and its instances from a Git repository, by the real Flux and the real Argo CD; `make test-gitops` runs it.
//! `make test` only compiles it: these tools take a quarter of an hour to build.

mod argocd;
mod coder;
mod flux;
mod rebuild;
mod site;
