//! Tests of how reviews are read and answered, of good ones and of those that nobody but an attacker sends.
//! They never judge which objects are good: see the tests of the rules.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::request::{MEMORY, NAME, NAMESPACE, UID, USER_EXTRA, USER_NAME};
use super::*;
use crate::admit;
use crate::defaults::Config;

fn body(object: &Value, operation: &str) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": operation, "namespace": "coder", "name": "coder", "object": object,
            "oldObject": null, "userInfo": { "username": "jane", "groups": ["devs"] },
            "resource": { "group": "coder.com", "version": "v1alpha1", "resource": "codercontrolplanes" },
        },
    });
    serde_json::to_vec(&review).unwrap()
}

fn answer(object: &Value) -> Value {
    let mut request = read(&body(object, "CREATE")).unwrap();
    let decision = admit::mutate(&mut request, &Config::default());
    serde_json::from_slice(&write(&request, &decision).unwrap()).unwrap()
}

fn control_plane(spec: Value) -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": "coder" }, "spec": spec })
}

#[test]
fn a_good_object_is_allowed_with_a_base64_patch() {
    let answer = answer(&control_plane(json!({})));
    assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("u1"), &json!(true)));
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert!(patch.as_array().unwrap().iter().all(|operation| operation["op"] == "add"), "{patch}");
}

#[test]
fn a_bad_object_is_refused_with_403_and_every_cause_and_no_patch() {
    let answer = answer(&control_plane(json!({ "replicas": -1, "service": { "port": 70000 } })));
    let status = &answer["response"]["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert!(fields.contains(&"spec.replicas") && fields.contains(&"spec.service.port"), "{answer}");
    assert!(answer["response"]["patch"].is_null());
}

/// One warning longer than Kubernetes keeps: the answer cuts it, the verdict does not.
#[test]
fn warnings_of_an_answer_are_within_the_limits_of_kubernetes() {
    let annotations = json!({ "a".repeat(400): "${LEFT}" });
    let object = control_plane(
        json!({ "image": "coder:v1", "serviceAccount": { "annotations": annotations }, "replicas": -1 }),
    );
    let mut request = read(&body(&object, "CREATE")).unwrap();
    let decision = admit::mutate(&mut request, &Config::default());
    assert!(
        decision.verdict.warnings.iter().any(|warning| warning.to_string().chars().count() > 400),
        "{decision:?}"
    );
    let answer = answer(&object);
    let sent = answer["response"]["warnings"].as_array().unwrap();
    assert_eq!(sent.len(), decision.verdict.warnings.len());
    assert!(sent.iter().all(|warning| warning.as_str().unwrap().chars().count() <= 256), "{answer}");
}

#[test]
fn what_is_not_a_request_of_ours_is_unreadable_and_nothing_panics() {
    let good = body(&control_plane(json!({})), "CREATE");
    for length in 0..good.len() {
        assert!(read(&good[..length]).is_err());
    }
    assert!(matches!(read(&body(&json!({}), "DELETE")), Err(Unreadable::Operation)));
    assert!(matches!(
        read(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#),
        Err(Unreadable::NoRequest)
    ));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(matches!(read(deep.as_bytes()), Err(Unreadable::Body(_))));
}

fn wrapped(object: &str, operation: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"{operation}",
        "userInfo":{{"username":"jane"}},"resource":{{"group":"coder.com","resource":"codercontrolplanes"}},"object":{object},"oldObject":{object}}}}}"#
    )
}

/// Each is 3 MiB of text and was hundreds of megabytes built.
#[test]
fn what_would_fill_memory_is_refused_before_it_is_built() {
    let many = |what: &str| format!(r#"{{"spec":[{}0]}}"#, what.repeat(3 * 1024 * 1024 / what.len()));
    let deep = format!("{}1{}", r#"{"a":"#.repeat(500_000), "}".repeat(500_000));
    assert!(matches!(read(wrapped(&deep, "CREATE").as_bytes()), Err(Unreadable::TooDeep)));
    for what in [r#"{"a":0},"#, "[0],", "0,", r#""","#] {
        let refused = read(wrapped(&many(what), "CREATE").as_bytes());
        assert!(matches!(refused, Err(Unreadable::TooLarge)), "{what}");
    }
    let groups = format!(r#"{{"groups":[{}"a"]}}"#, r#""a","#.repeat(100_000));
    let text = wrapped("{}", "CREATE").replacen(r#"{"username":"jane"}"#, &groups, 1);
    assert!(matches!(read(text.as_bytes()), Err(Unreadable::TooLarge)));
}

/// Each question about rights had a copy of such a namespace, and of such a user.
#[test]
fn texts_around_the_objects_are_bounded_and_somebody_asks() {
    let good: Value = serde_json::from_str(&wrapped("{}", "CREATE")).unwrap();
    let with = |path: &str, value: Value| {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let mut review = good.clone();
        review.pointer_mut(parent).unwrap()[key] = value;
        read(&serde_json::to_vec(&review).unwrap())
    };
    for (path, limit) in [
        ("/request/uid", UID),
        ("/request/namespace", NAMESPACE),
        ("/request/name", NAME),
        ("/request/userInfo/username", USER_NAME),
        ("/request/userInfo/uid", USER_NAME),
    ] {
        for letter in ["a", "\u{1}"] {
            assert!(with(path, json!(letter.repeat(limit))).is_ok(), "{path}");
            let refused = with(path, json!(letter.repeat(limit + 1)));
            assert!(matches!(refused, Err(Unreadable::Text(_))), "{path}: {refused:?}");
        }
    }
    for path in [
        "/request/uid",
        "/request/namespace",
        "/request/name",
        "/request/operation",
        "/apiVersion",
        "/kind",
        "/request/resource/group",
        "/request/resource/resource",
    ] {
        let refused = with(path, json!("a".repeat(3_200_000)));
        assert!(matches!(refused, Err(Unreadable::Text(_))), "{path}: {refused:?}");
        assert!(matches!(with(path, json!(1)), Err(Unreadable::Text(_))), "{path}");
    }
    let long = "a".repeat(USER_EXTRA + 1);
    for (path, value) in [
        ("/request/userInfo/groups", json!(["a", long])),
        ("/request/userInfo/extra", json!({ "a": ["b", long] })),
        ("/request/userInfo/extra", json!({ long.as_str(): [] })),
    ] {
        assert!(matches!(with(path, value), Err(Unreadable::Text(_))), "{path}");
    }
    for nobody in [json!(null), json!({}), json!({ "username": "" }), json!({ "groups": ["a"] })] {
        assert!(matches!(with("/request/userInfo", nobody), Err(Unreadable::NoUser)));
    }
}

/// As large as etcd keeps an object: what we do not look at does not count, and what we do is far from the limit.
#[test]
fn the_largest_object_that_etcd_keeps_is_read() {
    let variables: Vec<Value> = (0..512)
        .map(|number| json!({ "name": format!("V{number}"), "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } }))
        .collect();
    let fields = "f:a".repeat(400_000);
    let object = json!({ "metadata": { "managedFields": [{ "fieldsV1": { fields: {} } }] },
        "spec": { "extraEnv": variables } });
    let text = wrapped(&object.to_string(), "UPDATE");
    let measured = measure(text.as_bytes()).unwrap();
    assert!(measured.memory() < MEMORY / 2, "{}", measured.memory());
    let request = measured.build().unwrap();
    assert_eq!(request.object["spec"]["extraEnv"].as_array().unwrap().len(), 512);
    assert!(request.object["metadata"].get("managedFields").is_none());
}
