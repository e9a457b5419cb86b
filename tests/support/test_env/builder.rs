//! How a [`TestEnv`] is to be: what its cluster has, what its operator is told, and what stands between them.
//! It starts each part once; it never restarts one.

use super::read::Reader;
use super::{Faults, LIMIT, TestEnv};
use crate::cluster::{Cluster, ClusterOptions};
use crate::coderd::Coderd;
use crate::fault_proxy::{FaultProxy, Journal};
use crate::installation::Installation;
use crate::operator::Operator;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Whether Services lead to a double of coderd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Services {
    Nowhere,
    PlainHttp,
    HttpAndTls,
}

/// A description of a [`TestEnv`]: a cluster of its own without nodes, and a reconciler whose Services lead to a double of
/// coderd by plain HTTP, unless it says otherwise.
#[must_use]
pub struct TestEnvBuilder {
    binary: &'static str,
    nodes: usize,
    cluster: Option<Cluster>,
    shipped: bool,
    app: &'static str,
    flags: Vec<String>,
    services: Services,
    visible: Option<Vec<String>>,
    admitting: Option<Vec<String>>,
    limit: Duration,
}

impl TestEnvBuilder {
    pub(super) fn new(binary: &'static str) -> Self {
        Self {
            binary,
            nodes: 0,
            cluster: None,
            shipped: false,
            app: "controller",
            flags: Vec::new(),
            services: Services::PlainHttp,
            visible: None,
            admitting: None,
            limit: LIMIT,
        }
    }

    /// Its own cluster rolls out Deployments on that many simulated nodes.
    pub fn nodes(mut self, count: usize) -> Self {
        self.nodes = count;
        self
    }

    /// It has no cluster of its own but works in this one: one with more than nodes, or with namespaces that flags name.
    pub fn in_cluster(mut self, cluster: &Cluster) -> Self {
        self.cluster = Some(cluster.clone());
        self
    }

    /// The manifests are applied as they are shipped, into `coder-system`, and not under a prefix.
    pub fn shipped(mut self) -> Self {
        self.shipped = true;
        self
    }

    /// The parts of the operator that run; `controller` by default.
    pub fn app(mut self, app: &'static str) -> Self {
        self.app = app;
        self
    }

    /// A flag of the operator.
    pub fn flag(self, flag: impl Into<String>) -> Self {
        self.flags([flag.into()])
    }

    /// Flags of the operator. They come before those that lead Services to coderd, so that a `--resolve` here wins.
    pub fn flags(mut self, flags: impl IntoIterator<Item = String>) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Services lead to the double by TLS, too.
    pub fn coderd_with_tls(mut self) -> Self {
        self.services = Services::HttpAndTls;
        self
    }

    /// There is no double of coderd.
    pub fn without_coderd(mut self) -> Self {
        self.services = Services::Nowhere;
        self
    }

    /// The operator reaches the API server through a fault proxy, which shows it these namespaces and its own.
    pub fn through_fault_proxy(mut self, namespaces: &[&str]) -> Self {
        self.visible = Some(namespaces.iter().map(|namespace| (*namespace).to_owned()).collect());
        self
    }

    /// The shipped webhooks stand before the API server, answered by this operator, for these namespaces or, if none is
    /// named, for all.
    pub fn admitting(mut self, namespaces: &[&str]) -> Self {
        self.admitting = Some(namespaces.iter().map(|namespace| (*namespace).to_owned()).collect());
        self
    }

    /// How long everything that is waited for may take.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts everything, and returns when the operator is ready.
    pub async fn start(self) -> TestEnv {
        let cluster = match self.cluster {
            Some(cluster) => cluster,
            None => Cluster::start(ClusterOptions { nodes: self.nodes, ..Default::default() }).await,
        };
        let installation = if self.shipped {
            Installation::shipped(&cluster).await
        } else {
            Installation::new(&cluster, "operator").await
        };
        let faults = match &self.visible {
            Some(namespaces) => Some(Faults::start(&cluster, &installation, namespaces).await),
            None => None,
        };
        let url = faults.as_ref().map_or_else(|| cluster.url(), |faults| faults.proxy.url());
        let mut options = installation.operator_through(self.app, &url).await;
        options.flags = self.flags;
        let mut coderd = None;
        if self.services != Services::Nowhere {
            let double = Coderd::builder().api_rate_limit(None).start().await;
            if self.services == Services::HttpAndTls {
                options.flags.push(format!("--resolve=*.svc.cluster.local:443={}", double.tls_addr()));
            }
            options.flags.push(format!("--resolve=*.svc.cluster.local={}", double.addr()));
            coderd = Some(Arc::new(double));
        }
        let mut operator = Operator::start(self.binary, &options).await;
        operator.ready(self.limit).await;
        if let Some(namespaces) = &self.admitting {
            let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
            installation.admit(operator.ports.webhooks, &namespaces).await;
        }
        TestEnv {
            operator: Mutex::new(operator),
            cluster,
            installation,
            coderd,
            faults,
            binary: self.binary,
            options,
            limit: self.limit,
            reader: Reader::default(),
        }
    }
}

impl Faults {
    async fn start(cluster: &Cluster, installation: &Installation, namespaces: &[String]) -> Self {
        let journal = Arc::new(Journal::default());
        let proxy = FaultProxy::recording(cluster, journal.clone()).await;
        proxy.show_only(namespaces.iter().chain([&installation.namespace]).map(String::as_str));
        Self { proxy, journal }
    }
}
