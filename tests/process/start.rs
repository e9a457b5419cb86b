//! The process as its users meet it: modes, exit codes, readiness that never lies, ports that ask who is calling.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::attacker::ATTACKER;
use support::wait::holds;
use support::{Cluster, Fault, FaultProxy, Installation, Operator, https, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// How the process ends that finds no cluster by these variables, in a home folder of its own.
fn lost(variables: &[(&str, &Path)], home: &Path) -> String {
    let mut command = Command::new(BINARY);
    for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"] {
        command.env_remove(name);
    }
    let output = command.env("HOME", home).envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn without_a_cluster_the_message_names_every_place_that_was_tried() {
    let home = support::process::scratch_folder("home");
    let said = lost(&[], &home);
    for place in
        ["--kubeconfig", "$KUBECONFIG", "account of a pod", &format!("{}/.kube/config", home.display())]
    {
        assert!(said.contains(place), "{place}: {said}");
    }
    let said = lost(&[("KUBECONFIG", Path::new("/nowhere/a:/nowhere/b"))], &home);
    assert!(said.contains("$KUBECONFIG") && said.contains("/nowhere/a, /nowhere/b"), "{said}");
}

#[test]
fn a_broken_kubeconfig_is_named_with_its_line_and_never_quoted() {
    let home = support::process::scratch_folder("home");
    let broken = home.join("broken");
    std::fs::write(&broken, "kind: Config\nusers:\n- name: a\n  user: {token: hunter2: [\n").unwrap();
    let said = lost(&[("KUBECONFIG", &broken)], &home);
    let named = said.contains(&format!("{}", broken.display())) && said.contains("at line");
    assert!(named && !said.contains("hunter2"), "{said}");
}

/// A kubeconfig in two files, as a list merges them: who, and where. The first has the empty context kubectl writes.
fn halves(kubeconfig: &Path, folder: &Path) -> [PathBuf; 2] {
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(kubeconfig).unwrap()).unwrap();
    let (who, place) = (folder.join("who"), folder.join("where"));
    let head = |current: &Value| json!({ "apiVersion": "v1", "kind": "Config", "current-context": current });
    let (mut first, mut second) = (head(&json!("")), head(&whole["current-context"]));
    first["users"] = whole["users"].clone();
    second["clusters"] = whole["clusters"].clone();
    second["contexts"] = whole["contexts"].clone();
    std::fs::write(&who, first.to_string()).unwrap();
    std::fs::write(&place, second.to_string()).unwrap();
    [who, place]
}

#[tokio::test]
async fn the_api_server_is_found_by_the_variable_and_by_the_home_folder() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "found").await;
    let options = installation.operator("controller").await;
    let home = support::process::scratch_folder("home");
    std::fs::create_dir(home.join(".kube")).unwrap();
    std::fs::copy(&options.kubeconfig, home.join(".kube/config")).unwrap();
    let empty = support::process::scratch_folder("home");
    let [who, place] = halves(&options.kubeconfig, &empty);
    let list = format!("{}:/nowhere/at-all:{}", who.display(), place.display());
    for (variable, home) in [(Some(list.as_str()), &empty), (None, &home)] {
        let mut command = Command::new(BINARY);
        for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"] {
            command.env_remove(name);
        }
        command.env("HOME", home).envs(variable.map(|list| ("KUBECONFIG", list)));
        let mut operator = Operator::start_found(&mut command, &options).await;
        operator.ready(LIMIT).await;
    }
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

async fn mode_becomes_ready_alone(app: &'static str, checks: &[&str]) -> Operator {
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
    operator
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

/// The names of the listeners that were bound.
fn bound(operator: &Operator) -> Vec<String> {
    let lines = operator.logged("listening");
    lines.iter().map(|line| line["listener"].as_str().unwrap().to_owned()).collect()
}

/// The mode of a part that does not exist yet: alive, no port for it, and never ready, so that nothing is replaced by it.
async fn mode_waits_for_its_part(app: &'static str, part: &str) {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, &format!("waits-{app}")).await;
    let operator = Operator::start(BINARY, &installation.operator(app).await).await;
    until("all checks but that of the part", LIMIT, async || {
        let (status, verbose) = operator.probe("/readyz?verbose").await?;
        assert_eq!(status, 503, "{verbose}");
        let waiting: Vec<&str> = verbose.lines().filter(|line| line.starts_with("[-]")).collect();
        holds(waiting == [format!("[-]{part} waiting: a version that has it")], verbose)
    })
    .await;
    assert_eq!(operator.probe("/healthz").await.unwrap().0, 200);
    assert_eq!(bound(&operator), ["metrics", "probes"]);
    assert_eq!(operator.logged("not in this version; its port is not opened").len(), 1);
}

#[tokio::test]
async fn the_aggregated_api_is_not_there_yet_and_says_so() {
    mode_waits_for_its_part("aggregated-apiserver", "aggregated-api").await;
}

#[tokio::test]
async fn mcp_is_not_there_yet_and_says_so() {
    mode_waits_for_its_part("mcp-http", "mcp").await;
}

#[tokio::test]
async fn everything_in_one_process_becomes_ready_and_opens_no_port_that_leads_nowhere() {
    let operator =
        mode_becomes_ready_alone("all", &[KINDS.as_slice(), &["webhooks", "front-proxy trust"]].concat())
            .await;
    assert_eq!(bound(&operator), ["metrics", "webhooks", "probes"]);
}

/// Every list the process makes, by a part of its path, and the checks that wait for it.
const LISTS: [(&str, &[&str]); 8] = [
    ("/codercontrolplanes", &["CoderControlPlane"]),
    ("/coderprovisioners", &["CoderProvisioner"]),
    ("/coderworkspaceproxies", &["CoderWorkspaceProxy"]),
    ("/secrets?", &CERTIFIED),
    ("/mutatingwebhookconfigurations", &CERTIFIED),
    ("/validatingwebhookconfigurations", &CERTIFIED),
    ("/apiservices", &CERTIFIED),
    ("/configmaps?", &["front-proxy trust"]),
];

/// Without a certificate, no listener answers.
const CERTIFIED: [&str; 4] = ["caBundle", "certificate", "metrics", "webhooks"];

#[tokio::test]
async fn readyz_is_never_true_before_each_first_list() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "unsynced").await;
    // The CA exists already: what is held back is the only thing missing.
    drop(installation.start(BINARY, "all").await);
    for (path, expected) in LISTS {
        let proxy = FaultProxy::start(cluster).await;
        proxy.on(Fault::Hold, move |method, uri| method == "GET" && uri.contains(path));
        let mut operator =
            Operator::start(BINARY, &installation.operator_through("all", &proxy.url()).await).await;
        until(&format!("all checks but those of {path}"), LIMIT, async || {
            let (status, verbose) = operator.probe("/readyz?verbose").await?;
            assert_eq!(status, 503, "ready without {path}: {verbose}");
            let waiting =
                verbose.lines().filter_map(|line| line.strip_prefix("[-]")?.split(" waiting").next());
            holds(sorted(waiting.collect()) == expected, verbose)
        })
        .await;
        assert_eq!(operator.probe("/healthz").await.unwrap().0, 200, "alive all the same");
        proxy.release();
        operator.ready(LIMIT).await;
    }
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
        Operator::start(BINARY, &installation.operator_through("webhooks", &proxy.url()).await).await;
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

#[tokio::test]
async fn metrics_and_log_level_are_for_those_the_api_server_allows() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "metrics").await;
    let namespace = &installation.namespace;
    let mut options = installation.operator("controller").await;
    options.flags.push("--serving-name=metrics.example.com".to_owned());
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let ca = installation.ca().await;
    let ask = async |method: &str, path: &str, token: &str, body: &str| {
        let request = http::Request::builder().method(method).uri(path);
        let request = if token.is_empty() {
            request
        } else {
            request.header("authorization", format!("Bearer {token}"))
        };
        https::ask(operator.ports.metrics, &ca, "metrics.example.com", request, body).await.unwrap()
    };
    assert_eq!(ask("GET", "/metrics", "", "").await.0, 401, "nobody is anonymous");
    assert_eq!(ask("GET", "/metrics", "forged", "").await.0, 401);
    cluster.kubectl(&format!("-n {namespace} create serviceaccount nobody")).await.expect_ok();
    let nobody = cluster.token(namespace, "nobody", &[]).await;
    assert_eq!(ask("GET", "/metrics", &nobody, "").await.0, 403, "known, but not allowed");

    let role = format!("{namespace}-coder-k8s-metrics-reader");
    let bind = format!("create clusterrolebinding {namespace}-prometheus --clusterrole={role}");
    cluster.kubectl(&format!("{bind} --serviceaccount={namespace}:nobody")).await.expect_ok();
    let (status, text) = ask("GET", "/metrics", &nobody, "").await;
    assert_eq!(status, 200, "{text}");
    for metric in ["coder_k8s_build_info", "coder_k8s_leading", "coder_k8s_certificate_not_after_seconds"] {
        assert!(text.contains(metric), "{metric} is missing: {text}");
    }

    assert_eq!(ask("PUT", "/loglevel", &nobody, "debug").await.0, 403, "reading metrics is not enough");
    let role = format!("{namespace}-coder-k8s-log-level");
    let bind = format!("create clusterrolebinding {namespace}-loglevel --clusterrole={role}");
    cluster.kubectl(&format!("{bind} --serviceaccount={namespace}:nobody")).await.expect_ok();
    let (status, said) = ask("PUT", "/loglevel", &nobody, "loud").await;
    assert_eq!((status, said.contains("choose error, warn, info, debug or trace")), (400, true));
    assert_eq!(ask("PUT", "/loglevel", &nobody, "trace").await.0, 204);
    assert_eq!(operator.logged("log level changed at run time").len(), 1);
}

#[tokio::test]
async fn silent_and_slow_clients_are_cut_and_others_are_served() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "patience").await;
    let operator = installation.start(BINARY, "webhooks").await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(https::dial_from(ATTACKER, operator.ports.probes).await.unwrap());
        silent.push(https::dial_from(ATTACKER, operator.ports.webhooks).await.unwrap());
    }
    silent[0].write_all(b"GET /readyz HTTP/1.1\r\nHost: ").await.unwrap();
    assert_eq!(operator.probe("/readyz").await.unwrap().0, 200, "others are served meanwhile");
    // All of them are closed by the operator, without being asked.
    for mut stream in silent {
        let mut rest = Vec::new();
        tokio::time::timeout(LIMIT, stream.read_to_end(&mut rest)).await.expect("it is cut").ok();
    }
}

#[tokio::test]
async fn a_probe_ends_its_connection_so_that_nobody_keeps_a_place() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "probes").await;
    let operator = installation.start(BINARY, "webhooks").await;
    let mut stream = https::dial_from(ATTACKER, operator.ports.probes).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(LIMIT, stream.read_to_string(&mut answer)).await;
    read.expect("the operator closes it").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"), "{answer}");
}
