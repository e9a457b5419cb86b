//! Every command of docs/workspace-proxy.md, run in the order of the page by whoever has what it asks for: a control plane that is
//! Ready, and proxies that come to coderd with the token they were given. Its manifest is one that the API server accepts.

use crate::docs::walk::Walk;
use std::convert::Infallible;
use std::time::Duration;
use support::coderd::{Coderd, Role};

/// How often proxies come: real ones do so every few seconds.
const PACE: Duration = Duration::from_millis(200);

/// Comes to coderd for every proxy that is registered there, as its pods would, until nobody waits for it any more.
async fn come(coderd: &Coderd) -> Infallible {
    loop {
        for proxy in coderd.workspace_proxies() {
            if let Some(token) = coderd.token_of_proxy(&proxy.name) {
                coderd.proxy_comes(&token, "https://sydney.example.com").expect("a token of now");
            }
        }
        tokio::time::sleep(PACE).await;
    }
}

#[tokio::test]
async fn the_page_leads_from_the_first_proxy_to_the_last() {
    let walk = Walk::begin("docs/workspace-proxy.md", Role::Owner).await;
    tokio::select! {
        never = come(walk.env.coderd()) => match never {},
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
