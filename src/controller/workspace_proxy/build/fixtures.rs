//! Workspace proxies for tests, built by sentences: `Proxy::test().of_tls_control_plane(&["a"]).with("replicas", json!(3))`.
//! They are resolved as the reconciler does it, by the function of admission, before children are made of them.

use super::super::resolve::{Facts, ResolvedProxy, resolve};
use super::super::running_values;
use super::{Children, build};
use crate::controller::attached::fixtures::{Fixture, TestedKind};
use crds::CoderWorkspaceProxy;
use serde_json::Value;

/// A manifest and what the cluster would say about it.
pub(in super::super) type Proxy = Fixture<CoderWorkspaceProxy>;

impl TestedKind for CoderWorkspaceProxy {
    fn deployment(fixture: &Proxy) -> Value {
        fixture.children().deployment.unwrap().manifest
    }

    fn with_running_values(object: &Value, running: Option<&Value>) -> Value {
        running_values::with_running_values(object, running)
    }
}

impl Proxy {
    /// `eu` in namespace `ns`, with uid `u-1` and a spec that says nothing but its control plane, `coder`, which runs `coder:v1`
    /// behind plain HTTP. Its token is proven.
    pub(in super::super) fn test() -> Self {
        Self::of_name("eu")
    }

    pub(in super::super) fn with_token_checksum(self, checksum: &str) -> Self {
        self.with_secret(Some(checksum))
    }

    pub(in super::super) fn without_token(self) -> Self {
        self.with_secret(None)
    }

    pub(in super::super) fn children(&self) -> Children {
        build(&self.resolved())
    }

    pub(in super::super) fn resolved(&self) -> ResolvedProxy {
        let facts = Facts {
            cluster_domain: "cluster.local",
            control_plane: self.control_plane.as_ref(),
            token_checksum: self.secret_checksum.as_deref(),
            running: self.running.as_ref(),
            consumed_checksum: self.consumed_checksum.as_deref(),
        };
        resolve(&self.complete(), facts)
    }
}
