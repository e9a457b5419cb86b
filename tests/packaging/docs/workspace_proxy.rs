//! Every command of docs/workspace-proxy.md, run in the order of the page by whoever has what it asks for: a control plane that is
//! Ready, and proxies that come to coderd with the token they were given. Its manifest is one that the API server accepts.

use crate::docs::walk::Walk;
use support::coderd::Role;
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
    for manifest in walk.manifests() {
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
    walk.follow("Delete").await;
    assert!(registered().is_empty(), "{:?}", registered());
}
