//! Decides how the rules look where others hold them: CEL, policies, webhook configurations, the rules page.
//! Never writes a file: whoever wants YAML serializes what is returned.

pub mod cel;
pub mod configurations;
mod expression;
pub mod page;
pub mod policies;

use crate::field;
use crate::kind::Kind;
use crate::review::Cause;
use crate::rules::{self, Check, Layer, Rule, Twin};

/// Whether a layer, left alone, refuses a new object for this cause too. Layers agree where this says that they meet.
pub fn held_by(layer: Layer, kind: Kind, cause: &Cause) -> bool {
    let Some(rule) = rules::by_code(cause.code).filter(|rule| rule.lives_in(layer)) else {
        return false;
    };
    let about = |(other, twin): (&'static Rule, Twin)| {
        let same_field = twin.field.is_empty() || twin.field == field::pattern(&cause.field);
        other.code == rule.code && same_field
    };
    match layer {
        Layer::Cel => cel::held(kind).any(about),
        Layer::Policy => policies::held(kind).any(about),
        Layer::Schema | Layer::Webhook => true,
        Layer::Lint => !matches!(rule.check, Check::Access),
    }
}
