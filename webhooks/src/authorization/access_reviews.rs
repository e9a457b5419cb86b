//! Decides which SubjectAccessReview comes next, when enough of them have been answered, and what the answers mean.
//! Never asks for the same twice, nor for more than [`MAX_REVIEWS_PER_NAMESPACE`] and [`MAX_REVIEWS`] of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{AccessCheck, RequiredAccess};
use crate::cause::{Cause, CauseReason};
use crate::rules;

/// Reviews asked for about one namespace for one request.
pub(crate) const MAX_REVIEWS_PER_NAMESPACE: usize = 40;

/// Reviews asked for one request.
pub const MAX_REVIEWS: usize = 200;

/// The SubjectAccessReviews of one request, and what is known from them about the user who sent it.
///
/// Send every one of [`AccessReviews::pending`], give back each answer with [`AccessReviews::record`], and repeat until
/// none is pending; then [`AccessReviews::causes`] says why the change is denied, if it is.
#[derive(Clone, Debug)]
pub struct AccessReviews {
    required: Vec<RequiredAccess>,
    answers: BTreeMap<AccessCheck, bool>,
}

/// What is known about one required access.
enum Standing {
    Granted,
    Denied,
    /// What is still to be asked; nothing where that would be too much.
    Pending(Vec<AccessCheck>),
}

impl AccessReviews {
    /// Reviews of which none has been answered yet.
    pub fn new(required: Vec<RequiredAccess>) -> Self {
        Self { required, answers: BTreeMap::new() }
    }

    /// What to ask now; independent of each other, so that they can be asked at once. Empty when all is known or no
    /// more may be asked.
    pub fn pending(&self) -> Vec<AccessCheck> {
        let mut pending = BTreeSet::new();
        for access in &self.required {
            if let Standing::Pending(checks) = self.standing(access) {
                pending.extend(checks);
            }
        }
        let mut asked: BTreeMap<String, usize> = BTreeMap::new();
        for answered in self.answers.keys() {
            *asked.entry(answered.namespace.clone()).or_default() += 1;
        }
        let affordable = |check: &AccessCheck| {
            let count = asked.entry(check.namespace.clone()).or_default();
            *count += 1;
            *count <= MAX_REVIEWS_PER_NAMESPACE
        };
        let left = MAX_REVIEWS.saturating_sub(self.answers.len());
        pending.into_iter().filter(affordable).take(left).collect()
    }

    /// Remembers an answer.
    pub fn record(&mut self, check: AccessCheck, allowed: bool) {
        self.answers.insert(check, allowed);
    }

    /// Why the change is denied, as far as is known; access that nobody could ask about any more is denied as well.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = Vec::new();
        let mut unasked = None;
        for access in &self.required {
            match self.standing(access) {
                Standing::Granted => {}
                Standing::Denied => causes.push(self.denied(access)),
                Standing::Pending(_) => unasked = unasked.or(Some(access)),
            }
        }
        causes.dedup();
        // First, so that it is never among those that are cut: without it the others do not explain the denial.
        let unasked = unasked.map(|access| too_many(&access.field));
        unasked.into_iter().chain(causes).collect()
    }

    fn standing(&self, access: &RequiredAccess) -> Standing {
        let answer = |check: &AccessCheck| self.answers.get(check).copied();
        if access.alternatives.iter().any(|check| answer(check) == Some(true)) {
            return Standing::Granted;
        }
        if let Some(next) = access.alternatives.iter().find(|check| answer(check).is_none()) {
            return Standing::Pending(vec![next.clone()]);
        }
        if access.too_many {
            return Standing::Pending(Vec::new());
        }
        if access.all_of.is_empty() || access.all_of.iter().any(|check| answer(check) == Some(false)) {
            return Standing::Denied;
        }
        let pending: Vec<AccessCheck> =
            access.all_of.iter().filter(|check| answer(check).is_none()).cloned().collect();
        if pending.is_empty() { Standing::Granted } else { Standing::Pending(pending) }
    }

    /// Names the access that is missing, not what would do instead: that is in the fix.
    fn denied(&self, access: &RequiredAccess) -> Cause {
        let denied = |check: &&AccessCheck| self.answers.get(*check) == Some(&false);
        let missing = match access.all_of.iter().find(denied) {
            Some(direct) => direct.in_words(),
            None => access.alternatives.iter().map(AccessCheck::in_words).collect::<Vec<_>>().join(", nor "),
        };
        forbidden(&access.field, access.code, format!("you may not {missing}"))
    }
}

fn too_many(field: &str) -> Cause {
    let problem = format!(
        "adds more permissions than can be checked with {MAX_REVIEWS_PER_NAMESPACE} access reviews a namespace and \
         {MAX_REVIEWS} a request"
    );
    forbidden(field, "CODER0508", problem)
}

/// A denial, which stands also where no rule of the code says what to do about it.
fn forbidden(field: &str, code: &'static str, problem: String) -> Cause {
    let fix = rules::by_code(code)
        .map_or("ask an administrator of the cluster for the permission", |rule| rule.fix);
    let (field, fix, reason) = (field.to_owned(), fix.into(), CauseReason::Forbidden);
    Cause { field, code, problem, fix, reason, tolerated: false }
}
