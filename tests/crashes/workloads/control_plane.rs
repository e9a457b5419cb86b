//! What a control plane goes through, each as the state before, a change, and how to tell that it is done.
//! It never says in which order the operator gets there: that is what is recorded.

use super::{is_gone, is_ready, names_of};
use serde_json::{Value, json};
use support::campaign::{Change, Kind, Prepared, Subject, Target, Tolerance, Workload};
use support::coderd::license_with;
use support::helm_release;
use support::objects::{self, condition};

/// The operator as its reconciler of control planes.
pub const TARGET: Target = Target {
    binary: env!("CARGO_BIN_EXE_coder-k8s"),
    subject: Subject {
        kind: Kind("coder.com", "v1alpha1", "CoderControlPlane", "codercontrolplanes"),
        name: "coder",
    },
    names,
    email,
    flags: &[],
    // Of the provisioner that needs a token. It is worked on beside the control plane: whatever write of the latter the
    // operator dies at, a key may have lost its plaintext.
    key_names: &["builders"],
    tolerance: |_| Tolerance::KeyNumber,
    attached: None,
};

fn names(home: &str) -> Vec<(String, String)> {
    names_of(home, "coder").into()
}

fn email(uid: &str) -> String {
    format!("{}@coder-k8s.invalid", crds::names::control_plane::operator_user(uid))
}

fn control_plane(spec: &Value) -> Value {
    let mut spec = spec.clone();
    // Only read when something needs a token of the operator's own.
    spec["extraEnv"] = json!([{ "name": "CODER_PG_CONNECTION_URL",
        "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }]);
    objects::control_plane("{home}", "coder", &spec)
}

fn secret(name: &str, data: &Value) -> Value {
    objects::secret("{home}", name, data)
}

fn database() -> Value {
    secret("db", &json!({ "url": "{database}" }))
}

fn license() -> Value {
    let claims = json!({ "jti": "6f1f6a3e-0000-4000-8000-000000000001", "exp": 4_000_000_000_i64 });
    secret("license", &json!({ "license": license_with(&claims) }))
}

/// What needs a token of the control plane: once it works, the token was used, and nothing more is on its way.
const PROVISIONER: Subject = Subject {
    kind: Kind("coder.com", "v1alpha1", "CoderProvisioner", "coderprovisioners"),
    name: "builders",
};

/// Whether a provisioner has its key, and pods that run with it.
fn works(provisioner: Option<&Value>) -> bool {
    let holds = |name: &str| provisioner.is_some_and(|object| condition(object, name)["status"] == "True");
    holds("ProvisionerKeyReady") && holds("DeploymentReady")
}

/// Something that needs a token of the control plane.
fn provisioner() -> Value {
    objects::provisioner("{home}", "builders", "coder")
}

/// A namespace that lets the control plane run workspaces in it.
fn consenting(role: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": role, "labels": { "coder.com/workspaces-from": "{home}" } } })
}

fn has(subject: Option<&Value>, name: &str, reason: &str) -> bool {
    is_ready(subject) && subject.is_some_and(|object| condition(object, name)["reason"] == reason)
}

fn has_a_token(subject: Option<&Value>) -> bool {
    has(subject, "OperatorAccessReady", "TokenProven")
}

fn has_no_token(subject: Option<&Value>) -> bool {
    has(subject, "OperatorAccessReady", "Disabled")
        && subject.is_some_and(|object| object["metadata"]["finalizers"].is_null())
}

fn has_a_license(subject: Option<&Value>) -> bool {
    has_a_token(subject) && has(subject, "LicenseApplied", "Applied")
}

/// Everything a control plane goes through.
pub fn all() -> Vec<Workload> {
    [lifetime(), access(), exposure(), grants(), adoption()].concat()
}

fn licensed() -> Value {
    json!({ "licenseSecretRef": { "name": "license" } })
}

fn with_ingress() -> Value {
    json!({ "expose": { "ingress": { "host": "coder.example.com" } }, "podDisruptionBudget": {} })
}

fn with_grants() -> Value {
    json!({ "rbac": { "workspaceNamespaces": ["{first}", "{second}"] } })
}

/// Its beginning, with what the operator makes for itself at its own first start, and its end, with everything there is to
/// be taken back.
fn lifetime() -> Vec<Workload> {
    let mut everything = with_grants();
    everything["licenseSecretRef"] = licensed()["licenseSecretRef"].clone();
    vec![
        Workload {
            name: "creation",
            other_namespaces: &[],
            before: vec![database()],
            prepared: Prepared::Nothing,
            change: Change::Apply(vec![control_plane(&with_ingress())]),
            then: None,
            done: is_ready,
        },
        Workload {
            name: "deletion",
            other_namespaces: &["first", "second"],
            before: vec![
                consenting("{first}"),
                consenting("{second}"),
                database(),
                license(),
                control_plane(&everything),
            ],
            prepared: Prepared::Subject(has_a_license),
            change: Change::Delete,
            then: None,
            done: is_gone,
        },
    ]
}

/// The operator's own token, made and taken back, and the license that it uploads with it.
fn access() -> Vec<Workload> {
    let plain = || control_plane(&json!({}));
    vec![
        Workload {
            name: "token",
            other_namespaces: &[],
            before: vec![database(), plain()],
            prepared: Prepared::Subject(is_ready),
            change: Change::Apply(vec![provisioner()]),
            then: None,
            done: has_a_token,
        },
        Workload {
            name: "license",
            other_namespaces: &[],
            before: vec![database(), license(), provisioner(), plain()],
            prepared: Prepared::Other(PROVISIONER, works),
            change: Change::Apply(vec![control_plane(&licensed())]),
            then: None,
            done: has_a_license,
        },
        Workload {
            name: "revocation",
            other_namespaces: &[],
            before: vec![database(), provisioner(), plain()],
            prepared: Prepared::Other(PROVISIONER, works),
            change: Change::Apply(vec![control_plane(&json!({ "operatorAccess": { "disabled": true } }))]),
            then: None,
            done: has_no_token,
        },
    ]
}

fn exposure() -> Vec<Workload> {
    let gateway = json!({ "expose": { "gateway": { "host": "coder.example.com", "parentRefs": [{ "name": "edge" }] } } });
    vec![Workload {
        name: "expose",
        other_namespaces: &[],
        before: vec![database(), control_plane(&with_ingress())],
        prepared: Prepared::Subject(is_ready),
        change: Change::Apply(vec![control_plane(&gateway)]),
        then: None,
        done: is_ready,
    }]
}

fn grants() -> Vec<Workload> {
    let before =
        |spec: &Value| vec![consenting("{first}"), consenting("{second}"), database(), control_plane(spec)];
    vec![
        Workload {
            name: "grants-added",
            other_namespaces: &["first", "second"],
            before: before(&json!({})),
            prepared: Prepared::Subject(is_ready),
            change: Change::Apply(vec![control_plane(&with_grants())]),
            then: None,
            done: is_ready,
        },
        Workload {
            name: "grants-removed",
            other_namespaces: &["first", "second"],
            before: before(&with_grants()),
            prepared: Prepared::Subject(is_ready),
            change: Change::Apply(vec![control_plane(&json!({}))]),
            then: None,
            done: is_ready,
        },
    ]
}

fn is_in_conflict(subject: Option<&Value>) -> bool {
    subject.is_some_and(|object| condition(object, "Stalled")["reason"] == "ChildConflict")
}

fn has_adopted(subject: Option<&Value>) -> bool {
    is_ready(subject) && subject.is_some_and(|object| object["status"]["adoptedHelmRelease"] == "prod")
}

/// What a Helm release has under its names, taken over; see `tests/control_plane/helm_release.rs` for what must hold meanwhile.
fn adoption() -> Vec<Workload> {
    let mut spec = with_ingress();
    spec["serviceAccount"] = json!({ "name": "coder" });
    let before = control_plane(&spec);
    let mut plane = before.clone();
    plane["metadata"]["annotations"] = json!({ "coder.com/adopt-helm-release": "prod" });
    vec![Workload {
        name: "adoption",
        other_namespaces: &[],
        before: [helm_release::objects("{home}", "prod", 1), vec![database(), before]].concat(),
        prepared: Prepared::Subject(is_in_conflict),
        change: Change::Apply(vec![plane]),
        then: None,
        done: has_adopted,
    }]
}
