//! How a workspace proxy is reached from outside: by a route of the Gateway API, where the cluster has that kind.

use crate::site::{Site, WORKLOAD};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_route_comes_with_the_spec_is_mended_and_goes_with_it() {
    let site = Site::with_proxy("route").await;
    let gateway =
        json!({ "host": "eu.example.com", "parentRefs": [{ "name": "edge", "namespace": "infra" }] });
    site.apply(&json!({ "expose": { "gateway": gateway } })).await;
    let leads_to_service = |route: &Value| {
        let to = &route["spec"]["rules"][0]["backendRefs"][0];
        to["name"] == WORKLOAD && to["port"] == 80
    };
    let route = site.until_object("httproute", WORKLOAD, "to lead to the Service", leads_to_service).await;
    assert_eq!(route["spec"]["hostnames"], json!(["eu.example.com"]));
    let parent = &route["spec"]["parentRefs"][0];
    assert_eq!((&parent["name"], &parent["namespace"]), (&json!("edge"), &json!("infra")));
    assert_eq!(route["metadata"]["ownerReferences"][0]["kind"], "CoderWorkspaceProxy");
    site.ready().await;

    let other = json!({ "spec": { "rules": [{ "backendRefs": [{ "name": "others", "port": 1 }] }] } });
    site.patch("httproute", WORKLOAD, &other).await;
    site.until_object("httproute", WORKLOAD, "to be mended", leads_to_service).await;

    site.apply(&json!({})).await;
    site.until_gone("httproute", WORKLOAD).await;
    site.ready().await;
    assert_eq!(site.only().regenerations, 0);
}
