//! The operator under test: the built binary as a child process with ports, logs and signals at hand.
//! It is driven only through what a user has: flags, HTTP ports, signals and the API server.

use crate::fleet::Key;
use crate::process::{Process, scratch_folder};
use crate::wait;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How the operator is started.
#[derive(Debug, Clone)]
pub struct OperatorOptions {
    /// The value of `--app`.
    pub app: &'static str,
    /// The namespace it believes to run in.
    pub namespace: String,
    /// How it reaches the API server.
    pub kubeconfig: PathBuf,
    /// The service account that it writes Roles and RoleBindings as; its Deployment tells it in the environment.
    pub grants_account: String,
    /// More flags.
    pub flags: Vec<String>,
}

/// The ports this process listens on.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// `/healthz` and `/readyz`, plain HTTP.
    pub probes: u16,
    /// Admission webhooks.
    pub webhooks: u16,
    /// The aggregated API.
    pub aggregated: u16,
    /// MCP.
    pub mcp: u16,
    /// Metrics and the log level.
    pub metrics: u16,
}

/// Free ports, chosen by the system.
const ANY: Ports = Ports { probes: 0, webhooks: 0, aggregated: 0, mcp: 0, metrics: 0 };

/// A running operator. Dropping it kills it.
pub struct Operator {
    process: Process,
    /// Where it listens.
    pub ports: Ports,
}

impl Operator {
    /// Starts `binary` on free ports and returns when it listens, ready or not.
    pub async fn start(binary: &str, options: &OperatorOptions) -> Self {
        Self::start_on(binary, options, ANY).listening().await
    }

    /// The same with the webhooks on a port that something in the cluster already names.
    pub async fn start_answering(binary: &str, options: &OperatorOptions, webhooks: u16) -> Self {
        Self::start_on(binary, options, Ports { webhooks, ..ANY }).listening().await
    }

    /// The same without `--kubeconfig`: the environment of the command has to say where the API server is.
    pub async fn start_found(command: &mut Command, options: &OperatorOptions) -> Self {
        Self::run(command, options, ANY).listening().await
    }

    async fn listening(self) -> Self {
        let mut operator = self;
        let process = &mut operator.process;
        let listening = async || {
            if let Err(ended) = process.check_running() {
                panic!("{ended}");
            }
            // The probes are bound last.
            listening(&process.log()).remove("probes").ok_or("it does not listen yet")
        };
        wait::until("the operator to listen", Duration::from_secs(30), listening).await;
        let bound = listening_ports(&operator.log());
        operator.ports = bound;
        operator
    }

    /// Starts it on given ports, for example those of another.
    pub fn start_on(binary: &str, options: &OperatorOptions, ports: Ports) -> Self {
        let mut command = Command::new(binary);
        command.arg(format!("--kubeconfig={}", options.kubeconfig.display()));
        Self::run(&mut command, options, ports)
    }

    fn run(command: &mut Command, options: &OperatorOptions, ports: Ports) -> Self {
        let folder = scratch_folder("operator");
        command
            .arg(format!("--app={}", options.app))
            .arg(format!("--probe-address=127.0.0.1:{}", ports.probes))
            .arg(format!("--webhook-address=127.0.0.1:{}", ports.webhooks))
            .arg(format!("--aggregated-address=127.0.0.1:{}", ports.aggregated))
            .arg(format!("--mcp-address=127.0.0.1:{}", ports.mcp))
            .arg(format!("--metrics-address=127.0.0.1:{}", ports.metrics))
            .arg("--log-format=json")
            .args(&options.flags)
            .env("CODER_K8S_GRANTS_ACCOUNT", &options.grants_account)
            .env("POD_NAMESPACE", &options.namespace);
        Self { process: Process::start("operator", &folder, command), ports }
    }

    /// The process, for signals, logs and its end.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Everything it logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Where it logs to.
    pub fn log_path(&self) -> &Path {
        self.process.log_path()
    }

    /// The log lines with this message, as JSON.
    pub fn logged(&self, message: &str) -> Vec<serde_json::Value> {
        let lines = self.log();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        events.filter(|event| event["message"] == message).collect()
    }

    /// How many reconciles each control plane had that ended well, if it logs at level debug.
    pub fn reconciles(&self) -> BTreeMap<Key, usize> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let ended = self.logged("reconcile ended").into_iter();
        let ended_well =
            ended.filter(|line| line["action"].as_str().is_some_and(|action| !action.starts_with("BackOff")));
        ended_well.fold(BTreeMap::new(), |mut counts, line| {
            let key = (text(&line["reconcile"]["namespace"]), text(&line["reconcile"]["name"]));
            *counts.entry(key).or_default() += 1;
            counts
        })
    }

    /// Status and body of a plain GET on the probe port.
    pub async fn probe(&self, path: &str) -> Result<(u16, String), String> {
        get(&format!("http://127.0.0.1:{}{path}", self.ports.probes)).await
    }

    /// Waits until `/readyz` says yes.
    pub async fn ready(&mut self, limit: Duration) {
        let ports = self.ports;
        let process = &mut self.process;
        let ask = async || {
            if let Err(ended) = process.check_running() {
                panic!("{ended}");
            }
            let (status, body) = get(&format!("http://127.0.0.1:{}/readyz?verbose", ports.probes)).await?;
            wait::holds(status == 200, body)
        };
        wait::until("the operator to be ready", limit, ask).await;
    }

    /// Waits until it ended by itself.
    pub async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let process = &mut self.process;
        let ask = async || process.exit().ok_or("it is still running");
        wait::until("the operator to end", limit, ask).await
    }
}

/// The ports in the log, by listener.
fn listening(log: &str) -> BTreeMap<String, u16> {
    let events = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let listening = events.filter(|event| event["message"] == "listening");
    let port = |event: serde_json::Value| {
        let address: std::net::SocketAddr = event["address"].as_str()?.parse().ok()?;
        Some((event["listener"].as_str()?.to_owned(), address.port()))
    };
    listening.filter_map(port).collect()
}

fn listening_ports(log: &str) -> Ports {
    let by_name = listening(log);
    // A mode without a listener has no port for it.
    let port = |name: &str| by_name.get(name).copied().unwrap_or_default();
    Ports {
        probes: port("probes"),
        webhooks: port("webhooks"),
        aggregated: port("aggregated-api"),
        mcp: port("mcp"),
        metrics: port("metrics"),
    }
}

async fn get(url: &str) -> Result<(u16, String), String> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
    let answer = client.get(url.parse().expect("a URL")).await.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
