//! A real etcd and kube-apiserver on free loopback ports, in seconds; nodes that roll out Deployments on request.
//! It offers a cluster as users have one; it never reaches into a test or knows the operator.

mod control_plane;
mod kubeconfig;
mod kubectl;
mod nodes;
pub mod pki;

pub use kubectl::{Answer, kustomize};
pub use nodes::REALLY_READY;

use crate::optional_kinds::optional_kinds;
use crate::process::{Process, scratch_folder};
use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// What a cluster has beyond etcd and the API server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterOptions {
    /// Run the controller manager, the scheduler and kwok with this many simulated nodes.
    pub nodes: usize,
    /// Write an audit log of metadata for every request but those of administrators.
    pub audit: bool,
    /// Define the kinds that a cluster may lack; see [`crate::optional_kinds`].
    pub optional_kinds: bool,
}

/// A running cluster, by a handle that can be cloned. Everything ends when the last one is dropped, or when the process
/// ends in whatever way.
#[derive(Clone)]
pub struct Cluster {
    folder: PathBuf,
    control_plane: Arc<ControlPlane>,
    _node_side: Arc<Vec<Process>>,
    namespaces: Arc<AtomicUsize>,
}

impl Cluster {
    /// The cluster this test binary shares: one start for all its tests, one namespace each.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(ClusterOptions::default())).await
    }

    /// Starts a cluster and returns when its API server is ready (and its nodes, if any, are).
    pub async fn start(options: ClusterOptions) -> Self {
        let folder = scratch_folder("cluster");
        let control_plane = ControlPlane::start(&folder, options).await;
        let admin = kubeconfig::certificate(&control_plane);
        std::fs::write(folder.join("kubeconfig"), admin).expect("the cluster's folder is writable");
        let control_plane = Arc::new(control_plane);
        let mut cluster =
            Self { folder, control_plane, _node_side: Arc::default(), namespaces: Arc::default() };
        if options.nodes > 0 {
            cluster._node_side = Arc::new(nodes::start(&cluster, options.nodes).await);
        }
        if options.optional_kinds {
            cluster.kubectl_with_input("apply --server-side -f -", &optional_kinds()).await.expect_ok();
        }
        cluster
    }

    /// The folder with logs, certificates and kubeconfigs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The URL of the API server.
    pub fn url(&self) -> String {
        self.control_plane.url()
    }

    /// The CA that signed the API server's certificate.
    pub fn ca(&self) -> &str {
        &self.control_plane.pki.ca
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The audit log, one JSON object a line; empty unless it was asked for.
    pub fn audit_log(&self) -> String {
        std::fs::read_to_string(self.folder.join("audit.log")).unwrap_or_default()
    }

    /// A client with the administrator's rights. Made for the calling runtime: one a test, not one for all.
    pub async fn client(&self) -> kube::Client {
        self.client_of(&self.kubeconfig()).await
    }

    /// A client that speaks as the user of that kubeconfig, without retries of its own.
    pub async fn client_of(&self, kubeconfig: &Path) -> kube::Client {
        self.client_impersonating(kubeconfig, None).await
    }

    /// The same that speaks as another user, whom that one may impersonate.
    pub async fn client_as(&self, kubeconfig: &Path, user: &str) -> kube::Client {
        self.client_impersonating(kubeconfig, Some(user.to_owned())).await
    }

    async fn client_impersonating(&self, kubeconfig: &Path, user: Option<String>) -> kube::Client {
        // Several crates of a test binary use rustls; whoever comes first installs the one provider there is.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
        let mut config = kube::Config::from_custom_kubeconfig(file, &Default::default())
            .await
            .expect("a usable kubeconfig");
        config.default_retry = false;
        config.auth_info.impersonate = user;
        kube::Client::try_from(config).expect("a client")
    }

    /// A client that verifies the server and says nothing about who is calling.
    pub fn anonymous_client(&self) -> kube::Client {
        self.control_plane.anonymous_client().expect("a client")
    }

    /// Creates a namespace no other test has.
    pub async fn namespace(&self, purpose: &str) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{purpose}-{number}");
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let api = Api::<Namespace>::all(self.client().await);
        api.create(&PostParams::default(), &namespace).await.expect("the namespace can be created");
        name
    }

    /// A kubeconfig for a service account, reaching the API server at `url` (the real one or a proxy).
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str, url: &str) -> PathBuf {
        let token = self.token(namespace, service_account, &[]).await;
        let ca = url.starts_with("https:").then(|| self.ca());
        let port = url.rsplit(':').next().unwrap_or("x");
        let path = self.folder.join(format!("kubeconfig-{namespace}-{service_account}-{port}"));
        std::fs::write(&path, kubeconfig::token(url, ca, &token)).expect("the cluster's folder is writable");
        path
    }

    /// A token of a service account, for these audiences or the API server itself.
    pub async fn token(&self, namespace: &str, service_account: &str, audiences: &[&str]) -> String {
        let request = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": { "audiences": audiences, "expirationSeconds": 7200 },
        });
        let accounts =
            Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(self.client().await, namespace);
        let request = serde_json::from_value(request).expect("a token request");
        let answer = accounts
            .create_token_request(service_account, &PostParams::default(), &request)
            .await
            .unwrap_or_else(|error| panic!("no token for {namespace}/{service_account}: {error}"));
        answer.status.expect("a token request is answered with a token").token
    }
}
