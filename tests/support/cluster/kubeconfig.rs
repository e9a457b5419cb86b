//! Kubeconfig files as JSON (which is YAML): one by client certificate, one by token.

use super::control_plane::ControlPlane;
use serde_json::json;

/// The administrator's: client certificate and CA inline, so that the file can be copied anywhere.
pub fn certificate(control_plane: &ControlPlane) -> String {
    let pki = &control_plane.pki;
    let user = json!({
        "client-certificate-data": base64(pki.admin.certificate.as_bytes()),
        "client-key-data": base64(pki.admin.key.as_bytes()),
    });
    document(&control_plane.url(), Some(&pki.ca), user)
}

/// One that speaks by bearer token.
pub fn token(url: &str, ca: Option<&str>, token: &str) -> String {
    document(url, ca, json!({ "token": token }))
}

fn document(url: &str, ca: Option<&str>, user: serde_json::Value) -> String {
    let mut cluster = json!({ "server": url });
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = base64(ca.as_bytes()).into();
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test", "namespace": "default" } }],
    })
    .to_string()
}

/// `ByteString` serialises as base64, which is all we need of base64 here.
fn base64(bytes: &[u8]) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).expect("bytes serialise");
    encoded.as_str().expect("base64 is a string").to_owned()
}
