//! What is shipped and what is written: manifests, documentation and the linter.

mod alerts;
mod convert;
mod docs;
mod examples;
mod kustomizeconfig;
mod lint;
mod manifests;
mod pod_templates;
mod schemas;
