//! libFuzzer on the body of an AdmissionReview.
//! Never judges: what must hold is in `tests/fuzz/review.rs`.
#![no_main]

#[path = "../review.rs"]
mod review;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| review::holds(bytes));
