//! What somebody gets done in a cluster: everything that is worth an attack, tried with his own credentials and with
//! those of every account that his code runs as or that he may run code as. It never asks what he may: it tries.

use http::{Method, Request};
use serde_json::Value;
use std::collections::BTreeSet;
use support::Cluster;

/// The image of an author: whatever pod runs it is his.
pub fn image_of(author: &str) -> String {
    format!("registry.example.com/{author}:v2.36.1")
}

/// What there is to gain in a namespace.
const TRIES: [(Method, &str); 13] = [
    (Method::GET, "/api/v1/namespaces/{}/secrets"),
    (Method::GET, "/api/v1/namespaces/{}/secrets/payroll"),
    (Method::GET, "/api/v1/namespaces/{}/configmaps"),
    (Method::GET, "/api/v1/namespaces/{}/pods"),
    (Method::POST, "/api/v1/namespaces/{}/pods"),
    (Method::POST, "/api/v1/namespaces/{}/services"),
    (Method::POST, "/api/v1/namespaces/{}/serviceaccounts/robot/token"),
    (Method::POST, "/api/v1/namespaces/{}/serviceaccounts/coder/token"),
    (Method::POST, "/apis/apps/v1/namespaces/{}/deployments"),
    (Method::POST, "/apis/networking.k8s.io/v1/namespaces/{}/ingresses"),
    (Method::GET, "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"),
    (Method::POST, "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"),
    (Method::POST, "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"),
];

/// What there is to gain in all of them.
const CLUSTER_TRIES: [(Method, &str); 4] = [
    (Method::GET, "/api/v1/secrets"),
    (Method::GET, "/api/v1/nodes"),
    (Method::POST, "/api/v1/namespaces"),
    (Method::POST, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
];

/// Somebody who writes our objects. He has an account of his own in the namespace `people`.
pub struct Author<'a> {
    pub cluster: &'a Cluster,
    pub name: &'static str,
}

/// Everything the author gets done in these namespaces.
pub async fn reach(author: &Author<'_>, places: &[&str]) -> BTreeSet<String> {
    let (cluster, mut reach) = (author.cluster, BTreeSet::new());
    tried_by(cluster, ("people", author.name), places, &mut reach).await;
    let mut accounts = accounts_of_his_pods(author).await;
    for place in places {
        if reach.contains(&format!("POST /api/v1/namespaces/{place}/pods")) {
            let names = format!("get serviceaccounts -n {place} -o jsonpath={{.items[*].metadata.name}}");
            let names = cluster.kubectl(&names).await.expect_ok();
            accounts.extend(names.split_whitespace().map(|name| ((*place).to_owned(), name.to_owned())));
        }
    }
    for (namespace, account) in &accounts {
        tried_by(cluster, (namespace, account), places, &mut reach).await;
    }
    reach
}

/// The accounts that pods with the author's image run as.
async fn accounts_of_his_pods(author: &Author<'_>) -> BTreeSet<(String, String)> {
    let image = image_of(author.name);
    let pods: Value =
        serde_json::from_str(&author.cluster.kubectl("get pods -A -o json").await.expect_ok()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pods = pods["items"].as_array().unwrap().iter();
    let his = pods.filter(|pod| pod["spec"].to_string().contains(&image));
    his.map(|pod| (text(&pod["metadata"]["namespace"]), text(&pod["spec"]["serviceAccountName"]))).collect()
}

/// Tries everything with a token of this account. A refusal is 403; any other answer means that the request got as far
/// as its (empty) body or its object.
async fn tried_by(
    cluster: &Cluster,
    (namespace, account): (&str, &str),
    places: &[&str],
    reach: &mut BTreeSet<String>,
) {
    let client = cluster.client_of(&cluster.kubeconfig_for(namespace, account, &cluster.url()).await).await;
    let everywhere = CLUSTER_TRIES.map(|(method, path)| (method, path.to_owned()));
    let there =
        places.iter().flat_map(|place| TRIES.map(|(method, path)| (method, path.replace("{}", place))));
    for (method, path) in everywhere.into_iter().chain(there) {
        let what = format!("{method} {path}");
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        match client.request::<Value>(request.body(Vec::new()).unwrap()).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(kube::Error::Api(status)) if status.code != 401 => _ = reach.insert(what),
            Ok(_) => _ = reach.insert(what),
            Err(error) => panic!("{namespace}/{account}: {what}: {error}"),
        }
    }
}
