//! Every overlay and every component, by two releases of kustomize, as they are and under another namespace and prefix:
//! references are whole, nothing stays behind, and a real API server takes all of it.

use super::built::Built;
use super::references::Foreign;
use super::repository;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use support::cluster::{Answer, kustomize};
use support::process::scratch_folder;
use support::{Cluster, ClusterOptions};

const NAMESPACE: &str = "matrix";

/// What `make packaging-tools` has built: the second kustomize and the CRDs of other projects.
static TOOLS: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = repository().join("tests/cluster-tools/packaging/build.sh");
    let said = Command::new("bash").arg(script).arg("--where").output().expect("bash runs build.sh --where");
    let folder = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    assert!(folder.join("complete").is_file(), "run `make packaging-tools`: {} is missing", folder.display());
    folder
});

/// What a user builds: folders of ours and what is set above them.
struct Case {
    name: String,
    resources: Vec<PathBuf>,
    components: Vec<PathBuf>,
    /// Where its objects are before somebody moves them.
    namespace: &'static str,
}

impl Case {
    fn of(folder: &str, namespace: &'static str) -> Self {
        let resources = vec![repository().join(folder)];
        Self { name: folder.to_owned(), resources, components: Vec::new(), namespace }
    }

    fn with(components: &[&str]) -> Self {
        Self {
            name: components.join(" and "),
            resources: vec![repository().join("kustomize/overlays/default")],
            components: components.iter().map(|name| components_folder().join(name)).collect(),
            namespace: "coder-system",
        }
    }

    /// A kustomization of a user over it, with these settings besides.
    fn kustomization(&self, settings: &Value) -> PathBuf {
        let folder = scratch_folder("matrix").canonicalize().unwrap();
        let up = "../".repeat(folder.components().count() - 1);
        // kustomize takes no absolute path.
        let relative = |path: &PathBuf| format!("{up}{}", path.display().to_string().trim_start_matches('/'));
        let mut kustomization = settings.clone();
        kustomization["resources"] = self.resources.iter().map(relative).collect();
        kustomization["components"] = self.components.iter().map(relative).collect();
        std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).unwrap();
        folder
    }

    /// What puts references right that kustomize does not carry through a layer, where a component has such.
    fn transformers(&self) -> Vec<PathBuf> {
        let references = self.components.iter().map(|folder| folder.join("references"));
        references.filter(|folder| folder.is_dir()).collect()
    }

    /// Under another namespace and a prefix, as the page of the component says.
    fn moved(&self) -> PathBuf {
        self.kustomization(&json!({ "namespace": NAMESPACE, "namePrefix": "m-",
            "transformers": self.transformers().iter().map(|folder| up_to(folder)).collect::<Vec<_>>() }))
    }

    /// As it is.
    fn plain(&self) -> PathBuf {
        self.kustomization(&json!({}))
    }
}

/// As a scratch folder names another one; all of them are at the same depth.
fn up_to(folder: &Path) -> String {
    let scratch = scratch_folder("matrix").canonicalize().unwrap();
    let up = "../".repeat(scratch.components().count() - 1);
    format!("{up}{}", folder.display().to_string().trim_start_matches('/'))
}

fn components_folder() -> PathBuf {
    repository().join("kustomize/components")
}

/// Folders with a kustomization, so that none is forgotten.
fn folders_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let built = entries.filter(|entry| entry.path().join("kustomization.yaml").is_file());
    let mut names: Vec<_> = built.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn cases() -> Vec<Case> {
    // One overlay is in two namespaces on purpose and cannot be moved into one; it has tests of its own.
    let mut overlays = folders_in(&repository().join("kustomize/overlays"));
    overlays.retain(|name| name != "namespaced");
    let mut cases: Vec<_> =
        overlays.iter().map(|name| Case::of(&format!("kustomize/overlays/{name}"), "coder-system")).collect();
    cases.push(Case::of("kustomize/operator", "coder-system"));
    cases.push(Case::of("kustomize/overlays/flux/sync", "flux-system"));
    cases.push(Case::of("kustomize/overlays/argocd/applications", "argocd"));
    let components = folders_in(&components_folder());
    cases.extend(components.iter().map(|name| Case::with(&[name])));
    // In this order: cert-manager tells a ServiceMonitor another CA.
    cases.push(Case::with(&["monitoring", "cert-manager", "network-policy", "policies", "prune-protect"]));
    let mut in_waves = Case::with(&["monitoring", "cert-manager"]);
    in_waves.name = "argocd with monitoring and cert-manager".to_owned();
    in_waves.resources = vec![repository().join("kustomize/overlays/argocd")];
    cases.push(in_waves);
    // What the one Deployment is changed to is made before or after there is one a role.
    for other in components.iter().filter(|name| *name != "split-roles") {
        cases.push(Case::with(&["split-roles", other]));
        cases.push(Case::with(&[other, "split-roles"]));
    }
    cases.push(Case::with(&["monitoring", "cert-manager", "split-roles", "network-policy"]));
    let places =
        [("operator", "coder-system"), ("coder", "coder"), ("argocd", "argocd"), ("flux", "flux-system")];
    cases.extend(places.map(|(name, at)| Case::of(&format!("kustomize/examples/{name}"), at)));
    cases
}

/// What both releases of kustomize make of a folder, which is the same and comes without a warning.
async fn built(folder: &Path, case: &str) -> (String, Built) {
    let by_kubectl = kustomize(folder).await;
    let other = tokio::process::Command::new(TOOLS.join("kustomize")).arg("build").arg(folder).output().await;
    let other = other.expect("kustomize runs");
    assert_eq!(String::from_utf8_lossy(&other.stderr), "", "{case}");
    assert_eq!(by_kubectl.stderr, "", "{case}");
    let text = by_kubectl.expect_ok();
    let other = objects(&String::from_utf8_lossy(&other.stdout));
    assert!(objects(&text) == other, "{case}: two releases of kustomize disagree");
    let built = Built(serde_saphyr::from_multiple(&text).unwrap());
    (text, built)
}

/// Older releases take policies of admission for objects of a namespace, and the API server drops what they say.
fn objects(text: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let of_admission = |object: &&mut Value| {
        object["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmissionPolicy"))
    };
    for object in objects.iter_mut().filter(of_admission) {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    objects
}

fn assert_whole(built: &Built, namespace: &str, case: &str) {
    assert_eq!(built.dangling(), [""; 0], "{case}");
    assert_eq!(built.misplaced(namespace), [""; 0], "{case}");
    assert_eq!(Foreign(built).dangling(), [""; 0], "{case}");
    assert_eq!(built.unpublished(), [""; 0], "{case}");
}

/// A cluster with the definitions of everything that is built, and the namespace that it is moved to.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let crds = TOOLS.join("crds");
    cluster.kubectl(&format!("apply --server-side -f {}", crds.display())).await.expect_ok();
    let clusters = support::tools::program("cnpg-clusters-v1.28.0.yaml");
    cluster.kubectl(&format!("apply --server-side -f {}", clusters.display())).await.expect_ok();
    let ours = repository().join("kustomize/crds");
    cluster.kubectl(&format!("apply --server-side -k {}", ours.display())).await.expect_ok();
    cluster.crds_established().await;
    for namespace in [NAMESPACE, "coder-system", "coder"] {
        restricted(&cluster, namespace).await;
    }
    cluster
}

/// A namespace that takes restricted pods only, and says so of those who are not.
async fn restricted(cluster: &Cluster, name: &str) {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name,
        "labels": { "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted" } } });
    cluster.kubectl_with_input("apply --server-side -f -", &namespace.to_string()).await.expect_ok();
}

/// What the API server says to it, nothing of which it keeps.
async fn dry_run(cluster: &Cluster, manifests: &str) -> Answer {
    cluster.kubectl_with_input("apply --server-side --dry-run=server -f -", manifests).await
}

#[tokio::test]
async fn every_overlay_and_component_is_whole_wherever_it_is_moved_and_a_cluster_takes_it() {
    let cluster = cluster().await;
    let mut pods = None;
    for case in cases() {
        let (_, plain) = built(&case.plain(), &case.name).await;
        assert_whole(&plain, case.namespace, &case.name);
        let name = format!("{}, moved", case.name);
        let (text, moved) = built(&case.moved(), &name).await;
        assert_whole(&moved, NAMESPACE, &name);
        assert_eq!(moved.0.len(), plain.0.len(), "{name}");
        let answer = dry_run(&cluster, &text).await;
        // Pod Security would warn of what it does not accept.
        assert_eq!(answer.stderr, "", "{name}");
        assert!(answer.ok, "{name}");
        pods = pods.or_else(|| moved.of_kind("Deployment").next().cloned());
    }
    let mut deployment = pods.expect("something runs");
    deployment["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let warned = dry_run(&cluster, &deployment.to_string()).await.stderr;
    assert!(
        warned.contains("would violate PodSecurity"),
        "the cluster does not say what it would refuse: {warned}"
    );
}

/// It is in two namespaces on purpose and cannot be moved into one, but it can have a prefix.
#[tokio::test]
async fn the_namespaced_overlay_is_whole_under_a_prefix_and_a_cluster_takes_it() {
    let cluster = cluster().await;
    let case = Case::of("kustomize/overlays/namespaced", "");
    let prefixed = case.kustomization(&json!({ "namePrefix": "m-" }));
    for (folder, prefix) in [(case.plain(), ""), (prefixed, "m-")] {
        let name = format!("namespaced, {prefix}");
        let (text, built) = built(&folder, &name).await;
        assert_eq!(built.dangling(), [""; 0], "{name}");
        assert_eq!(built.unpublished(), [""; 0], "{name}");
        assert_eq!(built.only("Deployment")["metadata"]["name"], format!("{prefix}coder-k8s-operator"));
        let answer = dry_run(&cluster, &text).await;
        assert_eq!(answer.stderr, "", "{name}");
        assert!(answer.ok, "{name}");
    }
}

/// Whoever names another registry over an overlay changes every Deployment that comes of it, in whatever layer.
#[tokio::test]
async fn another_registry_is_one_line() {
    let images =
        json!({ "images": [{ "name": "ghcr.io/coder/coder-k8s", "newName": "registry.example.com/k" }] });
    let default = Case::with(&[]).kustomization(&images);
    let split = Case::with(&["split-roles"]).kustomization(&images);
    let split_above = Case { resources: vec![default.clone()], ..Case::with(&["split-roles"]) }.plain();
    for folder in [default, split, split_above] {
        let (_, built) = built(&folder, "another registry").await;
        assert!(built.of_kind("Deployment").count() > 0);
        for deployment in built.of_kind("Deployment") {
            let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
            assert_eq!(*image, format!("registry.example.com/k:{}", env!("CARGO_PKG_VERSION")));
        }
    }
}

/// One Deployment, one identity that runs, a Service a port.
#[tokio::test]
async fn default_argocd_and_flux_are_one_deployment_with_one_identity() {
    for overlay in ["default", "argocd", "flux"] {
        let folder = repository().join("kustomize/overlays").join(overlay);
        let (_, built) = built(&folder, overlay).await;
        let pods = &built.only("Deployment")["spec"]["template"]["spec"];
        assert_eq!(pods["serviceAccountName"], "coder-k8s", "{overlay}");
        let services: Vec<_> = built.of_kind("Service").map(|service| &service["spec"]["ports"]).collect();
        assert!(services.iter().all(|ports| ports.as_array().unwrap().len() == 1), "{overlay}");
        let offered = pods["containers"][0]["ports"].as_array().unwrap();
        let served = offered.iter().filter(|port| port["name"] != "probes");
        assert_eq!(services.len(), served.count(), "{overlay}");
        let definitions = built.of_kind("CustomResourceDefinition").count();
        assert_eq!(definitions, if overlay == "flux" { 0 } else { 3 }, "{overlay}");
    }
}

#[tokio::test]
async fn definitions_and_namespaces_outlive_whoever_applied_them() {
    for folder in ["kustomize/crds", "kustomize/overlays/argocd", "kustomize/overlays/flux"] {
        let (_, built) = built(&repository().join(folder), folder).await;
        let kept = ["CustomResourceDefinition", "Namespace"].into_iter().flat_map(|kind| built.of_kind(kind));
        let mut count = 0;
        for object in kept {
            let annotations = &object["metadata"]["annotations"];
            let options = annotations["argocd.argoproj.io/sync-options"].as_str().unwrap_or_default();
            for option in ["Prune=false", "Delete=false"] {
                assert!(
                    options.split(',').any(|one| one == option),
                    "{folder}: {option} of {}",
                    object["metadata"]["name"]
                );
            }
            assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"], "disabled", "{folder}");
            count += 1;
        }
        assert!(count > 0, "{folder} has nothing to protect");
    }
}

/// In one wave Argo CD would apply webhooks before the pods that answer them, and wait for pods whose certificate comes later.
#[tokio::test]
async fn argo_cd_makes_what_others_wait_for_first() {
    for components in [&["cert-manager"][..], &["split-roles"], &["cert-manager", "split-roles"]] {
        let mut case = Case::with(components);
        case.resources = vec![repository().join("kustomize/overlays/argocd")];
        let (_, built) = built(&case.plain(), &format!("argocd with {}", case.name)).await;
        assert_in_waves(&built);
    }
}

fn assert_in_waves(built: &Built) {
    let wave = |object: &Value| -> i32 {
        let annotation = object["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"].as_str();
        annotation.unwrap_or("0").parse().unwrap()
    };
    for object in &built.0 {
        let expected = match object["kind"].as_str().unwrap() {
            "Namespace" | "CustomResourceDefinition" | "Certificate" | "Issuer" => -3,
            kind if kind.ends_with("WebhookConfiguration")
                || kind.starts_with("ValidatingAdmissionPolicy") =>
            {
                -1
            }
            _ => -2,
        };
        assert_eq!(wave(object), expected, "{} {}", object["kind"], object["metadata"]["name"]);
    }
}

#[tokio::test]
async fn what_kustomize_does_not_carry_through_a_layer_is_noticed() {
    let case = Case::with(&["cert-manager"]);
    let forgotten = case.kustomization(&json!({ "namespace": NAMESPACE, "namePrefix": "m-" }));
    let (_, stale) = built(&forgotten, "without the references").await;
    let found = Foreign(&stale).dangling();
    for kind in ["Certificate", "Service"] {
        assert!(found.iter().any(|reference| reference.starts_with(kind)), "{kind}: {found:?}");
    }
    // One more layer above, with a suffix: said once more, they are right again.
    let inner = case.moved();
    let outer = Case { name: String::new(), resources: vec![inner], components: Vec::new(), namespace: "" };
    let transformers: Vec<_> = case.transformers().iter().map(|folder| up_to(folder)).collect();
    let settings = json!({ "namespace": "further", "nameSuffix": "-b", "transformers": transformers });
    let (_, further) = built(&outer.kustomization(&settings), "two layers").await;
    assert_whole(&further, "further", "two layers");
}

/// The same text for both ways of installing Argo CD, beside what users have there already.
#[tokio::test]
async fn argo_cd_is_told_the_health_of_every_kind_in_both_ways() {
    let cluster = cluster().await;
    let lua =
        std::fs::read_to_string(repository().join("kustomize/overlays/argocd/health/health.lua")).unwrap();
    let kinds: Vec<_> =
        coder_k8s::manifests::definitions().into_iter().map(|crd| crd.spec.names.kind).collect();
    let theirs = json!({ "group": "example.com", "kind": "Other", "check": "return {}" });
    let objects = [
        (
            "argocd-cm",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "argocd-cm" },
            "data": { "url": "https://argocd.example.com" } }),
        ),
        (
            "argocd-operator",
            json!({ "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD", "metadata": { "name": "argocd" },
            "spec": { "resourceHealthChecks": [theirs] } }),
        ),
        (
            "argocd-operator",
            json!({ "apiVersion": "argoproj.io/v1beta1", "kind": "ArgoCD", "metadata": { "name": "argocd" },
            "spec": {} }),
        ),
    ];
    for (component, object) in objects {
        let case = Case {
            name: component.to_owned(),
            resources: Vec::new(),
            components: vec![repository().join("kustomize/overlays/argocd").join(component)],
            namespace: NAMESPACE,
        };
        let folder = case.kustomization(&json!({ "namespace": NAMESPACE }));
        std::fs::write(folder.join("theirs.yaml"), object.to_string()).unwrap();
        let written = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
        let mut kustomization: Value = serde_json::from_str(&written).unwrap();
        kustomization["resources"] = json!(["theirs.yaml"]);
        std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).unwrap();
        let (text, built) = built(&folder, component).await;
        assert_eq!(built.0.len(), 1, "{component} adds objects");
        let changed = &built.0[0];
        for kind in &kinds {
            let told = if component == "argocd-cm" {
                changed["data"][format!("resource.customizations.health.coder.com_{kind}")].clone()
            } else {
                let checks = changed["spec"]["resourceHealthChecks"].as_array().unwrap();
                let check = checks.iter().find(|check| check["kind"] == **kind).expect("a check");
                assert_eq!(check["group"], "coder.com");
                check["check"].clone()
            };
            assert_eq!(told, lua, "{component} {kind}");
        }
        let kept = changed["data"]["url"] == object["data"]["url"]
            && (object["spec"]["resourceHealthChecks"].is_null()
                || changed["spec"]["resourceHealthChecks"].as_array().unwrap().contains(&theirs));
        assert!(kept, "{component} takes away what was there: {changed}");
        let answer = dry_run(&cluster, &text).await;
        assert_eq!(answer.stderr, "", "{component}");
    }
}
