//! What the older operator, written in Go, leaves behind of a provisioner is taken over in place, whichever part of it is
//! missing: its key is recognised by its plaintext, and nothing is rotated.

use crate::env::{Case, Double, ProvisionerEnv, run_all};
use crate::site::{DELETE, MAKE, api, checksum, revision, wait};
use crds::names::provisioner::{key_checksum, tags_hash};
use kube::Client;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use support::Cluster;
use support::cluster::kustomize;
use support::coderd::Role;
use support::installation::repository;
use support::objects::{self, is_ready, text};
use support::wait::holds;

const FINALIZER: &str = "coder.com/provisioner-key-cleanup";
/// What that operator runs where nobody names an image.
const IMAGE: &str = "ghcr.io/coder/coder:latest";
/// What that operator writes into a status.
const STATUS: [&str; 12] = [
    "observedGeneration",
    "readyReplicas",
    "phase",
    "conditions",
    "organizationID",
    "organizationName",
    "provisionerKeyID",
    "provisionerKeyName",
    "tagsHash",
    "controlPlaneRefName",
    "controlPlaneURL",
    "secretRef",
];
/// What else may be missing.
const WHOLE: &str = "complete";
const NO_STATUS: &str = "no-status";
const NO_CHECKSUM: &str = "no-checksum";
const NO_LABELS: &str = "no-labels";
const NO_FINALIZER: &str = "no-finalizer";
/// One that was deleted while no operator ran.
const GOING: &str = "going";

/// What the older operator left.
pub struct Former {
    ns: String,
    double: Double,
    /// The ids of the keys, by the name of the provisioner.
    keys: BTreeMap<String, String>,
}

/// A provisioner for everything that may be missing of it.
fn names() -> Vec<String> {
    let fields = STATUS.iter().map(|field| format!("no-{}", field.to_lowercase()));
    let others = [WHOLE, NO_STATUS, NO_CHECKSUM, NO_LABELS, NO_FINALIZER, GOING];
    fields.chain(others.map(str::to_owned)).collect()
}

/// Lays out what the older operator ran before anything of ours is installed.
pub async fn lay_out(cluster: &Cluster, double: &Double) -> Former {
    let ns = cluster.namespace("former").await;
    let definitions = kustomize(&repository().join("crds")).await.expect_ok();
    cluster.kubectl_with_input("apply --server-side -f -", &definitions).await.expect_ok();
    cluster.crds_established().await;
    let left = Left { client: cluster.client().await, ns: ns.clone(), double: double.clone() };
    let token = double.coderd.token_for(&[Role::TemplateAdmin]);
    left.create("secret", objects::secret(&ns, "operator-token", &json!({ "token": token }))).await;
    let spec = json!({ "service": { "port": double.port },
        "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    let plane = left.create("codercontrolplane", objects::control_plane(&ns, "coder", &spec)).await;
    for (kind, child) in left.of_control_plane(&plane["metadata"]["uid"]) {
        left.create(kind, child).await;
    }
    let provisioners = names().into_iter().map(async |name| (name.clone(), left.provisioner(&name).await));
    let keys = futures::future::join_all(provisioners).await.into_iter().collect();
    Former { ns, double: double.clone(), keys }
}

/// Where something is left.
struct Left {
    client: Client,
    ns: String,
    double: Double,
}

impl Left {
    /// Makes an object as that operator does: by a create in its name.
    async fn create(&self, kind: &str, manifest: Value) -> Value {
        let object: DynamicObject = serde_json::from_value(manifest).unwrap();
        let parameters = PostParams { field_manager: Some("coder-k8s".to_owned()), ..Default::default() };
        let made = api(&self.client, kind, &self.ns).create(&parameters, &object).await;
        serde_json::to_value(made.unwrap_or_else(|error| panic!("{kind}: {error}"))).unwrap()
    }

    /// The server that the daemons work for, as that operator leaves it.
    fn of_control_plane(&self, uid: &Value) -> [(&'static str, Value); 2] {
        let labels = json!({ "app.kubernetes.io/name": "coder-control-plane", "app.kubernetes.io/instance": "coder",
            "app.kubernetes.io/managed-by": "coder-k8s" });
        let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder",
            "uid": uid, "controller": true, "blockOwnerDeletion": true }]);
        let metadata =
            json!({ "name": "coder", "namespace": self.ns, "labels": labels, "ownerReferences": owner });
        let container = json!({ "name": "coder", "image": IMAGE, "args": ["--http-address=0.0.0.0:8080"] });
        [
            (
                "deployment",
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": { "replicas": 1, "selector": { "matchLabels": labels },
                    "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } } } }),
            ),
            (
                "service",
                json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": { "type": "ClusterIP", "selector": labels,
                    "ports": [{ "name": "http", "port": self.double.port, "targetPort": 8080 }] } }),
            ),
        ]
    }

    /// A provisioner with all its children and its key in coderd; returns the id of the key.
    async fn provisioner(&self, name: &str) -> String {
        let tags = json!({ "environment": name });
        let plaintext = self.double.coderd.add_provisioner_key("default", name, &[("environment", name)]);
        let id = self.double.coderd.key_proven_by(&plaintext).unwrap().to_string();
        let mut object = objects::provisioner(&self.ns, name, "coder");
        object["spec"]["tags"] = tags.clone();
        let provisioners = api(&self.client, "coderprovisioner", &self.ns);
        let by_git = PostParams { field_manager: Some("git".to_owned()), ..Default::default() };
        let made = provisioners.create(&by_git, &serde_json::from_value(object).unwrap()).await.unwrap();
        let as_go = PatchParams { field_manager: Some("coder-k8s".to_owned()), ..Default::default() };
        for (kind, child) in self.children(name, &json!(made.metadata.uid), &plaintext) {
            self.create(kind, child).await;
        }
        if name != NO_STATUS {
            let status = json!({ "status": self.status(name, &id) });
            provisioners.patch_status(name, &as_go, &Patch::Merge(status)).await.unwrap();
        }
        if name != NO_FINALIZER {
            let finalizer = json!({ "metadata": { "finalizers": [FINALIZER] } });
            provisioners.patch(name, &as_go, &Patch::Merge(finalizer)).await.unwrap();
        }
        if name == GOING {
            provisioners.delete(name, &DeleteParams::default()).await.unwrap();
        }
        id
    }

    fn status(&self, name: &str, id: &str) -> Value {
        let condition = |type_: &str, reason: &str| {
            json!({ "type": type_, "status": "True", "reason": reason, "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let tags = BTreeMap::from([("environment".to_owned(), name.to_owned())]);
        let mut status = json!({
            "observedGeneration": 1,
            "readyReplicas": 1,
            "phase": "Ready",
            "conditions": [
                condition("ControlPlaneReady", "ControlPlaneAvailable"),
                condition("OperatorAccessReady", "OperatorAccessReady"),
                condition("ExternalProvisionersEntitled", "Entitled"),
                condition("ProvisionerKeyReady", "ProvisionerKeyReady"),
                condition("ProvisionerKeySecretReady", "SecretReady"),
                condition("DeploymentReady", "MinimumReplicasReady"),
            ],
            "organizationID": self.double.coderd.organization_id("default").to_string(),
            "organizationName": "default",
            "provisionerKeyID": id,
            "provisionerKeyName": name,
            "tagsHash": tags_hash(&tags),
            "controlPlaneRefName": "coder",
            "controlPlaneURL": self.url(),
            "secretRef": { "name": format!("{name}-provisioner-key"), "key": "key" },
        });
        let status_fields = status.as_object_mut().unwrap();
        status_fields.retain(|field, _| name != format!("no-{}", field.to_lowercase()));
        status
    }

    fn url(&self) -> String {
        format!("http://coder.{}.svc.cluster.local:{}", self.ns, self.double.port)
    }

    /// Everything that operator makes for a provisioner, as it makes it.
    fn children(&self, name: &str, uid: &Value, plaintext: &str) -> Vec<(&'static str, Value)> {
        let labels = json!({ "app.kubernetes.io/name": "coder-provisioner", "app.kubernetes.io/instance": name,
            "app.kubernetes.io/managed-by": "coder-k8s" });
        let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner", "name": name,
            "uid": uid, "controller": true, "blockOwnerDeletion": true }]);
        let metadata = |child: &str| {
            let mut metadata = json!({ "name": child, "namespace": self.ns, "ownerReferences": owner });
            if name != NO_LABELS {
                metadata["labels"] = labels.clone();
            }
            metadata
        };
        let (workload, account) = (format!("provisioner-{name}"), format!("{name}-provisioner"));
        let secret = format!("{name}-provisioner-key");
        let mut pod_metadata = json!({ "labels": labels });
        if name != NO_CHECKSUM {
            let checksum = key_checksum(plaintext.as_bytes());
            pod_metadata["annotations"] = json!({ "checksum/provisioner-key": checksum });
        }
        let (rbac, verbs) =
            ("rbac.authorization.k8s.io/v1", ["get", "list", "watch", "create", "update", "patch", "delete"]);
        let container = json!({ "name": "provisioner", "image": IMAGE,
            "command": ["coder"], "args": ["provisioner", "start"],
            "env": [{ "name": "CODER_URL", "value": self.url() },
                { "name": "CODER_PROVISIONER_DAEMON_KEY",
                    "valueFrom": { "secretKeyRef": { "name": secret, "key": "key" } } },
                { "name": "LEFT_BEHIND", "value": "1" }] });
        vec![
            (
                "secret",
                json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": metadata(&secret), "stringData": { "key": plaintext } }),
            ),
            (
                "serviceaccount",
                json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(&account) }),
            ),
            (
                "role",
                json!({ "apiVersion": rbac, "kind": "Role", "metadata": metadata(&workload),
                "rules": [{ "apiGroups": [""], "resources": ["pods", "persistentvolumeclaims"], "verbs": verbs }] }),
            ),
            (
                "rolebinding",
                json!({ "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata(&workload),
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": workload },
                "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": self.ns }] }),
            ),
            (
                "deployment",
                json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(&workload),
                "spec": { "replicas": 1, "selector": { "matchLabels": labels },
                    "template": { "metadata": pod_metadata, "spec": { "serviceAccountName": account,
                        "terminationGracePeriodSeconds": 600, "containers": [container] } } } }),
            ),
        ]
    }
}

/// The operations by which fields of an object were written in our name, without those of its status.
fn marks(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let ours = entries.filter(|entry| entry["manager"] == "coder-k8s" && entry["subresource"].is_null());
    ours.map(|entry| text(entry, "/operation")).collect()
}

/// The provisioner is Ready with the key that it had, its pods were replaced once at most, and every child is ours.
async fn is_taken_over(client: &Client, former: &Former, name: &str) {
    let get = async |kind: &str, name: &str| {
        let object = api(client, kind, &former.ns).get_opt(name).await.unwrap();
        object.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default()
    };
    let id = &former.keys[name];
    let taken = wait(&format!("{name} to be taken over"), async || {
        let object = get("coderprovisioner", name).await;
        let status = &object["status"];
        let is_done = is_ready(&object) && status["key"]["current"]["id"] == **id;
        holds(is_done, status.to_string()).map(|()| object)
    })
    .await;
    let status = &taken["status"];
    assert_eq!((&status["provisionerKeyID"], &status["provisionerKeyName"]), (&json!(id), &json!(name)));
    assert_eq!(
        (&status["key"]["pending"], &status["key"]["retiring"]),
        (&Value::Null, &Value::Null),
        "{name}"
    );
    assert!(taken["metadata"]["finalizers"].to_string().contains(FINALIZER), "{name}");
    let workload = format!("provisioner-{name}");
    for (kind, child) in [
        ("serviceaccount", &format!("{name}-provisioner")),
        ("role", &workload),
        ("rolebinding", &workload),
        ("deployment", &workload),
    ] {
        assert_eq!(marks(&get(kind, child).await), ["Apply"], "{name}: {kind} is taken over");
    }
    let deployment = get("deployment", &workload).await;
    assert!(revision(&deployment) <= 2, "{name}: at most one rollout, not {}", revision(&deployment));
    assert!(!deployment["spec"].to_string().contains("LEFT_BEHIND"), "{name}");
    let plaintext = former.double.coderd.plaintext_of("default", name).expect("its key is still there");
    assert_eq!(checksum(&deployment), Some(&*key_checksum(plaintext.as_bytes())), "{name}");
    assert_eq!(former.double.coderd.key_proven_by(&plaintext).unwrap().to_string(), *id, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_go_operator_left_is_taken_over_whatever_its_status_lacks() {
    let env = ProvisionerEnv::shared().await;
    let (former, client) = (&env.former, env.cluster.client().await);
    let _daemons = env.daemons(client.clone(), &former.ns, Duration::ZERO);
    let cases = former.keys.keys().filter(|name| *name != GOING).map(|name| -> Case<'_> {
        let (name, client) = (name.clone(), &client);
        (name.clone(), Box::pin(async move { is_taken_over(client, former, &name).await }))
    });
    run_all(cases.collect()).await;
    let provisioners = api(&client, "coderprovisioner", &former.ns);
    wait("the one that was being deleted to be gone", async || {
        let there = provisioners.get_opt(GOING).await.unwrap();
        holds(there.is_none(), serde_json::to_string(&there).unwrap())
    })
    .await;
    let coderd = &former.double.coderd;
    assert_eq!(coderd.count(MAKE), 0, "nothing was rotated");
    let deleted: Vec<String> = coderd.calls_to(DELETE).into_iter().map(|call| call.path).collect();
    assert!(deleted.len() == 1 && deleted[0].ends_with("/going"), "{deleted:?}");

    // From now on it is rotated and deleted like any other.
    let tags = json!({ "spec": { "tags": { "environment": "other" } } });
    provisioners.patch(WHOLE, &PatchParams::default(), &Patch::Merge(tags)).await.unwrap();
    provisioners.delete(NO_STATUS, &DeleteParams::default()).await.unwrap();
    wait("the keys after a rotation and a deletion", async || {
        let there = |name: &str| coderd.plaintext_of("default", name).is_some();
        let is_done = there("complete-2") && !there(WHOLE) && !there(NO_STATUS);
        holds(is_done, format!("{:?}", coderd.provisioner_keys("default")))
    })
    .await;
    coderd.assert_no_violations();
}
