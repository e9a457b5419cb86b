//! Decides about a request by the rules of the `webhooks` crate. Pure: no clock, no cluster, no connection.
//! A dry run is decided like any other request.

use super::review::{Operation, Request};
use json_patch::Patch;
use webhooks::{Cause, Config, Occasion, Review, Verdict, defaults, patched};

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

/// Adds defaults, and already refuses what would be refused later: this answer comes before the schema's, whose code
/// some tools take as a reason to delete the object.
pub fn mutate(request: &Request, config: &Config) -> Decision {
    let patch = defaults(request.kind, &request.object, config);
    let object = patched(&request.object, &patch);
    let Verdict { causes, warnings } =
        webhooks::validate(&Review { kind: request.kind, object: &object, occasion: occasion(request) });
    if causes.is_empty() {
        // Warnings come from the validating webhook, which sees the final object; twice would be noise.
        return Decision { causes, warnings: Vec::new(), patch };
    }
    Decision { causes, warnings, patch: Patch::default() }
}

/// Judges the final object.
pub fn validate(request: &Request) -> Decision {
    let review = Review { kind: request.kind, object: &request.object, occasion: occasion(request) };
    let Verdict { causes, warnings } = webhooks::validate(&review);
    Decision { causes, warnings, patch: Patch::default() }
}

fn occasion(request: &Request) -> Occasion<'_> {
    match &request.operation {
        Operation::Create => Occasion::Create,
        Operation::Update { old } => Occasion::Update(old),
    }
}
