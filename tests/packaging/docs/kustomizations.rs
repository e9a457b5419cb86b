//! Every kustomization that a page shows is built, with this repository in the place of its release.

use crate::docs::pages;
use serde_json::{Value, json};
use support::cluster::kustomize;
use support::installation::repository;
use support::process::scratch_folder;

const RELEASE: &str = "https://github.com/coder/coder-k8s//";

/// The kustomizations of a page: YAML that takes in something of our release.
fn kustomizations(page: &str) -> Vec<Value> {
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .filter(|block| block.contains(RELEASE))
        .map(|block| serde_saphyr::from_str(block).unwrap())
        .collect()
}

/// Argo CD's own manifests, by what ours is added to.
fn argo_cd() -> String {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "argocd-cm" } }).to_string()
}

#[tokio::test]
async fn every_kustomization_of_a_page_is_built() {
    let mut built = Vec::new();
    for page in pages() {
        for mut kustomization in kustomizations(&std::fs::read_to_string(&page).unwrap()) {
            let folder = scratch_folder("page").canonicalize().unwrap();
            let up = "../".repeat(folder.components().count() - 1);
            std::fs::write(folder.join("argo-cd.yaml"), argo_cd()).unwrap();
            for list in ["resources", "components", "transformers"] {
                for entry in kustomization[list].as_array_mut().into_iter().flatten() {
                    let text = entry.as_str().unwrap();
                    let ours = text.strip_prefix(RELEASE).and_then(|rest| rest.strip_suffix("?ref=v0.1.0"));
                    *entry = match ours {
                        Some(ours) => {
                            let here = repository().join(ours).display().to_string();
                            format!("{up}{}", here.trim_start_matches('/')).into()
                        }
                        None => {
                            assert!(text.ends_with("/argo-cd/v3.5.6/manifests/install.yaml"), "{text}");
                            "argo-cd.yaml".into()
                        }
                    };
                }
            }
            std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).unwrap();
            let text = kustomize(&folder).await.expect_ok();
            for image in kustomization["images"].as_array().into_iter().flatten() {
                let name = format!("image: {}:", image["newName"].as_str().unwrap());
                assert!(text.contains(&name), "{}: {name}", page.display());
            }
            built.push(text);
        }
    }
    assert!(built.len() >= 4, "only {} kustomizations were found", built.len());
    let health = built.iter().find(|text| text.contains("name: argocd-cm")).expect("health for Argo CD");
    for kind in ["CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy"] {
        assert!(health.contains(&format!("resource.customizations.health.coder.com_{kind}:")), "{health}");
    }
}
