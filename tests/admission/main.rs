//! Admission on a real API server: the shipped webhooks, the layers that must agree with them, and what nobody would send.

mod agreement;
mod fuzz_corpus;
mod webhooks;
