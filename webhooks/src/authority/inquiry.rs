//! Decides which question comes next and when enough has been answered.
//! Never asks the same question twice, nor more than [`QUESTIONS_A_NAMESPACE`] and [`QUESTIONS`] of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Access, AccessCheck};
use crate::review::{Cause, CauseReason};
use crate::rules::{self, Problem};

/// Questions asked about one namespace for one request.
pub const QUESTIONS_A_NAMESPACE: usize = 40;

/// Questions asked for one request.
pub const QUESTIONS: usize = 200;

/// Refusals that are told; more of them say nothing new.
const CAUSES: usize = 64;

/// What is known about the rights of the person who asks.
///
/// Ask every one of [`Inquiry::questions`], give back each answer with [`Inquiry::record`], and repeat until there are
/// no more questions; then [`Inquiry::causes`] says why the change is refused, if it is.
#[derive(Clone, Debug)]
pub struct Inquiry {
    required: Vec<Access>,
    answers: BTreeMap<AccessCheck, bool>,
}

/// Where one required right stands.
enum Standing {
    Held,
    Missing,
    /// What is still to be asked; nothing where that would be too much.
    Open(Vec<AccessCheck>),
}

impl Inquiry {
    /// An inquiry in which nothing is known yet.
    pub fn new(required: Vec<Access>) -> Self {
        Self { required, answers: BTreeMap::new() }
    }

    /// What to ask now; independent of each other, so that they can be asked at once. Empty when all is known or no
    /// more may be asked.
    pub fn questions(&self) -> Vec<AccessCheck> {
        let mut questions = BTreeSet::new();
        for access in &self.required {
            if let Standing::Open(open) = self.standing(access) {
                questions.extend(open);
            }
        }
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        for answered in self.answers.keys() {
            *asked.entry(answered.namespace.clone()).or_default() += 1;
        }
        let affordable = |question: &AccessCheck| {
            let count = asked.entry(question.namespace.clone()).or_default();
            *count += 1;
            *count <= QUESTIONS_A_NAMESPACE
        };
        let left = QUESTIONS.saturating_sub(self.answers.len());
        questions.into_iter().filter(affordable).take(left).collect()
    }

    /// Remembers an answer.
    pub fn record(&mut self, question: AccessCheck, allowed: bool) {
        self.answers.insert(question, allowed);
    }

    /// Why the change is refused, as far as is known; a right nobody could ask about any more is refused as well.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Vec::new();
        let mut open = None;
        for access in &self.required {
            match self.standing(access) {
                Standing::Held => {}
                Standing::Missing => causes.extend(self.missing(access)),
                Standing::Open(_) => open = open.or(Some(access)),
            }
        }
        causes.dedup();
        // First, so that it is never among those that are cut: without it the others do not explain the refusal.
        let unasked = open.and_then(|access| too_many(&access.field));
        unasked.into_iter().chain(causes).take(CAUSES).collect()
    }

    fn standing(&self, access: &Access) -> Standing {
        let answer = |check: &AccessCheck| self.answers.get(check).copied();
        if access.alternatives.iter().any(|check| answer(check) == Some(true)) {
            return Standing::Held;
        }
        if let Some(next) = access.alternatives.iter().find(|check| answer(check).is_none()) {
            return Standing::Open(vec![next.clone()]);
        }
        if access.too_many {
            return Standing::Open(Vec::new());
        }
        if access.all_of.is_empty() || access.all_of.iter().any(|check| answer(check) == Some(false)) {
            return Standing::Missing;
        }
        let open: Vec<AccessCheck> =
            access.all_of.iter().filter(|check| answer(check).is_none()).cloned().collect();
        if open.is_empty() { Standing::Held } else { Standing::Open(open) }
    }

    /// Names the right that is missing, not the ways around it: those are in the fix.
    fn missing(&self, access: &Access) -> Option<Cause> {
        let denied = |check: &&AccessCheck| self.answers.get(*check) == Some(&false);
        let right = match access.all_of.iter().find(denied) {
            Some(direct) => direct.in_words(),
            None => access.alternatives.iter().map(AccessCheck::in_words).collect::<Vec<_>>().join(", nor "),
        };
        let problem = format!("you may not {right}");
        let problem = Problem::invalid(&access.field, problem).because(CauseReason::Forbidden);
        Some(Cause::new(rules::by_code(access.code)?, &problem))
    }
}

fn too_many(field: &str) -> Option<Cause> {
    let problem = format!(
        "adds more rights than {QUESTIONS_A_NAMESPACE} questions a namespace and {QUESTIONS} a request can check"
    );
    let problem = Problem::invalid(field, problem).because(CauseReason::Forbidden);
    Some(Cause::new(rules::by_code("CODER0508")?, &problem))
}
