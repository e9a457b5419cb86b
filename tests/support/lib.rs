//! The harness every suite stands on: a real cluster, a strict coderd double, a proxy that breaks things.
//! It starts and stops real programs; it never decides what a test asserts.

pub mod coderd;
