//! Readiness as gates: each part of the process that must be up holds one and opens it when it is.
//! The process is ready when every gate is open; a gate that nobody opens keeps it unready, never the reverse.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All gates of the process.
#[derive(Clone, Default)]
pub(crate) struct Readiness {
    gates: Arc<Mutex<Vec<Check>>>,
}

/// The state of one gate, as `/readyz?verbose` lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// What it is about.
    pub name: &'static str,
    /// `None` when open, else what it waits for.
    pub waiting_for: Option<String>,
    /// What is to be said of an open one.
    pub remark: Option<String>,
}

/// The right to say whether one part is up.
#[derive(Clone)]
pub(crate) struct Gate {
    readiness: Readiness,
    index: usize,
}

impl Readiness {
    /// A new gate, closed.
    #[must_use]
    pub(crate) fn gate(&self, name: &'static str) -> Gate {
        let mut gates = self.lock();
        gates.push(Check { name, waiting_for: Some("not started".to_owned()), remark: None });
        Gate { readiness: self.clone(), index: gates.len() - 1 }
    }

    /// Every gate.
    pub(crate) fn checks(&self) -> Vec<Check> {
        self.lock().clone()
    }

    /// Whether every gate is open.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().iter().all(|check| check.waiting_for.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Check>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate {
    /// This part is up.
    pub(crate) fn open(&self) {
        self.set(None, None);
    }

    /// This part is up, and something is to be said of it all the same.
    pub(crate) fn open_with(&self, remark: impl Into<String>) {
        self.set(None, Some(remark.into()));
    }

    /// This part is not (or no longer) up, and why.
    pub(crate) fn close(&self, waiting_for: impl Into<String>) {
        self.set(Some(waiting_for.into()), None);
    }

    fn set(&self, waiting_for: Option<String>, remark: Option<String>) {
        if let Some(check) = self.readiness.lock().get_mut(self.index)
            && (check.waiting_for != waiting_for || check.remark != remark)
        {
            tracing::debug!(check = check.name, waiting_for, remark, "readiness changed");
            (check.waiting_for, check.remark) = (waiting_for, remark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_only_while_every_gate_is_open() {
        let readiness = Readiness::default();
        let (one, two) = (readiness.gate("one"), readiness.gate("two"));
        assert!(!readiness.is_ready());
        one.open();
        assert!(!readiness.is_ready());
        two.open();
        assert!(readiness.is_ready());
        one.close("an expired certificate");
        assert_eq!(readiness.checks()[0].waiting_for.as_deref(), Some("an expired certificate"));
        assert!(!readiness.is_ready());
        one.open_with("something is missing");
        assert!(readiness.is_ready() && readiness.checks()[0].remark.is_some());
        one.open();
        assert_eq!(readiness.checks()[0].remark, None);
    }
}
