//! The kinds of objects that reconcilers make, once: applying, pruning, watching, rendering and the test of the operator's
//! permissions all follow this list. It decides nothing about a single object.

use super::drift;
use super::fingerprint::Fingerprint;
use crate::kubernetes::{KindName, Target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde::Serialize;
use serde_json::{Value, json};

/// Whether a cluster knows a kind, and what it means if it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Every cluster serves it.
    Always,
    /// It comes with a CustomResourceDefinition; what needs it waits until it is there.
    Required,
    /// It comes with a CustomResourceDefinition; without it there is nothing to do and nothing wrong.
    Wanted,
}

macro_rules! child_kinds {
    (
        core { $($core:ident),+ $(,)? }
        extensions { $($extension:ident: $presence:ident $names:expr),+ $(,)? }
    ) => {
        /// A kind of child.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the names are those of Kubernetes")]
        pub enum ChildKind { $($core,)+ $($extension,)+ }

        impl ChildKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$core,)+ $(Self::$extension,)+];

            /// apiVersion, kind and the plural of its path.
            pub const fn names(self) -> KindName {
                match self {
                    $(Self::$core => [$core::API_VERSION, $core::KIND, $core::URL_PATH_SEGMENT],)+
                    $(Self::$extension => $names,)+
                }
            }

            /// Whether a cluster may lack it.
            pub const fn presence(self) -> Presence {
                match self {
                    $(Self::$core => Presence::Always,)+
                    $(Self::$extension => Presence::$presence,)+
                }
            }
        }

        $(impl CoreKind for $core {
            const KIND_OF_CHILD: ChildKind = ChildKind::$core;
        })+
    };
}

/// A type of Kubernetes that children can be of.
pub trait CoreKind: Metadata<Ty = ObjectMeta> + Resource + Serialize {
    /// Its place in the list.
    const KIND_OF_CHILD: ChildKind;
}

child_kinds! {
    core { ServiceAccount, Role, RoleBinding, Deployment, Service, Ingress, PodDisruptionBudget }
    extensions {
        HttpRoute: Required ["gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"],
        ServiceMonitor: Wanted ["monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"],
        PodMonitor: Wanted ["monitoring.coreos.com/v1", "PodMonitor", "podmonitors"],
    }
}

impl ChildKind {
    /// As in `kind:` of a manifest.
    pub const fn as_str(self) -> &'static str {
        let [_, kind, _] = self.names();
        kind
    }
}

/// One object that should exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// What it is.
    pub kind: ChildKind,
    /// Where it lives.
    pub namespace: String,
    /// What it is called.
    pub name: String,
    /// What is applied, but for the fingerprint.
    pub manifest: Value,
    /// Of the manifest: taken once, since a manifest may be large.
    fingerprint: Fingerprint,
}

impl Child {
    /// A child as its manifest says.
    pub fn new(kind: ChildKind, namespace: &str, name: &str, mut manifest: Value) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        // A spec may give annotations of its own; this one is ours.
        Fingerprint::remove(&mut manifest);
        Self { kind, namespace, name, fingerprint: Fingerprint::of(&manifest), manifest }
    }

    /// A child of a type that Kubernetes itself defines.
    pub fn of<K: CoreKind>(object: &K) -> Self {
        let metadata = object.metadata();
        let place = |field: &Option<String>| field.clone().unwrap_or_default();
        // Types of the core API always have a JSON form: every key of theirs is a text.
        let manifest = serde_json::to_value(object).unwrap_or_default();
        Self::new(K::KIND_OF_CHILD, &place(&metadata.namespace), &place(&metadata.name), manifest)
    }

    /// A child of a kind that a CustomResourceDefinition defines.
    pub fn extension(kind: ChildKind, metadata: ObjectMeta, spec: Value) -> Self {
        let [api_version, name_of_kind, _] = kind.names();
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        let manifest =
            json!({"apiVersion": api_version, "kind": name_of_kind, "metadata": metadata, "spec": spec});
        Self::new(kind, &namespace.unwrap_or_default(), &name.unwrap_or_default(), manifest)
    }

    /// The fingerprint of its manifest.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What is applied: the manifest with its fingerprint on it.
    pub fn wanted(&self) -> Value {
        self.fingerprint.marked(self.manifest.clone())
    }

    /// Whether a live object is what was applied last, and has all of it.
    pub fn is_held_by(&self, live: &Value) -> bool {
        self.fingerprint.is_on(live) && drift::holds(live, &self.manifest)
    }

    /// Where calls about it go.
    pub fn target(&self) -> Target<'_> {
        Target::of(self.kind.names(), &self.namespace, &self.name)
    }
}
