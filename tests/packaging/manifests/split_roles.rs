//! `kustomize/components/split-roles`: what it makes of the default overlay. tests/packaging/manifests/matrix.rs builds it beside every
//! other component.

use super::built::{Built, impersonated, overlay};
use super::repository;
use coder_k8s::manifests::{self, rbac};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The component over the default overlay.
fn split(name: &str, settings: &str) -> PathBuf {
    let default = repository().join("kustomize/overlays/default");
    let folder = overlay(name, &default, "");
    let component = repository().join("kustomize/components/split-roles").canonicalize().unwrap();
    let up = "../".repeat(folder.components().count() - 1);
    let relative = component.strip_prefix("/").unwrap().display();
    overlay(name, &default, &format!("{settings}\ncomponents: [{up}{relative}]"))
}

#[tokio::test]
async fn split_roles_are_one_deployment_and_one_identity_each_and_whole_under_a_prefix() {
    let built = Built::from(&split("split", "namespace: elsewhere\nnamePrefix: team-")).await;
    assert_eq!(built.dangling(), [""; 0]);
    assert_eq!(built.misplaced("elsewhere"), [""; 0]);
    let mut apps = Vec::new();
    for deployment in built.of_kind("Deployment") {
        let pod = &deployment["spec"]["template"];
        let (name, account) = (&deployment["metadata"]["name"], &pod["spec"]["serviceAccountName"]);
        assert_eq!(name, account, "an identity of its own");
        let container = &pod["spec"]["containers"][0];
        let app = container["args"][0].as_str().unwrap().strip_prefix("--app=").unwrap();
        assert_eq!(pod["metadata"]["labels"][manifests::ROLE_LABEL], app);
        assert_eq!(deployment["spec"]["selector"]["matchLabels"][manifests::ROLE_LABEL], app);
        let ports = container["ports"].to_string();
        assert_eq!(ports.contains("webhooks"), app == "webhooks", "{ports}");
        let keeps_the_ca = !container["args"].as_array().unwrap().contains(&json!("--keep-ca=false"));
        assert_eq!(keeps_the_ca, app == "controller", "the CA is kept by who may read every Secret anyway");
        apps.push(app.to_owned());
    }
    assert_eq!(apps, rbac::SPLIT_ROLES.iter().map(|role| role.app).collect::<Vec<_>>());
    assert_eq!(built.of_kind("PodDisruptionBudget").count(), apps.len());
    let selects = |name: &str| {
        let service = built.of_kind("Service").find(|one| one["metadata"]["name"] == name).unwrap();
        service["spec"]["selector"][manifests::ROLE_LABEL].clone()
    };
    assert_eq!(selects("team-coder-k8s-webhooks"), "webhooks");
    assert_eq!(selects("team-coder-k8s-metrics"), Value::Null, "every pod has metrics");
    let has = |name: &str| built.of_kind("ServiceAccount").any(|one| one["metadata"]["name"] == name);
    assert!(!has("team-coder-k8s"), "the account of the one operator");
    for role in built.of_kind("Role") {
        let of_controller = role["metadata"]["name"] == "team-coder-k8s-controller";
        let accounts = impersonated(role);
        assert_eq!(accounts, if of_controller { vec![json!("team-coder-k8s-grants")] } else { vec![] });
    }
}

/// kubectl apply prunes nothing: the page has what goes when somebody takes in the component, and no more.
#[tokio::test]
async fn the_page_removes_what_the_one_operator_had_and_the_roles_have_not() {
    let names = |built: &Built| -> BTreeSet<String> {
        let name = |object: &Value| {
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap())
        };
        built.0.iter().map(name).collect()
    };
    let default = names(&Built::from(&repository().join("kustomize/overlays/default")).await);
    let split = names(&Built::from(&split("switch", "")).await);
    let gone: BTreeSet<_> = default.difference(&split).cloned().collect();
    let page = std::fs::read_to_string(repository().join("docs/operations.md")).unwrap();
    let (_, section) = page.split_once("## One identity for each role\n").unwrap();
    let commands = section.split("```").nth(1).unwrap();
    let told: BTreeSet<_> =
        commands.split_whitespace().filter(|word| word.contains('/')).map(str::to_owned).collect();
    assert_eq!(told, gone);
}
