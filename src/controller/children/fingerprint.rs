//! Tells what was applied last by the digest of its manifest, so that a field we no longer want is noticed. It is compared as a
//! whole in memory; the annotation of a live object has its beginning.

use crds::well_known::annotation;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// Bytes that the annotation shows.
const SHOWN: usize = 8;

/// The digest of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a manifest.
    pub fn of(manifest: &Value) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, manifest.to_string().as_bytes()).as_ref());
        Self(bytes)
    }

    fn text(self) -> String {
        self.0[..SHOWN].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The manifest with it on it.
    pub fn marked(self, mut manifest: Value) -> Value {
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations[annotation::FINGERPRINT] = json!(self.text());
        }
        manifest
    }

    /// Whether a live object carries it.
    pub fn is_on(self, live: &Value) -> bool {
        live["metadata"]["annotations"][annotation::FINGERPRINT].as_str() == Some(&self.text())
    }

    /// Takes any off a manifest.
    pub fn remove(manifest: &mut Value) {
        if let Some(Value::Object(annotations)) = manifest.pointer_mut("/metadata/annotations") {
            annotations.remove(annotation::FINGERPRINT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_no_longer_wanted_changes_it() {
        let made = |spec: Value| {
            let manifest = json!({"metadata": {"name": "a"}, "spec": spec});
            let fingerprint = Fingerprint::of(&manifest);
            (fingerprint, fingerprint.marked(manifest))
        };
        let ((one, live), (other, _)) = (made(json!({"x": 1})), made(json!({})));
        assert!(one.is_on(&live) && !other.is_on(&live), "an object made from the first is not the second");
        assert_eq!(live["metadata"]["annotations"][annotation::FINGERPRINT].as_str().unwrap().len(), 16);
        assert!(!one.is_on(&json!({})));
        let mut bare = live.clone();
        Fingerprint::remove(&mut bare);
        assert_eq!(bare["metadata"]["annotations"], json!({}));
    }
}
