//! Which object a call is about, whose rights it is made with, and how much of the answer is read.
//! It never sends anything.

use super::Kube;
use super::changes::KindName;
use super::objects::CallError;
use super::scope::Scope;
use kube::api::{ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, Status};
use kube::{Api, Client};

/// Values of a Secret or ConfigMap, each key being one.
const VALUES_OF_DATA: usize = 5_000;
/// Values of any other object: a Deployment of the largest spec that is admitted, and who owns which field of it.
const VALUES: usize = 40_000;

/// One object of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// As in `apiVersion:` of a manifest.
    pub api_version: &'a str,
    /// As in `kind:` of a manifest.
    pub kind: &'a str,
    /// As in the path of a request.
    pub plural: &'a str,
    /// Where.
    pub namespace: &'a str,
    /// Which; empty for a list of all.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// An object of this kind.
    pub fn of([api_version, kind, plural]: KindName, namespace: &'a str, name: &'a str) -> Self {
        Self { api_version, kind, plural, namespace, name }
    }

    /// The calls about it. Names come from objects that may have been stored before there were rules: one that is no
    /// name of anything would lead to another path, and does not exist by its looks.
    pub(super) fn api(&self, kube: &Kube) -> Result<Api<DynamicObject>, CallError> {
        self.api_of(kube, &kube.calls)
    }

    /// The same for a change. What gives rights is written as the account that holds what may be handed on: Kubernetes
    /// lets nobody grant more than he holds, and we hold more than anybody is to be given.
    pub(super) fn writing(&self, kube: &Kube) -> Result<Api<DynamicObject>, CallError> {
        self.api_of(kube, if self.gives_rights() { &kube.as_grants } else { &kube.calls })
    }

    pub(super) fn gives_rights(&self) -> bool {
        self.api_version.split('/').next() == Some("rbac.authorization.k8s.io")
    }

    /// The namespace it is in, or is; empty for a list of the whole cluster.
    fn place(&self) -> &'a str {
        if self.plural == "namespaces" { self.name } else { self.namespace }
    }

    /// Whether it is where this process looks, or in its own namespace.
    fn is_within(&self, scope: &Scope, ours: &str) -> bool {
        let place = self.place();
        scope.contains(place) || place == ours
    }

    fn api_of(&self, kube: &Kube, client: &Client) -> Result<Api<DynamicObject>, CallError> {
        if !self.is_within(kube.scope(), kube.namespace()) {
            let refusal = kube::Error::Api(Box::new(kube.scope().refusal(self.place())));
            return Err(CallError::Failed { operation: self.operation("use"), source: Box::new(refusal) });
        }
        if ![self.namespace, self.name].into_iter().all(is_segment) {
            let missing = Status::failure("there can be no object of this name", "NotFound").with_code(404);
            let (operation, source) = (self.operation("use"), Box::new(kube::Error::Api(Box::new(missing))));
            return Err(CallError::Failed { operation, source });
        }
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let kind = GroupVersionKind::gvk(group, version, self.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural);
        Ok(match self.namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        })
    }

    pub(super) fn operation(&self, verb: &str) -> String {
        format!("{verb} {} {}/{}", self.kind, self.namespace, self.name)
    }

    /// Whether it is of one of our kinds. Its spec is read whatever it is: it may have been stored before there was a
    /// limit, and goes on working.
    pub(super) fn is_of_ours(&self) -> bool {
        self.api_version.starts_with("coder.com/")
    }

    /// Values that are read of it, if it is of another kind.
    pub(super) fn most_values(&self) -> usize {
        match self.kind {
            "Secret" | "ConfigMap" => VALUES_OF_DATA,
            _ => VALUES,
        }
    }
}

/// Whether a text can be a part of a path as it is: what RBAC allows as a name, and that is most.
fn is_segment(text: &str) -> bool {
    let splits = |letter: char| !letter.is_ascii_graphic() || "/?#%\\".contains(letter);
    !matches!(text, "." | "..") && !text.contains(splits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_values_are_read_of_data_than_of_other_objects() {
        let of = |api_version, kind| Target { api_version, kind, plural: "", namespace: "", name: "" };
        assert!(of("coder.com/v1alpha1", "CoderControlPlane").is_of_ours());
        assert!(!of("v1", "Secret").is_of_ours());
        assert!(of("v1", "Secret").most_values() < of("apps/v1", "Deployment").most_values());
    }

    #[test]
    fn a_call_stays_within_the_namespaces_that_are_watched_and_our_own() {
        let scope = Scope::of(&["a".to_owned(), "b".to_owned()]);
        let is_within = |plural, namespace, name| {
            let target = Target { api_version: "v1", kind: "Kind", plural, namespace, name };
            target.is_within(&scope, "ours")
        };
        assert!(is_within("secrets", "a", "x") && is_within("secrets", "ours", "x"));
        assert!(is_within("namespaces", "", "b") && !is_within("namespaces", "", "c"));
        assert!(!is_within("secrets", "c", "x") && !is_within("secrets", "", ""), "nor the whole cluster");
        let target = Target { api_version: "v1", kind: "Kind", plural: "kinds", namespace: "", name: "" };
        assert!(target.is_within(&Scope::Cluster, "ours"));
    }

    #[test]
    fn only_what_gives_rights_is_written_as_the_account_for_grants() {
        let gives_rights = |api_version| {
            let (kind, plural) = ("Kind", "kinds");
            Target { api_version, kind, plural, namespace: "a", name: "b" }.gives_rights()
        };
        assert!(gives_rights("rbac.authorization.k8s.io/v1"));
        for other in
            ["v1", "apps/v1", "networking.k8s.io/v1", "authorization.k8s.io/v1", "coder.com/v1alpha1"]
        {
            assert!(!gives_rights(other), "{other}");
        }
    }

    #[test]
    fn a_name_that_would_lead_to_another_path_is_no_name() {
        for name in ["coder", "", "coder.example-1", "system:node:a", "x".repeat(253).as_str()] {
            assert!(is_segment(name), "{name}");
        }
        for name in ["a/b", "../secrets/x", ".", "..", "a?limit=1", "a#b", "a%2fb", "a b", "a\n", "ä", "a\\b"]
        {
            assert!(!is_segment(name), "{name}");
        }
    }
}
