//! Brings one child to what it should be: read it, see whether it is ours, apply it if it differs.
//! It never takes over an object of somebody else, and writes nothing where nothing differs.

use super::{Child, ChildCache, ChildKind, Snapshot, drift, helm};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, Kube, Target};
use crds::well_known::{app_name, label};
use json_patch::Patch;
use serde_json::Value;

/// What became of a child.
#[derive(Debug)]
pub enum ChildState {
    /// The object is as it should be; as it is now.
    InPlace(Value),
    /// An object of this name belongs to somebody else.
    Conflict(String),
    /// The API server does not take it, and will not until something changes. What is there and ours goes on.
    Refused(String, Option<Value>),
    /// It did not work this time. What was there and ours when it was read goes on.
    Failed(String, Option<Value>),
    /// The API server does not know the kind, or there is no such namespace.
    KindMissing(String),
}

impl ChildState {
    /// What became of a call about children that is no apply.
    pub(crate) fn of_call(error: &CallError) -> Self {
        Self::failed(error, None)
    }

    fn failed(error: &CallError, ours: Option<Value>) -> Self {
        let text = error.to_string();
        match error {
            error if error.is_not_found() => Self::KindMissing(text),
            // Somebody else was faster: what they wrote is looked at next time.
            error if error.is_outdated() => Self::Failed(text, ours),
            error if error.is_refused() => Self::Refused(text, ours),
            _ => Self::Failed(text, ours),
        }
    }

    /// The object as it is, or as it was read, if it is there and ours, whether or not it is as it should be.
    pub fn ours(self) -> Option<Value> {
        match self {
            Self::InPlace(live) | Self::Refused(_, Some(live)) | Self::Failed(_, Some(live)) => Some(live),
            _ => None,
        }
    }
}

/// What stands in the way of children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// Objects of our names that belong to somebody else.
    pub conflicts: Vec<String>,
    /// Children that the API server refuses.
    pub refused: Vec<String>,
    /// Children that could not be applied this time.
    pub failed: Vec<String>,
    /// Children that the pods run without and that could not be applied.
    pub unimportant: Vec<String>,
}

impl Problems {
    /// Notes what stands in the way of a child that is needed.
    pub fn note(&mut self, state: &ChildState) {
        match state {
            ChildState::InPlace(_) => {}
            ChildState::Conflict(message) => self.conflicts.push(message.clone()),
            ChildState::Refused(message, _) => self.refused.push(message.clone()),
            ChildState::Failed(message, _) | ChildState::KindMissing(message) => {
                self.failed.push(message.clone())
            }
        }
    }

    /// The same of a child that the pods run without. A kind that the cluster lacks is nothing wrong.
    pub fn note_unimportant(&mut self, state: ChildState) {
        match state {
            ChildState::InPlace(_) | ChildState::KindMissing(_) => {}
            ChildState::Conflict(why) | ChildState::Refused(why, _) | ChildState::Failed(why, _) => {
                self.unimportant.push(why);
            }
        }
    }

    /// Whether a child that is needed is not in place.
    pub fn are_serious(&self) -> bool {
        let Self { conflicts, refused, failed, unimportant: _ } = self;
        [conflicts, refused, failed].iter().any(|all| !all.is_empty())
    }
}

/// Who applies children, and what is known of them.
#[derive(Clone, Copy)]
pub struct Applier<'a> {
    /// The API server.
    pub kube: &'a Kube,
    /// What is known of children.
    pub cache: &'a ChildCache,
    /// Whose children they are.
    pub owner: &'a ObjectKey,
    /// The children of a reconcile that changes none of them.
    pub snapshot: Option<&'a Snapshot>,
}

impl Applier<'_> {
    /// What is known of a child in a reconcile that changes none.
    pub fn confirmed(&self, child: &Child) -> Option<Value> {
        self.snapshot.and_then(|snapshot| snapshot.of(child))
    }

    fn unchanged(&self, child: &Child) -> Option<ChildState> {
        self.confirmed(child).map(ChildState::InPlace)
    }

    /// Takes note of a Deployment that is there and ours, as it was read or applied.
    pub fn note_deployment(&self, child: &Child, live: &Value) {
        if is_in_place(live, child) {
            self.cache.note(self.owner, child, live);
        } else {
            self.cache.note_owner(self.owner, child, live);
        }
    }

    /// Takes note of what became of a child.
    fn noted(&self, child: &Child, state: ChildState) -> ChildState {
        match &state {
            // An apply may leave something behind that takes another one, such as the name of an ExternalName Service.
            ChildState::InPlace(live) if child.is_held_by(live) => self.cache.note(self.owner, child, live),
            _ => self.cache.forget(child),
        }
        state
    }

    /// Brings a child to what it should be, unless it is known to be.
    pub async fn apply(&self, child: &Child, is_ours: impl Fn(&Value) -> bool) -> ChildState {
        let cached = || self.cache.up_to_date(child).map(ChildState::InPlace);
        match self.unchanged(child).or_else(cached) {
            Some(state) => state,
            None => self.read_and_apply(child, is_ours).await,
        }
    }

    /// The same for a child that is read whatever is known of it.
    pub async fn read_and_apply(&self, child: &Child, is_ours: impl Fn(&Value) -> bool) -> ChildState {
        let state = match self.kube.read(child.target()).await {
            Ok(live) => apply_over(self.kube, child, live, is_ours).await,
            Err(error) => ChildState::failed(&error, None),
        };
        self.noted(child, state)
    }

    /// The same for an account: whoever has it may do what it may, so that one of somebody else must never become ours, not
    /// even if he makes it while we look. One that is not there is created, which fails where another was faster; ours is
    /// applied to the very version that was read. What the create wrote becomes ours to apply with the first change.
    pub async fn create_or_apply(&self, child: &Child, is_ours: impl Fn(&Value) -> bool) -> ChildState {
        if let Some(unchanged) = self.unchanged(child) {
            return unchanged;
        }
        let made = if self.cache.is_absent(child) { create(self.kube, child).await } else { None };
        let state = match made {
            Some(state) => state,
            None => read_and_apply_version(self.kube, child, is_ours).await,
        };
        self.noted(child, state)
    }
}

/// Whether a live object needs nothing: it holds what is wanted, and no mark of ours must be put right.
pub(crate) fn is_in_place(live: &Value, child: &Child) -> bool {
    let is_marked = drift::adoption(live).is_some() || drift::disowning(live).is_some();
    !is_marked && child.is_held_by(live)
}

/// Brings a child to what it should be where it was read already; `is_ours` tells whether an object that is there is the one
/// meant.
pub(crate) async fn apply_over(
    kube: &Kube,
    child: &Child,
    mut live: Option<Value>,
    is_ours: impl Fn(&Value) -> bool,
) -> ChildState {
    let applied = match apply_once(kube, child, live.as_ref(), &is_ours).await {
        // Somebody else was faster, the Deployment controller for example: what they wrote is looked at once more.
        Err(error) if error.is_outdated() => match kube.read(child.target()).await {
            Ok(again) => {
                live = again;
                apply_once(kube, child, live.as_ref(), &is_ours).await
            }
            Err(error) => Err(error),
        },
        applied => applied,
    };
    applied.unwrap_or_else(|error| ChildState::failed(&error, live.filter(is_ours)))
}

/// Creates a child without a look. None if it may be there all the same: somebody was faster, or it was refused, which
/// quotas and policies do before anybody looks whether it is there.
async fn create(kube: &Kube, child: &Child) -> Option<ChildState> {
    match kube.create(child.target(), &child.wanted()).await {
        Ok(made) => Some(ChildState::InPlace(made)),
        Err(error) if error.is_already_exists() || error.is_refused() => None,
        Err(error) => Some(ChildState::failed(&error, None)),
    }
}

async fn read_and_apply_version(kube: &Kube, child: &Child, is_ours: impl Fn(&Value) -> bool) -> ChildState {
    match kube.read(child.target()).await {
        Ok(Some(live)) => apply_version(kube, child, live, is_ours).await,
        Ok(None) => match kube.create(child.target(), &child.wanted()).await {
            Ok(made) => ChildState::InPlace(made),
            Err(error) if error.is_already_exists() => ChildState::Failed(error.to_string(), None),
            Err(error) => ChildState::failed(&error, None),
        },
        Err(error) => ChildState::failed(&error, None),
    }
}

async fn apply_version(
    kube: &Kube,
    child: &Child,
    mut live: Value,
    is_ours: impl Fn(&Value) -> bool,
) -> ChildState {
    let applied = match apply_version_once(kube, child, &live, &is_ours).await {
        // Somebody else was faster: some clusters write the names of Secrets into every account that is made. Whatever it
        // became is looked at once more.
        Err(error) if error.is_outdated() => match kube.read(child.target()).await {
            Ok(Some(again)) => {
                live = again;
                apply_version_once(kube, child, &live, &is_ours).await
            }
            Ok(None) => return ChildState::failed(&error, None),
            Err(error) => Err(error),
        },
        applied => applied,
    };
    applied.unwrap_or_else(|error| ChildState::failed(&error, Some(live).filter(is_ours)))
}

async fn apply_version_once(
    kube: &Kube,
    child: &Child,
    live: &Value,
    is_ours: &impl Fn(&Value) -> bool,
) -> Result<ChildState, CallError> {
    let target = child.target();
    if !is_ours(live) {
        return Ok(ChildState::Conflict(conflict(child, live)));
    }
    if child.is_held_by(live) {
        return Ok(ChildState::InPlace(live.clone()));
    }
    tracing::info!(kind = target.kind, namespace = target.namespace, name = target.name, "applying");
    let read = match drift::adoption(live) {
        Some(patch) => kube.patch(target, patch).await?,
        None => live.clone(),
    };
    let mut wanted = child.wanted();
    wanted["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"].clone();
    kube.apply(target, &wanted).await.map(ChildState::InPlace)
}

async fn apply_once(
    kube: &Kube,
    child: &Child,
    live: Option<&Value>,
    is_ours: &impl Fn(&Value) -> bool,
) -> Result<ChildState, CallError> {
    let target = child.target();
    if let Some(live) = live {
        if !is_ours(live) {
            return Ok(ChildState::Conflict(conflict(child, live)));
        }
        if is_in_place(live, child) {
            return Ok(ChildState::InPlace(live.clone()));
        }
    }
    let applied = put(kube, target, live, &child.wanted()).await;
    // A cluster that lacks the kind is asked again each time, and nothing happens.
    if !applied.as_ref().is_err_and(CallError::is_not_found) {
        tracing::info!(kind = target.kind, namespace = target.namespace, name = target.name, "applying");
    }
    applied.map(ChildState::InPlace)
}

/// Applies ours, over whatever somebody else made of it. What we applied before and no longer want goes with the apply
/// itself, so that a change of the spec is one change of the object.
async fn put(
    kube: &Kube,
    target: Target<'_>,
    live: Option<&Value>,
    wanted: &Value,
) -> Result<Value, CallError> {
    let Some(live) = live else { return kube.apply(target, wanted).await };
    let mut live = disowned(kube, target, live.clone()).await?;
    if let Some(patch) = drift::adoption(&live) {
        live = kube.patch(target, patch).await?;
    }
    if let Some(patch) = drift::clearing(&live, wanted) {
        live = mended(kube, target, patch).await?;
    }
    let refusal = match kube.apply(target, wanted).await {
        Err(error) if error.is_invalid() => error,
        answer => return answer,
    };
    // Perhaps not ours is wrong, but ours merged with what somebody else put there.
    let Some(patch) = drift::restoring(&live, wanted) else { return Err(refusal) };
    match mended(kube, target, patch).await {
        Ok(_) => kube.apply(target, wanted).await,
        Err(error) if error.is_refused() && !error.is_outdated() => Err(refusal),
        Err(error) => Err(error),
    }
}

/// Puts lists right under a name of its own, so that a crash before the mark is off leaves nothing that looks as if we
/// had applied it; the next reconcile takes the mark off.
async fn mended(kube: &Kube, target: Target<'_>, patch: Patch) -> Result<Value, CallError> {
    disowned(kube, target, kube.patch_as(drift::MENDER, target, patch).await?).await
}

/// The object without our mark on what is put right but may hold things of others.
async fn disowned(kube: &Kube, target: Target<'_>, live: Value) -> Result<Value, CallError> {
    match drift::disowning(&live) {
        Some(patch) => kube.patch(target, patch).await,
        None => Ok(live),
    }
}

fn conflict(child: &Child, live: &Value) -> String {
    let (kind, name) = (child.kind.as_str(), &child.name);
    let begin = format!("{kind} {name} exists and was not created for this object; it is left alone");
    // Only a control plane takes over what a chart of Coder installed.
    let is_server = child.manifest["metadata"]["labels"][label::NAME] == app_name::CONTROL_PLANE;
    if let Some(annotation) = helm::way_out(live).filter(|_| is_server) {
        return format!(
            "{begin}: annotate this object with {annotation} to take it over, or give it another name"
        );
    }
    let advice = match child.kind {
        ChildKind::ServiceAccount => {
            "set spec.serviceAccount.name and disableCreate: true to use it, or give this object another name"
        }
        _ => "give this object another name, or remove the other one yourself once nothing uses it",
    };
    format!("{begin}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_ours_is_handed_on_whether_or_not_it_could_be_applied() {
        let live = || Some(json!({"kind": "Service"}));
        for applied in [
            ChildState::InPlace(json!({"kind": "Service"})),
            ChildState::Refused("quota".to_owned(), live()),
            ChildState::Failed("timed out".to_owned(), live()),
        ] {
            assert_eq!(applied.ours(), live());
        }
        for applied in [
            ChildState::Refused(String::new(), None),
            ChildState::Failed(String::new(), None),
            ChildState::Conflict(String::new()),
            ChildState::KindMissing(String::new()),
        ] {
            assert_eq!(applied.ours(), None);
        }
    }

    #[test]
    fn the_advice_is_one_that_can_be_followed() {
        let labels = json!({ label::NAME: app_name::CONTROL_PLANE });
        let told = |kind, live: &Value| {
            conflict(&Child::new(kind, "a", "coder", json!({ "metadata": { "labels": labels } })), live)
        };
        let strangers = json!({ "metadata": { "namespace": "a" } });
        assert!(
            told(ChildKind::ServiceAccount, &strangers)
                .contains("spec.serviceAccount.name and disableCreate: true")
        );
        assert_eq!(
            told(ChildKind::Service, &strangers),
            "Service coder exists and was not created for this object; it is left alone: give this object another name, or remove \
             the other one yourself once nothing uses it"
        );
        let of_helm = json!({ "metadata": { "namespace": "a", "labels": { label::MANAGED_BY: "Helm" },
            "annotations": { "meta.helm.sh/release-name": "prod", "meta.helm.sh/release-namespace": "a" } } });
        assert!(told(ChildKind::Service, &of_helm).contains("coder.com/adopt-helm-release: prod"));
        let daemon = Child::new(ChildKind::Deployment, "a", "coder", json!({}));
        assert!(!conflict(&daemon, &of_helm).contains("adopt-helm-release"), "of another kind");
    }
}
