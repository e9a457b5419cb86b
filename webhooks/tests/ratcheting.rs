//! What was stored before stays updatable where it does not become worse, and no update is held to creation rules.

use serde_json::{Value, json};
use webhooks::{Kind, Operation, Verdict, validate};

fn control_plane(spec: Value) -> Value {
    json!({"metadata": {"name": "coder", "namespace": "coder"}, "spec": spec})
}

fn updated(kind: Kind, old: &Value, new: &Value) -> Verdict {
    validate(kind, new, Operation::Update(old))
}

fn codes(verdict: &Verdict) -> Vec<&str> {
    verdict.causes.iter().map(|cause| cause.code).collect()
}

#[test]
fn a_name_is_never_judged_again() {
    let name = "Much.too.long.".repeat(8);
    let old = json!({"metadata": {"name": name}, "spec": {}});
    let new = json!({"metadata": {"name": name}, "spec": {"replicas": 2}});
    assert_eq!(codes(&updated(Kind::ControlPlane, &old, &new)), [""; 0]);
    let stored = validate(Kind::ControlPlane, &old, Operation::Reconcile);
    assert!(
        stored.allowed() && stored.warnings.iter().any(|warning| warning.code == "CODER0101"),
        "{stored:?}"
    );
}

#[test]
fn an_old_problem_is_a_warning_and_a_new_one_a_denial() {
    let old = control_plane(json!({"envFrom": [{"prefix": "A"}], "image": "coder:v1"}));
    let same = control_plane(json!({"envFrom": [{"prefix": "A"}], "image": "coder:v2"}));
    let verdict = updated(Kind::ControlPlane, &old, &same);
    assert!(verdict.allowed());
    assert_eq!(
        verdict.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "spec.envFrom[0]: names no source; name a configMapRef or a secretRef, or remove the entry (CODER0214, as before)"
        ]
    );
    let moved = control_plane(
        json!({"envFrom": [{"secretRef": {"name": "s"}}, {"prefix": "A"}], "image": "coder:v1"}),
    );
    assert!(updated(Kind::ControlPlane, &old, &moved).allowed(), "it moved and is not worse");
    let worse = control_plane(json!({"envFrom": [{"prefix": "A"}, {"prefix": "B"}], "image": "coder:v1"}));
    let verdict = updated(Kind::ControlPlane, &old, &worse);
    assert_eq!(
        verdict.causes.iter().map(|cause| cause.field.as_str()).collect::<Vec<_>>(),
        ["spec.envFrom[1]"]
    );
    let better = control_plane(json!({"envFrom": [], "image": "coder:v1"}));
    assert_eq!(updated(Kind::ControlPlane, &old, &better), Verdict::default());
}

#[test]
fn the_schema_tolerates_what_stays_as_the_api_server_does() {
    let old = control_plane(
        json!({"image": "coder:v1", "service": {"type": "Odd", "port": 1}, "hostAliases": [{"ip": "1.1.1.1", "hostnames": 1}]}),
    );
    let same = control_plane(
        json!({"image": "coder:v1", "service": {"type": "Odd", "port": 2}, "hostAliases": [{"ip": "1.1.1.2"}, {"ip": "1.1.1.1", "hostnames": 1}]}),
    );
    let verdict = updated(Kind::ControlPlane, &old, &same);
    assert!(verdict.allowed(), "{:?}", verdict.denial());
    let changed = control_plane(
        json!({"image": "coder:v1", "service": {"type": "Odder", "port": 1}, "hostAliases": [{"ip": "1.1.1.1", "hostnames": 2}]}),
    );
    let verdict = updated(Kind::ControlPlane, &old, &changed);
    assert_eq!(
        codes(&verdict),
        ["CODER0206", "CODER0201"],
        "the API server refuses a changed value: {verdict:?}"
    );
}

#[test]
fn a_stored_object_is_held_to_everything_but_its_name() {
    let object = control_plane(json!({"image": "", "envFrom": [{"prefix": "A"}]}));
    let verdict = validate(Kind::ControlPlane, &object, Operation::Reconcile);
    assert_eq!(codes(&verdict), ["CODER0203", "CODER0214"]);
}

#[test]
fn aggregated_names_cannot_change() {
    let (short, prefixed) =
        (control_plane(json!({})), control_plane(json!({"aggregation": {"names": "Prefixed"}})));
    let verdict = updated(Kind::ControlPlane, &short, &prefixed);
    assert_eq!(codes(&verdict), ["CODER0208"]);
    let text = verdict.denial().unwrap();
    assert!(text.contains("cannot change") && !text.contains("immutable"), "{text}");
    let spelled = control_plane(json!({"aggregation": {"names": "Short"}}));
    assert!(updated(Kind::ControlPlane, &short, &spelled).allowed(), "absent means Short");
    assert!(updated(Kind::ControlPlane, &prefixed, &prefixed).allowed());
}

#[test]
fn a_change_of_identity_says_what_will_happen() {
    let provisioner = |spec: Value| json!({"metadata": {"name": "b"}, "spec": spec});
    let old = provisioner(json!({"controlPlaneRef": {"name": "coder"}}));
    for (spec, field) in [
        (json!({"controlPlaneRef": {"name": "other"}}), "spec.controlPlaneRef.name"),
        (json!({"controlPlaneRef": {"name": "coder"}, "organizationName": "o"}), "spec.organizationName"),
        (json!({"controlPlaneRef": {"name": "coder"}, "key": {"name": "k"}}), "spec.key.name"),
        (json!({"controlPlaneRef": {"name": "coder"}, "tags": {"a": "b"}}), "spec.tags"),
    ] {
        let verdict = updated(Kind::Provisioner, &old, &provisioner(spec));
        assert!(verdict.allowed());
        assert_eq!(verdict.warnings.len(), 1);
        let warning = &verdict.warnings[0];
        assert_eq!((warning.field.as_str(), warning.code), (field, "CODER0112"));
    }
    let same = provisioner(
        json!({"controlPlaneRef": {"name": "coder"}, "organizationName": "default", "key": {"name": "b"}, "tags": {}}),
    );
    assert_eq!(updated(Kind::Provisioner, &old, &same), Verdict::default(), "the defaults, spelled out");
}
