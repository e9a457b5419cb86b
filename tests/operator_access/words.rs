//! What servers say and what they are: neither reaches a condition, an Event or the log as it came. The URL of a database
//! is no way to look around in the cluster's network.

use crate::env::{DENIED, NOBODY, OperatorAccessEnv};
use crate::strangers::{host, hostile_words};
use serde_json::{Value, json};
use support::coderd::{Fault, Occurrence, license_with};
use support::objects::condition;
use support::sentences;

fn database_url(url: &str) -> Value {
    json!({ "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": url }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_listens_at_the_url_of_a_database_is_told_in_the_same_words() {
    let env = OperatorAccessEnv::shared().await;
    let (_, real) = env.database();
    let at = |host: &str, mode: &str| format!("postgres://coder:hunter2@{host}/coder?sslmode={mode}");
    let cases = [
        ("closed", at(NOBODY, "disable"), "cannot be reached"),
        ("nameless", at("nobody.invalid", "require"), "cannot be reached"),
        ("silent", at(&host("silent"), "require"), "did not answer in time"),
        ("web", at(&host("web"), "require"), "does not understand the question for TLS"),
        ("web-plain", at(&host("web"), "disable"), ""),
        ("without-tls", at(&host("without-tls"), "require"), "does not offer TLS"),
        ("rude", at(&host("rude"), "disable"), "an error without a SQLSTATE"),
        (
            "password",
            real.replace("postgres:cnry", "postgres:hunter2"),
            "does not accept the user and password",
        ),
    ];
    let mut planes = Vec::new();
    for (purpose, url, _) in &cases {
        let ns = env.cluster.namespace(purpose).await;
        env.add_provisioner(&ns).await;
        env.apply_control_plane(&ns, "coder", &database_url(url)).await;
        planes.push(ns);
    }
    let mut told = Vec::new();
    for ns in &planes {
        let plane = env.until_reason(ns, "coder", "OperatorAccessReady", "DatabaseLoginFailed").await;
        let condition = condition(&plane, "OperatorAccessReady");
        told.push((condition["status"].clone(), condition["message"].clone()));
        assert!(!plane["status"].to_string().contains("hunter2"), "{}", plane["status"]);
    }
    assert!(told.iter().all(|one| *one == told[0]), "{told:#?}");
    // Whoever runs the operator reads which it was.
    let log = env.log().await;
    for (ns, (purpose, _, words)) in planes.iter().zip(&cases) {
        let line =
            log.lines().find(|line| line.contains(ns.as_str()) && line.contains("no connection to coderd"));
        let line = line.unwrap_or_else(|| panic!("{purpose}: nothing is logged"));
        assert!(line.contains(words), "{purpose}: {line}");
        env.cluster
            .kubectl(&format!("delete codercontrolplane coder -n {ns} --wait=false"))
            .await
            .expect_ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_words_of_a_database_and_of_coderd_reach_nobody() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("welcoming").await;
    env.add_provisioner(&ns).await;
    let url = format!("postgres://coder@{}/coder?sslmode=disable", host("welcoming"));
    env.apply_control_plane(&ns, "coder", &database_url(&url)).await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseError").await;
    let message = &condition(&plane, "OperatorAccessReady")["message"];
    assert_eq!(message, "the database answered with an error without a SQLSTATE");

    let alone = env.alone("hostile");
    let (ns, coderd) = (&alone.namespace, &alone.coderd);
    let refusal = json!({ "message": hostile_words(), "detail": "see \u{9b}31m" });
    coderd.inject("POST /licenses", Occurrence::Every, Fault::answer(400, &refusal));
    let (_, url) = env.database();
    env.apply_secret(ns, "db", &json!({ "url": url })).await;
    let jwt =
        license_with(&json!({ "jti": "6f1f6a3e-0000-4000-8000-000000000009", "exp": 4_000_000_000_i64 }));
    env.apply_secret(ns, "license", &json!({ "license": jwt })).await;
    env.apply_control_plane(
        ns,
        "coder",
        &json!({ "extraEnv": crate::from_secret(), "licenseSecretRef": { "name": "license" } }),
    )
    .await;
    // Every object that the env reads is looked at for what nobody should see.
    let plane = env.until_reason(ns, "coder", "LicenseApplied", "Invalid").await;
    let message = condition(&plane, "LicenseApplied")["message"].as_str().unwrap();
    assert!(message.contains("coderd says: no ]0;owned entry ERROR forged xxx"), "{message}");
    env.events_of(ns, "LicenseApplied").await;

    let log = env.log().await;
    for line in log.lines() {
        assert_eq!(sentences::unseen(line), None, "{line:.300}");
        assert!(!line.contains("\\u001b") && line.len() < 10_000, "{line:.300}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_address_is_told_and_never_dialled() {
    let env = OperatorAccessEnv::shared().await;
    let listener = std::net::TcpListener::bind((DENIED, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let ns = env.cluster.namespace("denied").await;
    env.add_provisioner(&ns).await;
    env.apply_control_plane(
        &ns,
        "coder",
        &database_url(&format!("postgres://coder@{address}/coder?sslmode=disable")),
    )
    .await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseAddressRefused").await;
    let message = condition(&plane, "OperatorAccessReady")["message"].as_str().unwrap();
    assert!(message.contains("an address that --deny-cidr names"), "{message}");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody came");

    // Whoever writes such a URL means no good, or mistyped it.
    let url = "postgres://coder:a%00options%00-c@db.team.svc/coder";
    env.apply_control_plane(&ns, "coder", &database_url(url)).await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseUrlInvalid").await;
    let message = condition(&plane, "OperatorAccessReady")["message"].as_str().unwrap();
    assert!(message.contains("the password of the database URL has a control character"), "{message}");
}
