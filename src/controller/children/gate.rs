//! Finds out before anything is applied what may be: whether admission is disabled in the namespace, and what is held back
//! then. What is held back is decided in `withheld`; nothing is written here.

use super::apply::is_in_place;
use super::deployment::FoundDeployment;
use super::withheld::{self, Withheld};
use super::{Child, ChildCache, ChildKind, Snapshot};
use crate::control_plane_access::admission::is_admission_disabled;
use crate::controller::object::Origin;
use crate::kubernetes::{CallError, Kube};
use serde_json::Value;

/// What may be applied.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Whether admission is disabled. Not known, and not needed, where nothing is applied.
    pub(crate) admission_disabled: bool,
    /// What is left as it is then.
    pub(crate) withheld: Withheld,
    /// Every child, where all of them are in place, nothing is pruned and nothing is sent: such a reconcile changes no
    /// child, whatever becomes of one meanwhile. The next one does.
    pub(crate) snapshot: Option<Snapshot>,
}

/// What may be applied of the children of an object in the namespace `home`: the namespace is read now, unless there is a
/// `snapshot`, by which nothing is applied, so that nothing is widened. None where something would be applied and the object
/// was not read: on the strength of what a watch has shown nothing is changed. `is_of` tells whether a live object belongs to
/// the very uid of the owner; a mark that anybody can write is not enough here.
pub(crate) async fn gate<'a>(
    kube: &Kube,
    home: &str,
    origin: Origin,
    snapshot: Option<Snapshot>,
    children: impl Iterator<Item = &'a Child>,
    is_of: impl Fn(&Value, &Child) -> bool,
) -> Result<Option<Gate>, CallError> {
    if snapshot.is_none() && origin == Origin::Watch {
        return Ok(None);
    }
    if snapshot.is_some() || !is_admission_disabled(kube, home).await? {
        return Ok(Some(Gate { snapshot, ..Gate::default() }));
    }
    let mut live = Vec::new();
    // What is elsewhere is not applied at all, and nobody can look at it.
    for child in children.filter(|child| kube.scope().contains(&child.namespace)) {
        live.push((child, kube.read(child.target()).await?.filter(|live| is_of(live, child))));
    }
    Ok(Some(Gate { admission_disabled: true, withheld: withheld::withheld(home, &live), snapshot: None }))
}

/// Every child, if all of them are known to be what they should be. A Deployment that was read has been looked at; one that was
/// noted is looked up like any other child.
pub(crate) fn unchanged<'a>(
    cache: &ChildCache,
    children: impl Iterator<Item = &'a Child>,
    deployment: &FoundDeployment,
) -> Option<Snapshot> {
    let is_looked_up = |child: &&Child| deployment.is_noted || child.kind != ChildKind::Deployment;
    let (looked_up, read): (Vec<&Child>, Vec<&Child>) = children.partition(is_looked_up);
    let runs = |child: &&Child| deployment.live.as_ref().is_some_and(|live| is_in_place(live, child));
    read.iter().all(runs).then(|| cache.all_up_to_date(looked_up.into_iter()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::children::SharedChildCache;
    use crate::controller::identity::ObjectKey;
    use crate::kubernetes::Change;
    use serde_json::{from_value, json};
    use std::sync::Arc;

    fn child(kind: ChildKind, replicas: i64) -> Child {
        let metadata = json!({ "name": "coder", "namespace": "team" });
        Child::new(kind, "team", "coder", json!({ "metadata": metadata, "spec": { "replicas": replicas } }))
    }

    /// A child as the API server has it.
    fn live(child: &Child) -> Value {
        let mut live = child.wanted();
        live["metadata"]["resourceVersion"] = json!("7");
        live
    }

    /// What is known of these children, as they are.
    fn cache_of(children: &[&Child]) -> ChildCache {
        let shared: Arc<SharedChildCache> = Arc::default();
        let cache = ChildCache::of("CoderControlPlane", shared.clone());
        let owner = ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() };
        for child in children {
            let live = live(child);
            shared.end_list("", child.kind);
            cache.note(&owner, child, &live);
            let metadata = from_value(live["metadata"].clone()).unwrap();
            shared.seen(child.kind, &Change { metadata, gone: false });
        }
        cache
    }

    #[test]
    fn nothing_changes_where_every_child_is_known_and_the_deployment_was_looked_at_or_noted() {
        let (budget, deployment) =
            (child(ChildKind::PodDisruptionBudget, 1), child(ChildKind::Deployment, 1));
        let both = [&budget, &deployment];
        let scaled = child(ChildKind::Deployment, 2);
        let found = |live: Option<Value>, is_noted| FoundDeployment { live, is_noted };
        let is_unchanged = |known: &[&Child], wanted: &[&Child], found: &FoundDeployment| {
            unchanged(&cache_of(known), wanted.iter().copied(), found).is_some()
        };
        let read = found(Some(live(&deployment)), false);
        assert!(is_unchanged(&[&budget], &both, &read), "it needs not be known if it was read");
        assert!(!is_unchanged(&both, &[&budget, &scaled], &read), "another number of replicas is wanted");
        assert!(!is_unchanged(&both, &both, &found(None, false)), "it is not there");
        assert!(!is_unchanged(&[], &both, &read), "the other child is not known");
        let noted = found(Some(json!({})), true);
        assert!(is_unchanged(&both, &both, &noted));
        assert!(!is_unchanged(&[&budget], &both, &noted), "what was noted is looked up");
        assert!(!is_unchanged(&both, &[&budget, &scaled], &noted));
        assert!(is_unchanged(&[&budget], &[&budget], &found(None, false)), "no Deployment is wanted");
    }
}
