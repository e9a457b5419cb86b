//! Every command of docs/workspace-proxy.md, run in the order of the page by whoever has what it asks for: a control plane that is
//! Ready, and proxies that come to coderd with the token they were given. Its manifests are those that the API server accepts.

use crate::docs::walk::Walk;
use serde_json::Value;
use support::coderd::{Fault, Occurrence, Role};
use support::objects::condition;
use support::proxies::come;

#[tokio::test]
async fn the_page_leads_from_the_first_proxy_to_the_last() {
    let walk = Walk::begin("docs/workspace-proxy.md", Role::Owner).await;
    tokio::select! {
        never = come(walk.env.coderd(), "https://sydney.example.com") => match never {},
        () = the_page_holds(&walk) => {}
    }
}

async fn the_page_holds(walk: &Walk) {
    let manifests = walk.manifests();
    assert_eq!(manifests.len(), 2, "a proxy and a NetworkPolicy");
    for manifest in manifests {
        let words = "apply -n coder --dry-run=server -f -";
        walk.env.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }
    let registered = || walk.env.coderd().workspace_proxies();

    walk.follow("Run your first").await;
    assert_eq!(registered()[0].name, "sydney");
    walk.follow("Name it for users").await;
    let [named] = &registered()[..] else { panic!("{:?}", registered()) };
    assert_eq!((named.name.as_str(), named.display_name.as_str()), ("sydney-1", "Sydney"));
    assert_eq!(named.regenerations, 0, "another name is no other token");
    walk.follow("Replace its token").await;
    assert_eq!(registered()[0].regenerations, 1);
    let until = async |name: &str, type_: &str, reason: &str| {
        let is_told = |object: &Value| condition(object, type_)["reason"] == reason;
        walk.env.until_object("coderworkspaceproxy", "coder", name, reason, is_told).await
    };
    walk.follow("With a control plane elsewhere").await;
    until("singapore", "ProxyRegistered", "URLNotAllowed").await;
    walk.follow("With a token of your own").await;
    let tokyo = until("tokyo", "Ready", "ReferenceMissing").await;
    let told = condition(&tokyo, "Ready")["message"].as_str().unwrap();
    assert!(told.contains("tokyo-tls"), "as the page says: {told}");

    walk.follow("Delete").await;
    assert!(registered().is_empty(), "{:?}", registered());
    walk.follow("Run your first").await;
    walk.env.coderd().inject("*", Occurrence::Every, Fault::status(502));
    walk.env.cluster.kubectl("delete cwsp/sydney -n coder --wait=false").await.expect_ok();
    until("sydney", "CleanedUp", "CleanupFailed").await;
    let printed = walk.follow("If it does not go away").await;
    assert!(printed[0].contains("coder.com/release-external"), "{printed:?}");
    assert_eq!(registered().len(), 1, "it stays, as was asked for");
}
