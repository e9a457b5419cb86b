//! Each rule accepts and refuses what it should, and says where, why, and what to do.

#[path = "rules/network.rs"]
mod network;
#[path = "rules/pods.rs"]
mod pods;

use serde_json::{Value, json};
use webhooks::{Kind, Operation, Verdict, validate};

use Kind::{ControlPlane, Provisioner, WorkspaceProxy};

fn object(kind: Kind, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "coder.com/v1alpha1", "kind": kind.name(), "metadata": {"name": name, "namespace": "coder"}, "spec": spec})
}

fn created(kind: Kind, object: &Value) -> Verdict {
    validate(kind, object, Operation::Create)
}

/// A spec of a kind with more in it.
fn spec(kind: Kind, more: Value) -> Value {
    let mut spec = match kind {
        ControlPlane => json!({"image": "coder:v1"}),
        Provisioner => json!({"controlPlaneRef": {"name": "coder"}}),
        WorkspaceProxy => {
            json!({"image": "coder:v1", "primaryAccessURL": "https://c.example.com", "proxySessionTokenSecretRef": {"name": "s"}})
        }
    };
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

/// Refused with exactly this code, at this field, with a fix.
fn refused(kind: Kind, more: Value, code: &str, field: &str) {
    let verdict = created(kind, &object(kind, "coder", spec(kind, more.clone())));
    let causes: Vec<(&str, &str)> =
        verdict.causes.iter().map(|cause| (cause.code, cause.field.as_str())).collect();
    assert_eq!(causes, [(code, field)], "{more}");
    let line = verdict.denial().unwrap();
    assert!(
        line.starts_with(&format!("{field}: "))
            && line.contains("; ")
            && line.ends_with(&format!("({code})")),
        "{line}"
    );
}

fn warned(kind: Kind, more: Value, code: &str, field: &str) {
    let verdict = created(kind, &object(kind, "coder", spec(kind, more.clone())));
    assert!(verdict.allowed(), "{:?}", verdict.denial());
    let found = verdict.warnings.iter().find(|warning| warning.code == code);
    let warning = found.unwrap_or_else(|| panic!("{more}: {:?}", verdict.warnings)).to_string();
    assert!(
        warning.starts_with(&format!("{field}: ")) && warning.ends_with(&format!("({code})")),
        "{warning}"
    );
    assert!(warning.chars().count() <= 130, "{} characters: {warning}", warning.chars().count());
}

fn accepted(kind: Kind, more: Value) {
    let verdict = created(kind, &object(kind, "coder", spec(kind, more.clone())));
    assert_eq!(verdict, Verdict::default(), "{more}");
}

#[test]
fn names() {
    let verdict = |kind: Kind, metadata: Value| {
        let mut object = object(kind, "", spec(kind, json!({})));
        object["metadata"] = metadata;
        created(kind, &object)
    };
    let codes =
        |kind, metadata| verdict(kind, metadata).causes.iter().map(|cause| cause.code).collect::<Vec<_>>();
    for (kind, hard) in [(ControlPlane, 63), (Provisioner, 51), (WorkspaceProxy, 55)] {
        assert_eq!(codes(kind, json!({"name": "a".repeat(hard)})), [""; 0]);
        assert_eq!(codes(kind, json!({"name": "a".repeat(hard + 1)})), ["CODER0101"]);
        let soft = kind.name_limits().soft;
        assert!(verdict(kind, json!({"name": "a".repeat(soft + 1)})).warnings[0].code == "CODER0102");
        assert!(verdict(kind, json!({"name": "a".repeat(soft)})).warnings.is_empty());
    }
    let message = verdict(Provisioner, json!({"name": "a".repeat(52)})).denial().unwrap();
    assert_eq!(
        message,
        "metadata.name: 52 characters are too many for its ServiceAccount; use at most 51 (CODER0101)"
    );
    assert_eq!(codes(Provisioner, json!({"generateName": format!("{}-", "a".repeat(45))})), [""; 0]);
    assert_eq!(codes(Provisioner, json!({"generateName": format!("{}-", "a".repeat(46))})), ["CODER0101"]);
    assert_eq!(codes(ControlPlane, json!({"generateName": "a".repeat(200)})), [""; 0], "Kubernetes cuts it");
    assert_eq!(codes(ControlPlane, json!({"generateName": "Coder-"})), ["CODER0103"]);
    for bad in ["2nd", "a.b", "-a", "a-", "A", "a_b"] {
        assert_eq!(codes(ControlPlane, json!({ "name": bad })), ["CODER0103"], "{bad}");
        assert_eq!(codes(WorkspaceProxy, json!({ "name": bad })), ["CODER0103"], "{bad}");
    }
    assert_eq!(codes(Provisioner, json!({"name": "2nd"})), [""; 0]);
    assert_eq!(codes(Provisioner, json!({"name": "a.b"})), ["CODER0104"]);
    assert_eq!(codes(Provisioner, json!({"name": "psk"})), ["CODER0105"]);
    let mut named = object(Provisioner, "psk", spec(Provisioner, json!({"key": {"name": "ours"}})));
    assert!(created(Provisioner, &named).allowed());
    named["spec"]["key"]["name"] = json!("Psk");
    assert_eq!(created(Provisioner, &named).causes[0].code, "CODER0107");
    assert_eq!(codes(WorkspaceProxy, json!({"name": "primary"})), [""; 0], "nobody registers it");
    let mut named = object(WorkspaceProxy, "primary", json!({"controlPlaneRef": {"name": "coder"}}));
    assert_eq!(created(WorkspaceProxy, &named).causes[0].code, "CODER0105");
    named["spec"]["registration"] = json!({"proxyName": "frankfurt"});
    assert!(created(WorkspaceProxy, &named).allowed());
    let id = "aa4d9a36-6a1f-4c7c-9d8e-3f9a6f0b2c11";
    let mut like_an_id = object(WorkspaceProxy, id, json!({"controlPlaneRef": {"name": "coder"}}));
    assert_eq!(created(WorkspaceProxy, &like_an_id).causes[0].code, "CODER0105");
    like_an_id["spec"]["registration"] = json!({"proxyName": "frankfurt"});
    assert!(created(WorkspaceProxy, &like_an_id).allowed());
}

/// coderd's path of this name is the one by which a proxy speaks of itself, so that no such proxy can be looked up.
#[test]
fn no_proxy_is_called_me() {
    let registered = |name: &str, registration: Value| {
        let spec = json!({"controlPlaneRef": {"name": "coder"}, "registration": registration});
        let verdict = created(WorkspaceProxy, &object(WorkspaceProxy, name, spec));
        verdict.causes.iter().map(|cause| (cause.code, cause.field.clone())).collect::<Vec<_>>()
    };
    let field = |path: &str| path.to_owned();
    assert_eq!(registered("me", json!({})), [("CODER0105", field("metadata.name"))]);
    let by_name = registered("eu", json!({"proxyName": "me"}));
    assert_eq!(by_name, [("CODER0110", field("spec.registration.proxyName"))]);
    assert_eq!(registered("me", json!({"proxyName": "mes"})), []);
}

#[test]
fn keys_organizations_and_proxies() {
    refused(Provisioner, json!({"key": {"name": "a/b"}}), "CODER0106", "spec.key.name");
    refused(Provisioner, json!({"key": {"name": "ö".repeat(33)}}), "CODER0106", "spec.key.name");
    accepted(Provisioner, json!({"key": {"name": "ö".repeat(32)}}));
    refused(Provisioner, json!({"key": {"name": ".."}}), "CODER0106", "spec.key.name");
    accepted(Provisioner, json!({"key": {"name": "a b.. %2f"}}));
    refused(Provisioner, json!({"key": {"name": "BUILT-IN"}}), "CODER0107", "spec.key.name");
    warned(Provisioner, json!({"key": {"name": "OnPrem"}}), "CODER0108", "spec.key.name");
    for bad in ["new", "create", "a--b", "-a", "a b", &"a".repeat(33)] {
        refused(Provisioner, json!({ "organizationName": bad }), "CODER0109", "spec.organizationName");
    }
    for good in ["default", "Data-Science", "New", &"a".repeat(32)] {
        accepted(Provisioner, json!({ "organizationName": good }));
    }
    let bootstrap = |more: Value| {
        let mut bootstrap =
            json!({"coderURL": "https://c.example.com", "credentialsSecretRef": {"name": "s"}});
        for (key, value) in more.as_object().unwrap() {
            bootstrap[key] = value.clone();
        }
        json!({"bootstrap": bootstrap, "proxySessionTokenSecretRef": null})
    };
    refused(
        WorkspaceProxy,
        bootstrap(json!({"proxyName": "Primary"})),
        "CODER0110",
        "spec.bootstrap.proxyName",
    );
    refused(WorkspaceProxy, bootstrap(json!({"proxyName": "a/b"})), "CODER0110", "spec.bootstrap.proxyName");
    accepted(WorkspaceProxy, bootstrap(json!({"proxyName": "frankfurt"})));
    let registered = |registration: Value| json!({"controlPlaneRef": {"name": "coder"}, "registration": registration, "proxySessionTokenSecretRef": null});
    let id = "5a4d9a36-6a1f-4c7c-9d8e-3f9a6f0b2c11";
    for bad in ["PRIMARY", "a/b", "..", id, &id.replace('-', "")] {
        let field = "spec.registration.proxyName";
        refused(WorkspaceProxy, registered(json!({ "proxyName": bad })), "CODER0110", field);
    }
    for empty in ["proxyName", "displayName", "icon", "tokenSecretName"] {
        let field = format!("spec.registration.{empty}");
        refused(WorkspaceProxy, registered(json!({ empty: "" })), "CODER0202", &field);
    }
    refused(
        WorkspaceProxy,
        registered(json!({"tokenSecretName": "Not_Good"})),
        "CODER0115",
        "spec.registration.tokenSecretName",
    );
    accepted(
        WorkspaceProxy,
        registered(json!({"proxyName": "eu", "displayName": "Europe", "icon": "/e.png"})),
    );
    refused(Provisioner, json!({"controlPlaneRef": {}}), "CODER0111", "spec.controlPlaneRef.name");
    let verdict = created(Provisioner, &json!({"metadata": {"name": "a"}}));
    assert_eq!(verdict.causes[0].code, "CODER0111");
    refused(Provisioner, json!({"tags": {"": "x"}}), "CODER0113", "spec.tags");
    warned(Provisioner, json!({"tags": {"scope": "user"}}), "CODER0114", "spec.tags.scope");
    warned(Provisioner, json!({"tags": {"owner": "alice"}}), "CODER0114", "spec.tags.owner");
    accepted(Provisioner, json!({"tags": {"scope": "organization", "environment": ""}}));
}

#[test]
fn references() {
    refused(
        ControlPlane,
        json!({"tls": {"secretNames": ["good", "Not_Good"]}}),
        "CODER0115",
        "spec.tls.secretNames[1]",
    );
    refused(
        ControlPlane,
        json!({"certs": {"secrets": [{"name": "a b", "key": "ca.crt"}]}}),
        "CODER0115",
        "spec.certs.secrets[0].name",
    );
    refused(
        ControlPlane,
        json!({"certs": {"secrets": [{"name": "a", "key": "ca/crt"}]}}),
        "CODER0116",
        "spec.certs.secrets[0].key",
    );
    refused(
        ControlPlane,
        json!({"licenseSecretRef": {"name": "a", "key": ".."}}),
        "CODER0116",
        "spec.licenseSecretRef.key",
    );
    refused(
        ControlPlane,
        json!({"serviceAccount": {"name": "Robot"}}),
        "CODER0117",
        "spec.serviceAccount.name",
    );
    refused(
        ControlPlane,
        json!({"rbac": {"workspaceNamespaces": ["a.b"]}}),
        "CODER0118",
        "spec.rbac.workspaceNamespaces[0]",
    );
    let env = json!({"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a".repeat(254), "key": "k"}}}]});
    refused(ControlPlane, env, "CODER0115", "spec.extraEnv[0].valueFrom.secretKeyRef.name");
    accepted(
        ControlPlane,
        json!({"tls": {"secretNames": ["a.b-c"]}, "rbac": {"workspaceNamespaces": ["team-a"]}}),
    );
}

#[test]
fn images() {
    refused(ControlPlane, json!({"image": ""}), "CODER0203", "spec.image");
    refused(Provisioner, json!({"image": ""}), "CODER0203", "spec.image");
    for no_image in [
        "ghcr.io/coder/coder v2",
        " coder:v2",
        "coder:v2\n",
        "coder:",
        ":v2",
        "ghcr.io/coder/coder:v2@",
        "ghcr.io/",
        "ghcr.io//coder:v2",
        "https://ghcr.io/coder/coder:v2",
        "ghcr.io/Coder/coder:v2",
        "coder:v2:v3",
    ] {
        refused(ControlPlane, json!({ "image": no_image }), "CODER0203", "spec.image");
    }
    for image in [
        "coder:V2_36.1-rc.0",
        "registry.example.com:5000/a/b__c/d.e-f:v2",
        "[fd00::1]:5000/coder:v2",
        "ghcr.io/coder/coder:v2@sha256:0123456789abcdef",
    ] {
        accepted(ControlPlane, json!({ "image": image }));
    }
}

#[test]
fn values() {
    refused(ControlPlane, json!({"replicas": "2"}), "CODER0201", "spec.replicas");
    refused(ControlPlane, json!({"aggregation": {"names": "Long"}}), "CODER0201", "spec.aggregation.names");
    refused(ControlPlane, json!({"licenseSecretRef": {}}), "CODER0201", "spec.licenseSecretRef.name");
    refused(
        ControlPlane,
        json!({"resources": {"limits": {"cpu": "many"}}}),
        "CODER0201",
        "spec.resources.limits.cpu",
    );
    accepted(
        ControlPlane,
        json!({"resources": {"limits": {"cpu": 2, "memory": "4Gi", "example.com/gpu": "1"}}}),
    );
    refused(ControlPlane, json!({"serviceAccount": {"name": ""}}), "CODER0202", "spec.serviceAccount.name");
    refused(ControlPlane, json!({"tls": {"secretNames": [""]}}), "CODER0202", "spec.tls.secretNames[0]");
    refused(Provisioner, json!({"organizationName": ""}), "CODER0202", "spec.organizationName");
    refused(ControlPlane, json!({"replicas": -1}), "CODER0204", "spec.replicas");
    accepted(ControlPlane, json!({"replicas": 0}));
    for port in [0, -1, 65_536] {
        refused(ControlPlane, json!({"service": {"port": port}}), "CODER0205", "spec.service.port");
    }
    accepted(ControlPlane, json!({"service": {"port": 65_535, "type": "NodePort"}}));
    refused(ControlPlane, json!({"service": {"type": "ExternalName"}}), "CODER0206", "spec.service.type");
    refused(
        ControlPlane,
        json!({"livenessProbe": {"successThreshold": 2}}),
        "CODER0207",
        "spec.livenessProbe.successThreshold",
    );
    let mounts =
        json!({"volumeMounts": [{"name": "tls-x", "mountPath": "/a"}, {"name": "cache", "mountPath": "/b"}]});
    refused(ControlPlane, mounts, "CODER0209", "spec.volumeMounts[1].name");
    accepted(
        ControlPlane,
        json!({"volumes": [{"name": "cache"}], "volumeMounts": [{"name": "cache", "mountPath": "/b"}]}),
    );
}

#[test]
fn a_schema_problem_never_repeats_the_value() {
    let object = object(
        ControlPlane,
        "coder",
        json!({"licenseSecretRef": "hunter2", "replicas": "hunter2", "service": {"type": ["hunter2"]}}),
    );
    let text = created(ControlPlane, &object).denial().unwrap();
    assert!(!text.contains("hunter2") && text.lines().count() == 3, "{text}");
    assert!(text.contains("spec.licenseSecretRef: must be of type object; see kubectl explain codercontrolplanes.spec.licenseSecretRef (CODER0201)"), "{text}");
}

#[test]
fn environment() {
    let env = |items: Value| json!({ "extraEnv": items });
    let twice = env(json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]));
    refused(ControlPlane, twice, "CODER0210", "spec.extraEnv[2]");
    refused(Provisioner, env(json!([{"name": "A=B"}])), "CODER0211", "spec.extraEnv[0].name");
    refused(Provisioner, env(json!([{"name": ""}])), "CODER0211", "spec.extraEnv[0].name");
    let source = json!({"secretKeyRef": {"name": "s", "key": "k"}});
    refused(
        ControlPlane,
        env(json!([{"name": "A", "value": "x", "valueFrom": source}])),
        "CODER0212",
        "spec.extraEnv[0]",
    );
    refused(ControlPlane, env(json!([{"name": "A", "valueFrom": {}}])), "CODER0212", "spec.extraEnv[0]");
    accepted(ControlPlane, env(json!([{"name": "A", "value": "", "valueFrom": source}])));
    let both = json!({"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]});
    refused(ControlPlane, both, "CODER0213", "spec.envFrom[0]");
    refused(ControlPlane, json!({"envFrom": [{"prefix": "A"}]}), "CODER0214", "spec.envFrom[0]");
    accepted(
        ControlPlane,
        json!({"envFrom": [{"configMapRef": {"name": "a"}}, {"prefix": "B_", "secretRef": {"name": "b"}}]}),
    );
    warned(
        Provisioner,
        env(json!([{"name": "CODER_URL", "value": "https://x"}])),
        "CODER0215",
        "spec.extraEnv[0].name",
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let object = object(
        ControlPlane,
        "Not.good",
        json!({
            "image": "", "replicas": -1, "service": {"port": 0}, "expose": {}, "tls": {"secretNames": ["A"]}, "licenseSecretRef": 1,
        }),
    );
    let codes: Vec<&str> = created(ControlPlane, &object).causes.iter().map(|cause| cause.code).collect();
    assert_eq!(
        codes,
        ["CODER0103", "CODER0115", "CODER0203", "CODER0204", "CODER0205", "CODER0302", "CODER0201"]
    );
}

#[test]
fn an_endless_list_of_problems_is_cut() {
    let many: Vec<Value> = (0..5_000).map(|_| json!("")).collect();
    let verdict =
        created(ControlPlane, &object(ControlPlane, "coder", json!({"tls": {"secretNames": many}})));
    assert_eq!(verdict.causes.len(), 64);
    assert!(verdict.denial().unwrap().contains("more problems"));
}

#[test]
fn an_object_that_nobody_wrote_is_not_read() {
    let huge = object(ControlPlane, "coder", json!({"extraEnv": vec![json!({"name": ""}); 60_000]}));
    let verdict = created(ControlPlane, &huge);
    assert_eq!(
        verdict.denial().unwrap(),
        "spec: consists of more than 50000 values; remove what is not needed (CODER0201)"
    );
}

#[test]
fn a_spec_is_small_enough_to_be_kept_and_one_that_is_not_may_only_shrink() {
    let sized = |kib: usize| {
        let text = "x".repeat(kib * 1024 / 8);
        object(ControlPlane, "coder", spec(ControlPlane, json!({ "extraArgs": vec![text; 8] })))
    };
    let verdict = created(ControlPlane, &sized(127));
    assert!(verdict.allowed(), "{verdict:?}");
    let verdict = created(ControlPlane, &sized(200));
    assert_eq!(verdict.causes.iter().map(|cause| cause.code).collect::<Vec<_>>(), ["CODER0222"]);
    assert_eq!(
        verdict.denial().unwrap(),
        "spec: takes more than 128 KiB; put long texts into a ConfigMap or Secret that the spec refers to, and remove what \
         is not needed (CODER0222)"
    );
    let updated = |old: &Value, new: &Value| validate(ControlPlane, new, Operation::Update(old));
    for new in [sized(200), sized(199), sized(100)] {
        assert!(updated(&sized(200), &new).allowed(), "stored before there was a limit");
    }
    assert!(!updated(&sized(200), &sized(201)).allowed(), "it grows");
    assert!(!updated(&sized(100), &sized(129)).allowed());
    let stored = validate(ControlPlane, &sized(200), Operation::Reconcile);
    assert!(stored.denial().unwrap().contains("CODER0222"), "its condition says so");
    let many =
        json!({"initContainers": [{"name": "a", "image": "b", "env": vec![json!({"name": "A"}); 3000]}]});
    let verdict = created(ControlPlane, &object(ControlPlane, "coder", spec(ControlPlane, many)));
    let codes: Vec<_> = verdict.causes.iter().map(|cause| cause.code).collect();
    assert!(codes.contains(&"CODER0222"), "{codes:?}");
}
