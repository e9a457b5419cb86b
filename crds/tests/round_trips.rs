//! Decides that reading and writing an object changes nothing: absent stays absent, spelled stays spelled.
//! Never asks whether the object makes sense.

#![allow(clippy::unwrap_used, reason = "a test stops where something is missing")]

use crds::control_plane::AggregationNames;
use crds::shared::DeletionPolicy;
use crds::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy};
use kube::{CustomResourceExt, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object(kind: &str, spec: Option<Value>) -> Value {
    let mut object = json!({"apiVersion": "coder.com/v1alpha1", "kind": kind, "metadata": {"name": "x"}});
    if let Some(spec) = spec {
        object["spec"] = spec;
    }
    object
}

fn again<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    serde_json::to_value(typed).unwrap()
}

fn comes_back<K: Serialize + DeserializeOwned>(kind: &str, spec: Value) {
    let object = object(kind, Some(spec));
    assert_eq!(again::<K>(&object), object);
}

#[test]
fn a_missing_spec_reads_like_an_empty_one() {
    let empty = json!({});
    assert_eq!(again::<CoderControlPlane>(&object("CoderControlPlane", None))["spec"], empty);
    assert_eq!(again::<CoderWorkspaceProxy>(&object("CoderWorkspaceProxy", None))["spec"], empty);
    assert_eq!(again::<CoderControlPlane>(&object("CoderControlPlane", Some(Value::Null)))["spec"], empty);
    let provisioner: CoderProvisioner = serde_json::from_value(object("CoderProvisioner", None)).unwrap();
    assert_eq!(provisioner.spec, Default::default());
}

#[test]
fn an_empty_spec_stays_empty() {
    comes_back::<CoderControlPlane>("CoderControlPlane", json!({}));
    comes_back::<CoderWorkspaceProxy>("CoderWorkspaceProxy", json!({}));
    comes_back::<CoderProvisioner>("CoderProvisioner", json!({"controlPlaneRef": {}}));
}

#[test]
fn empty_objects_inside_a_spec_stay_empty() {
    comes_back::<CoderControlPlane>(
        "CoderControlPlane",
        json!({
            "service": {}, "operatorAccess": {}, "serviceAccount": {}, "rbac": {}, "resources": {}, "tls": {},
            "securityContext": {}, "podSecurityContext": {}, "readinessProbe": {}, "livenessProbe": {},
            "startupProbe": {}, "expose": {}, "certs": {}, "affinity": {}, "aggregation": {}, "lifecycle": {},
            "podDisruptionBudget": {}, "metrics": {"serviceMonitor": {}},
        }),
    );
    comes_back::<CoderProvisioner>(
        "CoderProvisioner",
        json!({
            "controlPlaneRef": {"name": "c"}, "key": {}, "rbac": {}, "bootstrap": {}, "resources": {},
            "serviceAccount": {}, "securityContext": {}, "podSecurityContext": {}, "certs": {}, "affinity": {},
            "lifecycle": {}, "podDisruptionBudget": {}, "metrics": {"podMonitor": {}},
        }),
    );
    comes_back::<CoderWorkspaceProxy>(
        "CoderWorkspaceProxy",
        json!({
            "controlPlaneRef": {}, "registration": {}, "service": {}, "resources": {}, "tls": {}, "expose": {},
            "readinessProbe": {}, "livenessProbe": {}, "startupProbe": {}, "serviceAccount": {}, "securityContext": {},
            "podSecurityContext": {}, "certs": {}, "affinity": {}, "lifecycle": {}, "podDisruptionBudget": {},
            "metrics": {"serviceMonitor": {}},
        }),
    );
}

#[test]
fn what_the_kinds_say_about_their_pods_is_read_in_one_way() {
    let mut said = json!({
        "nodeSelector": {"disk": "ssd"}, "priorityClassName": "builds", "podLabels": {"team": "a"},
        "serviceAccount": {"name": "robot"}, "metrics": {}, "volumes": [{"name": "v", "emptyDir": {}}],
    });
    let control_plane = object("CoderControlPlane", Some(said.clone()));
    let control_plane: CoderControlPlane = serde_json::from_value(control_plane).unwrap();
    said["controlPlaneRef"] = json!({"name": "c"});
    let provisioner = object("CoderProvisioner", Some(said.clone()));
    let provisioner: CoderProvisioner = serde_json::from_value(provisioner).unwrap();
    let proxy: CoderWorkspaceProxy =
        serde_json::from_value(object("CoderWorkspaceProxy", Some(said))).unwrap();
    assert_eq!(proxy.spec.pod_fields(), control_plane.spec.pod_fields());
    let fields = provisioner.spec.pod_fields();
    assert_eq!(fields, control_plane.spec.pod_fields());
    assert_eq!(fields.priority_class_name.as_deref(), Some("builds"));
    assert_eq!(fields.volumes.len(), 1);
}

#[test]
fn an_explicit_false_and_zero_stay_explicit() {
    comes_back::<CoderControlPlane>(
        "CoderControlPlane",
        json!({"suspend": false, "replicas": 0, "envUseClusterAccessURL": false, "operatorAccess": {"disabled": false}}),
    );
    comes_back::<CoderWorkspaceProxy>("CoderWorkspaceProxy", json!({"derpOnly": false, "replicas": 0}));
}

#[test]
fn a_status_says_only_what_was_observed() {
    let mut object = object("CoderControlPlane", Some(json!({})));
    object["status"] = json!({"observedGeneration": -1});
    assert_eq!(again::<CoderControlPlane>(&object), object);
    object["status"] = json!({});
    assert_eq!(again::<CoderControlPlane>(&object), object);
}

#[test]
fn a_full_status_of_each_kind_comes_back() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "AsAsked", "message": "", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let shared = json!({
        "observedGeneration": 3, "lastHandledReconcileAt": "now", "phase": "Ready", "conditions": [condition],
        "replicas": 1, "readyReplicas": 1, "selector": "a=b", "version": "v2.36.1",
    });
    let control_plane = json!({
        "url": "http://x", "deploymentID": "d", "operatorTokenSecretRef": {"name": "t", "namespace": "op", "key": "token"},
        "operatorAccessReady": true, "licenseLastApplied": "2026-01-02T03:04:05Z", "licenseTier": "premium",
        "licenseLastAppliedHash": "ab", "entitlementsLastChecked": "2026-01-02T03:04:05Z",
        "externalProvisionerDaemonsEntitlement": "entitled", "resolved": {"accessURL": "http://x", "servicePort": 80, "terminationGracePeriodSeconds": 60},
    });
    let recorded = json!({
        "name": "k-2", "id": "7", "generation": 2, "organizationID": "1", "controlPlaneUID": "u", "deploymentID": "d",
        "tagsHash": "811c9dc5", "since": "2026-01-02T03:04:05Z", "attempted": true, "used": true, "seal": "00",
    });
    let provisioner = json!({
        "organizationID": "1", "organizationName": "default", "provisionerKeyID": "2", "provisionerKeyName": "k",
        "tagsHash": "811c9dc5", "controlPlaneRefName": "c", "controlPlaneURL": "http://x",
        "secretRef": {"name": "s", "key": "key"}, "resolved": {"keySecretKey": "key"}, "daemons": 2,
        "pendingJobs": 0, "key": {
            "current": recorded, "pending": recorded, "retiring": [recorded, recorded], "generation": 3,
            "secrets": [{"name": "s", "key": "key"}], "adopted": "old",
        },
    });
    let registered = json!({
        "name": "fra", "id": "7", "controlPlaneUID": "u", "deploymentID": "d", "since": "2026-01-02T03:04:05Z",
        "attempted": true, "seal": "00",
    });
    let proxy = json!({
        "url": "http://p", "registered": false, "proxyTokenSecretRef": {"name": "s", "key": "token"},
        "resolved": {
            "primaryAccessURL": "http://x", "accessURL": "http://p", "wildcardAccessURL": "*.p", "proxyName": "fra",
            "tokenSecretName": "s", "serviceAccountName": "fra-wsproxy",
        },
        "registration": {
            "current": registered, "pending": registered, "retiring": [registered, registered], "rotatedFor": "1",
            "adopted": "fra",
        },
    });
    status_comes_back::<CoderControlPlane>("CoderControlPlane", &shared, &control_plane);
    status_comes_back::<CoderProvisioner>("CoderProvisioner", &shared, &provisioner);
    status_comes_back::<CoderWorkspaceProxy>("CoderWorkspaceProxy", &shared, &proxy);
}

fn status_comes_back<K: Serialize + DeserializeOwned>(kind: &str, shared: &Value, own: &Value) {
    let mut status = shared.as_object().unwrap().clone();
    status.extend(own.as_object().unwrap().clone());
    let mut object = object(kind, Some(json!({"controlPlaneRef": {"name": "c"}})));
    object["status"] = Value::Object(status);
    assert_eq!(again::<K>(&object)["status"], object["status"]);
}

#[test]
fn the_kinds_are_called_what_manifests_call_them() {
    assert_eq!(CoderControlPlane::crd_name(), "codercontrolplanes.coder.com");
    assert_eq!(CoderProvisioner::crd_name(), "coderprovisioners.coder.com");
    assert_eq!(CoderWorkspaceProxy::crd_name(), "coderworkspaceproxies.coder.com");
    assert_eq!(CoderControlPlane::api_version(&()), "coder.com/v1alpha1");
    assert_eq!(crds::well_known::GROUP, CoderControlPlane::group(&()));
    assert_eq!(crds::well_known::VERSION, CoderControlPlane::version(&()));
}

#[test]
fn the_rust_default_of_each_choice_is_the_one_its_description_names() {
    assert_eq!(DeletionPolicy::default(), DeletionPolicy::Delete);
    assert_eq!(AggregationNames::default(), AggregationNames::Short);
}
