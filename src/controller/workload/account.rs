//! Decides the ServiceAccount that pods run as.
//! Never builds an account that somebody else makes.

use crate::controller::children::{Child, ChildOwner, StringMap, non_empty};
use crds::shared::ServiceAccountSpec;
use k8s_openapi::api::core::v1::ServiceAccount;

/// The account of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether we make it.
    pub create: bool,
    /// Labels of the spec.
    pub labels: StringMap,
    /// Annotations of the spec.
    pub annotations: StringMap,
}

/// The account of this name, as a spec asks for it.
pub(crate) fn resolve(name: &str, spec: Option<&ServiceAccountSpec>) -> Account {
    let given = spec.cloned().unwrap_or_default();
    Account {
        name: name.to_owned(),
        create: !given.is_given(),
        labels: given.labels,
        annotations: given.annotations,
    }
}

/// The account, unless the spec says that somebody else makes it. Labels of the spec are added to ours and never
/// replace them: the operator finds its objects by those.
pub(crate) fn child(owner: &ChildOwner, account: &Account) -> Option<Child> {
    let account = Some(account).filter(|account| account.create)?;
    let mut metadata = owner.metadata(&account.name);
    metadata.labels = Some(owner.labels_over(&account.labels));
    metadata.annotations = non_empty(&account.annotations);
    Some(Child::of(&ServiceAccount { metadata, ..Default::default() }))
}
