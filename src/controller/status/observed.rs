//! What was observed in a reconcile of an object of any kind, as values: the object itself, its children and their rollout.
//! Nothing here says what it means: `summary` does, and the kind.

use crate::controller::children::apply::Problems;
use crate::controller::object_writer::Finalizing;
use crate::controller::workload::rollout::Rollout;
use webhooks::Verdict;

/// What is observed of an object of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedObject {
    /// Why the object cannot be read, so that nothing can be made of it.
    pub(crate) unreadable: Option<String>,
    /// What the rules say against the object as it is stored.
    pub(crate) broken: Verdict,
    /// Why nothing is run as the account that is asked for.
    pub(crate) account: Option<String>,
    /// What is held back while admission is disabled.
    pub(crate) withheld: Option<String>,
    /// What stands in the way of children, and whatever else could not be done this time.
    pub(crate) problems: Problems,
    /// The Deployment.
    pub(crate) rollout: Rollout,
    /// Secrets and ConfigMaps that are referred to and not there.
    pub(crate) missing: Vec<String>,
    /// Why it is not known what pods would read, so that nothing is changed.
    pub(crate) unread: Option<String>,
    /// Why our finalizer is not as it must be, if the API server refuses that.
    pub(crate) finalizer: Option<String>,
    /// Why something was left for the next reconcile, if this one had no time for it.
    pub(crate) late: Option<String>,
}

impl ObservedObject {
    /// Nothing was observed, and nothing is wrong.
    pub(crate) fn nothing() -> Self {
        Self {
            unreadable: None,
            broken: Verdict::default(),
            account: None,
            withheld: None,
            problems: Problems::default(),
            rollout: Rollout::Absent,
            missing: Vec::new(),
            unread: None,
            finalizer: None,
            late: None,
        }
    }

    /// Nothing but why the object cannot be read.
    pub(crate) fn unreadable(why: String) -> Self {
        Self { unreadable: Some(why), ..Self::nothing() }
    }

    /// Nothing but what could not be done this time.
    pub(crate) fn failed(why: String) -> Self {
        Self { problems: Problems { failed: vec![why], ..Problems::default() }, ..Self::nothing() }
    }

    /// Nothing but why it is not known what pods would read.
    pub(crate) fn unread(why: String) -> Self {
        Self { unread: Some(why), ..Self::nothing() }
    }

    /// The same with what became of our finalizer.
    pub(crate) fn with_finalizer(mut self, finalizing: &Finalizing) -> Self {
        match finalizing {
            Finalizing::Unchanged | Finalizing::Written => {}
            Finalizing::Refused(why) => self.finalizer = Some(why.clone()),
            Finalizing::Failed(why) => self.problems.failed.push(why.clone()),
        }
        self
    }

    /// Whether something stands in the way that somebody has to move.
    pub(crate) fn is_blocked(&self) -> bool {
        let Problems { conflicts, refused, failed: _, unimportant } = &self.problems;
        self.account.is_some()
            || self.withheld.is_some()
            || self.finalizer.is_some()
            || [conflicts, refused, unimportant].iter().any(|all| !all.is_empty())
            || matches!(self.rollout, Rollout::Stuck(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_the_finalizer_is_told_where_it_belongs() {
        let after = |finalizing| ObservedObject::nothing().with_finalizer(&finalizing);
        let why = || "why".to_owned();
        assert_eq!(after(Finalizing::Unchanged), ObservedObject::nothing());
        let refused = after(Finalizing::Refused(why()));
        assert!(refused.finalizer == Some(why()) && refused.is_blocked());
        let failed = after(Finalizing::Failed(why()));
        assert!(failed == ObservedObject::failed(why()) && !failed.is_blocked(), "it is tried again");
    }
}
