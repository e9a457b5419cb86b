//! The owner of children as a reconcile read it, which is what every step of applying them is given. It only tells which
//! live object is whose.

use super::{Child, drift};
use serde_json::Value;

/// An owner and what runs of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerState<'a> {
    /// The object as it is stored.
    pub(crate) object: &'a Value,
    /// Its uid.
    pub(crate) uid: &'a str,
    /// The Deployment of the name that ours has, whoever it belongs to.
    pub(crate) deployment: Option<&'a Value>,
}

impl<'a> OwnerState<'a> {
    /// Whether a live object is this child of the owner.
    pub(crate) fn is_ours(&self, child: &'a Child) -> impl Fn(&Value) -> bool + 'a {
        let uid = self.uid;
        move |live| drift::is_child_of(live, uid, &child.manifest["metadata"]["labels"])
    }

    /// The Deployment if it is controlled by this very owner.
    pub(crate) fn running(&self) -> Option<&'a Value> {
        self.deployment.filter(|live| drift::is_controlled_by(live, self.uid))
    }
}
