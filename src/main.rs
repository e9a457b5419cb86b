//! The coder-k8s binary.
fn main() {}
