//! Tells whether somebody else wrote the record of an operator's token, from what passes by of its metadata.
//! It keeps a mark and a version of each record, never a content.

use crate::controller::control_plane::access::WRITTEN_OVER;
use crate::kubernetes::Change;
use crds::well_known::{MANAGER, label};
use std::collections::BTreeMap;

/// The records as they passed by last. Every write of ours carries another mark, so that one with the same mark and
/// another version is somebody else's. Versions alone would not do: a write of ours may pass by here before we know which
/// version it made, and a reconcile for each of our own writes would undo the pauses between failures.
pub(super) struct Records {
    /// Records are kept there and nowhere else, whatever labels a Secret has.
    operator_namespace: String,
    seen: BTreeMap<Option<String>, Seen>,
}

#[derive(PartialEq, Eq)]
struct Seen {
    mark: Option<String>,
    version: Option<String>,
}

impl Records {
    /// No records yet; they will be in this namespace.
    pub(super) fn of(operator_namespace: &str) -> Self {
        Self { operator_namespace: operator_namespace.to_owned(), seen: BTreeMap::new() }
    }

    /// Takes note of a Secret that changed; whether it is a record that is gone or that somebody else wrote.
    pub(super) fn is_lost(&mut self, change: &Change) -> bool {
        let metadata = &change.metadata;
        let labelled = |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name));
        if metadata.namespace.as_deref() != Some(&self.operator_namespace)
            || labelled(label::MANAGED_BY).map(String::as_str) != Some(MANAGER)
            || labelled(label::CONTROL_PLANE_NAMESPACE).is_none()
        {
            return false;
        }
        let key = metadata.name.clone();
        if change.gone {
            self.seen.remove(&key);
            return true;
        }
        let mark = metadata.annotations.as_ref().and_then(|all| all.get(WRITTEN_OVER)).cloned();
        let now = Seen { mark, version: metadata.resource_version.clone() };
        let before = self.seen.insert(key, Seen { mark: now.mark.clone(), version: now.version.clone() });
        before.is_some_and(|before| {
            before.version != now.version && (now.mark.is_none() || before.mark == now.mark)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn change(version: &str, mark: Value, gone: bool) -> Change {
        let metadata = json!({ "name": "team.coder.operator-token", "namespace": "operator",
            "resourceVersion": version, "annotations": { WRITTEN_OVER: mark },
            "labels": { "app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane-namespace": "team" } });
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    #[test]
    fn what_others_write_is_news_and_what_we_write_is_not() {
        let mut records = Records::of("operator");
        for (version, mark, lost) in [
            ("1", "", false),
            ("2", "1", false),
            ("3", "2", false),
            // Somebody empties it: the mark stays.
            ("4", "2", true),
            ("5", "4", false),
            // Seen again after a watch that was cut.
            ("5", "4", false),
            ("6", "4", true),
        ] {
            assert_eq!(records.is_lost(&change(version, json!(mark), false)), lost, "{version}");
        }
        let mut bare = change("7", json!(""), false);
        bare.metadata.annotations = None;
        assert!(records.is_lost(&bare), "somebody removed the mark");
        assert!(records.is_lost(&change("7", json!("4"), true)));
        assert!(!records.is_lost(&change("9", json!("4"), false)), "made anew");
    }

    #[test]
    fn secrets_of_others_are_not_looked_at() {
        let mut records = Records::of("operator");
        let mut other = change("1", json!(""), true);
        other.metadata.labels = None;
        assert!(!records.is_lost(&other));
        let tenants = || Change { gone: true, ..change("1", json!(""), true) };
        for mut elsewhere in [tenants(), Change { gone: false, ..tenants() }] {
            elsewhere.metadata.namespace = Some("tenant".to_owned());
            assert!(!records.is_lost(&elsewhere), "labels can be written by anybody, the namespace is ours");
        }
        assert!(records.seen.is_empty());
    }
}
