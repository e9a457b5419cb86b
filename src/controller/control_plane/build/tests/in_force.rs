//! What is built is read back from what runs: the spec that is in force is the one that the pods were built from.

use super::super::fixtures::ControlPlane;
use crate::control_plane_access::in_force::in_force;
use serde_json::{Value, json};

#[test]
fn certificates_authorities_and_port_are_those_of_the_pods_that_run() {
    let certs = |secrets: Value| json!({ "secrets": secrets });
    let before = ControlPlane::test()
        .with("tls", json!({ "secretNames": ["a", "Long.Name"] }))
        .with("certs", certs(json!([{ "name": "ca", "key": "x.crt" }, { "name": "ca", "key": "y.crt" }])))
        .with("volumes", json!([{ "name": "theirs", "secret": { "secretName": "payroll" } }]))
        .with("volumeMounts", json!([{ "name": "theirs", "mountPath": "/theirs" }]))
        .with("service", json!({ "port": 9000 }));
    let (ran, children) = (before.complete().spec, before.children());
    let live = (&children.deployment.manifest, &children.serving.service.manifest);
    let other =
        ControlPlane::test().with("tls", json!({ "secretNames": ["evil"] })).with("certs", certs(json!([])));
    for after in [ControlPlane::test().with("service", json!({ "port": 443 })), other] {
        let used = in_force(&after.complete().spec, Some(live.0), Some(live.1));
        assert_eq!((&used.tls, &used.certs), (&ran.tls, &ran.certs));
        assert_eq!(used.service.unwrap().port, Some(9000));
    }
    let plain = ControlPlane::test().children();
    let (deployment, service) = (&plain.deployment.manifest, &plain.serving.service.manifest);
    let used = in_force(&ran, Some(deployment), Some(service));
    assert_eq!((used.tls, used.certs), (None, None), "they run without");
}
