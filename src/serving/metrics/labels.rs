//! The labels of the metrics: closed sets, so that the number of series is bounded.
//! It names things; it never counts them.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use std::fmt::Write;

/// One label called `name`, from a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Named {
    /// The value.
    pub name: &'static str,
}

/// One label called `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfKind {
    /// A kind that is reconciled.
    pub kind: &'static str,
}

/// The labels of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reconcile {
    /// A kind that is reconciled.
    pub kind: &'static str,
    /// How it ended.
    pub result: ReconcileResult,
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReconcileResult {
    /// Nothing is left to do.
    Settled,
    /// It is looked at again after a while, although nothing failed.
    Requeued,
    /// It is tried again.
    Failed,
    /// A defect of ours; it is tried again.
    Panicked,
}

impl ReconcileResult {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Settled, Self::Requeued, Self::Failed, Self::Panicked];
}

/// The labels of an admission review.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Review {
    /// Which webhook.
    pub webhook: Webhook,
    /// What it said.
    pub verdict: Verdict,
}

/// Which webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Webhook {
    /// The one that sets defaults.
    Mutate,
    /// The one that has the last word.
    Validate,
}

/// What a webhook said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// Nothing: it could not be read, rights could not be asked for, or its time was over.
    Failed,
}

/// The labels of a request to coderd.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CoderdRequest {
    /// What was asked for, from a closed set.
    pub operation: &'static str,
    /// How it ended, from a closed set.
    pub result: &'static str,
}

/// What a condition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    Unknown,
}

impl Truth {
    /// As conditions write it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

macro_rules! written_as {
    ($($type:ident { $($variant:ident => $text:literal),+ })+) => {$(
        impl EncodeLabelValue for $type {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                encoder.write_str(match self { $(Self::$variant => $text),+ })
            }
        }
    )+};
}

written_as! {
    ReconcileResult { Settled => "settled", Requeued => "requeued", Failed => "failed", Panicked => "panicked" }
    Webhook { Mutate => "mutate", Validate => "validate" }
    Verdict { Allowed => "allowed", Denied => "denied", Failed => "failed" }
}
