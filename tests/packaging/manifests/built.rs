//! What kustomize makes of a folder, and the checks that its references are whole.

use super::repository;
use coder_k8s::kubernetes::lease::{AUTHORITY_LEASE, CONTROLLER_LEASE};
use coder_k8s::manifests::rbac;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use support::cluster::kustomize;

/// What kustomize makes of a folder.
pub(crate) struct Built(pub(crate) Vec<Value>);

impl Built {
    pub(crate) async fn from(folder: &Path) -> Self {
        Self(serde_saphyr::from_multiple(&text_of(folder).await).unwrap())
    }

    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    pub(crate) fn only(&self, kind: &str) -> &Value {
        let mut all = self.of_kind(kind);
        let one = all.next().unwrap_or_else(|| panic!("no {kind}"));
        assert!(all.next().is_none(), "more than one {kind}");
        one
    }

    pub(crate) fn has(&self, kind: &str, namespace: &Value, name: &Value) -> bool {
        let meant = |object: &Value| {
            object["metadata"]["name"] == *name && object["metadata"]["namespace"] == *namespace
        };
        self.of_kind(kind).any(meant)
    }

    /// Names of objects that are not in the build.
    pub(crate) fn dangling(&self) -> Vec<String> {
        self.references()
            .into_iter()
            .filter(|(kind, at, name)| !self.has(kind, at, name))
            .map(described)
            .collect()
    }

    /// Kind, namespace and name of every object that another one names.
    pub(crate) fn references(&self) -> Vec<(String, Value, Value)> {
        let mut references = Vec::new();
        for object in &self.0 {
            for subject in object["subjects"].as_array().into_iter().flatten() {
                references.push((
                    "ServiceAccount".into(),
                    subject["namespace"].clone(),
                    subject["name"].clone(),
                ));
            }
            if let Some(kind) = object["roleRef"]["kind"].as_str() {
                let namespace =
                    if kind == "Role" { object["metadata"]["namespace"].clone() } else { Value::Null };
                references.push((kind.into(), namespace, object["roleRef"]["name"].clone()));
            }
            let hooks = object["webhooks"].as_array().into_iter().flatten();
            let called =
                hooks.map(|hook| &hook["clientConfig"]["service"]).chain([&object["spec"]["service"]]);
            for service in called.filter(|service| service.is_object()) {
                references.push(("Service".into(), service["namespace"].clone(), service["name"].clone()));
            }
        }
        for binding in self.of_kind("ValidatingAdmissionPolicyBinding") {
            // kustomize takes both for objects of a namespace; the API server drops it.
            let at = binding["metadata"]["namespace"].clone();
            references.push(("ValidatingAdmissionPolicy".into(), at, binding["spec"]["policyName"].clone()));
        }
        for deployment in self.of_kind("Deployment") {
            let namespace = &deployment["metadata"]["namespace"];
            let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
            references.push(("ServiceAccount".into(), namespace.clone(), account.clone()));
            references.push(("ServiceAccount".into(), namespace.clone(), grants_account(deployment).into()));
            for name in serving_names(deployment) {
                references.push(("Service".into(), namespace.clone(), name.into()));
            }
        }
        for role in self.of_kind("Role") {
            for account in impersonated(role) {
                references.push(("ServiceAccount".into(), role["metadata"]["namespace"].clone(), account));
            }
        }
        references
    }

    /// What stayed behind when the objects moved to `namespace`, and what belongs to the operator at run time.
    pub(crate) fn misplaced(&self, namespace: &str) -> Vec<String> {
        let mut found = Vec::new();
        for object in self.0.iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
            let at = object["metadata"]["namespace"].as_str();
            if at.is_some_and(|at| at != namespace) {
                found.push(format!("{} {} is in {at:?}", object["kind"], object["metadata"]["name"]));
            }
            for_each_value(object, &mut |key, value| {
                if key == "caBundle" || value == "kube-system" || value == rbac::PLACEHOLDER_NAMESPACE {
                    found.push(format!(
                        "{} {} has {key}: {value}",
                        object["kind"], object["metadata"]["name"]
                    ));
                }
            });
        }
        found
    }

    /// Selectors and ports that the operator's pods do not answer to.
    pub(crate) fn unselected(&self) -> Vec<String> {
        let template = &self.only("Deployment")["spec"]["template"];
        let labels = template["metadata"]["labels"].as_object().unwrap();
        let ports = template["spec"]["containers"][0]["ports"].as_array().unwrap();
        let mut found = Vec::new();
        let services = self.of_kind("Service").map(|service| (service, &service["spec"]["selector"]));
        let budgets = ["PodDisruptionBudget", "Deployment"].into_iter().flat_map(|kind| self.of_kind(kind));
        let budgets = budgets.map(|object| (object, &object["spec"]["selector"]["matchLabels"]));
        for (object, selector) in services.chain(budgets) {
            let selector = selector.as_object().unwrap();
            if selector.is_empty() || selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
                found.push(format!("{} {}", object["kind"], object["metadata"]["name"]));
            }
            for port in object["spec"]["ports"].as_array().into_iter().flatten() {
                if !ports.iter().any(|offered| offered["name"] == port["targetPort"]) {
                    found.push(format!("port {} of {}", port["targetPort"], object["metadata"]["name"]));
                }
            }
        }
        found
    }

    /// Images that are not where ours are released, which the Makefile alone says. A bare name is pulled from somebody else's registry.
    pub(crate) fn unpublished(&self) -> Vec<String> {
        let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
        let registry = makefile.split("\nREGISTRY ?= ").nth(1).unwrap().lines().next().unwrap();
        let image = json!(format!("{registry}/coder-k8s:{}", env!("CARGO_PKG_VERSION")));
        let containers = self.of_kind("Deployment").flat_map(|deployment| {
            deployment["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten()
        });
        let others = containers.map(|container| &container["image"]).filter(|one| **one != image);
        others.map(Value::to_string).collect()
    }

    /// Names that rights are limited to, but for those of accounts, which are references.
    pub(crate) fn resource_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let rules = self.0.iter().flat_map(|object| object["rules"].as_array().into_iter().flatten());
        for rule in rules.filter(|rule| rule["resources"] != json!(["serviceaccounts"])) {
            let limited = rule["resourceNames"].as_array().into_iter().flatten();
            names.extend(limited.map(|name| name.as_str().unwrap().to_owned()));
        }
        names
    }

    #[track_caller]
    pub(crate) fn assert_whole(&self, namespace: &str) {
        assert_eq!(self.dangling(), [""; 0], "references to nothing");
        assert_eq!(self.misplaced(namespace), [""; 0], "left behind");
        assert_eq!(self.unselected(), [""; 0], "not answered by the pods");
        let limits = ["extension-apiserver-authentication", coder_k8s::serving::authority::SECRET];
        let defined = [
            "httproutes.gateway.networking.k8s.io",
            "servicemonitors.monitoring.coreos.com",
            "podmonitors.monitoring.coreos.com",
        ];
        let limits = limits.into_iter().chain([CONTROLLER_LEASE, AUTHORITY_LEASE]).chain(defined);
        assert_eq!(self.resource_names(), limits.map(str::to_owned).collect(), "names the code spells out");
    }
}

fn described((kind, namespace, name): (String, Value, Value)) -> String {
    format!("{kind} {namespace}/{name}")
}

/// A kustomization of a user: one folder below it, and what it changes.
pub(crate) fn overlay(name: &str, below: &Path, settings: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overlays").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    // kustomize takes no absolute path.
    let up = "../".repeat(folder.components().count() - 1);
    let below = below.canonicalize().unwrap();
    let relative = below.strip_prefix("/").unwrap().display();
    std::fs::write(folder.join("kustomization.yaml"), format!("resources: [{up}{relative}]\n{settings}\n"))
        .unwrap();
    folder
}

pub(crate) async fn text_of(folder: &Path) -> String {
    kustomize(folder).await.expect_ok()
}

/// Visits every value inside an object with the key it stands under.
fn for_each_value(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, inner)| {
            visit(key, inner);
            for_each_value(inner, visit);
        }),
        Value::Array(items) => items.iter().for_each(|inner| {
            visit("", inner);
            for_each_value(inner, visit);
        }),
        _ => {}
    }
}

/// The accounts that a Role lets its holder impersonate.
pub(crate) fn impersonated(role: &Value) -> Vec<Value> {
    let rules = role["rules"].as_array().into_iter().flatten();
    let rules = rules.filter(|rule| rule["verbs"] == json!(["impersonate"]));
    rules.flat_map(|rule| rule["resourceNames"].as_array().unwrap().clone()).collect()
}

/// The account that Roles are written as, as the process learns it.
pub(crate) fn grants_account(deployment: &Value) -> String {
    environment(deployment)["CODER_K8S_GRANTS_ACCOUNT"].clone()
}

/// The Services in CODER_K8S_SERVING_NAME.
pub(crate) fn serving_names(deployment: &Value) -> Vec<String> {
    environment(deployment)["CODER_K8S_SERVING_NAME"].split(',').map(str::to_owned).collect()
}

/// The variables of the operator, their references to annotations and other variables filled in as the kubelet does.
fn environment(deployment: &Value) -> BTreeMap<&str, String> {
    let template = &deployment["spec"]["template"];
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for variable in template["spec"]["containers"][0]["env"].as_array().unwrap() {
        let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap_or_default();
        let annotation =
            field.strip_prefix("metadata.annotations['").and_then(|rest| rest.strip_suffix("']"));
        let mut value = match annotation {
            Some(annotation) => template["metadata"]["annotations"][annotation].as_str().unwrap().to_owned(),
            None => variable["value"].as_str().unwrap_or_default().to_owned(),
        };
        for (name, earlier) in &known {
            value = value.replace(&format!("$({name})"), earlier);
        }
        known.insert(variable["name"].as_str().unwrap(), value);
    }
    known
}
