//! The rules about pods hold alike for every kind whose spec says something about them.

use serde_json::{Value, json};
use webhooks::Kind;

use super::{ControlPlane, Provisioner, WorkspaceProxy, accepted, refused, warned};

/// Kinds whose spec says something about their pods.
const KINDS: [Kind; 3] = Kind::ALL;

#[test]
fn what_kubernetes_refuses_in_a_pod_is_refused_before_it() {
    let cases: [(Value, &str, &str); 15] = [
        (json!({"imagePullSecrets": [{"name": "Not_Good"}]}), "CODER0115", "spec.imagePullSecrets[0].name"),
        (
            json!({"certs": {"secrets": [{"name": "a b", "key": "k"}]}}),
            "CODER0115",
            "spec.certs.secrets[0].name",
        ),
        (
            json!({"certs": {"secrets": [{"name": "a", "key": "a/b"}]}}),
            "CODER0116",
            "spec.certs.secrets[0].key",
        ),
        (json!({"serviceAccount": {"name": "Robot"}}), "CODER0117", "spec.serviceAccount.name"),
        (json!({"priorityClassName": "High_Prio"}), "CODER0117", "spec.priorityClassName"),
        (
            json!({"tolerations": [{"tolerationSeconds": "1"}]}),
            "CODER0201",
            "spec.tolerations[0].tolerationSeconds",
        ),
        (json!({"serviceAccount": {"name": ""}}), "CODER0202", "spec.serviceAccount.name"),
        (json!({"priorityClassName": ""}), "CODER0202", "spec.priorityClassName"),
        (
            json!({"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}),
            "CODER0209",
            "spec.volumeMounts[0].name",
        ),
        (
            json!({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]}),
            "CODER0213",
            "spec.envFrom[0]",
        ),
        (json!({"envFrom": [{"prefix": "A_"}]}), "CODER0214", "spec.envFrom[0]"),
        (
            json!({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": "50%"}}),
            "CODER0216",
            "spec.podDisruptionBudget",
        ),
        (json!({"initContainers": [{"name": "A"}]}), "CODER0218", "spec.initContainers[0].name"),
        (json!({"podLabels": {"team": "a & b"}}), "CODER0219", "spec.podLabels.team"),
        (
            json!({"serviceAccount": {"annotations": {"a/b/c": "x"}}}),
            "CODER0219",
            "spec.serviceAccount.annotations[a/b/c]",
        ),
    ];
    for (more, code, field) in cases {
        for kind in KINDS {
            refused(kind, more.clone(), code, field);
        }
    }
    for kind in KINDS {
        let monitor = if kind == Provisioner { "podMonitor" } else { "serviceMonitor" };
        let more = json!({"metrics": {monitor: {"interval": "soon"}}});
        refused(kind, more, "CODER0220", &format!("spec.metrics.{monitor}.interval"));
    }
}

#[test]
fn an_init_container_is_not_named_like_the_main_one_of_its_kind() {
    let named = |name: &str| json!({"initContainers": [{"name": "wait"}, {"name": name}]});
    for (kind, main, free) in [
        (ControlPlane, "coder", "provisioner"),
        (Provisioner, "provisioner", "coder"),
        (WorkspaceProxy, "workspace-proxy", "coder"),
    ] {
        refused(kind, named(main), "CODER0218", "spec.initContainers[1].name");
        accepted(kind, named(free));
    }
}

#[test]
fn what_the_operator_sets_is_left_to_it() {
    for kind in KINDS {
        let label = json!({"podLabels": {"app.kubernetes.io/name": "mine"}});
        warned(kind, label, "CODER0217", "spec.podLabels[app.kubernetes.io/name]");
        for checksum in ["checksum/provisioner-key", "checksum/proxy-token"] {
            let field = format!("spec.podAnnotations[{checksum}]");
            warned(kind, json!({"podAnnotations": {checksum: "mine"}}), "CODER0217", &field);
        }
        let metrics = |more: Value| json!({"metrics": more, "extraEnv": [{"name": "CODER_PROMETHEUS_ENABLE", "value": "false"}]});
        warned(kind, metrics(json!({})), "CODER0215", "spec.extraEnv[0].name");
        accepted(kind, metrics(json!({"enabled": false})));
    }
    for name in ["CODER_URL", "CODER_PROVISIONER_DAEMON_NAME"] {
        let source = json!({"secretKeyRef": {"name": "s", "key": "k"}});
        let given = json!({"extraEnv": [{"name": name, "valueFrom": source}]});
        warned(Provisioner, given, "CODER0215", "spec.extraEnv[0].name");
    }
    for name in
        ["CODER_PROXY_SESSION_TOKEN", "CODER_ACCESS_URL", "CODER_WILDCARD_ACCESS_URL", "CODER_TLS_ENABLE"]
    {
        let given = json!({"extraEnv": [{"name": name, "value": "$(A)"}]});
        warned(WorkspaceProxy, given, "CODER0215", "spec.extraEnv[0].name");
    }
}

#[test]
fn a_daemon_is_not_told_what_its_key_says() {
    for name in ["CODER_PROVISIONER_DAEMON_PSK", "CODER_PROVISIONERD_TAGS", "CODER_ORGANIZATION"] {
        let source = json!({"secretKeyRef": {"name": "s", "key": "k"}});
        for variable in [json!({"name": name, "value": "$(A)"}), json!({"name": name, "valueFrom": source})] {
            refused(Provisioner, json!({"extraEnv": [variable]}), "CODER0223", "spec.extraEnv[0].name");
        }
        accepted(Provisioner, json!({"extraEnv": [{"name": name, "value": ""}]}));
        accepted(ControlPlane, json!({"extraEnv": [{"name": name, "value": "$(A)"}]}));
    }
    for argument in ["--tag=a=b", "--tag", "-t", "-ta=b", "--org", "-O=x", "--psk=$(PSK)"] {
        refused(Provisioner, json!({"extraArgs": ["--verbose", argument]}), "CODER0223", "spec.extraArgs[1]");
    }
    accepted(Provisioner, json!({"extraArgs": ["--tags-are-fine", "--verbose", "--log-human=/dev/stderr"]}));
    accepted(ControlPlane, json!({"extraArgs": ["-t"]}));
}

#[test]
fn daemons_have_the_key_of_the_operator() {
    let source = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    for variable in [json!({"value": "x"}), json!({"valueFrom": source}), json!({})] {
        let mut variable = variable;
        variable["name"] = json!("CODER_PROVISIONER_DAEMON_KEY");
        refused(Provisioner, json!({"extraEnv": [variable]}), "CODER0224", "spec.extraEnv[0].name");
    }
    for argument in ["--key", "--key=x"] {
        refused(Provisioner, json!({"extraArgs": [argument]}), "CODER0224", "spec.extraArgs[0]");
    }
    accepted(Provisioner, json!({"extraArgs": ["--keyed"]}));
}

#[test]
fn privileged_pods_do_not_run_what_the_author_of_the_control_plane_chose() {
    let outside = [
        json!({"securityContext": {"privileged": true}}),
        json!({"podSecurityContext": {"runAsUser": 0}}),
        json!({"volumes": [{"name": "node", "hostPath": {"path": "/"}}]}),
    ];
    for mut spec in outside {
        refused(Provisioner, spec.clone(), "CODER0225", "spec.image");
        let mut following = spec.clone();
        following["controlPlaneRef"] = json!({"name": "coder"});
        for own in ["primaryAccessURL", "proxySessionTokenSecretRef", "image"] {
            following[own] = Value::Null;
        }
        refused(WorkspaceProxy, following.clone(), "CODER0225", "spec.image");
        following["image"] = json!("coder:v1");
        accepted(WorkspaceProxy, following);
        accepted(WorkspaceProxy, spec.clone());
        spec["image"] = json!("coder:v1");
        accepted(Provisioner, spec);
    }
    let own = json!([{"name": "a", "image": "b", "securityContext": {"privileged": true}}]);
    accepted(Provisioner, json!({"initContainers": own, "priorityClassName": "builds"}));
}

#[test]
fn rules_of_both_kinds_name_what_they_grant() {
    let rule = |rule: Value| json!({"rbac": {"extraRules": [rule]}});
    for kind in [ControlPlane, Provisioner] {
        for bad in [
            json!({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}),
            json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}),
            json!({"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}),
            json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
        ] {
            refused(kind, rule(bad), "CODER0501", "spec.rbac.extraRules[0]");
        }
        accepted(kind, rule(json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get"]})));
    }
}
