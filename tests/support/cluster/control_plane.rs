//! etcd and kube-apiserver as processes, with RBAC, the front proxy and service account keys as in production.

use super::ClusterOptions;
use super::pki::Pki;
use crate::process::Process;
use crate::{ports, tools, wait};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A program of somebody else may take a port of ours: that costs one more try.
const TRIES: usize = 3;
const START_LIMIT: Duration = Duration::from_secs(90);

/// The cluster's own programs and the tests act as administrators: nobody counts what they ask, and it is most of all.
const AUDIT_POLICY: &str = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"None","userGroups":["system:masters"]},{"level":"Metadata"}]}"#;

/// The two processes and what clients need to reach them.
pub struct ControlPlane {
    _etcd: Process,
    _api_server: Process,
    port: u16,
    /// The certificates in use.
    pub pki: Pki,
}

impl ControlPlane {
    /// Starts both and returns when the API server says it is ready.
    pub async fn start(folder: &Path, options: ClusterOptions) -> Self {
        let mut failure = String::new();
        for _ in 0..TRIES {
            match Self::try_start(folder, options).await {
                Ok(started) => return started,
                Err(reason) => failure = reason,
            }
        }
        panic!("the test cluster does not start: {failure}");
    }

    /// The URL clients use.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A client without an identity.
    pub fn anonymous_client(&self) -> kube::Result<kube::Client> {
        anonymous(&self.pki, self.port)
    }

    async fn try_start(folder: &Path, options: ClusterOptions) -> Result<Self, String> {
        let [etcd_port, peer_port, port] = ports::free();
        let pki = Pki::write(folder);
        let mut etcd = Process::start("etcd", folder, &mut etcd(folder, etcd_port, peer_port));
        let command = &mut api_server(folder, &pki, etcd_port, port, options);
        let mut api_server = Process::start("kube-apiserver", folder, command);
        let ready = async || {
            // An ended process is a final answer, not a reason to go on waiting.
            if let Err(reason) = etcd.check_running().and_then(|()| api_server.check_running()) {
                return Ok(Err(reason));
            }
            answers_ready(&pki, port).await.map(Ok)
        };
        wait::until("the API server to be ready", START_LIMIT, ready).await?;
        Ok(Self { _etcd: etcd, _api_server: api_server, port, pki })
    }
}

fn etcd(folder: &Path, port: u16, peer_port: u16) -> Command {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = tools::command("etcd");
    command
        .arg(format!("--data-dir={}", folder.join(format!("etcd-{port}")).display()))
        .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
        .args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
        .args(["--name=test", &format!("--initial-cluster=test={peer}")])
        .args(["--unsafe-no-fsync", "--log-level=warn"]);
    command
}

fn api_server(folder: &Path, pki: &Pki, etcd: u16, port: u16, options: ClusterOptions) -> Command {
    let mut command = tools::command("kube-apiserver");
    command
        .args([format!("--etcd-servers=http://127.0.0.1:{etcd}"), format!("--secure-port={port}")])
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"])
        .args(["--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none"])
        .arg(format!("--tls-cert-file={}", pki.path("apiserver.crt")))
        .arg(format!("--tls-private-key-file={}", pki.path("apiserver.key")))
        .arg(format!("--client-ca-file={}", pki.path("ca.crt")))
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        .arg(format!("--service-account-signing-key-file={}", pki.path("service-accounts.key")))
        .arg(format!("--service-account-key-file={}", pki.path("service-accounts.pub")))
        .arg(format!("--requestheader-client-ca-file={}", pki.path("front-proxy-ca.crt")))
        .args([
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-group-headers=X-Remote-Group",
        ])
        .args(["--requestheader-username-headers=X-Remote-User"])
        .args(["--requestheader-extra-headers-prefix=X-Remote-Extra-"])
        .arg(format!("--proxy-client-cert-file={}", pki.path("front-proxy-client.crt")))
        .arg(format!("--proxy-client-key-file={}", pki.path("front-proxy-client.key")));
    // Stricter than most clusters, as OpenShift is: whoever makes a child that holds back its owner must be allowed to.
    command.arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement");
    if options.nodes == 0 {
        // Nobody makes the `default` service accounts this plugin waits for.
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    if options.audit {
        let policy = folder.join("audit-policy.json");
        std::fs::write(&policy, AUDIT_POLICY).expect("the cluster's folder is writable");
        command
            .arg(format!("--audit-policy-file={}", policy.display()))
            .arg(format!("--audit-log-path={}", folder.join("audit.log").display()))
            // Never begun anew: what was counted must not move to another file.
            .args(["--audit-log-mode=blocking", "--audit-log-maxsize=10000"]);
    }
    command
}

async fn answers_ready(pki: &Pki, port: u16) -> Result<(), String> {
    let client = anonymous(pki, port).map_err(|error| error.to_string())?;
    let request = http::Request::get("/readyz").body(Vec::new()).expect("a request");
    client.request_text(request).await.map(drop).map_err(|error| error.to_string())
}

fn anonymous(pki: &Pki, port: u16) -> kube::Result<kube::Client> {
    // Several crates of a test binary use rustls; whoever comes first installs the one provider there is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().expect("a URL"));
    config.root_cert = Some(vec![der(&pki.ca)]);
    config.default_retry = false;
    kube::Client::try_from(config)
}

fn der(pem: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("our own PEM").to_vec()
}
