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
    let ignored = json!({"operatorAccess": {"generatedTokenSecretName": "x"}});
    warned(ControlPlane, ignored, "CODER0309", "spec.operatorAccess.generatedTokenSecretName");
}

#[test]
fn a_proxy_is_exposed_as_a_control_plane_is() {
    let ingress = json!({"host": "p.example.com"});
    let gateway =
        json!({"host": "p.example.com", "parentRefs": [{"name": "public", "namespace": "gateways"}]});
    let expose = |expose: Value| json!({ "expose": expose });
    for (bad, code, field) in [
        (json!({"ingress": ingress, "gateway": gateway}), "CODER0301", "spec.expose"),
        (json!({}), "CODER0302", "spec.expose"),
        (json!({"ingress": {"host": "https://p"}}), "CODER0303", "spec.expose.ingress.host"),
        (
            json!({"ingress": {"host": "p", "wildcardHost": "p"}}),
            "CODER0304",
            "spec.expose.ingress.wildcardHost",
        ),
        (json!({"gateway": {"host": "p", "parentRefs": []}}), "CODER0306", "spec.expose.gateway.parentRefs"),
        (
            json!({"gateway": {"host": "p", "parentRefs": [{"name": "g", "namespace": "A.b"}]}}),
            "CODER0118",
            "spec.expose.gateway.parentRefs[0].namespace",
        ),
    ] {
        refused(WorkspaceProxy, expose(bad), code, field);
    }
    accepted(WorkspaceProxy, expose(json!({ "ingress": ingress })));
    accepted(WorkspaceProxy, expose(json!({ "gateway": gateway })));
    refused(WorkspaceProxy, json!({"tls": {"secretNames": ["A"]}}), "CODER0115", "spec.tls.secretNames[0]");
    let probe = json!({"livenessProbe": {"successThreshold": 2}});
    refused(WorkspaceProxy, probe, "CODER0207", "spec.livenessProbe.successThreshold");
}

#[test]
fn ways_to_a_token() {
    let proxy = |spec: Value| created(WorkspaceProxy, &object(WorkspaceProxy, "p", spec));
    let (reference, token) = (json!({"name": "coder"}), json!({"name": "s"}));
    let bootstrap = json!({"coderURL": "https://c", "credentialsSecretRef": {"name": "s"}});
    let url = "https://c";
    for (bad, field) in [
        (json!({}), "spec"),
        (json!({ "primaryAccessURL": url }), "spec"),
        (json!({ "proxySessionTokenSecretRef": token }), "spec"),
        (json!({"registration": {"proxyName": "p"}}), "spec"),
        (json!({"controlPlaneRef": reference, "bootstrap": bootstrap}), "spec.bootstrap"),
        (
            json!({"controlPlaneRef": reference, "proxySessionTokenSecretRef": token, "primaryAccessURL": url}),
            "spec.proxySessionTokenSecretRef",
        ),
        (json!({"bootstrap": bootstrap, "registration": {}}), "spec.registration"),
        (
            json!({"primaryAccessURL": url, "proxySessionTokenSecretRef": token, "registration": {}}),
            "spec.registration",
        ),
    ] {
        let verdict = proxy(bad.clone());
        let causes: Vec<(&str, &str)> =
            verdict.causes.iter().map(|cause| (cause.code, cause.field.as_str())).collect();
        assert_eq!(causes, [("CODER0307", field)], "{bad}");
    }
    // Every problem at once, each with its own way out.
    let all = proxy(
        json!({"controlPlaneRef": reference, "bootstrap": bootstrap, "proxySessionTokenSecretRef": token}),
    );
    let fields: Vec<&str> = all.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.bootstrap", "spec.proxySessionTokenSecretRef"]);
    assert!(all.causes[0].fix.starts_with("keep controlPlaneRef and remove this"), "{}", all.causes[0].fix);
    let all = proxy(json!({"proxySessionTokenSecretRef": token, "registration": {}}));
    let fields: Vec<&str> = all.causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.registration", "spec"]);
    for good in [
        json!({ "controlPlaneRef": reference }),
        json!({"controlPlaneRef": reference, "primaryAccessURL": url, "registration": {"proxyName": "eu"}}),
        json!({ "bootstrap": bootstrap }),
        json!({"bootstrap": bootstrap, "primaryAccessURL": url}),
        json!({"primaryAccessURL": url, "proxySessionTokenSecretRef": token}),
        json!({"controlPlaneRef": reference, "bootstrap": null, "proxySessionTokenSecretRef": null}),
    ] {
        assert!(proxy(good.clone()).allowed(), "{good}");
    }
    // Manifests of the Go operator may hold both.
    warned(WorkspaceProxy, json!({ "bootstrap": bootstrap }), "CODER0308", "spec.proxySessionTokenSecretRef");
    let named = |name: Value| json!({"controlPlaneRef": name, "primaryAccessURL": null, "proxySessionTokenSecretRef": null});
    for nameless in [json!({}), json!({"name": ""})] {
        refused(WorkspaceProxy, named(nameless), "CODER0111", "spec.controlPlaneRef.name");
    }
    refused(WorkspaceProxy, named(json!({"name": "Coder"})), "CODER0117", "spec.controlPlaneRef.name");
    accepted(WorkspaceProxy, named(reference));
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
    for bad in ["p.example.com", "https://u:p@p.example.com", "https://p.example.com?x=1"] {
        refused(WorkspaceProxy, json!({ "accessURL": bad }), "CODER0401", "spec.accessURL");
    }
    for bad in ["https://p.example.com/x", "https://p.example.com//"] {
        refused(WorkspaceProxy, json!({ "accessURL": bad }), "CODER0407", "spec.accessURL");
    }
    for good in ["http://p.example.com:8080", "https://p.example.com/"] {
        accepted(WorkspaceProxy, json!({ "accessURL": good }));
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

/// The cases are those of `appurl.CompileHostnamePattern`, by which both coderd and a proxy judge a wildcard.
#[test]
fn wildcard_addresses() {
    let field = "spec.wildcardAccessURL";
    for bad in [
        "p.example.com",
        "https://*.p.example.com",
        "*",
        "*p",
        "*.p.example.com/x",
        "a.*.example.com",
        "*.*.example.com",
        "*.",
        ".p.example.com",
        "*.p.example.com.",
        "*..example.com",
        "*-.p.example.com",
        "*.-p.example.com",
        "*.p_1.example.com",
        "*.p.example.com:80:80",
        "*.p.http:8080",
        "*.p.HTTPS:8443",
    ] {
        refused(WorkspaceProxy, json!({ "wildcardAccessURL": bad }), "CODER0406", field);
    }
    for good in [
        "*.p.example.com",
        "*.P.Example.com",
        "*--apps.example.com",
        "*a.example.com",
        "*.p",
        "*.10.0.0.1",
        "*.p.example.com:8443",
        "*.http.example.com:8080",
    ] {
        accepted(WorkspaceProxy, json!({ "wildcardAccessURL": good }));
    }
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
