//! libFuzzer on the text of a manifest.
//! Never judges: what must hold is in `tests/fuzz/lint.rs`.
#![no_main]

#[path = "../lint.rs"]
mod lint;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lint::holds(bytes));
