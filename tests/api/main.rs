//! What the API server makes of what we give it: definitions, children, lists, and the rights we have there.

mod ca_injection;
mod children;
mod cluster;
mod definitions;
mod lists;
mod lost_namespace;
mod namespaced;
mod rights;
mod split_roles;
