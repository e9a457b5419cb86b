//! Every command of docs/provisioner.md, run in the order of the page by whoever has what it asks for: a control plane that is
//! Ready, and daemons that come when pods run. Its manifests are those that the API server accepts.

use crate::docs::walk::Walk;
use serde_json::Value;
use std::ops::Deref;
use std::time::Duration;
use support::coderd::{Fault, Occurrence, Role};
use support::daemons::Daemons;
use support::objects::condition;
use support::{until, wait::holds};

struct Provisioners {
    walk: Walk,
    _daemons: Daemons,
}

impl Deref for Provisioners {
    type Target = Walk;

    fn deref(&self) -> &Walk {
        &self.walk
    }
}

impl Provisioners {
    async fn begin() -> Self {
        let walk = Walk::begin("docs/provisioner.md", Role::OrganizationAdmin("default".to_owned())).await;
        let daemons = walk.env.daemons("coder").await;
        Self { walk, _daemons: daemons }
    }

    fn keys(&self) -> Vec<String> {
        self.env.coderd().provisioner_keys("default").into_iter().map(|key| key.name).collect()
    }

    /// Waits until coderd has exactly these keys.
    async fn until_keys(&self, names: &[&str]) {
        until(&format!("the keys {names:?}"), Duration::from_secs(60), async || {
            holds(self.keys() == names, format!("{:?}", self.keys()))
        })
        .await;
    }
}

#[tokio::test]
async fn the_page_leads_from_the_first_provisioner_to_the_last() {
    let walk = Provisioners::begin().await;
    let known = |manifest: &&Value| manifest["kind"] != "ScaledObject";
    let manifests = walk.manifests();
    assert_eq!(manifests.iter().filter(known).count(), 2, "a provisioner and an autoscaler");
    for manifest in manifests.iter().filter(known) {
        let words = "apply -n coder --dry-run=server -f -";
        walk.env.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    walk.follow("Run your first").await;
    assert_eq!(walk.keys(), ["builders"]);
    walk.follow("Choose which builds they take").await;
    walk.until_keys(&["builders-2"]).await;
    walk.follow("Rotate a key").await;
    walk.until_keys(&["builders-3"]).await;
    walk.follow("Move to another control plane").await;
    walk.env.coderd().add_pending_job("default", &[("environment", "on-prem")]);
    walk.follow("Scale by the queue").await;
    let is_scaled = |object: &Value| object["status"]["daemons"] == 3 && object["status"]["pendingJobs"] == 1;
    walk.env.until_object("coderprovisioner", "coder", "builders", "three daemons", is_scaled).await;
    walk.follow("Use a token of your own").await;
    let is_told =
        |object: &Value| condition(object, "BootstrapSecretReady")["reason"] == "BootstrapSecretUnavailable";
    let other = "data-science-builders";
    walk.env.until_object("coderprovisioner", "coder", other, "a placeholder opens no door", is_told).await;

    walk.follow("Delete").await;
    walk.until_keys(&[]).await;
    walk.follow("Run your first").await;
    walk.env.coderd().inject("*", Occurrence::Every, Fault::status(502));
    walk.env.cluster.kubectl("delete cprov/builders -n coder --wait=false").await.expect_ok();
    let is_held = |object: &Value| condition(object, "CleanedUp")["reason"] == "CleanupFailed";
    walk.env.until_object("coderprovisioner", "coder", "builders", "held", is_held).await;
    let printed = walk.follow("If it does not go").await;
    assert!(printed[0].contains("coder.com/release-external"), "{printed:?}");
    walk.until_keys(&["builders"]).await;
}
