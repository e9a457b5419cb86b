//! How the process reaches the API server: one client per purpose, none with hidden retries.
//! A slow write never delays a lease renewal, a watch is never cut by a call's deadline, and nothing but Roles and
//! RoleBindings is ever written as the account that holds what may be handed on.

use super::configuration::{self, ConfigurationError};
use super::grants;
use super::objects::{CallError, Objects};
use super::scope::Scope;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use std::path::Path;
use std::time::Duration;
use tower::util::option_layer;
use tower::{BoxError, Layer, ServiceExt};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection silent for longer is dead: watches end by themselves before, and calls have deadlines of their own.
const SILENCE_LIMIT: Duration = Duration::from_secs(300);

/// How long a connection is kept that nobody uses; leases are renewed more often.
const UNUSED_LIMIT: Duration = Duration::from_secs(20);
/// Bytes that a connection reads at once, and of the headers of an answer. There are some thirty connections.
const READ_BUFFER: usize = 64 * 1024;

/// The API server as the rest of the process sees it. Cloning is cheap.
#[derive(Clone)]
pub struct Kube {
    pub(super) calls: Client,
    pub(super) watches: Client,
    pub(super) leases: Client,
    /// Calls as the account that Roles and RoleBindings are written as.
    pub(super) as_grants: Client,
    namespace: String,
    grants_account: String,
    scope: Scope,
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing says where it is, or what says so cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The configuration is complete but no client can be made from it.
    #[error("cannot make a client for the API server: {source}")]
    Client {
        /// Why.
        source: Box<kube::Error>,
    },
}

/// A client of the API server. It differs from the one of `kube` in what stays after large answers: the buffers of its
/// connections are small, and a connection that nobody uses is closed.
fn client(config: &Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config.clone());
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector()?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let http = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(UNUSED_LIMIT)
        .http1_max_buf_size(READ_BUFFER)
        .build::<_, Body>(connector)
        .map_err(BoxError::from);
    let authenticated = option_layer(config.auth_layer()?).layer(config.extra_headers_layer()?.layer(http));
    let service = config.base_uri_layer().layer(authenticated);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

impl Kube {
    /// Prepares the clients; nothing is sent yet. Without a kubeconfig, the way is found as every Kubernetes tool does.
    /// `grants_account` is the ServiceAccount of our namespace that Roles and RoleBindings are written as.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        namespace: String,
        grants_account: String,
    ) -> Result<Self, ConnectError> {
        let mut config = configuration::find(kubeconfig).await?;
        config.default_retry = false;
        config.read_timeout = Some(SILENCE_LIMIT);
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let client = |config: &Config| {
            client(config).map_err(|source| ConnectError::Client { source: Box::new(source) })
        };
        let (calls, watches, leases) = (client(&config)?, client(&config)?, client(&config)?);
        // The API server adds the groups of a service account by itself; those a kubeconfig asks for are another user's.
        config.auth_info.impersonate = Some(grants::user(&namespace, &grants_account));
        config.auth_info.impersonate_uid = None;
        config.auth_info.impersonate_groups = None;
        config.auth_info.impersonate_user_extra = None;
        let as_grants = client(&config)?;
        Ok(Self { calls, watches, leases, as_grants, namespace, grants_account, scope: Scope::Cluster })
    }

    /// The same, but nothing outside of these namespaces and our own is asked for.
    pub fn watching(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// A failed call of that client, with what to do where the account is why.
    pub(super) fn as_grants_failed(&self, error: CallError) -> CallError {
        grants::explained(error, &self.namespace, &self.grants_account)
    }

    /// The ServiceAccount that Roles and RoleBindings are written as, as people name it: `namespace/name`.
    pub fn grants_account(&self) -> String {
        format!("{}/{}", self.namespace, self.grants_account)
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
        Objects::new(namespace, api(&self.calls), api(&self.watches))
    }

    /// The namespaces this process looks at.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Objects of a kind in every namespace that this process looks at, one set for each list that is needed.
    pub fn watched<K>(&self) -> Vec<Objects<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.scope {
            Scope::Cluster => vec![self.everywhere()],
            Scope::Namespaces(namespaces) => namespaces.iter().map(|one| self.within(one)).collect(),
        }
    }

    /// Objects of a kind outside of all namespaces, by calls as the account that Roles and RoleBindings are written as.
    pub fn as_grants<K: Resource<DynamicType = ()>>(&self) -> Objects<K> {
        Objects::new("", Api::all(self.as_grants.clone()), Api::all(self.watches.clone()))
    }

    /// Objects of a kind in the whole cluster.
    pub fn everywhere<K: Resource<DynamicType = ()>>(&self) -> Objects<K> {
        let api = |client: &Client| Api::all(client.clone());
        Objects::new("", api(&self.calls), api(&self.watches))
    }
}
