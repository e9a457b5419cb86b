//! Secrets and ConfigMaps that the spec lets a proxy read: a renewed certificate rolls it, and one that is not there is told and
//! changes nothing.

use crate::site::{Site, WORKLOAD};
use serde_json::{Value, json};
use support::objects::{condition, secret, text};

async fn certificate(site: &Site, text: &str) {
    site.put(&secret(&site.ns, "eu-tls", &json!({ "tls.crt": text, "tls.key": "key" }))).await;
}

fn marks(deployment: &Value) -> (&Value, &str, &str) {
    (
        &deployment["metadata"]["generation"],
        text(deployment, "/spec/template/metadata/annotations/coder.com~1checksum"),
        text(deployment, "/spec/template/metadata/annotations/checksum~1proxy-token"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_reaches_the_proxy_and_its_token_stays() {
    let site = Site::new("renewed").await;
    certificate(&site, "first").await;
    site.apply(&json!({ "tls": { "secretNames": ["eu-tls"] } })).await;
    site.comes().await;
    site.ready().await;
    let before = site.get("deployment", WORKLOAD).await.unwrap();
    let (generation, checksum, token) = marks(&before);
    certificate(&site, "second").await;
    let rolled = |object: &Value| marks(object).1 != checksum;
    let after = site.until_object("deployment", WORKLOAD, "to roll", rolled).await;
    assert_eq!(marks(&after).0.as_u64(), generation.as_u64().map(|number| number + 1), "once");
    assert!(!checksum.is_empty() && marks(&after).2 == token, "{after}");
    assert_eq!(site.only().regenerations, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_that_is_not_there_is_told_and_rolls_nothing_until_it_is_back() {
    let site = Site::with_proxy("lost").await;
    let map = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": site.ns },
            "data": { "CODER_VERBOSE": value } })
    };
    site.put(&map("true")).await;
    site.apply(&json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }] })).await;
    site.ready().await;
    let before = site.get("deployment", WORKLOAD).await.unwrap();
    site.remove("configmap", "settings").await;
    let told = site.until_reason("Ready", "ReferenceMissing").await;
    let expected =
        format!("ConfigMap {}/settings does not exist; create it or correct spec.envFrom", site.ns);
    assert_eq!(condition(&told, "Ready")["message"], expected);
    assert_eq!(site.get("deployment", WORKLOAD).await.unwrap()["spec"], before["spec"]);
    site.put(&map("false")).await;
    let rolled = |object: &Value| marks(object).1 != marks(&before).1;
    site.until_object("deployment", WORKLOAD, "to roll", rolled).await;
    site.ready().await;
}
