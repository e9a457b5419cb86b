//! Decides where the CustomResourceDefinitions are committed: one file a kind, named as the ecosystem names them.
//! It never changes a definition: the `crds` crate returns them as they are shipped.

use super::{File, Generated, ManifestError, yaml};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// `crds/<group>_<plural>.yaml` for every kind.
pub(super) fn files() -> Generated {
    crds::custom_resource_definitions().iter().map(file).collect()
}

fn file(definition: &CustomResourceDefinition) -> Result<File, ManifestError> {
    let (group, plural) = (&definition.spec.group, &definition.spec.names.plural);
    let content = yaml::document(&format!("CustomResourceDefinition {plural}.{group}"), definition)?;
    Ok(File { path: format!("crds/{group}_{plural}.yaml"), content: format!("{}{content}", yaml::HEADER) })
}
