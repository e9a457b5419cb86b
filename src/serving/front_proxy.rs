//! Which front proxies may speak for users: the CA, names and headers the API server publishes for extension servers.
//! It keeps that trust current; it never authenticates a request by itself.

use super::readiness::Gate;
use crate::kubernetes::Reflected;
use crate::trust::certificates;
use arc_swap::ArcSwapOption;
use k8s_openapi::api::core::v1::ConfigMap;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Where the API server publishes it.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The ConfigMap's name.
pub(crate) const CONFIG_MAP: &str = "extension-apiserver-authentication";

/// What the API server says about its front proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trust {
    /// The CAs of front-proxy client certificates. Empty: no front proxy is trusted.
    pub roots: Vec<CertificateDer<'static>>,
    /// The common names allowed; empty allows every certificate of the CA.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub username_headers: Vec<String>,
    /// Headers with the user's groups.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub extra_header_prefixes: Vec<String>,
}

/// Why the ConfigMap cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// A key is not what it should be.
    #[error("key {0} of ConfigMap {NAMESPACE}/{CONFIG_MAP} is not usable")]
    Key(&'static str),
}

impl Trust {
    /// Reads the ConfigMap's data.
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Self, Unusable> {
        const CA: &str = "requestheader-client-ca-file";
        let pem = data.get(CA).map(String::as_str).unwrap_or_default();
        Ok(Self {
            roots: certificates(pem).map_err(|_| Unusable::Key(CA))?,
            allowed_names: list(data, "requestheader-allowed-names")?,
            username_headers: list(data, "requestheader-username-headers")?,
            group_headers: list(data, "requestheader-group-headers")?,
            extra_header_prefixes: list(data, "requestheader-extra-headers-prefix")?,
        })
    }
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, Unusable> {
    match data.get(key) {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|_| Unusable::Key(key)),
    }
}

/// The trust in force. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrontProxyTrust(Arc<ArcSwapOption<Trust>>);

impl FrontProxyTrust {
    /// The trust of this moment; `None` until it was read once.
    pub(crate) fn get(&self) -> Option<Arc<Trust>> {
        self.0.load_full()
    }

    /// Follows the ConfigMap until `stop`; the gate opens with the first usable version.
    pub(crate) async fn run(self, mut config_map: Reflected<ConfigMap>, gate: Gate, stop: CancellationToken) {
        gate.close(format!("ConfigMap {NAMESPACE}/{CONFIG_MAP}"));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            synced = config_map.synced() => if !synced { return },
        }
        loop {
            self.refresh(&config_map, &gate);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = config_map.changed() => {}
            }
        }
    }

    fn refresh(&self, config_map: &Reflected<ConfigMap>, gate: &Gate) {
        let Some(found) = config_map.one() else { return };
        match Trust::read(found.data.as_ref().unwrap_or(&BTreeMap::new())) {
            Ok(trust) => {
                self.0.store(Some(Arc::new(trust)));
                gate.open();
            }
            Err(error) if self.get().is_some() => tracing::warn!(%error, "front-proxy trust kept as it was"),
            Err(error) => gate.close(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_a_front_proxy_trusts_none() {
        let trust = Trust::read(&BTreeMap::new()).unwrap();
        assert!(trust.roots.is_empty() && trust.username_headers.is_empty());
    }

    #[test]
    fn lists_are_json_and_anything_else_is_refused() {
        let with = |value: &str| {
            Trust::read(&BTreeMap::from([("requestheader-allowed-names".to_owned(), value.to_owned())]))
        };
        assert_eq!(with(r#"["a","b"]"#).unwrap().allowed_names, ["a", "b"]);
        assert_eq!(with("a,b"), Err(Unusable::Key("requestheader-allowed-names")));
    }
}
