//! Decides whether our webhooks are switched off in a namespace: then nobody was asked whether the authors of what is there
//! may have what they ask for. It never decides what follows.

use crate::kubernetes::{CallError, Kube, Target};
use crds::well_known::label::{ADMISSION, ADMISSION_DISABLED};
use serde_json::Value;

/// Whether they are switched off now.
pub(crate) async fn is_admission_disabled(kube: &Kube, name: &str) -> Result<bool, CallError> {
    let (kind, plural) = ("Namespace", "namespaces");
    let target = Target { api_version: "v1", kind, plural, namespace: "", name };
    Ok(is_disabled(kube.read(target).await?.as_ref()))
}

fn is_disabled(namespace: Option<&Value>) -> bool {
    namespace.is_some_and(|namespace| namespace["metadata"]["labels"][ADMISSION] == ADMISSION_DISABLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_one_value_of_the_label_disables_admission() {
        let namespace = |labels: Value| json!({ "metadata": { "labels": labels } });
        assert!(is_disabled(Some(&namespace(json!({ "coder.com/admission": "disabled" })))));
        assert!(!is_disabled(Some(&namespace(json!({ "coder.com/admission": "enabled" })))));
        assert!(!is_disabled(Some(&namespace(json!(null)))) && !is_disabled(None));
    }
}
