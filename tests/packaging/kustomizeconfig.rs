//! What `kustomize/kustomizeconfig` is for: names, hashes, images, replicas and patches of a user's kustomization reach into our
//! objects, as kubectl builds it.

use crate::manifests::built::Built;
use serde_json::{Value, json};
use support::installation::repository;

const OBJECTS: &str = r#"
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: { name: coder }
spec:
  image: ghcr.io/coder/coder:v2.36.0
  serviceAccount: { name: runner }
  imagePullSecrets: [{ name: registry }]
  tls: { secretNames: [tls, elsewhere] }
  licenseSecretRef: { name: license }
  extraEnv:
    - { name: CODER_PG_CONNECTION_URL, valueFrom: { secretKeyRef: { name: database, key: url } } }
    - { name: CODER_VERBOSE, value: "false" }
  envFrom: [{ configMapRef: { name: settings } }, { secretRef: { name: database } }]
  initContainers:
    - name: first
      image: ghcr.io/coder/coder:v2.36.0
      env: [{ name: URL, valueFrom: { secretKeyRef: { name: database, key: url } } }]
  volumes:
    - { name: a, secret: { secretName: database } }
    - { name: b, projected: { sources: [{ configMap: { name: settings } }] } }
---
apiVersion: coder.com/v1alpha1
kind: CoderProvisioner
metadata: { name: builders }
spec: { controlPlaneRef: { name: coder } }
---
apiVersion: coder.com/v1alpha1
kind: CoderWorkspaceProxy
metadata: { name: sydney }
spec: { controlPlaneRef: { name: coder }, certs: { secrets: [{ name: tls, key: ca.crt }] } }
---
apiVersion: v1
kind: ServiceAccount
metadata: { name: runner }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: beside }
spec: { template: { spec: { containers: [{ name: kept, image: kept }] } } }
"#;

/// Builds the objects in a kustomization with these further lines.
async fn build(lines: &str) -> Built {
    let folder = support::process::scratch_folder("kustomizeconfig");
    let config = repository().join("kustomize/kustomizeconfig");
    let text =
        format!("resources: [objects.yaml]\n{lines}").replace("KUSTOMIZECONFIG", &relative(&folder, &config));
    std::fs::write(folder.join("kustomization.yaml"), text).unwrap();
    std::fs::write(folder.join("objects.yaml"), OBJECTS).unwrap();
    Built::from(&folder).await
}

/// kustomize takes no absolute paths.
fn relative(from: &std::path::Path, to: &std::path::Path) -> String {
    let up = from.canonicalize().unwrap().components().count() - 1;
    format!("{}{}", "../".repeat(up), to.canonicalize().unwrap().strip_prefix("/").unwrap().display())
}

const GENERATED: &str = "
namePrefix: dev-
components: [KUSTOMIZECONFIG]
images: [{ name: ghcr.io/coder/coder, newName: registry.example.com/coder, newTag: v2.36.1 }]
replicas: [{ name: coder, count: 3 }]
configMapGenerator: [{ name: settings, literals: [a=b] }]
secretGenerator:
  - { name: database, literals: [url=x] }
  - { name: license, literals: [license=x] }
  - { name: registry, literals: [a=b] }
  - { name: tls, literals: [a=b] }
";

#[tokio::test]
async fn references_follow_prefix_and_hashes() {
    let built = build(GENERATED).await;
    let named = |kind: &str, start: &str| {
        let names = built.of_kind(kind).map(|object| object["metadata"]["name"].as_str().unwrap());
        names.filter(|name| name.starts_with(start)).collect::<Vec<_>>()[0].to_owned()
    };
    let secret = |name: &str| named("Secret", &format!("dev-{name}-"));
    let settings = named("ConfigMap", "dev-settings-");
    let spec = &built.only("CoderControlPlane")["spec"];
    for (pointer, expected) in [
        ("/serviceAccount/name", "dev-runner".to_owned()),
        ("/imagePullSecrets/0/name", secret("registry")),
        ("/tls/secretNames/0", secret("tls")),
        ("/tls/secretNames/1", "elsewhere".to_owned()),
        ("/licenseSecretRef/name", secret("license")),
        ("/extraEnv/0/valueFrom/secretKeyRef/name", secret("database")),
        ("/envFrom/0/configMapRef/name", settings.clone()),
        ("/envFrom/1/secretRef/name", secret("database")),
        ("/initContainers/0/env/0/valueFrom/secretKeyRef/name", secret("database")),
        ("/initContainers/0/image", "registry.example.com/coder:v2.36.1".to_owned()),
        ("/image", "registry.example.com/coder:v2.36.1".to_owned()),
        ("/volumes/0/secret/secretName", secret("database")),
        ("/volumes/1/projected/sources/0/configMap/name", settings),
    ] {
        assert_eq!(spec.pointer(pointer), Some(&Value::from(expected)), "{pointer}");
    }
    assert_eq!(spec["replicas"], 3);
    for kind in ["CoderProvisioner", "CoderWorkspaceProxy"] {
        assert_eq!(built.only(kind)["spec"]["controlPlaneRef"]["name"], "dev-coder", "{kind}");
    }
    assert_eq!(built.only("CoderWorkspaceProxy")["spec"]["certs"]["secrets"][0]["name"], secret("tls"));
}

#[tokio::test]
async fn without_the_component_they_do_not() {
    let lines = GENERATED.replace("components: [KUSTOMIZECONFIG]", "");
    let built = build(&lines.replace("replicas: [{ name: coder, count: 3 }]", "")).await;
    let spec = &built.only("CoderControlPlane")["spec"];
    assert_eq!(spec["licenseSecretRef"]["name"], "license");
    assert_eq!(spec["image"], "ghcr.io/coder/coder:v2.36.0");
}

const PATCHED: &str = r#"
components: [KUSTOMIZECONFIG/merge-keys]
patches:
  - patch: |-
      apiVersion: coder.com/v1alpha1
      kind: CoderControlPlane
      metadata: { name: coder }
      spec:
        extraEnv: [{ name: CODER_VERBOSE, value: "true" }]
        volumes: [{ name: a, $patch: delete }]
        initContainers: [{ name: first, env: [{ name: MORE, value: "1" }] }]
  - patch: |-
      apiVersion: apps/v1
      kind: Deployment
      metadata: { name: beside }
      spec: { template: { spec: { containers: [{ name: added, image: added }] } } }
"#;

fn names(list: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn patches_merge_lists_by_their_keys() {
    let built = build(PATCHED).await;
    let spec = &built.only("CoderControlPlane")["spec"];
    assert_eq!(names(&spec["extraEnv"]), ["CODER_PG_CONNECTION_URL", "CODER_VERBOSE"]);
    assert!(
        spec["extraEnv"].as_array().unwrap().contains(&json!({ "name": "CODER_VERBOSE", "value": "true" }))
    );
    assert_eq!(names(&spec["volumes"]), ["b"]);
    assert_eq!(names(&spec["initContainers"][0]["env"]), ["MORE", "URL"]);
    let containers = &built.only("Deployment")["spec"]["template"]["spec"]["containers"];
    assert_eq!(names(containers), ["added", "kept"], "kustomize's own keys are still known");
    let without = build(&PATCHED.replace("components: [KUSTOMIZECONFIG/merge-keys]", "")).await;
    assert_eq!(names(&without.only("CoderControlPlane")["spec"]["extraEnv"]), ["CODER_VERBOSE"]);
}
