//! Decides about a request of either webhook: the defaults it gets and why it is denied. Pure: no clock, no cluster, no
//! connection. Never treats a dry run differently from any other request.

use json_patch::Patch;

use crate::admission_review::Request;
use crate::cause::Cause;
use crate::defaults::{Config, apply, defaults};
use crate::validate::{self, Operation, Verdict};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Why it is denied, and what its author should know.
    pub verdict: Verdict,
    /// What is changed about the object; empty for nothing.
    pub patch: Patch,
}

impl Decision {
    /// Whether the request is allowed.
    pub fn allowed(&self) -> bool {
        self.verdict.allowed()
    }

    /// The same, denied for these causes too.
    pub fn denied_for(mut self, causes: Vec<Cause>) -> Self {
        self.verdict.deny(causes);
        self
    }
}

/// Writes the defaults into the object, and already denies what would be denied later: this answer comes before the
/// schema's, whose code some tools take as a reason to delete the object.
pub fn mutate(request: &mut Request, config: &Config) -> Decision {
    let patch = defaults(request.kind, &request.object, request.old_object.as_ref(), config);
    apply(&mut request.object, &patch);
    let verdict = verdict(request);
    if verdict.allowed() {
        // Warnings come from the validating webhook, which sees the final object; twice would be noise.
        return Decision { verdict: Verdict::default(), patch };
    }
    Decision { verdict, patch: Patch::default() }
}

/// Judges the final object.
pub fn validate(request: &Request) -> Decision {
    Decision { verdict: verdict(request), patch: Patch::default() }
}

fn verdict(request: &Request) -> Verdict {
    let operation = request.old_object.as_ref().map_or(Operation::Create, Operation::Update);
    validate::validate(request.kind, &request.object, operation)
}
