//! Tests of what is asked for the parts of a pod: volumes, security contexts, containers that run before coderd.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_reaches_below_the_pod_needs_the_right_to_make_pods() {
    let object = control_plane(json!({
        "volumes": [{"name": "n", "hostPath": {"path": "/"}}, {"name": "c", "persistentVolumeClaim": {"claimName": "x"}}],
        "securityContext": {"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}},
    }));
    assert_eq!(denied(Kind::ControlPlane, None, &object, |_| false), ["CODER0507"; 4]);
    assert_eq!(denied(Kind::ControlPlane, None, &object, |check| check.resource == "pods"), [""; 0]);
    assert_eq!(asked(Kind::ControlPlane, Some(&object), &object), []);
}

#[test]
fn a_volume_of_any_source_but_a_few_needs_the_right_to_make_pods() {
    let volume = |kind: &str, source: Value| {
        let mut volume = json!({"name": "v"});
        volume[kind] = source;
        control_plane(json!({"volumes": [volume]}))
    };
    for (kind, source) in [
        ("nfs", json!({"server": "s", "path": "/"})),
        ("ephemeral", json!({"volumeClaimTemplate": {"spec": {}}})),
        ("csi", json!({"driver": "d"})),
        ("gitRepo", json!({"repository": "r"})),
        ("ofTomorrow", json!({})),
    ] {
        let object = volume(kind, source);
        assert_eq!(
            asked(Kind::ControlPlane, None, &object),
            [(format!("spec.volumes[0].{kind}"), vec!["create pods in namespace coder".to_owned()])]
        );
        assert_eq!(asked(Kind::ControlPlane, Some(&object), &object), []);
    }
    for kind in ["emptyDir", "secret", "configMap", "projected", "downwardAPI", "image"] {
        assert_eq!(asked(Kind::ControlPlane, None, &volume(kind, json!({}))), [], "{kind}");
    }
    let csi = json!({"driver": "d", "nodePublishSecretRef": {"name": "n"}});
    assert_eq!(
        denied(Kind::ControlPlane, None, &volume("csi", csi), |check| check.verb == "get"),
        ["CODER0507"],
        "to read the Secret is not to mount the volume"
    );
    let claim = |spec: Value| volume("ephemeral", json!({"volumeClaimTemplate": {"spec": spec}}));
    let (empty, copy) = (claim(json!({})), claim(json!({"dataSource": {"kind": "PersistentVolumeClaim"}})));
    assert_eq!(asked(Kind::ControlPlane, Some(&empty), &copy).len(), 1, "all of the source counts");
}

#[test]
fn what_loosens_a_security_context_needs_the_right_to_make_pods() {
    let loose = json!({
        "privileged": true, "allowPrivilegeEscalation": true, "capabilities": {"add": ["A", "B"]},
        "procMount": "Unmasked", "seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "t"}, "sysctls": [{"name": "a", "value": "1"}], "windowsOptions": {"hostProcess": true},
    });
    let tight = json!({
        "privileged": false, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "procMount": "Default", "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": true, "runAsUser": 1000, "sysctls": [], "windowsOptions": {"hostProcess": false},
    });
    for context in ["securityContext", "podSecurityContext"] {
        let object = |value: &Value| {
            let mut spec = json!({});
            spec[context] = value.clone();
            control_plane(spec)
        };
        let (loose, tight) = (object(&loose), object(&tight));
        assert_eq!(asked(Kind::ControlPlane, None, &tight), []);
        let questions = asked(Kind::ControlPlane, Some(&tight), &loose);
        let fields: Vec<&str> = questions
            .iter()
            .filter_map(|(field, _)| field.strip_prefix("spec.")?.strip_prefix(context)?.strip_prefix('.'))
            .collect();
        assert_eq!(
            fields,
            [
                "privileged",
                "allowPrivilegeEscalation",
                "capabilities.add[0]",
                "capabilities.add[1]",
                "procMount",
                "seccompProfile.type",
                "appArmorProfile.type",
                "seLinuxOptions",
                "sysctls[0]",
                "windowsOptions.hostProcess",
            ]
        );
        assert_eq!(asked(Kind::ControlPlane, Some(&loose), &loose), []);
        let mut other = loose.clone();
        other["spec"][context]["sysctls"][0]["value"] = json!("2");
        assert_eq!(asked(Kind::ControlPlane, Some(&loose), &other).len(), 1);
    }
}

#[test]
fn what_an_init_container_reads_is_asked_for_as_for_coderd() {
    let secret = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    let map = json!({"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}});
    let whole = json!([{"secretRef": {"name": "ws"}}, {"configMapRef": {"name": "wm"}}]);
    let object = |env: Value, from: Value| {
        control_plane(json!({"initContainers": [{"name": "a"}, {"name": "b", "env": env, "envFrom": from}]}))
    };
    let new = object(json!([secret, map]), whole);
    let fields: Vec<String> =
        asked(Kind::ControlPlane, None, &new).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "spec.initContainers[1].envFrom[0].secretRef.name",
            "spec.initContainers[1].envFrom[1].configMapRef.name",
            "spec.initContainers[1].env[0].valueFrom.secretKeyRef.name",
            "spec.initContainers[1].env[1].valueFrom.configMapKeyRef.name",
        ]
    );
    assert_eq!(denied(Kind::ControlPlane, None, &new, |_| false), ["CODER0505"; 4]);
    assert_eq!(denied(Kind::ControlPlane, None, &new, |check| check.verb == "get"), [""; 0]);
    assert_eq!(asked(Kind::ControlPlane, Some(&new), &new), []);
    let coderd = control_plane(json!({"extraEnv": [secret]}));
    let moved = object(json!([secret]), json!([]));
    assert_eq!(asked(Kind::ControlPlane, Some(&coderd), &moved), [], "the pods see it already");
    let key = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "other"}}});
    assert_eq!(asked(Kind::ControlPlane, Some(&moved), &object(json!([key]), json!([]))).len(), 1);
}

#[test]
fn an_init_container_that_loosens_needs_the_right_to_make_pods() {
    let container = |name: &str, context: Value| json!({"name": name, "securityContext": context});
    let of = |containers: Vec<Value>| control_plane(json!({ "initContainers": containers }));
    let loose = json!({"privileged": true, "capabilities": {"add": ["NET_ADMIN"]}, "runAsUser": 0});
    let tight = json!({"privileged": false, "capabilities": {"drop": ["ALL"]}});
    let (one, none) = (of(vec![container("a", loose.clone())]), of(vec![container("a", tight.clone())]));
    assert_eq!(asked(Kind::ControlPlane, None, &none), []);
    let fields: Vec<String> =
        asked(Kind::ControlPlane, Some(&none), &one).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "spec.initContainers[0].securityContext.privileged",
            "spec.initContainers[0].securityContext.capabilities.add[0]",
        ]
    );
    assert_eq!(denied(Kind::ControlPlane, Some(&none), &one, |_| false), ["CODER0507"; 2]);
    let moved = of(vec![container("first", tight), container("a", loose.clone())]);
    assert_eq!(asked(Kind::ControlPlane, Some(&one), &moved), [], "it is the same container");
    let second = of(vec![container("a", loose.clone()), container("b", loose)]);
    assert_eq!(asked(Kind::ControlPlane, Some(&one), &second).len(), 2, "another one is asked for");
}

#[test]
fn ports_of_the_node_hooks_to_other_hosts_and_priority_need_the_right_to_make_pods() {
    let hook = |host: Value| json!({"preStop": {"httpGet": {"port": 80, "host": host}}});
    for (field, spec) in [
        ("spec.lifecycle.preStop.httpGet.host", json!({"lifecycle": hook(json!("169.254.169.254"))})),
        ("spec.priorityClassName", json!({"priorityClassName": "system-node-critical"})),
        (
            "spec.initContainers[0].ports[0].hostPort",
            json!({"initContainers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 22}]}]}),
        ),
        (
            "spec.initContainers[0].lifecycle.preStop.httpGet.host",
            json!({"initContainers": [{"name": "a", "lifecycle": hook(json!("kubelet"))}]}),
        ),
        (
            "spec.initContainers[0].livenessProbe.tcpSocket.host",
            json!({"initContainers": [{"name": "a", "livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}}]}),
        ),
    ] {
        let object = control_plane(spec);
        assert_eq!(
            asked(Kind::ControlPlane, None, &object),
            [(field.to_owned(), vec!["create pods in namespace coder".to_owned()])]
        );
        assert_eq!(asked(Kind::ControlPlane, Some(&object), &object), []);
    }
    let harmless =
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}, "hostAliases": [{"ip": "192.0.2.1"}]});
    assert_eq!(asked(Kind::ControlPlane, None, &control_plane(harmless)), []);
}
