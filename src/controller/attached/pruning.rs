//! Prunes what an earlier generation of an object asked for, once for each and whenever it is asked for. What is no longer wanted
//! is said by the kind.

use crate::controller::children::accounts::{self, AccountWanted};
use crate::controller::children::apply::Problems;
use crate::controller::children::pruned::{AskedFor, PruneMemory};
use crate::controller::children::{Child, ChildCache, ChildKind, prune};
use crate::controller::identity::{ObjectKey, Owner};
use crate::kubernetes::{CallError, Kube};

/// What is pruned, and what is known of it.
pub(crate) struct Pruning<'a> {
    pub(crate) kube: &'a Kube,
    pub(crate) cache: &'a ChildCache,
    /// For which objects everything no longer wanted was pruned.
    pub(crate) pruned: &'a PruneMemory,
    pub(crate) key: &'a ObjectKey,
    pub(crate) asked_for: AskedFor,
    pub(crate) uid: &'a str,
    /// The name of the Deployment, and of whatever else there is one of.
    pub(crate) workload: &'a str,
    /// The account that is asked for.
    pub(crate) account: &'a str,
    /// Whether we make it.
    pub(crate) makes_account: bool,
    /// Every child.
    pub(crate) children: Vec<&'a Child>,
    /// The kinds of which there is none.
    pub(crate) absent: Vec<ChildKind>,
}

impl Pruning<'_> {
    /// Whether nothing is left of what an earlier generation asked for.
    pub(crate) fn is_done(&self) -> bool {
        let unwanted = self.cache.unwanted(self.key, self.uid, self.children.iter().copied());
        self.pruned.is_done(self.key, self.asked_for.clone(), &unwanted, false)
    }

    /// Removes it; returns whether nothing of it is left. `rolled` says that every pod runs as the account that is asked for.
    pub(crate) async fn prune(
        &self,
        rolled: bool,
        admission_disabled: bool,
        problems: &mut Problems,
    ) -> bool {
        if self.is_done() {
            return true;
        }
        let unwanted = self.cache.unwanted(self.key, self.uid, self.children.iter().copied());
        // What an object asked for before this term the first list of the watches has shown.
        let everywhere =
            self.pruned.knows(self.key) || self.asked_for.request.is_some() || !unwanted.is_nothing();
        match self.prune_unwanted(rolled, everywhere, admission_disabled).await {
            Ok(true) => {
                self.pruned.note(self.key, self.asked_for.clone(), unwanted);
                true
            }
            Ok(false) => false,
            Err(error) => {
                problems.failed.push(error.to_string());
                false
            }
        }
    }

    async fn prune_unwanted(
        &self,
        rolled: bool,
        everywhere: bool,
        admission_disabled: bool,
    ) -> Result<bool, CallError> {
        let owner = Owner::new(self.key, self.uid);
        // By name: what has lost our label is shown by no watch.
        for kind in &self.absent {
            prune::absent(self.kube, owner, *kind, self.workload).await?;
        }
        let made = self.makes_account;
        let account = AccountWanted { name: self.account, made, rolled, everywhere, admission_disabled };
        accounts::release(self.kube, owner, account).await
    }
}
