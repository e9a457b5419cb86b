//! libFuzzer on the text of a manifest.
//! Never judges: what must hold is in `properties.rs`.
#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::lint(bytes));
