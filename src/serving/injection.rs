//! Decides which `caBundle` fields need our bundle and writes the JSON patch for exactly those.
//! It touches that one field of labelled objects whose Service is in our namespace, and never another byte.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;

/// The label that asks for injection.
pub(crate) const LABEL_SELECTOR: &str = "coder.com/inject-ca=true";

/// One `caBundle` field and the Service it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// Where in the object, as tokens of a JSON pointer.
    path: Vec<String>,
    /// The Service called there.
    pub service: String,
    namespace: String,
    bundle: Option<Vec<u8>>,
}

/// An object that carries CA bundles.
pub(crate) trait Target: Resource<DynamicType = ()> {
    /// Every `caBundle` field that belongs to a Service.
    fn fields(&self) -> Vec<Field>;
}

impl Target for MutatingWebhookConfiguration {
    fn fields(&self) -> Vec<Field> {
        webhooks(self.webhooks.iter().flatten().map(|webhook| &webhook.client_config))
    }
}

impl Target for ValidatingWebhookConfiguration {
    fn fields(&self) -> Vec<Field> {
        webhooks(self.webhooks.iter().flatten().map(|webhook| &webhook.client_config))
    }
}

impl Target for APIService {
    fn fields(&self) -> Vec<Field> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let Some((name, namespace)) =
            spec.service.as_ref().and_then(|service| service.name.clone().zip(service.namespace.clone()))
        else {
            return Vec::new();
        };
        let path = vec!["spec".to_owned(), "caBundle".to_owned()];
        vec![Field { path, service: name, namespace, bundle: bytes(spec.ca_bundle.as_ref()) }]
    }
}

fn webhooks<'a>(configs: impl Iterator<Item = &'a WebhookClientConfig>) -> Vec<Field> {
    let field = |(index, config): (usize, &WebhookClientConfig)| {
        let service = config.service.as_ref()?;
        let path = ["webhooks", &index.to_string(), "clientConfig", "caBundle"].map(str::to_owned).to_vec();
        let (service, namespace) = (service.name.clone(), service.namespace.clone());
        Some(Field { path, service, namespace, bundle: bytes(config.ca_bundle.as_ref()) })
    };
    configs.enumerate().filter_map(field).collect()
}

fn bytes(bundle: Option<&ByteString>) -> Option<Vec<u8>> {
    bundle.map(|bytes| bytes.0.clone())
}

/// The fields that are ours: another installation in another namespace looks after its own.
pub(crate) fn our_fields(target: &impl Target, namespace: &str) -> Vec<Field> {
    target.fields().into_iter().filter(|field| field.namespace == namespace).collect()
}

/// Whether every field of ours holds exactly this bundle.
pub(crate) fn carries(target: &impl Target, namespace: &str, bundle: &str) -> bool {
    our_fields(target, namespace).iter().all(|field| field.bundle.as_deref() == Some(bundle.as_bytes()))
}

/// Whether every field of ours trusts this certificate, perhaps among others.
pub(crate) fn trusts(target: &impl Target, namespace: &str, certificate: &str) -> bool {
    let trusting = |field: &Field| {
        let bundle = String::from_utf8_lossy(field.bundle.as_deref().unwrap_or_default()).into_owned();
        bundle.contains(certificate.trim())
    };
    our_fields(target, namespace).iter().all(trusting)
}

/// The patch that puts the bundle where it is missing, or `None` when there is nothing to do.
/// It fails on the server when the object changed since it was read.
pub(crate) fn patch(target: &impl Target, namespace: &str, bundle: &str) -> Option<Patch> {
    let missing: Vec<Field> = our_fields(target, namespace)
        .into_iter()
        .filter(|field| field.bundle.as_deref() != Some(bundle.as_bytes()))
        .collect();
    if missing.is_empty() {
        return None;
    }
    // Array positions are only good for the version they were read from.
    let unchanged = PatchOperation::Test(TestOperation {
        path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: target.meta().resource_version.clone().into(),
    });
    let value = serde_json::to_value(ByteString(bundle.as_bytes().to_vec())).unwrap_or_default();
    let additions = missing.into_iter().map(|field| {
        PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(&field.path), value: value.clone() })
    });
    Some(Patch(std::iter::once(unchanged).chain(additions).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn configuration(bundles: &[Option<&str>]) -> ValidatingWebhookConfiguration {
        let webhooks: Vec<_> = bundles
            .iter()
            .enumerate()
            .map(|(index, bundle)| {
                let namespace = if index == 0 { "ours" } else { "theirs" };
                let encoded = bundle.map(|text| ByteString(text.as_bytes().to_vec()));
                json!({
                    "name": format!("w{index}.coder.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
                    "clientConfig": { "service": { "name": "hooks", "namespace": namespace }, "caBundle": encoded },
                })
            })
            .collect();
        let object = json!({ "metadata": { "name": "v", "resourceVersion": "7" }, "webhooks": webhooks });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_our_namespace_is_touched_and_only_its_ca_bundle() {
        let patch = patch(&configuration(&[None, None]), "ours", "PEM").unwrap();
        let text = serde_json::to_value(&patch).unwrap();
        assert_eq!(
            text,
            json!([
                { "op": "test", "path": "/metadata/resourceVersion", "value": "7" },
                { "op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "UEVN" },
            ])
        );
    }

    #[test]
    fn a_target_that_carries_the_bundle_is_left_alone() {
        let target = configuration(&[Some("PEM"), None]);
        assert_eq!(patch(&target, "ours", "PEM"), None);
        assert!(carries(&target, "ours", "PEM"));
        assert!(!carries(&target, "ours", "PEM2"));
    }

    #[test]
    fn an_overlapping_bundle_trusts_each_of_its_certificates() {
        let target = configuration(&[Some("OLD\nNEW\n")]);
        assert!(trusts(&target, "ours", "NEW\n") && trusts(&target, "ours", "OLD"));
        assert!(!trusts(&target, "ours", "OTHER"));
    }

    #[test]
    fn a_webhook_by_url_has_no_field_of_ours() {
        let object = json!({ "metadata": { "name": "v" }, "webhooks": [{ "name": "a", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://example.com" } }] });
        let target: MutatingWebhookConfiguration = serde_json::from_value(object).unwrap();
        assert!(target.fields().is_empty());
    }
}
