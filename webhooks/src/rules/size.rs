//! Decides nothing itself: that a spec is small enough to be kept is counted in `schema::size`, and asked in `validate`.
//! Never refuses what is stored already, unless it grows.

use super::{Check, IN_RUST, Rule, Severity, When};
use crate::kind::Kind;

pub(super) static RULES: &[Rule] = &[SIZE];

/// Asked about the object as it was sent, so that it is named.
pub(crate) const SIZE: Rule = Rule {
    code: "CODER0222",
    title: "The spec has at most 128 KiB and 6000 values",
    kinds: &Kind::ALL,
    fields: &["spec"],
    severity: Severity::Deny,
    when: When::Always,
    layers: IN_RUST,
    check: Check::Size,
    fix: "put long texts into a ConfigMap or Secret that the spec refers to, and remove what is not needed",
    why: "Every replica of the operator keeps the specs of all objects in memory, which everybody shares: fifty \
          objects of the 1.5 MiB that the API server accepts would exhaust it. What counts is the bytes that the API \
          server writes, and every map, list, string and number. A spec that was stored before there was a limit keeps \
          working, and may change as long as it does not grow.",
    bad: "spec:\n  extraArgs:\n  - \"--text=...\"   # 200 KiB\n",
    good: "spec:\n  envFrom:\n  - configMapRef: {name: texts}",
};
