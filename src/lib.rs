//! coder-k8s.
