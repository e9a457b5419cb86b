//! A variable given twice, as server-side apply sends it: admission explains it for every kind.

use super::{admitted, manifest};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use support::Cluster;

#[tokio::test]
async fn a_variable_given_twice_is_explained_to_server_side_apply() {
    let (installation, _operator, _planes) = admitted("twice").await;
    let client = Cluster::shared().await.client().await;
    let twice = json!([{ "name": "A", "value": "1" }, { "name": "B" }, { "name": "A", "value": "2" }]);
    for (kind, mut spec) in [
        ("CoderControlPlane", json!({})),
        ("CoderProvisioner", json!({ "controlPlaneRef": { "name": "coder" } })),
        (
            "CoderWorkspaceProxy",
            json!({ "primaryAccessURL": "https://coder.example.com", "proxySessionTokenSecretRef": { "name": "token" } }),
        ),
    ] {
        spec["extraEnv"] = twice.clone();
        let mut object = manifest("coder", &spec);
        object["kind"] = json!(kind);
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &installation.namespace, &kind);
        let apply = PatchParams::apply("gitops").force();
        let error = api.patch("coder", &apply, &Patch::Apply(object)).await.unwrap_err();
        let kube::Error::Api(status) = error else { panic!("{error}") };
        assert_eq!(status.code, 403, "{}: {}", kind.kind, status.message);
        let causes = status.details.unwrap().causes;
        let told: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(told, ["spec.extraEnv[2]"], "{causes:?}");
        assert!(causes[0].message.contains("CODER0210"), "{causes:?}");
    }
}
