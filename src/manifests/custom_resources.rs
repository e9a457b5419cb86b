//! Decides where the CustomResourceDefinitions are committed: one file a kind, named as the ecosystem names them.
//! A definition is that of the `crds` crate with the rules of the `webhooks` crate that CEL can hold.

use super::{File, Generated, ManifestError, yaml};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The CustomResourceDefinitions as they are shipped.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    webhooks::render::cel::with_rules(crds::custom_resource_definitions())
}

/// `crds/<group>_<plural>.yaml` for every kind, and what admission reads of it.
pub(super) fn files() -> Generated {
    definitions().iter().map(file).chain(webhooks::Kind::ALL.map(schema)).collect()
}

/// `webhooks/schemas/<kind>.json`, in one line: it is read by the program, people read the definition.
fn schema(kind: webhooks::Kind) -> Result<File, ManifestError> {
    let path = format!("webhooks/schemas/{}.json", kind.name().to_lowercase());
    Ok(File { path, content: format!("{}\n", webhooks::schema::derived(kind)) })
}

fn file(definition: &CustomResourceDefinition) -> Result<File, ManifestError> {
    let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
    let content = yaml::document(&format!("CustomResourceDefinition {plural}.{group}"), definition)?;
    Ok(File { path: format!("crds/{group}_{plural}.yaml"), content: format!("{}{content}", yaml::HEADER) })
}
