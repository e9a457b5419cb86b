//! The policy on the operator's patches: of labelled webhook configurations and APIServices the caBundle,
//! and nothing else of any.
//! Each case is a request with the rights of the shipped service account, answered by the real API server.

use serde_json::{Value, json};
use std::time::Duration;
use support::wait::holds;
use support::{Cluster, Installation, until};

const LIMIT: Duration = Duration::from_secs(30);
const LABELLED: &str = "v1.labelled.example.com";
const BARE: &str = "v1.bare.example.com";

fn api_service(name: &str, labels: &Value) -> Value {
    let group = name.trim_start_matches("v1.");
    json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": name, "labels": labels },
        "spec": { "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": { "namespace": "default", "name": "nobody" } } })
}

/// The certificate of the API server, as a caBundle has it.
async fn bundle(cluster: &Cluster) -> String {
    let words = "get configmap extension-apiserver-authentication -n kube-system -o json";
    let read: Value = serde_json::from_str(&cluster.kubectl(words).await.expect_ok()).unwrap();
    let pem = read["data"]["requestheader-client-ca-file"].as_str().expect("the front proxy has a CA");
    serde_json::to_value(k8s_openapi::ByteString(pem.as_bytes().to_vec()))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

/// What a merge patch by somebody is answered with; nothing is stored.
async fn answer(cluster: &Cluster, user: &str, name: &str, patch: &Value) -> Result<(), String> {
    let impersonated = if user.is_empty() { String::new() } else { format!("--as={user}") };
    let words = format!("patch apiservice {name} --type=merge --dry-run=server {impersonated} -p {patch}");
    let answer = cluster.kubectl(&words).await;
    if answer.ok { Ok(()) } else { Err(answer.stderr) }
}

#[tokio::test]
async fn of_an_api_service_the_operator_changes_the_bundle_of_labelled_ones_alone() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(&cluster, "ca-injection").await;
    let (user, bundle) = (installation.user(), bundle(&cluster).await);
    let labels = json!({ "coder.com/inject-ca": "true" });
    for object in [api_service(LABELLED, &labels), api_service(BARE, &json!({}))] {
        cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
    }
    let inject = json!({ "spec": { "caBundle": bundle } });
    // A policy counts a moment after it is stored.
    until("the policy to be in force", LIMIT, async || {
        let answer = answer(&cluster, &user, BARE, &inject).await;
        let refused = answer.as_ref().is_err_and(|said| said.contains("labelled coder.com/inject-ca=true"));
        holds(refused, format!("{answer:?}"))
    })
    .await;
    assert_eq!(answer(&cluster, &user, LABELLED, &inject).await, Ok(()));
    for (path, change) in [
        ("spec", json!({ "spec": { "service": { "name": "somebody" } } })),
        ("spec", json!({ "spec": { "groupPriorityMinimum": 1000 } })),
        ("spec", json!({ "spec": { "versionPriority": 1 } })),
        ("spec", json!({ "spec": { "insecureSkipTLSVerify": true } })),
        ("spec", json!({ "spec": { "service": null } })),
        ("metadata", json!({ "metadata": { "labels": { "coder.com/inject-ca": null } } })),
        ("metadata", json!({ "metadata": { "annotations": { "a": "b" } } })),
        ("metadata", json!({ "metadata": { "finalizers": ["example.com/hold"] } })),
    ] {
        let refused = answer(&cluster, &user, LABELLED, &change).await.expect_err(&change.to_string());
        let said = format!("{path}: the operator may change caBundle alone");
        assert!(refused.contains(&said), "{change}: {refused}");
    }
    let by_label = json!({ "metadata": { "labels": labels }, "spec": inject["spec"] });
    let refused =
        answer(&cluster, &user, BARE, &by_label).await.expect_err("it labels what it wants to change");
    assert!(refused.contains("label the object"), "{refused}");
    let priority = json!({ "spec": { "groupPriorityMinimum": 1000 } });
    for name in [LABELLED, BARE] {
        assert_eq!(answer(&cluster, "", name, &priority).await, Ok(()), "an administrator is not limited");
    }
    for name in [LABELLED, BARE] {
        cluster.kubectl(&format!("delete apiservice {name}")).await.expect_ok();
    }
}

/// Of both kinds alike: what a webhook is called for, and where, is not the operator's to change.
#[tokio::test]
async fn of_a_webhook_configuration_the_operator_changes_the_bundle_of_labelled_ones_alone() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(&cluster, "ca-of-webhooks").await;
    let (user, bundle) = (installation.user(), bundle(&cluster).await);
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let configuration = |name: &str, labels: Value| {
            json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": { "name": name, "labels": labels },
                "webhooks": [{ "name": "none.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": { "service": { "namespace": "default", "name": "nobody" } },
                    "rules": [{ "apiGroups": ["none.example.com"], "apiVersions": ["v1"],
                        "resources": ["nothing"], "operations": ["CREATE"] }] }] })
        };
        let [labelled, bare] = ["labelled", "bare"].map(|name| format!("{}-{name}", installation.namespace));
        for object in [
            configuration(&labelled, json!({ "coder.com/inject-ca": "true" })),
            configuration(&bare, json!({})),
        ] {
            cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
        }
        let patch = async |user: &str, name: &str, operation: &str, path: &str, value: &Value| {
            let impersonated = if user.is_empty() { String::new() } else { format!("--as={user}") };
            let patch = json!([{ "op": operation, "path": path, "value": value }]);
            let patch = patch.to_string();
            let words = format!("patch {kind} {name} --type=json --dry-run=server {impersonated} -p {patch}");
            let answer = cluster.kubectl(&words).await;
            if answer.ok { Ok(()) } else { Err(answer.stderr) }
        };
        let (field, value) = ("/webhooks/0/clientConfig/caBundle", json!(bundle));
        until("the policy to be in force", LIMIT, async || {
            let answer = patch(&user, &bare, "add", field, &value).await;
            let refused = answer.as_ref().is_err_and(|said| said.contains("label the object"));
            holds(refused, format!("{answer:?}"))
        })
        .await;
        assert_eq!(patch(&user, &labelled, "add", field, &value).await, Ok(()), "{kind}");
        for (path, value) in [
            ("/webhooks/0/failurePolicy", json!("Ignore")),
            ("/webhooks/0/clientConfig/service/name", json!("somebody")),
            ("/webhooks/0/rules/0/resources", json!(["everything"])),
            ("/webhooks/0/timeoutSeconds", json!(1)),
            ("/webhooks/0/objectSelector", json!({ "matchLabels": { "a": "b" } })),
            ("/webhooks/0/name", json!("other.example.com")),
            ("/webhooks", json!([])),
            ("/metadata/labels", json!({})),
        ] {
            let refused = patch(&user, &labelled, "replace", path, &value).await.expect_err(path);
            assert!(refused.contains("the operator may change caBundle alone"), "{kind} {path}: {refused}");
            let administrator = patch("", &labelled, "replace", path, &value).await;
            assert_eq!(administrator, Ok(()), "{kind} {path}: an administrator is not limited");
        }
        for name in [labelled, bare] {
            cluster.kubectl(&format!("delete {kind} {name}")).await.expect_ok();
        }
    }
}
