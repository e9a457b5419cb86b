//! Tests of when the right to run pods is asked for, and of when it is not.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

const PODS: &str = "create pods in namespace coder";
const DEPLOYMENTS: &str = "create deployments.apps in namespace coder";

fn fields(old: Option<&Value>, new: &Value, kind: Kind) -> Vec<String> {
    required("CODER0509", kind, old, new).into_iter().map(|access| access.field).collect()
}

#[test]
fn a_new_object_of_every_kind_needs_the_right_to_run_pods_and_no_other_for_what_pods_reach() {
    let references = json!({
        "licenseSecretRef": {"name": "l"}, "operatorAccess": {"tokenSecretRef": {"name": "t"}},
        "imagePullSecrets": [{"name": "i"}], "tls": {"secretNames": ["tls"]},
        "envFrom": [{"secretRef": {"name": "e"}}, {"configMapRef": {"name": "c"}}],
        "volumes": [{"name": "1", "secret": {"secretName": "v"}}],
        "serviceAccount": {"name": "robot", "disableCreate": true, "annotations": {"eks.amazonaws.com/role-arn": "r"}},
        "rbac": {"workspacePerms": false},
    });
    let mut provisioner = control_plane(references.clone());
    provisioner["spec"]["controlPlaneRef"] = json!({"name": "cp"});
    provisioner["spec"]["key"] = json!({"name": "eu"});
    let cases = [
        (Kind::ControlPlane, control_plane(references)),
        (Kind::Provisioner, provisioner),
        (
            Kind::WorkspaceProxy,
            proxy(
                json!({"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            ),
        ),
    ];
    for (kind, object) in cases {
        let expected = ("spec".to_owned(), vec![PODS.to_owned(), DEPLOYMENTS.to_owned()]);
        assert_eq!(asked(kind, None, &object), [expected], "{kind:?}");
        for resource in ["pods", "deployments"] {
            let holds = |check: &AccessCheck| check.resource == resource;
            let (causes, count) = reviewed(required_access(None, &object, NS, kind), holds);
            assert!(causes.is_empty() && count <= 2, "{resource}: {count} questions, {causes:?}");
        }
        let reads = |check: &AccessCheck| check.verb == "get" || check.resource == "serviceaccounts";
        let (causes, _) = reviewed(required_access(None, &object, NS, kind), reads);
        assert_eq!(causes.len(), 1);
        assert_eq!(
            causes[0].to_string(),
            "spec: you may not create pods in namespace coder, nor create deployments.apps in namespace coder; ask \
             somebody who may create pods or Deployments in this namespace to apply it (CODER0509)"
        );
        assert_eq!(asked(kind, Some(&object), &object), []);
    }
}

#[test]
fn every_field_that_changes_what_runs_is_told_and_the_others_are_not_asked_for() {
    let old = control_plane(json!({"image": "a:1", "replicas": 1}));
    for (field, value) in [
        ("image", json!("a:2")),
        ("extraArgs", json!(["--x"])),
        ("extraEnv", json!([{"name": "A", "value": "b"}])),
        ("envFrom", json!([{"secretRef": {"name": "s"}}])),
        ("initContainers", json!([{"name": "a"}])),
        ("lifecycle", json!({"postStart": {"exec": {"command": ["sh"]}}})),
        ("volumes", json!([{"name": "v", "secret": {"secretName": "s"}}])),
        ("volumeMounts", json!([{"name": "v", "mountPath": "/v"}])),
        ("certs", json!({"secrets": [{"name": "s", "key": "k"}]})),
        ("tls", json!({"secretNames": ["s"]})),
        ("imagePullSecrets", json!([{"name": "s"}])),
        ("licenseSecretRef", json!({"name": "s"})),
        ("operatorAccess", json!({"tokenSecretRef": {"name": "s"}})),
        ("podLabels", json!({"app": "of-others"})),
        ("podAnnotations", json!({"a": "b"})),
        ("hostAliases", json!([{"ip": "192.0.2.1"}])),
        ("nodeSelector", json!({"node": "mine"})),
        ("serviceAccount", json!({"name": "robot"})),
        ("serviceAccount", json!({"annotations": {"eks.amazonaws.com/role-arn": "r"}})),
        ("serviceAccount", json!({"disableCreate": true})),
        ("securityContext", json!({"readOnlyRootFilesystem": true})),
        ("metrics", json!({"serviceMonitor": {}})),
        ("controlPlaneRef", json!({"name": "of-others"})),
        ("organizationName", json!("of-others")),
        ("key", json!({"secretName": "of-others"})),
        ("tags", json!({"environment": "production"})),
        ("bootstrap", json!({"credentialsSecretRef": {"name": "s"}})),
        ("ofTomorrow", json!(1)),
    ] {
        for kind in Kind::ALL {
            let mut new = old.clone();
            new["spec"][field] = value.clone();
            assert_eq!(fields(Some(&old), &new, kind), [format!("spec.{field}")]);
            assert_eq!(fields(Some(&new), &new, kind), [""; 0]);
            if field != "image" {
                assert_eq!(fields(Some(&new), &old, kind), [format!("spec.{field}")], "it goes");
            }
        }
    }
    let harmless = control_plane(json!({"image": "a:1", "replicas": 5, "suspend": true, "extraArgs": [],
        "resources": {"limits": {"memory": "1Gi"}}, "terminationGracePeriodSeconds": 5,
        "readinessProbe": {"enabled": false}, "livenessProbe": {}, "startupProbe": {}, "podDisruptionBudget": {}}));
    for kind in Kind::ALL {
        assert_eq!(asked(kind, Some(&old), &harmless), []);
    }
}

#[test]
fn an_annotation_that_acts_is_a_change_like_any_other_and_others_are_not() {
    let with =
        |annotations: Value| json!({"metadata": {"name": "b", "annotations": annotations}, "spec": {}});
    let plain = json!({"metadata": {"name": "b"}, "spec": {}});
    for name in ["adopt-key", "adopt-proxy", "release-external", "allow-downgrade"] {
        let name = format!("coder.com/{name}");
        let (one, two) = (with(json!({name.as_str(): "a"})), with(json!({name.as_str(): "b"})));
        for kind in Kind::ALL {
            let told = [format!("metadata.annotations[{name}]")];
            assert_eq!(fields(Some(&plain), &one, kind), told);
            assert_eq!(fields(Some(&one), &two, kind), told);
            assert_eq!(fields(Some(&one), &one, kind), [""; 0]);
            assert_eq!(fields(Some(&one), &plain, kind), [""; 0], "what goes acts no more");
        }
    }
    let others = with(json!({"coder.com/reconcile-at": "now", "example.com/adopt-key": "a"}));
    assert_eq!(asked(Kind::Provisioner, Some(&plain), &others), []);
}
