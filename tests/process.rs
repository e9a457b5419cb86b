//! The process as its users meet it: modes, exit codes, readiness that never lies, ports that ask who is calling.

use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use support::wait::holds;
use support::{Cluster, Fault, FaultProxy, Installation, Operator, ports, until};
use tokio::net::TcpStream;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);

fn refused(words: &str) -> String {
    let output = Command::new(BINARY).args(words.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn an_unknown_mode_ends_with_code_2_and_names_the_choices() {
    let said = refused("--app=everything");
    for mode in ["all", "controller", "webhooks", "aggregated-apiserver", "mcp-http"] {
        assert!(said.contains(mode), "{said}");
    }
}

#[test]
fn half_a_configuration_ends_with_code_2_and_names_the_missing_flags() {
    let said = refused("--app=aggregated-apiserver --coder-url=https://coder.example.com");
    assert!(said.contains("--coder-session-token") && said.contains("--coder-namespace"), "{said}");
    assert!(refused("--webhook-ca=external").contains("--tls-dir"));
}

#[test]
fn without_a_cluster_the_message_says_which_flag_helps() {
    let output = Command::new(BINARY).env_remove("KUBERNETES_SERVICE_HOST").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--kubeconfig"));
}

#[test]
fn a_flag_can_be_an_environment_variable_and_help_never_shows_a_token() {
    let output = Command::new(BINARY).env("CODER_K8S_APP", "nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let output =
        Command::new(BINARY).arg("--help").env("CODER_K8S_CODER_SESSION_TOKEN", "hunter2").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("CODER_K8S_CODER_SESSION_TOKEN") && !help.contains("hunter2"), "{help}");
}

#[test]
fn version_names_commit_and_profile_and_completion_knows_the_flags() {
    let run =
        |word: &[&str]| String::from_utf8(Command::new(BINARY).args(word).output().unwrap().stdout).unwrap();
    let version = run(&["--version"]);
    assert!(version.starts_with("coder-k8s 0.1.0 (") && version.contains("debug"), "{version}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completion", shell]).contains("lease-duration"), "{shell}");
    }
}

async fn mode_becomes_ready_alone(app: &'static str, checks: &[&str]) {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, &format!("alone-{app}")).await;
    let operator = installation.start(BINARY, app).await;
    let (_, verbose) = operator.probe("/readyz?verbose").await.unwrap();
    let listed: Vec<&str> =
        verbose.lines().filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok")).collect();
    let mut expected: Vec<&str> = ["process", "certificate", "caBundle", "metrics"].into();
    expected.extend(checks);
    assert_eq!(sorted(listed), sorted(expected), "{verbose}");
    assert_eq!(operator.probe("/healthz").await.unwrap().0, 200);
}

fn sorted(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names
}

const KINDS: [&str; 3] = ["CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy"];

#[tokio::test]
async fn the_controller_becomes_ready_alone() {
    mode_becomes_ready_alone("controller", &KINDS).await;
}

#[tokio::test]
async fn the_webhooks_become_ready_alone() {
    mode_becomes_ready_alone("webhooks", &["webhooks"]).await;
}

#[tokio::test]
async fn the_aggregated_api_becomes_ready_alone() {
    mode_becomes_ready_alone("aggregated-apiserver", &["aggregated-api", "front-proxy trust"]).await;
}

#[tokio::test]
async fn mcp_becomes_ready_alone() {
    mode_becomes_ready_alone("mcp-http", &["mcp"]).await;
}

#[tokio::test]
async fn everything_in_one_process_becomes_ready() {
    let all = [KINDS.as_slice(), &["webhooks", "aggregated-api", "front-proxy trust", "mcp"]].concat();
    mode_becomes_ready_alone("all", &all).await;
}

#[tokio::test]
async fn readyz_is_never_true_before_the_first_sync() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "unsynced").await;
    let proxy = FaultProxy::start(cluster).await;
    proxy.on(Fault::Hold, |method, path| method == "GET" && path.contains("/coderprovisioners"));
    let mut operator = Operator::start(BINARY, &installation.operator_through("all", &proxy.url()).await);
    // Everything else is up: only the held list is missing.
    until("the other checks", LIMIT, async || {
        let (status, verbose) = operator.probe("/readyz?verbose").await?;
        assert_eq!(status, 503, "ready without CoderProvisioner: {verbose}");
        let waiting: Vec<&str> = verbose.lines().filter(|line| line.starts_with("[-]")).collect();
        holds(waiting == ["[-]CoderProvisioner waiting: its first list"], format!("{waiting:?}"))
    })
    .await;
    assert_eq!(operator.probe("/healthz").await.unwrap().0, 200, "alive all the same");
    proxy.release();
    operator.ready(LIMIT).await;
}

#[tokio::test]
async fn a_signal_drains_and_ends_with_code_0_and_a_port_taken_is_named() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "stopping").await;
    let mut operator = installation.start(BINARY, "all").await;
    let mut second = Operator::start_on(BINARY, &installation.operator("all").await, operator.ports);
    assert_eq!(second.ended(LIMIT).await.code(), Some(1));
    assert!(second.log().contains("-address"), "{}", second.log());

    operator.process().signal("TERM");
    assert_eq!(operator.ended(LIMIT).await.code(), Some(0));
    let released = operator.logged("lease released");
    assert_eq!(released.len(), 2, "both leases are given up: {released:?}");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "impatient").await;
    let proxy = FaultProxy::start(cluster).await;
    let mut operator =
        Operator::start(BINARY, &installation.operator_through("webhooks", &proxy.url()).await);
    operator.ready(LIMIT).await;
    // A frozen API server makes the orderly stop wait for the release of a lease.
    proxy.freeze();
    operator.process().signal("TERM");
    until("the first signal to be heard", LIMIT, async || {
        holds(operator.log().contains("a second signal ends"), "not yet")
    })
    .await;
    operator.process().signal("TERM");
    assert_eq!(operator.ended(Duration::from_secs(2)).await.code(), Some(130));
}

/// One HTTPS request to the metrics port, verified with the CA of the installation.
async fn ask(
    installation: &Installation<'_>,
    operator: &Operator,
    request: http::request::Builder,
    body: &str,
) -> (u16, String) {
    let client = Cluster::shared().await.client().await;
    let secrets =
        kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(client, &installation.namespace);
    let bundle = secrets.get("coder-k8s-ca").await.unwrap().data.unwrap()["bundle.crt"].0.clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&bundle).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(ports::loopback(operator.ports.metrics)).await.unwrap();
    let name = ServerName::try_from("metrics.example.com").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TokioIo::new(connector.connect(name, stream).await.unwrap());
    let builder = hyper::client::conn::http1::Builder::new();
    let (mut sender, connection) = builder.handshake::<_, Full<bytes::Bytes>>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = request.header("host", "metrics").body(Full::from(body.to_owned())).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
    (status, text)
}

#[tokio::test]
async fn metrics_and_log_level_are_for_those_the_api_server_allows() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "metrics").await;
    let namespace = &installation.namespace;
    let mut options = installation.operator("controller").await;
    options.flags.push("--serving-name=metrics.example.com".to_owned());
    let mut operator = Operator::start(BINARY, &options);
    operator.ready(LIMIT).await;
    let get = || http::Request::get("/metrics");
    assert_eq!(ask(&installation, &operator, get(), "").await.0, 401, "nobody is anonymous");
    let forged = get().header("authorization", "Bearer forged");
    assert_eq!(ask(&installation, &operator, forged, "").await.0, 401);

    cluster.kubectl(&format!("-n {namespace} create serviceaccount prometheus")).await.expect_ok();
    let token = cluster.token(namespace, "prometheus", &[]).await;
    let known = || get().header("authorization", format!("Bearer {token}"));
    let (status, text) = ask(&installation, &operator, known(), "").await;
    assert_eq!(status, 403, "known, but not allowed: {text}");

    let role = format!("{namespace}-coder-k8s-metrics-reader");
    let bind = format!("create clusterrolebinding {namespace}-prometheus --clusterrole={role}");
    cluster.kubectl(&format!("{bind} --serviceaccount={namespace}:prometheus")).await.expect_ok();
    let (status, text) = ask(&installation, &operator, known(), "").await;
    assert_eq!(status, 200, "{text}");
    for metric in ["coder_k8s_build_info", "coder_k8s_leading", "coder_k8s_certificate_not_after_seconds"] {
        assert!(text.contains(metric), "{metric} is missing: {text}");
    }

    let level = || http::Request::put("/loglevel").header("authorization", format!("Bearer {token}"));
    assert_eq!(ask(&installation, &operator, level(), "debug").await.0, 403, "reading metrics is not enough");
    let rule = format!("create clusterrole {namespace}-loglevel --verb=put --non-resource-url=/loglevel");
    cluster.kubectl(&rule).await.expect_ok();
    let bind = format!("create clusterrolebinding {namespace}-loglevel --clusterrole={namespace}-loglevel");
    cluster.kubectl(&format!("{bind} --serviceaccount={namespace}:prometheus")).await.expect_ok();
    let (status, said) = ask(&installation, &operator, level(), "loud").await;
    assert_eq!((status, said.contains("choose error, warn, info, debug or trace")), (400, true));
    assert_eq!(ask(&installation, &operator, level(), "trace").await.0, 204);
    assert_eq!(operator.logged("log level changed at run time").len(), 1);
}
