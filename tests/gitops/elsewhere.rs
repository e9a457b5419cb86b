//! What is in no Git repository: the license, which a person or a store of secrets keeps, and what CloudNativePG would do for its
//! Cluster, which is to write how to reach the database, and that it is there. It never touches anything else.

use crate::site::TEAM;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::time::Duration;
use support::coderd::license_with;
use tokio_util::task::AbortOnDropHandle;

/// How often it looks.
const PACE: Duration = Duration::from_millis(200);
const MANAGER: &str = "elsewhere";
/// The Cluster of the examples, and the Secret that CloudNativePG makes of its name.
const DATABASE: (&str, &str) = ("coder-database", "coder-database-app");
const LICENSE: &str = "coder-license";
const LICENSE_ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

/// Goes on until it is dropped.
pub struct Elsewhere {
    _task: AbortOnDropHandle<()>,
}

impl Elsewhere {
    pub fn begin(client: Client, database_url: &str) -> Self {
        let url = database_url.to_owned();
        let work = async move {
            follow(client, &url).await;
        };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(work)) }
    }
}

/// There is nothing to do while namespace or Cluster are not there, and what fails is tried again.
async fn follow(client: Client, url: &str) -> Infallible {
    let (secrets, clusters) =
        (api(&client, "", "v1", "Secret"), api(&client, "postgresql.cnpg.io", "v1", "Cluster"));
    let license = license_with(&json!({ "jti": LICENSE_ID, "exp": 4_000_000_000_i64 }));
    loop {
        if let Ok(None) = secrets.get_opt(LICENSE).await {
            let _ = write(&secrets, LICENSE, secret(LICENSE, "license", &license, &Value::Null)).await;
        }
        if let Ok(Some(cluster)) = clusters.get_opt(DATABASE.0).await
            && cluster.data["status"]["phase"].is_null()
            && cluster.metadata.deletion_timestamp.is_none()
        {
            let _ = provide(&secrets, &clusters, &cluster, url).await;
        }
        tokio::time::sleep(PACE).await;
    }
}

async fn provide(
    secrets: &Api<DynamicObject>,
    clusters: &Api<DynamicObject>,
    cluster: &DynamicObject,
    url: &str,
) -> kube::Result<()> {
    let owner = json!([{ "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": DATABASE.0,
        "uid": cluster.metadata.uid, "controller": true }]);
    write(secrets, DATABASE.1, secret(DATABASE.1, "uri", url, &owner)).await?;
    let ready = json!({ "type": "Ready", "status": "True", "reason": "ClusterIsReady",
        "message": "Cluster is Ready", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    // Argo CD has a health check for this kind, which reads the phase.
    let status = json!({ "status": { "phase": "Cluster in healthy state", "phaseReason": "", "conditions": [ready] } });
    clusters.patch_status(DATABASE.0, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}

fn secret(name: &str, key: &str, text: &str, owner: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { key: text },
        "metadata": { "name": name, "namespace": TEAM, "ownerReferences": owner } })
}

async fn write(api: &Api<DynamicObject>, name: &str, object: Value) -> kube::Result<()> {
    api.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(object)).await.map(drop)
}

fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), TEAM, &resource)
}
