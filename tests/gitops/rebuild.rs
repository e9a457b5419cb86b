//! A cluster that is lost and built again from Git, beside the database that survived and beside an empty one; the operator started
//! anew with another default; and the written way out, after which nothing is left.

use crate::coder::Coder;
use crate::flux::{EXAMPLES, OVERLAY, install};
use crate::page;
use crate::site::{LIMIT, Site, TEAM};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use support::gitops::flux::NAMESPACE;
use support::gitops::rest::Moment;
use support::wait::{holds, until};

/// What an instance consists of.
const KINDS: &str = "codercontrolplanes,coderprovisioners,coderworkspaceproxies,deployments,services,serviceaccounts,secrets,\
    configmaps,roles,rolebindings,ingresses,poddisruptionbudgets";

fn keys(object: &Value) -> Value {
    Value::from(object.as_object().into_iter().flat_map(Map::keys).cloned().collect::<Vec<_>>())
}

/// The label whose value tells of which versions of its Secrets and ConfigMaps an object knows.
const VERSIONS: &str = "coder.com/consumed-versions";

/// The record that a registration was taken over: there is nothing to take over beside an empty database.
const TAKEN_OVER: &str = "coder.com/adopted-proxy";

/// An object without what is another one's in every cluster: identity, addresses, and the values of secrets, of their checksums
/// and of versions.
fn lasting(object: &Value) -> Value {
    let (mut spec, mut labels) = (object["spec"].clone(), object["metadata"]["labels"].clone());
    let mut annotations = object["metadata"]["annotations"].clone();
    annotations.as_object_mut().and_then(|annotations| annotations.remove(TAKEN_OVER));
    if let Some(versions) = labels.get_mut(VERSIONS) {
        *versions = Value::Null;
    }
    for field in ["clusterIP", "clusterIPs"] {
        spec.as_object_mut().and_then(|spec| spec.remove(field));
    }
    if let Some(annotations) = spec.pointer_mut("/template/metadata/annotations") {
        *annotations = keys(annotations);
    }
    json!({ "labels": labels, "annotations": keys(&annotations),
        "spec": spec, "data": keys(&object["data"]), "rules": object["rules"], "subjects": object["subjects"],
        "roleRef": object["roleRef"], "type": object["type"] })
}

async fn objects(site: &Site) -> BTreeMap<String, Value> {
    let list = site.list(KINDS).await;
    list.iter().map(|one| (format!("{} {}", one["kind"], one["metadata"]["name"]), lasting(one))).collect()
}

/// Holds the objects of a rebuilt cluster against those of the first.
async fn same_as(first: &BTreeMap<String, Value>, site: &Site, how: &str) {
    let now = objects(site).await;
    let all = first.keys().chain(now.keys().filter(|key| !first.contains_key(*key)));
    let other = all.filter(|key| first.get(*key) != now.get(*key));
    let other: Vec<String> =
        other.map(|key| format!("{key}\n  {:?}\n  {:?}", first.get(key), now.get(key))).collect();
    assert!(other.is_empty(), "{how}, first and then:\n{}", other.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flux: make test-gitops"]
async fn a_cluster_is_rebuilt_from_git() {
    let mut site = Site::new(Coder::fresh().await).await;
    drop(install(&mut site, &EXAMPLES).await);
    let first = objects(&site).await;
    assert!(first.len() > 10, "{:?}", first.keys());

    let mut site = site.rebuilt().await;
    drop(install(&mut site, &EXAMPLES).await);
    same_as(&first, &site, "beside the database that survived").await;
    let (made, proxies) = site.coder.registered();
    assert_eq!(proxies, ["sydney"], "the proxy was taken over");
    println!("Rebuilt beside the surviving database: {} objects, keys {made:?}", first.len());

    site.coder.lose_database();
    let mut site = site.rebuilt().await;
    drop(install(&mut site, &EXAMPLES).await);
    same_as(&first, &site, "beside an empty database").await;
    assert_eq!(site.coder.registered(), (vec!["builders".to_owned()], vec!["sydney".to_owned()]));
    println!("Rebuilt beside an empty database: {} objects", first.len());
}

/// That another release renders the same pods is held by `tests/packaging/pod_templates.rs`; here the same binary is started anew,
/// with what a release changes most often.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flux: make test-gitops"]
async fn an_upgrade_restarts_no_pod_and_uninstalling_leaves_nothing() {
    let mut site = Site::new(Coder::fresh().await).await;
    site.has_cloud_native_pg().await;
    let empty = Moment::of(&site.cluster).await;
    let flux = install(&mut site, &OVERLAY).await;

    let before = site.identities().await;
    site.stop_operator().await;
    site.start_operator_with(&["--default-image=ghcr.io/coder/coder:v2.36.0"]).await;
    for request in ["after-the-upgrade", "and-again"] {
        // What a manager called kubectl has set Flux takes back within an interval, read or not.
        let words = format!(
            "annotate codercontrolplane/coder -n {TEAM} --overwrite --field-manager=test coder.com/reconcile-at={request}"
        );
        site.cluster.kubectl(&words).await.expect_ok();
        until("the other operator to reconcile", LIMIT, async || {
            let object = site.get("codercontrolplane", "coder").await;
            holds(object["status"]["lastHandledReconcileAt"] == request, object["status"].to_string())
        })
        .await;
    }
    site.ready().await;
    assert_eq!(site.identities().await, before, "an upgrade of the operator restarts nothing");

    // As the page says where the database stays.
    let commit = site.without(&["provisioner", "workspace-proxy"]);
    flux.applied(OVERLAY.instances, &commit, LIMIT).await;
    until("coderd to know of nothing any more", LIMIT, async || {
        let registered = site.coder.registered();
        holds(registered == (vec![], vec![]), format!("{registered:?}"))
    })
    .await;
    page::follow(&mut site, "Everything, where Flux applies it").await;
    drop(flux);
    nothing_is_left(&site, &empty, &[NAMESPACE, "fluxcd.io"]).await;
}

/// Nothing in the cluster, and the namespaces of others can still be deleted.
pub async fn nothing_is_left(site: &Site, empty: &Moment, tool: &[&str]) {
    until("nothing to be left", LIMIT, async || {
        let left = empty.left_behind(tool).await;
        holds(left.is_empty(), format!("{left:?}"))
    })
    .await;
    println!("Left in the cluster: nothing. Registered in coderd: {:?}", site.coder.registered());
    site.cluster.kubectl("create namespace unrelated").await.expect_ok();
    site.cluster.kubectl("delete namespace unrelated --timeout=60s").await.expect_ok();
}
