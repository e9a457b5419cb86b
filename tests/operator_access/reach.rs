//! How coderd is reached: with the redirect to its access URL on, with ordinary certificates, and through a hiccup.
//! Each test has a control plane of its own; no test waits for a timer of the operator.

use crate::env::OperatorAccessEnv;
use crate::from_secret;
use serde_json::{Value, json};
use support::cluster::pki::{Ca, Pair};
use support::coderd::{Fault, Occurrence, Role, license_with};
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

const LICENSE_ID: &str = "6f1f6a3e-0000-4000-8000-000000000007";

#[tokio::test(flavor = "multi_thread")]
async fn a_coderd_that_redirects_to_its_access_url_is_reached_proven_and_licensed() {
    let env = OperatorAccessEnv::shared().await;
    let alone = env.alone("redirected");
    let (ns, coderd) = (&alone.namespace, &alone.coderd);
    let (_, url) = env.database();
    env.apply_secret(ns, "db", &json!({ "url": url })).await;
    let jwt = license_with(&json!({ "jti": LICENSE_ID, "exp": 4_000_000_000_i64 }));
    env.apply_secret(ns, "license", &json!({ "license": jwt })).await;
    let spec = |access_url: &str, certificate: Option<&str>| {
        let mut variables = from_secret();
        variables.as_array_mut().unwrap().extend([
            json!({ "name": "CODER_ACCESS_URL", "value": access_url }),
            json!({ "name": "CODER_REDIRECT_TO_ACCESS_URL", "value": "true" }),
        ]);
        let mut spec = json!({ "extraEnv": variables, "licenseSecretRef": { "name": "license" } });
        if let Some(name) = certificate {
            spec["tls"] = json!({ "secretNames": [name] });
        }
        spec
    };
    let proven = |plane: &Value| {
        is_ready(plane)
            && condition(plane, "OperatorAccessReady")["reason"] == "TokenProven"
            && condition(plane, "LicenseApplied")["reason"] == "Applied"
            && plane["status"]["version"] == "v2.36.1"
    };
    coderd.redirect_to_access_url(Some("http://coder.example.com:8080"));
    env.apply_control_plane(ns, "coder", &spec("http://coder.example.com:8080", None)).await;
    env.until(ns, "coder", "everything over plain HTTP", proven).await;

    // The same over TLS, with a certificate for the access URL.
    coderd.redirect_to_access_url(Some("https://coder.example.com"));
    let pair = Pair::self_signed(&["coder.example.com"]);
    coderd.present(&format!("coder.{ns}.svc.cluster.local"), &pair);
    env.apply_secret(ns, "tls", &json!({ "tls.crt": pair.certificate, "tls.key": pair.key })).await;
    env.apply_control_plane(ns, "coder", &spec("https://coder.example.com", Some("tls"))).await;
    env.until(ns, "coder", "everything over TLS", proven).await;

    // TLS that ends in front of coderd: it redirects whoever comes without, by whatever name. It is there all the same.
    env.apply_control_plane(ns, "coder", &spec("https://coder.example.com", None)).await;
    let plane = env
        .until(ns, "coder", "told that it redirects", |plane| {
            let message = condition(plane, "CoderdReachable")["message"].as_str().unwrap_or_default();
            message.contains("redirects") && message.contains("CODER_REDIRECT_TO_ACCESS_URL")
        })
        .await;
    assert_eq!(condition(&plane, "CoderdReachable")["status"], "True");
    let sent = coderd.calls().into_iter().filter(|call| call.status() == Some(307));
    for call in sent {
        assert_eq!(
            format!("{:?}", call.credential),
            "None",
            "{}: no token goes to whoever redirects",
            call.path
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_certificates_are_enough() {
    let env = OperatorAccessEnv::shared().await;
    let token = env.coderd().token_for(&[Role::Owner]);
    let (private, public) = (Ca::new("private"), Ca::new("public"));
    let self_signed = Pair::self_signed(&["coder.example.com"]);
    let names = ["coder.example.com", "*.coder.example.com"];
    let cases = [
        ("private-ca", private.server(&names), Some(private.certificate.clone())),
        // As one that the system trusts and that tells nobody who signed it.
        ("public-ca", public.server(&names), None),
        ("self-signed", self_signed.clone(), None),
        // cert-manager's issuer of self-signed certificates adds the leaf as its own authority.
        ("self-signed-ca", self_signed.clone(), Some(self_signed.certificate.clone())),
    ];
    let spec = json!({ "tls": { "secretNames": ["tls"] }, "operatorAccess": { "tokenSecretRef": { "name": "mine" } } });
    let secret = |pair: &Pair, ca: &Option<String>| {
        let mut data = json!({ "tls.crt": pair.certificate, "tls.key": pair.key });
        if let Some(ca) = ca {
            data["ca.crt"] = json!(ca);
        }
        data
    };
    let proven =
        |plane: &Value| is_ready(plane) && condition(plane, "OperatorAccessReady")["reason"] == "TokenProven";
    let mut planes = Vec::new();
    for (purpose, pair, ca) in &cases {
        let ns = env.cluster.namespace(purpose).await;
        env.coderd().present(&format!("coder.{ns}.svc.cluster.local"), pair);
        env.apply_secret(&ns, "mine", &json!({ "token": token })).await;
        env.apply_secret(&ns, "tls", &secret(pair, ca)).await;
        env.apply_control_plane(&ns, "coder", &spec).await;
        planes.push(ns);
    }
    for (ns, (purpose, ..)) in planes.iter().zip(&cases) {
        let plane = env.until(ns, "coder", purpose, proven).await;
        assert_eq!(plane["status"]["url"], format!("https://coder.{ns}.svc.cluster.local:443"));
    }

    // Renewed: coderd still has the one before, or already the next. Both are for the same name by the same authority.
    let ns = &planes[0];
    env.coderd().present(&format!("coder.{ns}.svc.cluster.local"), &private.server(&["coder.example.com"]));
    let plane = env.reconcile(ns, "coder", "renewed").await;
    assert_eq!(condition(&plane, "CoderdReachable")["reason"], "Answered", "{}", plane["status"]);

    // Somebody else's is refused, however good it is for the name.
    for (ns, pair) in [
        (&planes[0], Ca::new("other").server(&["coder.example.com"])),
        (&planes[0], private.server(&["elsewhere.example.com", &format!("coder.{ns}.svc.cluster.local")])),
        (&planes[2], Pair::self_signed(&["coder.example.com"])),
    ] {
        env.coderd().present(&format!("coder.{ns}.svc.cluster.local"), &pair);
        env.reconcile(ns, "coder", "stranger").await;
        let plane = env.until_reason(ns, "coder", "CoderdReachable", "Unreachable").await;
        assert_eq!(condition(&plane, "Ready")["reason"], "CoderdUnreachable");
        env.coderd().present(&format!("coder.{ns}.svc.cluster.local"), &self_signed);
    }
}

/// Type, reason and how often, of the Events that are warnings about these conditions.
async fn warnings(env: &OperatorAccessEnv, ns: &str) -> Vec<String> {
    let mut told = env.events_of(ns, "Ready").await;
    told.extend(env.events_of(ns, "CoderdReachable").await);
    told.retain(|one| one.starts_with("Warning"));
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn one_failed_question_does_not_flip_ready_and_two_do() {
    let env = OperatorAccessEnv::shared().await;
    let alone = env.alone("flaky");
    let (ns, coderd) = (&alone.namespace, &alone.coderd);
    env.apply_control_plane(ns, "coder", &json!({})).await;
    let ready = env.until(ns, "coder", "Ready", is_ready).await;
    let since = |plane: &Value, about: &str| condition(plane, about)["lastTransitionTime"].clone();
    let questions = ["GET /healthz", "GET /buildinfo"];
    let failed =
        questions.map(|route| coderd.inject(route, Occurrence::Next, Fault::cut_before_processing()));
    env.reconcile(ns, "coder", "once").await;
    until("each question to have failed once and to be asked again", LIMIT, async || {
        let hits = failed.iter().map(support::coderd::FaultHandle::hits).collect::<Vec<u64>>();
        holds(hits == [1, 1], format!("{hits:?}"))
    })
    .await;
    let plane = env.reconcile(ns, "coder", "over").await;
    for about in ["Ready", "CoderdReachable"] {
        assert_eq!(condition(&plane, about)["status"], "True", "{about}");
        assert_eq!(since(&plane, about), since(&ready, about), "{about} never changed");
    }
    assert_eq!(warnings(env, ns).await, Vec::<String>::new());

    let silent = coderd.inject(questions[0], Occurrence::Every, Fault::cut_before_processing());
    env.reconcile(ns, "coder", "twice").await;
    let plane = env.until_reason(ns, "coder", "Ready", "CoderdUnreachable").await;
    assert!(silent.hits() >= 2, "{} questions", silent.hits());
    assert_eq!(condition(&plane, "CoderdReachable")["reason"], "Unreachable");
    coderd.clear_faults();
    env.until(ns, "coder", "Ready again", is_ready).await;
}
