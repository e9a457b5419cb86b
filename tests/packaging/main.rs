//! What is shipped and what is written: manifests, documentation and the linter.

mod convert;
mod docs;
mod lint;
mod manifests;
