//! Decides about a request by the rules of the `webhooks` crate. Pure: no clock, no cluster, no connection.
//! A dry run is decided like any other request.

use json_patch::Patch;

use crate::defaults::{Config, apply, defaults};
use crate::review::{self, Cause, Occasion, Review, Verdict};
use crate::wire::{Operation, Request};

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Why it is refused; empty when it is allowed.
    pub causes: Vec<Cause>,
    /// What its author should know all the same.
    pub warnings: Vec<String>,
    /// What is changed about the object; empty for nothing.
    pub patch: Patch,
}

impl Decision {
    /// Whether the request is allowed.
    pub fn allowed(&self) -> bool {
        self.causes.is_empty()
    }

    /// The same with more reasons to refuse.
    pub fn refused_for(mut self, causes: Vec<Cause>) -> Self {
        self.causes.extend(causes);
        self
    }

    /// The text of the denial: every cause, one a line.
    pub fn message(&self) -> String {
        let lines: Vec<String> = self.causes.iter().map(Cause::line).collect();
        match lines.len() {
            1 => lines.concat(),
            count => format!("{count} problems:\n{}", lines.join("\n")),
        }
    }
}

/// Writes the defaults into the object, and already refuses what would be refused later: this answer comes before the
/// schema's, whose code some tools take as a reason to delete the object.
pub fn mutate(request: &mut Request, config: &Config) -> Decision {
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old } => Some(old),
    };
    let patch = defaults(request.kind, &request.object, old, config);
    apply(&mut request.object, &patch);
    let Verdict { causes, warnings } = judge(request);
    if causes.is_empty() {
        // Warnings come from the validating webhook, which sees the final object; twice would be noise.
        return Decision { causes, warnings: Vec::new(), patch };
    }
    Decision { causes, warnings, patch: Patch::default() }
}

/// Judges the final object.
pub fn validate(request: &Request) -> Decision {
    let Verdict { causes, warnings } = judge(request);
    Decision { causes, warnings, patch: Patch::default() }
}

fn judge(request: &Request) -> Verdict {
    let occasion = match &request.operation {
        Operation::Create => Occasion::Create,
        Operation::Update { old } => Occasion::Update(old),
    };
    review::validate(&Review { kind: request.kind, object: &request.object, occasion })
}
