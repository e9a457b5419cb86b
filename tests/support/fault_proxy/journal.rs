//! Numbers the writes of one operator, whichever proxy they pass, and decides at which of them it dies.
//! It never kills: at the point it shuts every door, so that nothing the process still does can be seen, and says so.

use super::mutation::{in_every_run, without_ids};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// For how long an operator that got its answer may act on it, unless it is heard of before.
const MOMENT: Duration = Duration::from_millis(100);

/// A write, told apart from others like it by how often it happened: runs differ in what happens between two writes, so
/// that a number counted over all of them would mean something else each time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// Whom it went to, method and path, with the names of every run.
    pub mutation: String,
    /// The write it is counted from, if it is one of a status.
    pub after: Option<String>,
    /// 1 for the first of its kind.
    pub occurrence: usize,
}

impl Point {
    /// Whether it is a write of a status.
    pub fn is_of_status(&self) -> bool {
        self.mutation.ends_with("/status")
    }
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} #{}", self.mutation, self.occurrence)?;
        self.after.as_ref().map_or(Ok(()), |after| write!(out, " after {after}"))
    }
}

/// When the operator dies, seen from the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashTiming {
    /// Nobody got the request.
    BeforeForwarding,
    /// It took effect, and the operator never heard of it.
    AnswerLost,
    /// The operator heard of it, and could do nothing more.
    AfterAnswer,
}

impl CrashTiming {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BeforeForwarding, Self::AnswerLost, Self::AfterAnswer];
}

impl fmt::Display for CrashTiming {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::BeforeForwarding => "killed before forwarding",
            Self::AnswerLost => "killed with the answer lost",
            Self::AfterAnswer => "killed after the answer",
        })
    }
}

#[derive(Default)]
struct State {
    counting: bool,
    counts: BTreeMap<(String, Option<String>), usize>,
    points: Vec<Point>,
    /// The last write that was not of a status.
    anchor: Option<String>,
    last: Option<Instant>,
    planned: Option<(Point, CrashTiming)>,
    /// The answer was delivered: whatever is heard of the operator next is its end.
    armed: bool,
    /// How many operators came before.
    term: usize,
}

impl State {
    /// Writes of a status are counted from the last other write: how many a rollout takes depends on how it is seen, and
    /// whatever comes after it would be another write in each run.
    fn numbered(&mut self, mutation: String) -> Point {
        let is_status = mutation.ends_with("/status");
        let after = self.anchor.clone().filter(|_| is_status);
        let count = self.counts.entry((mutation.clone(), after.clone())).or_default();
        *count += 1;
        let point = Point { mutation, after, occurrence: *count };
        if !is_status {
            self.anchor = Some(point.to_string());
        }
        point
    }
}

/// The writes of one run, shared by its proxies.
pub struct Journal {
    names: OnceLock<Vec<(String, String)>>,
    state: Mutex<State>,
    shut: watch::Sender<bool>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { names: OnceLock::new(), state: Mutex::default(), shut: watch::Sender::new(false) }
    }
}

impl Journal {
    /// A journal that counts nothing yet. Of each pair the first is a name of this run, the second what it is in all.
    pub fn new(names: Vec<(String, String)>) -> Self {
        let journal = Self::default();
        journal.know(names);
        journal
    }

    /// Gives the names of this run to a journal that has none yet.
    ///
    /// # Panics
    /// If it has some.
    pub fn know(&self, names: Vec<(String, String)>) {
        assert!(self.names.set(names).is_ok(), "the journal has names already");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts from now on, and lets the operator die at this point, if one is given.
    pub fn begin(&self, planned: Option<(Point, CrashTiming)>) {
        let mut state = self.state();
        (state.counting, state.planned) = (true, planned);
    }

    /// Every write so far, in order.
    pub fn points(&self) -> Vec<Point> {
        self.state().points.clone()
    }

    /// How long there has been no write; none before the first.
    pub fn quiet(&self) -> Option<Duration> {
        self.state().last.map(|last| last.elapsed())
    }

    /// Returns when the point was reached and the doors are shut.
    pub async fn reached(&self) {
        // The sender lives as long as we do.
        let _ = self.shut.subscribe().wait_for(|shut| *shut).await;
    }

    /// Opens the doors to the next operator; what the dead one sent is still never forwarded.
    pub fn reopen(&self) {
        let mut state = self.state();
        (state.planned, state.armed, state.term) = (None, false, state.term + 1);
        self.shut.send_replace(false);
    }

    /// How many operators came before the one that opens a connection now.
    pub(crate) fn term(&self) -> usize {
        self.state().term
    }

    /// Whether nothing of that operator is forwarded any more.
    pub(crate) fn is_shut(&self, term: usize) -> bool {
        *self.shut.borrow() || self.term() != term
    }

    /// Shuts the doors.
    pub(crate) fn shut(&self) {
        self.shut.send_replace(true);
    }

    /// Something came from the operator: how it ends by it, if it does. What is no write has no name.
    pub(crate) fn arrived(&self, mutation: Option<String>) -> Option<CrashTiming> {
        let mut state = self.state();
        if state.armed {
            drop(state);
            self.shut();
            return None;
        }
        let names = self.names.get().map_or(&[][..], Vec::as_slice);
        let mutation = without_ids(&in_every_run(&mutation.filter(|_| state.counting)?, names));
        let point = state.numbered(mutation);
        state.last = Some(Instant::now());
        state.points.push(point.clone());
        state.planned.as_ref().filter(|(planned, _)| *planned == point).map(|(_, timing)| *timing)
    }

    /// The answer was handed to the operator: the next thing heard of it, or a moment, is its end.
    pub(crate) fn answered(self: &Arc<Self>) {
        let term = self.term();
        self.state().armed = true;
        let journal = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MOMENT).await;
            if journal.term() == term {
                journal.shut();
            }
        });
    }
}

/// Calls [`Journal::answered`] when it is dropped: with the body that carries it.
pub(crate) struct Delivered(pub(crate) Arc<Journal>);

impl Drop for Delivered {
    fn drop(&mut self) {
        self.0.answered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(what: &str) -> Option<String> {
        Some(what.to_owned())
    }

    #[test]
    fn the_second_of_a_kind_is_found_whatever_happens_between() {
        let journal = Journal::new(vec![("creation-7".to_owned(), "{home}".to_owned())]);
        assert_eq!(journal.arrived(write("PATCH /creation-7/status")), None, "it does not count yet");
        let point = Point { mutation: "PATCH /{home}/roles/a".to_owned(), after: None, occurrence: 2 };
        journal.begin(Some((point.clone(), CrashTiming::AnswerLost)));
        assert_eq!(journal.arrived(write("PATCH /creation-7/roles/a")), None);
        assert_eq!(journal.arrived(write("PATCH /creation-7/deployments/coder")), None);
        assert_eq!(journal.arrived(None), None);
        assert_eq!(journal.arrived(write("PATCH /creation-7/roles/a")), Some(CrashTiming::AnswerLost));
        assert_eq!(journal.points().last(), Some(&point));
    }

    #[test]
    fn a_status_is_found_however_often_it_was_written_before_the_last_other_write() {
        for rollout in 0..3 {
            let journal = Journal::default();
            journal.begin(None);
            for mutation in ["PATCH /status", "PATCH /deployments/coder"] {
                journal.arrived(write(mutation));
            }
            for _ in 0..rollout {
                journal.arrived(write("PATCH /status"));
            }
            for mutation in ["DELETE /keys/farm", "PATCH /status"] {
                journal.arrived(write(mutation));
            }
            let points: Vec<String> = journal.points().iter().map(ToString::to_string).collect();
            assert_eq!(points[0], "PATCH /status #1");
            assert_eq!(points.last().unwrap(), "PATCH /status #1 after DELETE /keys/farm #1", "{rollout}");
        }
    }

    #[tokio::test]
    async fn after_the_answer_whatever_is_heard_next_is_the_end() {
        let journal = Arc::new(Journal::default());
        journal.begin(None);
        drop(Delivered(journal.clone()));
        assert!(!journal.is_shut(0));
        assert_eq!(journal.arrived(None), None);
        assert!(journal.is_shut(0));
        journal.reached().await;
        journal.reopen();
        assert!(journal.is_shut(0) && !journal.is_shut(1), "the dead one's requests are never forwarded");
    }

    #[tokio::test]
    async fn after_the_answer_an_operator_that_is_silent_ends_as_well() {
        let journal = Arc::new(Journal::default());
        drop(Delivered(journal.clone()));
        tokio::time::timeout(MOMENT * 50, journal.reached()).await.unwrap();
    }
}
