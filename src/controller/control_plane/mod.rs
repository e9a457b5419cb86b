//! Decides what becomes of a CoderControlPlane.
//! Never talks to an API server from its pure part, `desired`.

pub mod desired;
