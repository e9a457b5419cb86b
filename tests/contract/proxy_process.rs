//! How a workspace proxy starts: the real `coder` with exactly the command, the arguments and the environment that the operator
//! generates for its pods, against a real coderd. Without a license it ends when it registers, and nowhere before: flags,
//! addresses and variables are right.

use crate::kubelet::{Data, POD_IP, Prepared, prepare};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::cluster::pki::Ca;
use support::installation::repository;
use support::postgres::Postgres;
use support::process::{Process, scratch_folder};
use support::real_coderd::{Edition, RealCoderd, program};
use support::until;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);
/// What the image sets besides.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt";
/// What nobody may read in a log.
const SECRET: &str = "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqr";

/// How a process ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Ended {
    /// Whether coderd was asked to register a proxy and refused for want of a license.
    fn at_registration(&self) -> bool {
        let refused = ["register proxy: start loop: initial registration", "403", "is a Premium feature"];
        self.code == Some(1) && refused.iter().all(|words| self.said.contains(words))
    }
}

/// Starts a container as the image would and waits for its end. Names of the cluster lead to the control plane.
async fn started(container: &Prepared, control_plane: SocketAddr) -> Ended {
    let (name, args) = container.command.split_first().expect("a command has a name");
    assert_eq!(name, "coder", "which the image has on its path");
    let folder = scratch_folder("wsproxy");
    // In place of the cluster's DNS, which no process here has: plain HTTP to any name but this machine's goes there.
    let network = ("HTTP_PROXY", format!("http://{control_plane}"));
    let image = [("HOME", folder.display().to_string()), ("PATH", PATH.to_owned()), network];
    let mut coder = Command::new(program(Edition::Full));
    coder.args(args).env_clear().envs(image).envs(&container.env).current_dir(&folder);
    let mut process = Process::start("wsproxy", &folder, &mut coder);
    let code = until("the proxy to end", LIMIT, async || {
        process.exit().map(|status| status.code()).ok_or_else(|| process.log())
    })
    .await;
    Ended { code, said: process.log() }
}

/// The pods that the operator would run for a manifest.
fn pods(manifest: &Value) -> Value {
    let mut render = Command::new(BINARY)
        .args(["render", "--children", "-"])
        .env_remove("CODER_K8S_DEFAULT_IMAGE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    render.stdin.take().unwrap().write_all(manifest.to_string().as_bytes()).unwrap();
    let output = render.wait_with_output().unwrap();
    assert!(output.status.success(), "{manifest}");
    let children: Vec<Value> =
        serde_saphyr::from_multiple(std::str::from_utf8(&output.stdout).unwrap()).unwrap();
    let deployment = children.into_iter().find(|child| child["kind"] == "Deployment");
    deployment.expect("a proxy has a Deployment")["spec"]["template"]["spec"].take()
}

/// A sample as a user finds it.
fn sample(name: &str) -> Value {
    let path = repository().join("kustomize/samples").join(format!("coderworkspaceproxy-{name}.yaml"));
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A sample with these fields.
fn with(name: &str, fields: Value) -> Value {
    let mut manifest = sample(name);
    for (field, value) in fields.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    manifest
}

/// Every Secret and ConfigMap that the manifests here name.
fn data() -> Data {
    let token = BTreeMap::from([("token", format!("6f1f6a3e-0000-4000-8000-000000000001:{SECRET}"))]);
    let ca = Ca::new("private");
    let pair = ca.server(&["frankfurt.example.com"]);
    let tls = BTreeMap::from([("tls.crt", pair.certificate), ("tls.key", pair.key)]);
    let settings = BTreeMap::from([("CODER_PROXY_TRUSTED_HEADERS", "X-Forwarded-For".to_owned())]);
    let tokens =
        ["sydney-proxy-token", "frankfurt-session", "tokyo-session"].map(|name| (name, token.clone()));
    let certificates = ["frankfurt-tls", "tokyo-tls"].map(|name| (name, tls.clone()));
    let authority = BTreeMap::from([("ca.crt", ca.certificate.clone())]);
    let others = [("company-ca", authority), ("proxy-settings", settings)];
    tokens.into_iter().chain(certificates).chain(others).collect()
}

/// What a user may ask for that changes how a proxy is started.
fn manifests(control_plane: SocketAddr) -> Vec<(&'static str, Value)> {
    // An address outside the cluster, where no name has to be led anywhere.
    let outside = json!(format!("http://{control_plane}"));
    let two = json!(["frankfurt-tls", "tokyo-tls"]);
    let ingress = json!({"host": "sydney.example.com", "wildcardHost": "*.sydney.example.com"});
    vec![
        ("plain", sample("minimal")),
        ("every field", with("everything", json!({ "primaryAccessURL": outside }))),
        ("a given token", with("given-token", json!({ "primaryAccessURL": outside }))),
        ("TLS", with("minimal", json!({"tls": {"secretNames": ["frankfurt-tls"]}}))),
        ("TLS with two certificates", with("minimal", json!({"tls": {"secretNames": two}}))),
        ("a wildcard", with("minimal", json!({"wildcardAccessURL": "*.sydney.example.com:8443"}))),
        ("an exposed wildcard", with("minimal", json!({"expose": {"ingress": ingress}}))),
        ("DERP alone", with("minimal", json!({"derpOnly": true}))),
        ("several replicas", with("minimal", json!({"replicas": 3}))),
        ("metrics", with("minimal", json!({"metrics": {"enabled": true}}))),
        ("a folder of its own", with("minimal", json!({"podSecurityContext": {"runAsUser": 2000}}))),
    ]
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn a_proxy_with_what_its_pods_get_ends_at_registration_and_not_before() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let data = data();
    for (what, manifest) in manifests(server.addr()) {
        let container = prepare(&pods(&manifest), &data, &scratch_folder("wsproxy-mounts"));
        let ended = started(&container, server.addr()).await;
        assert!(ended.at_registration(), "{what}: {ended:?} of {container:?}");
        assert!(!ended.said.contains(SECRET), "{what}: it prints its token");
        // Of several replicas each must be reached by the others, and by nobody else.
        let relay = format!("http://{POD_IP}:3001");
        assert_eq!(container.env.get("CODER_DERP_SERVER_RELAY_URL"), Some(&relay), "{what}");
        println!("  {what}: {} with {:?}", container.command.join(" "), container.env.keys());
    }
}

/// What is wrong is noticed: the process ends before it registers.
#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn a_proxy_with_less_or_more_than_that_ends_before_it_registers() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let data = data();
    let of =
        |fields: Value| prepare(&pods(&with("minimal", fields)), &data, &scratch_folder("wsproxy-mounts"));
    let without = |name: &str| {
        let mut container = of(json!({}));
        assert!(container.env.remove(name).is_some(), "{name} is not generated");
        container
    };
    let mut of_the_image = of(json!({}));
    // The entry point of the image, as it would be without a command of ours.
    of_the_image.command.insert(1, "server".to_owned());
    for (what, container, words) in [
        ("an unknown flag", of(json!({"extraArgs": ["--nonsense"]})), "unknown flag: --nonsense"),
        ("the entry point of the image", of_the_image, r#"unrecognized subcommand "wsproxy""#),
        (
            "a wildcard with a scheme",
            of(json!({"wildcardAccessURL": "https://*.a.b"})),
            "must not contain a scheme",
        ),
        (
            "a wildcard with half a label",
            of(json!({"wildcardAccessURL": "*-.a.b"})),
            "contains invalid label",
        ),
        (
            "a wildcard whose host is a scheme",
            of(json!({"wildcardAccessURL": "*.http:80"})),
            "must not contain a scheme",
        ),
        (
            "no control plane",
            without("CODER_PRIMARY_ACCESS_URL"),
            "required flags: Coderd (Primary) Access URL",
        ),
        ("no token", without("CODER_PROXY_SESSION_TOKEN"), "required flags: Proxy Session Token"),
    ] {
        let ended = started(&container, server.addr()).await;
        assert!(!ended.at_registration() && ended.said.contains(words), "{what}: {ended:?}");
    }
}
