//! Decides how the rules look where others hold them: CEL, policies, webhook configurations, the rules page.
//! Never writes a file: whoever wants YAML serializes what is returned.

pub mod admission_label;
pub mod break_glass;
pub mod cel;
pub mod configurations;
mod expression;
pub mod page;
pub mod policies;
mod policy;

use crate::cause::Cause;
use crate::field;
use crate::kind::Kind;
use crate::rules::{self, CelCheck, Check, Layer, Rule};

/// Whether a layer, left alone, refuses a new object for this cause too. Layers agree where this says that they meet.
pub fn held_by(layer: Layer, kind: Kind, cause: &Cause) -> bool {
    rules::by_code(cause.code).is_some_and(|rule| holds(layer, kind, rule, &field::pattern(&cause.field)))
}

/// Whether a layer holds a rule for this field, given as a pattern. A rule that lives in CEL may have fields that CEL
/// cannot look at, or not at a bearable cost.
fn holds(layer: Layer, kind: Kind, rule: &Rule, field: &str) -> bool {
    let about = |(other, check): (&'static Rule, CelCheck)| {
        other.code == rule.code && (check.field.is_empty() || check.field == field)
    };
    if !rule.lives_in(layer) {
        return false;
    }
    match layer {
        Layer::Cel => cel::held(kind).any(about),
        Layer::Policy => policies::held(kind).any(about),
        Layer::Schema | Layer::Webhook | Layer::BreakGlass => true,
        Layer::Lint => !matches!(rule.check, Check::Access),
    }
}
