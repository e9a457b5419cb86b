//! Rules about the way in and out, what is granted, and advice.
//! Each case names the code and the field that must come.

use super::*;

#[test]
fn exposure() {
    let gateway = json!({"host": "c.example.com", "parentRefs": [{"name": "public"}]});
    refused(
        ControlPlane,
        json!({"expose": {"ingress": {"host": "c.example.com"}, "gateway": gateway}}),
        "CODER0301",
        "spec.expose",
    );
    refused(ControlPlane, json!({"expose": {}}), "CODER0302", "spec.expose");
    for bad in ["https://c.example.com", "c.example.com:443", "C.example.com", "*.example.com", "192.0.2.1"] {
        refused(
            ControlPlane,
            json!({"expose": {"ingress": {"host": bad}}}),
            "CODER0303",
            "spec.expose.ingress.host",
        );
    }
    let wildcard = json!({"expose": {"ingress": {"host": "c.example.com", "wildcardHost": "example.com"}}});
    refused(ControlPlane, wildcard, "CODER0304", "spec.expose.ingress.wildcardHost");
    let alone = json!({"expose": {"ingress": {"host": "c.example.com", "tls": {"wildcardSecretName": "w"}}}});
    refused(ControlPlane, alone, "CODER0305", "spec.expose.ingress.tls.wildcardSecretName");
    for parents in [json!({"host": "c.example.com"}), json!({"host": "c.example.com", "parentRefs": []})] {
        refused(
            ControlPlane,
            json!({"expose": {"gateway": parents}}),
            "CODER0306",
            "spec.expose.gateway.parentRefs",
        );
    }
    accepted(ControlPlane, json!({"expose": {"gateway": gateway}}));
    let proxy = |spec: Value| created(WorkspaceProxy, &object(WorkspaceProxy, "p", spec));
    for bad in [
        json!({}),
        json!({"primaryAccessURL": "https://c"}),
        json!({"proxySessionTokenSecretRef": {"name": "s"}}),
    ] {
        let verdict = proxy(bad);
        assert_eq!((verdict.causes[0].code, verdict.causes[0].field.as_str()), ("CODER0307", "spec"));
    }
    let bootstrap = json!({"bootstrap": {"coderURL": "https://c", "credentialsSecretRef": {"name": "s"}}});
    assert!(proxy(bootstrap.clone()).allowed());
    warned(WorkspaceProxy, bootstrap, "CODER0308", "spec.proxySessionTokenSecretRef");
    let ignored = json!({"operatorAccess": {"generatedTokenSecretName": "x"}});
    warned(ControlPlane, ignored, "CODER0309", "spec.operatorAccess.generatedTokenSecretName");
}

#[test]
fn addresses() {
    let field = "spec.primaryAccessURL";
    for (bad, code) in [
        ("https://u:p@c.example.com", "CODER0401"),
        ("https://c.example.com?x=1", "CODER0401"),
        ("http://c.example.com", "CODER0402"),
        ("http://localhost:3000", "CODER0403"),
        ("https://169.254.169.254/latest", "CODER0403"),
    ] {
        refused(WorkspaceProxy, json!({ "primaryAccessURL": bad }), code, field);
    }
    for good in [
        "https://c.example.com",
        "https://10.0.0.1:8443/x",
        "http://coder.coder.svc.cluster.local",
        "http://coder:80",
    ] {
        accepted(WorkspaceProxy, json!({ "primaryAccessURL": good }));
    }
    let secret = json!({"extraEnv": [{"name": "CODER_OIDC_CLIENT_SECRET", "value": "hunter2"}]});
    warned(ControlPlane, secret.clone(), "CODER0404", "spec.extraEnv[0].value");
    let verdict = created(ControlPlane, &object(ControlPlane, "coder", spec(ControlPlane, secret)));
    assert!(!format!("{:?}", verdict.warnings).contains("hunter2"));
    warned(
        ControlPlane,
        json!({"extraArgs": ["--postgres-url=postgres://u:p@h/d"]}),
        "CODER0405",
        "spec.extraArgs[0]",
    );
}

#[test]
fn grants() {
    let rule = |rule: Value| json!({"rbac": {"extraRules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}, rule]}});
    for bad in [
        json!({"apiGroups": ["*"], "resources": ["a"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["*/scale"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["a"], "verbs": ["*"]}),
        json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get", "escalate"]}),
        json!({"apiGroups": ["", "rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["a"], "verbs": ["bind"]}),
        json!({"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}),
        json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        json!({"resources": ["a"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["a"], "verbs": []}),
    ] {
        refused(ControlPlane, rule(bad), "CODER0501", "spec.rbac.extraRules[1]");
    }
    accepted(
        ControlPlane,
        rule(
            json!({"apiGroups": ["", "apps"], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": ["x"]}),
        ),
    );
}

#[test]
fn advice() {
    let verdict = created(ControlPlane, &object(ControlPlane, "coder", json!({})));
    assert_eq!(
        verdict.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["spec.image: the version is not in Git; write the version you run into the manifest (CODER0601)"]
    );
    for moving in ["coder", "ghcr.io/coder/coder", "coder:latest", "localhost:5000/coder", "coder:main"] {
        warned(ControlPlane, json!({ "image": moving }), "CODER0602", "spec.image");
    }
    for fixed in ["coder:v2", "localhost:5000/coder:v2.36.1", "coder@sha256:0123", "coder:latest@sha256:0123"]
    {
        accepted(ControlPlane, json!({ "image": fixed }));
    }
    warned(ControlPlane, json!({"extraArgs": ["a", "--x=${Y}"]}), "CODER0603", "spec.extraArgs[1]");
    let mut annotated = object(ControlPlane, "coder", spec(ControlPlane, json!({})));
    annotated["metadata"]["annotations"] = json!({
        "kustomize.toolkit.fluxcd.io/force": "enabled",
        "argocd.argoproj.io/sync-options": "Prune=false, Replace=true",
    });
    let warnings = created(ControlPlane, &annotated).warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    let mut generated = object(ControlPlane, "", spec(ControlPlane, json!({})));
    generated["metadata"] = json!({"generateName": "coder-"});
    assert!(created(ControlPlane, &generated).warnings[0].code == "CODER0605");
}
