//! Decides which namespaces this process looks at: all of the cluster, or those that it was given, and its own.
//! It never asks anybody: what is outside is refused here, before a request is made.

use kube::core::Status;
use std::sync::Arc;

/// The namespaces whose objects are followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    #[default]
    Cluster,
    /// These and no others, each once; what belongs to none is not read either.
    Namespaces(Arc<[String]>),
}

impl Scope {
    /// The whole cluster, unless namespaces are named.
    pub fn of(namespaces: &[String]) -> Self {
        if namespaces.is_empty() {
            return Self::Cluster;
        }
        let mut namespaces = namespaces.to_vec();
        namespaces.sort();
        namespaces.dedup();
        Self::Namespaces(namespaces.into())
    }

    /// Whether objects of the whole cluster are followed.
    pub fn is_cluster(&self) -> bool {
        *self == Self::Cluster
    }

    /// Whether the objects of a namespace are followed.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespaces(namespaces) => namespaces.iter().any(|one| one == namespace),
        }
    }

    /// Where to list: in each of these. An empty name is the whole cluster.
    pub fn places(&self) -> Vec<&str> {
        match self {
            Self::Cluster => vec![""],
            Self::Namespaces(namespaces) => namespaces.iter().map(String::as_str).collect(),
        }
    }

    /// The same with our own namespace.
    pub fn places_with<'a>(&'a self, ours: &'a str) -> Vec<&'a str> {
        let mut places = self.places();
        if !self.contains(ours) {
            places.push(ours);
        }
        places
    }

    /// What the API server would say of a namespace that is not looked at.
    pub(super) fn refusal(&self, namespace: &str) -> Status {
        let place = if namespace.is_empty() { "the whole cluster" } else { namespace };
        let message = format!(
            "the operator watches only {} (--watch-namespace), not {place}",
            self.places().join(", ")
        );
        Status::failure(&message, "Forbidden").with_code(403)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_looks_at_the_whole_cluster_unless_namespaces_are_named() {
        let cluster = Scope::of(&[]);
        assert!(cluster.is_cluster() && cluster.contains("any"));
        assert_eq!((cluster.places(), cluster.places_with("ours")), (vec![""], vec![""]));
        let two = Scope::of(&["b", "a", "b"].map(str::to_owned));
        assert!(two.contains("a") && !two.contains("c") && !two.contains(""), "the whole is not a part");
        assert_eq!((two.places(), two.places_with("ours")), (vec!["a", "b"], vec!["a", "b", "ours"]));
        assert_eq!(two.places_with("a"), ["a", "b"]);
        assert!(two.refusal("c").message.contains("watches only a, b (--watch-namespace), not c"));
    }
}
