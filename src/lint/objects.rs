//! Decides which objects a run looks at, and what each of them is to us.
//! Never judges one.

use super::engine::Kind;
use super::node::{Content, Node};
use super::sources::Source;
use super::yaml::Document;

/// What an object is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of our kinds.
    Ours(Kind),
    /// Of our group, but of no kind or version we have.
    Stranger,
    /// A kustomization of files.
    Kustomize,
    /// A Kustomization of Flux.
    Flux,
    /// An Application of Argo CD.
    Argo,
    /// A webhook configuration, APIService or CustomResourceDefinition.
    Registration,
    /// A Secret, or something that becomes one.
    Secret,
    /// A ConfigMap.
    ConfigMap,
    /// A Deployment, which may be the operator.
    Deployment,
}

/// One object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    /// What it is to us.
    pub role: Role,
    /// The text it is in.
    pub source: &'a Source,
    /// The document it is in.
    pub document: &'a Document,
    /// Its value.
    pub node: &'a Node,
    /// Its kind.
    pub kind: &'a str,
    /// Its namespace, or nothing.
    pub namespace: &'a str,
    /// Its name, or nothing.
    pub name: &'a str,
}

impl Object<'_> {
    /// Its kind, where it is one of ours.
    pub(crate) fn our_kind(&self) -> Option<Kind> {
        match self.role {
            Role::Ours(kind) => Some(kind),
            _ => None,
        }
    }

    /// For a message.
    pub(crate) fn title(&self) -> String {
        match (self.namespace, self.name) {
            (_, "") => self.kind.to_owned(),
            ("", name) => format!("{} {name}", self.kind),
            (namespace, name) => format!("{} {namespace}/{name}", self.kind),
        }
    }

    /// An annotation.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.node.text_at(&["metadata", "annotations", key])
    }

    /// Whether it may be in the namespace of another one: kustomize and Flux set a namespace that is left out.
    pub(crate) fn is_near(&self, other: &Object<'_>) -> bool {
        self.namespace == other.namespace || self.namespace.is_empty() || other.namespace.is_empty()
    }

    /// Whether YAML traps in it are ours to report.
    pub(crate) fn reports_traps(&self) -> bool {
        !matches!(self.role, Role::Secret | Role::ConfigMap | Role::Deployment)
    }
}

/// Every object that matters, Lists written out, in the order of the files.
pub(super) fn collect(sources: &[Source]) -> Vec<Object<'_>> {
    let mut objects = Vec::new();
    for source in sources {
        for document in &source.stream.documents {
            add(source, document, &document.root, &mut objects);
        }
    }
    objects
}

fn add<'a>(source: &'a Source, document: &'a Document, node: &'a Node, objects: &mut Vec<Object<'a>>) {
    let kind = node.text_at(&["kind"]).unwrap_or_default();
    let api_version = node.text_at(&["apiVersion"]).unwrap_or_default();
    if kind.ends_with("List")
        && let Some(items) = node.get("items")
    {
        for item in items.items() {
            add(source, document, item, objects);
        }
        return;
    }
    let role = match role(api_version, kind) {
        None if source.is_kustomization() && kind.is_empty() => Some(Role::Kustomize),
        role => role,
    };
    if let Some(role) = role.filter(|_| matches!(node.content, Content::Map(_))) {
        let namespace = node.text_at(&["metadata", "namespace"]).unwrap_or_default();
        let name = node.text_at(&["metadata", "name"]).unwrap_or_default();
        objects.push(Object { role, source, document, node, kind, namespace, name });
    }
}

fn role(api_version: &str, kind: &str) -> Option<Role> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match (group, kind) {
        (crds::well_known::GROUP, _) => {
            let ours = Kind::from_name(kind).filter(|_| version == crds::well_known::VERSION);
            Some(ours.map_or(Role::Stranger, Role::Ours))
        }
        ("kustomize.config.k8s.io", "Kustomization" | "Component") => Some(Role::Kustomize),
        ("kustomize.toolkit.fluxcd.io", "Kustomization") => Some(Role::Flux),
        ("argoproj.io", "Application") => Some(Role::Argo),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        )
        | ("apiregistration.k8s.io", "APIService")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(Role::Registration),
        ("", "Secret")
        | ("bitnami.com", "SealedSecret")
        | ("external-secrets.io", "ExternalSecret")
        | ("cert-manager.io", "Certificate") => Some(Role::Secret),
        ("", "ConfigMap") => Some(Role::ConfigMap),
        ("apps", "Deployment") => Some(Role::Deployment),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::sources::Arrival;

    #[test]
    fn lists_are_written_out_and_the_rest_is_left_out() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: coder.com/v1alpha1, kind: CoderControlPlane, metadata: {name: a, namespace: b}}\n- {apiVersion: v1, kind: Pod}\n---\n- 1\n---\napiVersion: coder.com/v1\nkind: CoderControlPlane\n---\napiVersion: aggregation.coder.com/v1alpha1\nkind: CoderTemplate\n";
        let sources = [Source::new("x".into(), None, Arrival::Named, text.into())];
        let objects = collect(&sources);
        let seen: Vec<_> = objects.iter().map(|object| (object.role, object.title())).collect();
        let expected = [
            (Role::Ours(Kind::ControlPlane), "CoderControlPlane b/a".to_owned()),
            (Role::Stranger, "CoderControlPlane".to_owned()),
        ];
        assert_eq!(seen, expected);
    }
}
