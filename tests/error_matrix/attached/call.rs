//! One cell of the calls: a fault between the operator and coderd, what was said of it, how often coderd was asked, and that
//! there is one of the subject in coderd when it is over.

use super::Phase;
use super::subject::Subject;
use crate::table::{Then, Wrong};
use crate::tries;
use serde_json::Value;
use std::time::Instant;
use support::coderd::{FaultHandle, Occurrence, Role};
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// This condition, by type and reason, is False and its message has all of these words.
    Condition(&'static str, &'static str, [&'static str; 2]),
    /// Nothing: what worked goes on, and is ready.
    StillReady,
    /// Nothing: the call had taken effect, or it does not matter how it ended.
    Done,
    /// An Event of this reason.
    Event(&'static str),
}

/// How often a reconcile meets the fault, if it is met at all.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    pub least: u32,
    pub most: u32,
}

impl Tries {
    pub const ONE: Self = Self { least: 1, most: 1 };
}

/// One cell: a fault and what must be said of it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// A name that can be part of a namespace's.
    pub name: String,
    pub route: &'static str,
    pub wrong: Wrong,
    pub told: Told,
    pub then: Then,
    /// What stays in coderd besides the one in use: what it says is not there, and shows.
    pub left: usize,
    pub tries: Tries,
    /// When the call is made.
    pub phase: Phase,
    /// The role of the operator's token, where it is another than always.
    pub role: Option<Role>,
}

/// A name for a call with something that goes wrong with it.
pub fn name(call: &str, wrong: Wrong) -> String {
    let words = match wrong {
        Wrong::Status(code) => format!("{call}-{code}"),
        wrong => format!("{call}-{wrong:?}"),
    };
    words.to_lowercase()
}

/// A running cell.
struct Run<'a> {
    subject: Subject<'a>,
    cell: &'a Cell,
}

/// Runs a cell to its end.
pub async fn run(subject: Subject<'_>, cell: Cell) {
    let run = Run { subject, cell: &cell };
    let (plane, followed) = (subject.plane, subject.followed());
    subject.prepare(cell.role.as_ref().unwrap_or(&subject.kind.role)).await;
    if !cell.phase.is_first() {
        subject.apply(&(subject.kind.first)()).await;
        subject.until_well("well at first", 0).await;
    }
    let since = followed.seen(&plane.namespace);
    let fault = plane.coderd.inject(cell.route, Occurrence::Every, tries::fault(cell.wrong));
    let began = Instant::now();
    cell.phase.provoke(&subject).await;
    run.is_told(&fault, since).await;
    run.is_tried_again(&fault).await;
    let tries = || u32::try_from(fault.hits()).unwrap();
    tries::are_bounded(&cell.name, &plane.coderd, began, cell.tries.most, tries).await;
    let healing = followed.seen(&plane.namespace);
    plane.coderd.clear_faults();
    run.is_healed(healing).await;
}

impl Run<'_> {
    /// What is wrong is said, and where nothing is to be said the fault has struck all the same.
    async fn is_told(&self, fault: &FaultHandle, since: usize) {
        fault.reached(LIMIT).await;
        match self.cell.told {
            Told::Condition(type_, reason, words) => self.is_false(type_, reason, words, since).await,
            Told::StillReady => self.is_still_ready(),
            Told::Event(reason) => self.subject.until_event(reason).await,
            Told::Done => {}
        }
    }

    async fn is_false(&self, type_: &str, reason: &str, words: [&str; 2], since: usize) {
        let (followed, namespace) = (self.subject.followed(), &self.subject.plane.namespace);
        let told = |state: &Value| {
            let one = condition(state, type_);
            let message = one["message"].as_str().unwrap_or_default();
            one["status"] == "False"
                && one["reason"] == reason
                && words.iter().all(|words| message.contains(words))
        };
        let what = format!("{type_} False/{reason} with {words:?}");
        let state = followed.until(namespace, &what, since, told).await;
        assert!(!is_ready(&state), "{}: {}", self.cell.name, condition(&state, "Ready"));
    }

    fn is_still_ready(&self) {
        let state = self.subject.now();
        assert!(is_ready(&state), "{}: {}", self.cell.name, state["status"]);
    }

    /// What passes by itself is tried again, and not before the time that coderd asked for.
    async fn is_tried_again(&self, fault: &FaultHandle) {
        if self.cell.then != Then::Retried {
            return;
        }
        if self.cell.wrong == Wrong::Status(429) {
            // Whoever asks meanwhile does not shorten it.
            let (followed, namespace) = (self.subject.followed(), &self.subject.plane.namespace);
            followed.request_reconcile(namespace, "impatient").await;
        }
        let tries = 2 * u64::from(self.cell.tries.least);
        until(&format!("{}: another try", self.cell.name), LIMIT, async || {
            holds(fault.hits() >= tries, format!("{} tries", fault.hits()))
        })
        .await;
        if self.cell.told == Told::StillReady {
            self.is_still_ready();
        }
    }

    async fn is_healed(&self, since: usize) {
        let (subject, name) = (&self.subject, &self.cell.name);
        if self.cell.then == Then::Waits {
            // Within a minute it is looked at anyway; whoever mended it need not wait.
            subject.followed().request_reconcile(&subject.plane.namespace, "mended").await;
        }
        if self.cell.phase.is_last() {
            return subject.has_gone(name, self.cell.left).await;
        }
        // What was over by itself may have been so before the fault was.
        let is_quiet = self.cell.then == Then::Over || self.cell.told == Told::StillReady;
        let since = if is_quiet { since.saturating_sub(1) } else { since };
        subject.until_well("well again", since).await;
        subject.has_its_own(name, self.cell.left, subject.kind.secret.0).await;
    }
}
