//! API types of `coder.com/v1alpha1` and the names derived from them.
