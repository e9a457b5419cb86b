//! What an update makes of an object: what it does not mention stays where it decides what runs, and a version that
//! cannot go back does not go back by accident.

use super::{BINARY, LIMIT, admitted, control_planes, manifest, object};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use support::wait::holds;
use support::{Cluster, Installation, until};

/// Replaces a stored object by one that says nothing but this, as `kubectl replace` does.
async fn replaced(planes: &Api<DynamicObject>, name: &str, spec: &Value) -> kube::Result<DynamicObject> {
    let mut new = object(name, spec);
    new.metadata.resource_version = planes.get(name).await.unwrap().metadata.resource_version;
    planes.replace(name, &PostParams::default(), &new).await
}

#[tokio::test]
async fn an_update_that_names_no_image_and_no_replicas_keeps_those_of_the_stored_object() {
    let (_installation, _operator, planes) = admitted("kept").await;
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.30.0", "service": { "port": 8080 } });
    planes.create(&PostParams::default(), &object("coder", &spec)).await.unwrap();
    // As an autoscaler does it.
    let scaled = json!({ "spec": { "replicas": 3 } });
    planes.patch_scale("coder", &PatchParams::default(), &Patch::Merge(&scaled)).await.unwrap();
    let requests = json!({ "resources": { "requests": { "cpu": "1" } } });
    let stored = replaced(&planes, "coder", &requests).await.unwrap().data["spec"].clone();
    assert_eq!(
        (&stored["image"], &stored["replicas"]),
        (&json!("ghcr.io/coder/coder:v2.30.0"), &json!(3)),
        "{stored}"
    );
    assert_eq!(
        stored["service"],
        json!({ "type": "ClusterIP", "port": 80 }),
        "these return to their defaults"
    );
    let again = replaced(&planes, "coder", &requests).await.unwrap();
    assert_eq!((&again.data["spec"], again.metadata.generation), (&stored, Some(3)), "no drift");
}

#[tokio::test]
async fn an_update_of_an_object_stored_without_an_image_gives_it_none() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "imageless").await;
    let planes = control_planes(cluster, &installation.namespace).await;
    planes.create(&PostParams::default(), &object("old", &json!({}))).await.unwrap();
    let operator = installation.start(BINARY, "webhooks").await;
    installation.admit(operator.ports.webhooks, &[installation.namespace.as_str()]).await;
    until("the webhooks to be in force", LIMIT, async || {
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let probe =
            planes.create(&dry, &object("probe", &json!({}))).await.map_err(|error| error.to_string())?;
        holds(probe.data["spec"]["image"].is_string(), "not defaulted yet")
    })
    .await;
    let edited = json!({ "spec": { "resources": { "requests": { "cpu": "1" } } } });
    let stored = planes.patch("old", &PatchParams::default(), &Patch::Merge(&edited)).await.unwrap();
    let spec = &stored.data["spec"];
    assert_eq!((&spec["image"], &spec["replicas"]), (&Value::Null, &Value::Null), "{spec}");
    assert_eq!(spec["service"], json!({ "type": "ClusterIP", "port": 80 }));
}

#[tokio::test]
async fn a_proxy_of_a_control_plane_gets_no_image_when_it_is_new_nor_later() {
    let (installation, _operator, _planes) = admitted("following").await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderWorkspaceProxy"));
    let client = Cluster::shared().await.client().await;
    let proxies: Api<DynamicObject> = Api::namespaced_with(client, &installation.namespace, &kind);
    let proxy = |spec: Value| -> DynamicObject {
        let mut object = manifest("fra", &spec);
        object["kind"] = json!("CoderWorkspaceProxy");
        serde_json::from_value(object).unwrap()
    };
    let following = json!({ "controlPlaneRef": { "name": "coder" } });
    let stored = proxies.create(&PostParams::default(), &proxy(following.clone())).await.unwrap();
    let spec = &stored.data["spec"];
    assert_eq!((&spec["image"], &spec["replicas"]), (&Value::Null, &json!(1)), "{spec}");
    let given = json!({ "primaryAccessURL": "https://coder.example.com", "proxySessionTokenSecretRef": { "name": "s" } });
    let chosen = json!({ "image": "ghcr.io/coder/coder:v2.36.0" });
    let patch = Patch::Merge(json!({ "spec": chosen }));
    proxies.patch("fra", &PatchParams::default(), &patch).await.unwrap();
    let replace = async |spec: &Value| {
        let mut new = proxy(spec.clone());
        new.metadata.resource_version = proxies.get("fra").await.unwrap().metadata.resource_version;
        proxies.replace("fra", &PostParams::default(), &new).await.unwrap().data["spec"]["image"].clone()
    };
    assert_eq!(replace(&given).await, chosen["image"], "one with a token of its own keeps its image");
    assert_eq!(replace(&following).await, Value::Null, "one of a control plane does not");
    assert_eq!(replace(&given).await, Value::Null, "what runs is in the Deployment");
}

#[tokio::test]
async fn a_lower_version_is_refused_unless_an_annotation_names_it() {
    let (_installation, _operator, planes) = admitted("lower").await;
    let version = |version: &str| json!({ "image": format!("ghcr.io/coder/coder:{version}") });
    planes.create(&PostParams::default(), &object("coder", &version("v2.36.1"))).await.unwrap();
    let error = replaced(&planes, "coder", &version("v2.35.0")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 403, "{status:?}");
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].field, "spec.image");
    let told = &causes[0].message;
    assert!(told.contains("CODER0221") && told.contains("coder.com/allow-downgrade"), "{told}");

    let apply = PatchParams::apply("gitops").force();
    let allowing = |named: &str| {
        let mut new = manifest("coder", &version("v2.35.0"));
        new["metadata"]["annotations"] = json!({ "coder.com/allow-downgrade": named });
        new
    };
    planes.patch("coder", &apply, &Patch::Apply(allowing("v2.34.0"))).await.expect_err("another version");
    let stored = planes.patch("coder", &apply, &Patch::Apply(allowing("2.35.0"))).await.unwrap();
    assert_eq!(stored.data["spec"]["image"], "ghcr.io/coder/coder:v2.35.0");
    // The annotation stays in Git and allows nothing else.
    let mut lower = allowing("v2.35.0");
    lower["spec"] = version("v2.34.0");
    planes.patch("coder", &apply, &Patch::Apply(lower)).await.expect_err("lower still");
}
