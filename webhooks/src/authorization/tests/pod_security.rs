//! Tests of what is asked for the parts of a pod that Pod Security does not call restricted.
//! They never meet a cluster: the answers are given by the test. tests/escalation/restricted.rs asks a real one.

use serde_json::{Value, json};

use super::*;

/// Kinds with pods that a spec can loosen; each is asked the same.
const LOOSENED: [Kind; 2] = [Kind::ControlPlane, Kind::Provisioner];

fn privileges(old: Option<&Value>, new: &Value) -> Vec<String> {
    let of = |kind| -> Vec<String> {
        required("CODER0507", kind, old, new).into_iter().map(|access| access.field).collect()
    };
    let [control_plane, provisioner] = LOOSENED.map(of);
    assert_eq!(control_plane, provisioner);
    control_plane
}

fn of(field: &str, value: Value) -> Value {
    control_plane(json!({ field: value }))
}

#[test]
fn what_is_outside_of_restricted_needs_pods_and_deployments_are_not_enough() {
    let object = control_plane(json!({
        "volumes": [{"name": "n", "hostPath": {"path": "/"}}],
        "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}},
        "rbac": {"workspacePerms": false},
    }));
    let holds = |resource: &'static str| move |check: &AccessCheck| check.resource == resource;
    for kind in LOOSENED {
        assert_eq!(denied(kind, None, &object, holds("deployments")), ["CODER0507"; 3]);
        assert_eq!(denied(kind, None, &object, holds("pods")), [""; 0]);
        assert_eq!(asked(kind, Some(&object), &object), []);
    }
}

#[test]
fn a_volume_of_any_source_that_is_not_restricted_asks() {
    let volume = |kind: &str, source: Value| of("volumes", json!([{"name": "v", kind: source}]));
    for kind in ["nfs", "hostPath", "gitRepo", "iscsi", "ofTomorrow"] {
        assert_eq!(privileges(None, &volume(kind, json!({}))), [format!("spec.volumes[0].{kind}")]);
    }
    let restricted = ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"];
    for kind in restricted.into_iter().chain(["image", "projected", "secret"]) {
        assert_eq!(privileges(None, &volume(kind, json!({}))), [""; 0], "{kind}");
    }
}

#[test]
fn what_loosens_a_security_context_asks() {
    let loose = json!({
        "privileged": true, "allowPrivilegeEscalation": true,
        "capabilities": {"add": ["A", "NET_BIND_SERVICE", "B"], "drop": ["KILL"]},
        "procMount": "Unmasked", "runAsNonRoot": false, "runAsUser": 0,
        "seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "t", "user": "u", "role": "r", "level": "s0"},
        "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": "a", "value": "1"}],
        "windowsOptions": {"hostProcess": true},
    });
    let tight = json!({
        "privileged": false, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["KILL", "ALL"], "add": ["NET_BIND_SERVICE"]},
        "procMount": "Default", "runAsNonRoot": true, "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Localhost"},
        "seLinuxOptions": {"type": "container_t", "level": "s0"}, "sysctls": [],
        "windowsOptions": {"hostProcess": false},
    });
    let container = |context: &Value| json!([{"name": "a", "securityContext": context}]);
    for (field, place) in [
        ("securityContext", "spec.securityContext."),
        ("podSecurityContext", "spec.podSecurityContext."),
        ("initContainers", "spec.initContainers[0].securityContext."),
    ] {
        let object = |context: &Value| match field {
            "initContainers" => of(field, container(context)),
            _ => of(field, context.clone()),
        };
        let (loose, tight) = (object(&loose), object(&tight));
        assert_eq!(privileges(None, &tight), [""; 0]);
        let told = privileges(Some(&tight), &loose);
        let told: Vec<&str> = told.iter().map(|path| path.strip_prefix(place).unwrap()).collect();
        assert_eq!(
            told,
            [
                "privileged",
                "allowPrivilegeEscalation",
                "capabilities.add[0]",
                "capabilities.add[2]",
                "capabilities.drop",
                "procMount",
                "runAsNonRoot",
                "runAsUser",
                "seccompProfile.type",
                "appArmorProfile.type",
                "seLinuxOptions.type",
                "seLinuxOptions.user",
                "seLinuxOptions.role",
                "sysctls[1]",
                "windowsOptions.hostProcess",
            ]
        );
        assert_eq!(privileges(Some(&loose), &loose), [""; 0]);
    }
}

#[test]
fn profiles_that_annotations_choose_ask_too() {
    let of = |key: &str, value: &str| of("podAnnotations", json!({ key: value }));
    for key in [
        "container.apparmor.security.beta.kubernetes.io/coder",
        "container.seccomp.security.alpha.kubernetes.io/coder",
        "seccomp.security.alpha.kubernetes.io/pod",
    ] {
        let field = format!("spec.podAnnotations[{key}]");
        for bad in ["unconfined", "of-tomorrow", "localhost"] {
            assert_eq!(privileges(None, &of(key, bad)), [field.as_str()], "{bad}");
        }
        for good in ["runtime/default", "localhost/mine", ""] {
            assert_eq!(privileges(None, &of(key, good)), [""; 0], "{key}: {good}");
        }
    }
    assert_eq!(privileges(None, &of("example.com/container.apparmor", "unconfined")), [""; 0]);
}

#[test]
fn ports_of_the_node_hooks_to_other_hosts_and_priority_ask() {
    let hook = |host: Value| json!({"preStop": {"httpGet": {"port": 80, "host": host}}});
    let container = |key: &str, value: Value| json!({"initContainers": [{"name": "a", key: value}]});
    for (field, spec) in [
        ("spec.lifecycle.preStop.httpGet.host", json!({"lifecycle": hook(json!("169.254.169.254"))})),
        ("spec.priorityClassName", json!({"priorityClassName": "system-node-critical"})),
        (
            "spec.initContainers[0].ports[0].hostPort",
            container("ports", json!([{"containerPort": 1, "hostPort": 22}])),
        ),
        (
            "spec.initContainers[0].lifecycle.preStop.httpGet.host",
            container("lifecycle", hook(json!("kubelet"))),
        ),
        (
            "spec.initContainers[0].livenessProbe.tcpSocket.host",
            container("livenessProbe", json!({"tcpSocket": {"host": "h", "port": 1}})),
        ),
    ] {
        let object = control_plane(spec);
        assert_eq!(privileges(None, &object), [field]);
        assert_eq!(privileges(Some(&object), &object), [""; 0]);
    }
    for harmless in [
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}, "hostAliases": [{"ip": "192.0.2.1"}]}),
        json!({"lifecycle": hook(json!(""))}),
        container("ports", json!([{"containerPort": 1, "hostPort": 0}])),
    ] {
        assert_eq!(privileges(None, &control_plane(harmless)), [""; 0]);
    }
}

#[test]
fn other_code_does_not_inherit_privileges_that_somebody_else_gave() {
    let of = |image: &str, replicas: i32, context: Value| {
        control_plane(json!({"image": image, "replicas": replicas, "securityContext": context}))
    };
    let both = json!({"privileged": true, "procMount": "Unmasked"});
    let stored = of("a:1", 1, both.clone());
    assert_eq!(
        privileges(Some(&stored), &of("mine:1", 1, both.clone())),
        ["spec.securityContext.privileged", "spec.securityContext.procMount"]
    );
    assert_eq!(privileges(Some(&stored), &of("a:1", 5, both)), [""; 0], "the same code");
    assert_eq!(
        privileges(Some(&stored), &of("a:1", 1, json!({"privileged": true}))),
        [""; 0],
        "a privilege goes"
    );
}
