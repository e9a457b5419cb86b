//! What we take for outside of Pod Security's `restricted` against what the API server takes for it: the pods that the
//! reconciler would make of a spec, tried in a namespace that enforces it. It never decides who is right.

use coder_k8s::controller::control_plane::build::build;
use coder_k8s::controller::control_plane::resolve::{Facts, resolve};
use serde_json::{Value, json};
use support::Cluster;
use webhooks::{Config, Kind, required_access, resolved};

/// Whether our rule about Pod Security asks for something.
fn asks(object: &Value) -> bool {
    required_access(None, object, "tenant", Kind::ControlPlane)
        .iter()
        .any(|access| access.code == "CODER0507")
}

/// The pod the reconciler would have run for an object.
fn pod(object: &Value, number: usize) -> Value {
    let complete = resolved(Kind::ControlPlane, object, &Config::default());
    let control_plane = serde_json::from_value(complete).unwrap();
    let children = build(&resolve(&control_plane, Facts { cluster_domain: "cluster.local", ..Facts::NONE }));
    let mut pod = children.deployment.manifest["spec"]["template"].clone();
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    pod["metadata"]["name"] = json!(format!("pod-{number}"));
    pod["spec"]["serviceAccountName"] = json!("default");
    pod
}

fn contexts() -> Vec<Value> {
    let profile = |name: &str, kind: &str| json!({ name: { "type": kind, "localhostProfile": "p" } });
    let sysctl = |name: &str| json!({ "sysctls": [{ "name": name, "value": "1" }] });
    let selinux = |key: &str, value: &str| json!({ "seLinuxOptions": { key: value } });
    let capabilities = |add: Value, drop: Value| json!({ "capabilities": { "add": add, "drop": drop } });
    // No `privileged: true`: the clusters of our tests refuse it before they look at Pod Security.
    let mut contexts = vec![
        json!({ "privileged": false }),
        json!({ "allowPrivilegeEscalation": true }),
        json!({ "runAsNonRoot": true }),
        json!({ "runAsNonRoot": false }),
        json!({ "runAsUser": 0 }),
        json!({ "runAsUser": 7 }),
        json!({ "runAsGroup": 0 }),
        json!({ "procMount": "Default" }),
        json!({ "readOnlyRootFilesystem": true }),
        json!({ "windowsOptions": { "runAsUserName": "x" } }),
        capabilities(json!(["NET_BIND_SERVICE"]), json!(["ALL"])),
        capabilities(json!(["CHOWN"]), json!(["ALL"])),
        capabilities(json!(["SYS_ADMIN"]), json!(["ALL"])),
        capabilities(json!([]), json!(["KILL"])),
        capabilities(json!([]), json!([])),
        json!({ "capabilities": { "add": ["NET_BIND_SERVICE"] } }),
    ];
    for name in ["seccompProfile", "appArmorProfile"] {
        contexts.push(profile(name, "Localhost"));
        contexts.extend(["RuntimeDefault", "Unconfined"].map(|kind| json!({ name: { "type": kind } })));
    }
    for name in ["container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t"] {
        contexts.push(selinux("type", name));
    }
    contexts.extend([selinux("level", "s0:c1,c2"), selinux("user", "u"), selinux("role", "r")]);
    for name in [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_syncookies",
        "kernel.msgmax",
        "net.core.somaxconn",
    ] {
        contexts.push(sysctl(name));
    }
    contexts
}

fn specs() -> Vec<Value> {
    let mut specs = vec![json!({})];
    for context in contexts() {
        let of_pod = context.get("sysctls").is_some();
        let of_container = ["privileged", "allowPrivilegeEscalation", "procMount", "capabilities"]
            .iter()
            .any(|key| context.get(key).is_some())
            || context.get("readOnlyRootFilesystem").is_some();
        if !of_container {
            specs.push(json!({ "podSecurityContext": context }));
        }
        if !of_pod {
            specs.push(json!({ "securityContext": context }));
            let before = json!({ "name": "before", "image": "i:v1", "securityContext": context });
            specs.push(json!({ "initContainers": [before] }));
        }
    }
    let volume = |kind: &str, source: Value| json!({ "volumes": [{ "name": "v", kind: source }] });
    let claim = json!({ "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } } });
    specs.extend([
        volume("configMap", json!({ "name": "c" })),
        volume("csi", json!({ "driver": "d.example.com" })),
        volume("downwardAPI", json!({})),
        volume("emptyDir", json!({})),
        volume("ephemeral", claim),
        volume("persistentVolumeClaim", json!({ "claimName": "c" })),
        volume("projected", json!({ "sources": [] })),
        volume("secret", json!({ "secretName": "s" })),
        volume("image", json!({ "reference": "i:v1" })),
        volume("hostPath", json!({ "path": "/" })),
        volume("nfs", json!({ "server": "s", "path": "/" })),
        volume(
            "iscsi",
            json!({ "iqn": "iqn.2001-04.com.example:x", "lun": 0, "targetPortal": "1.2.3.4:3260" }),
        ),
    ]);
    let annotation = |value: &str| json!({ "podAnnotations": { "container.apparmor.security.beta.kubernetes.io/coder": value } });
    specs.extend(["runtime/default", "localhost/mine", "unconfined"].map(annotation));
    let hook = |host: &str| json!({ "preStop": { "httpGet": { "host": host, "port": 80 } } });
    let ports = |port: i32| json!([{ "containerPort": 22, "hostPort": port }]);
    specs.push(json!({ "lifecycle": hook("192.0.2.1") }));
    specs.push(json!({ "lifecycle": { "preStop": { "httpGet": { "port": 80 } } } }));
    specs.push(json!({ "initContainers": [{ "name": "b", "image": "i:v1", "ports": ports(22) }] }));
    specs.push(json!({ "initContainers": [{ "name": "b", "image": "i:v1", "ports": ports(0) }] }));
    specs
}

#[tokio::test]
async fn we_ask_for_pods_exactly_where_the_api_server_says_not_restricted() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("restricted").await;
    let label = format!("label namespace {namespace} pod-security.kubernetes.io/enforce=restricted");
    cluster.kubectl(&label).await.expect_ok();
    cluster.kubectl(&format!("create serviceaccount default -n {namespace}")).await;
    let (mut wrong, mut outside, specs) = (Vec::new(), 0, specs());
    let create = format!("create --dry-run=server -n {namespace} -f -");
    for (number, spec) in specs.iter().enumerate() {
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": namespace, "uid": "u" }, "spec": spec });
        let answer = cluster.kubectl_with_input(&create, &pod(&object, number).to_string()).await;
        let refused = answer.stderr.contains("violates PodSecurity");
        if !answer.ok && !refused {
            wrong.push(format!("{spec}: another refusal: {}", answer.stderr));
        } else if refused != asks(&object) {
            wrong.push(format!(
                "{spec}: asks for pods: {}, the API server: {}",
                asks(&object),
                answer.stderr
            ));
        }
        outside += usize::from(refused);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), specs.len(), wrong.join("\n"));
    assert!(outside >= 30 && specs.len() - outside >= 60, "{outside} of {} are outside", specs.len());
}
