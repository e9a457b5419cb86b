//! How the process reaches the API server: one client per purpose, none with hidden retries.
//! A slow write never delays a lease renewal, and a watch is never cut by a call's deadline.

use super::objects::Objects;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use std::path::Path;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection silent for longer is dead: watches end by themselves before, and calls have deadlines of their own.
const SILENCE_LIMIT: Duration = Duration::from_secs(300);

/// The API server as the rest of the process sees it. Cloning is cheap.
#[derive(Clone)]
pub struct Kube {
    pub(super) calls: Client,
    pub(super) watches: Client,
    pub(super) leases: Client,
    namespace: String,
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file given by `--kubeconfig` is of no use.
    #[error("cannot use the kubeconfig {path}: {source}; check --kubeconfig")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig was given nor is this a pod.
    #[error("not running in a pod ({source}); outside a cluster name a kubeconfig with --kubeconfig")]
    InCluster {
        /// What is missing.
        source: Box<kube::config::InClusterError>,
    },
    /// The configuration is complete but no client can be made from it.
    #[error("cannot make a client for the API server: {source}")]
    Client {
        /// Why.
        source: Box<kube::Error>,
    },
}

impl Kube {
    /// Prepares the clients; nothing is sent yet. Only an explicit kubeconfig or the pod's own credentials count.
    pub async fn connect(kubeconfig: Option<&Path>, namespace: String) -> Result<Self, ConnectError> {
        let mut config = match kubeconfig {
            Some(path) => from_file(path).await?,
            None => {
                Config::incluster().map_err(|source| ConnectError::InCluster { source: Box::new(source) })?
            }
        };
        config.default_retry = false;
        config.read_timeout = Some(SILENCE_LIMIT);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let client = || {
            Client::try_from(config.clone())
                .map_err(|source| ConnectError::Client { source: Box::new(source) })
        };
        Ok(Self { calls: client()?, watches: client()?, leases: client()?, namespace })
    }

    /// The namespace this process runs in.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Objects of a kind in our own namespace.
    pub fn ours<K>(&self) -> Objects<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.within(&self.namespace)
    }

    /// Objects of a kind in some namespace.
    pub fn within<K>(&self, namespace: &str) -> Objects<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = |client: &Client| Api::namespaced(client.clone(), namespace);
        Objects::new(api(&self.calls), api(&self.watches))
    }

    /// Objects of a kind in the whole cluster.
    pub fn everywhere<K: Resource<DynamicType = ()>>(&self) -> Objects<K> {
        let api = |client: &Client| Api::all(client.clone());
        Objects::new(api(&self.calls), api(&self.watches))
    }
}

async fn from_file(path: &Path) -> Result<Config, ConnectError> {
    let failed =
        |source| ConnectError::Kubeconfig { path: path.display().to_string(), source: Box::new(source) };
    let file = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)
}
