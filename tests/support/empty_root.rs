//! `make test-dist`: a released binary alone in an empty root, as in its container. It has to resolve the name of the API
//! server by DNS, verify its certificate by the roots of the system, and become ready; without the roots it must not.
//!
//!   sudo target/debug/empty-root target/dist/coder-k8s-linux-amd64

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::process::scratch_folder;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, OperatorOptions, until};

const LIMIT: Duration = Duration::from_secs(60);
/// A name that the certificate of the test's API server is good for, and that no file of this machine knows.
const NAME: &str = "kubernetes.default.svc";
/// An address of loopback where nobody else answers; resolvers know no other port than 53.
const RESOLVER: &str = "127.53.0.53";
/// The user of the container file, of whom nothing is known but the number.
const USER: &str = "65532:65532";

#[tokio::main]
async fn main() {
    let binary = std::env::args().nth(1).expect("usage: empty-root PATH-OF-CODER-K8S");
    let asked = Arc::new(AtomicUsize::new(0));
    answer_names(Arc::clone(&asked));
    println!("--> starting a cluster");
    let cluster = Cluster::start(ClusterOptions::default()).await;
    let installation = Installation::shipped(&cluster).await;
    let mut options = installation.operator("all").await;
    let port = cluster.url().rsplit(':').next().expect("a port").to_owned();
    let kubeconfig = without_ca(&options, &format!("https://{NAME}:{port}"));

    println!("--> a root without CA certificates");
    let root = root(&binary, &kubeconfig, None);
    let mut operator = start(&root, &mut options).await;
    until("the certificate to be refused", LIMIT, async || {
        let log = operator.log();
        holds(log.contains("UnknownIssuer") || log.contains("invalid peer certificate"), log)
    })
    .await;
    operator.process().signal("KILL");
    drop(operator);
    assert!(asked.load(Ordering::Relaxed) > 0, "the name was resolved by our server");

    println!("--> the same root with them");
    let root = self::root(&binary, &kubeconfig, Some(cluster.ca()));
    let mut operator = start(&root, &mut options).await;
    operator.ready(LIMIT).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    println!(
        "the binary resolved {NAME} ({} questions), verified a certificate and became ready; its root holds\n{}",
        asked.load(Ordering::Relaxed),
        files(&root).join("\n")
    );
}

/// The operator in its root.
async fn start(root: &Path, options: &mut OperatorOptions) -> Operator {
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={USER}")).arg(root).arg("/coder-k8s").arg("--kubeconfig=/kubeconfig");
    // Nothing of this machine helps it.
    command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
    Operator::start_found(&mut command, options).await
}

/// A folder with the binary, where it finds names, who it is, and whom it trusts.
fn root(binary: &str, kubeconfig: &str, ca: Option<&str>) -> PathBuf {
    let root = scratch_folder("empty-root");
    std::fs::copy(binary, root.join("coder-k8s")).expect("the binary is there: run `make dist`");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    };
    write("etc/resolv.conf", &format!("nameserver {RESOLVER}\n"));
    write("kubeconfig", kubeconfig);
    if let Some(ca) = ca {
        write("etc/ssl/certs/ca-certificates.crt", ca);
    }
    for path in files(&root) {
        std::fs::set_permissions(root.join(path), PermissionsExt::from_mode(0o755)).expect("our own file");
    }
    for folder in [root.clone(), root.join("etc"), root.join("etc/ssl"), root.join("etc/ssl/certs")] {
        let _ = std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755));
    }
    root
}

/// The files below a folder, relative to it.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).expect("below").display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The kubeconfig with another address and without a CA, so that the roots of the system decide.
fn without_ca(options: &OperatorOptions, url: &str) -> String {
    let text = std::fs::read_to_string(&options.kubeconfig).expect("a kubeconfig");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["clusters"][0]["cluster"] = serde_json::json!({ "server": url });
    value.to_string()
}

/// Answers every question for [`NAME`] with loopback, and others with nothing, until the process ends.
fn answer_names(asked: Arc<AtomicUsize>) {
    let socket = UdpSocket::bind((RESOLVER, 53)).expect("port 53 of loopback and chroot are for root");
    std::thread::spawn(move || {
        let mut packet = [0_u8; 512];
        while let Ok((length, caller)) = socket.recv_from(&mut packet) {
            if let Some(answer) = answer(&packet[..length]) {
                asked.fetch_add(1, Ordering::Relaxed);
                // Whoever asks again gets another.
                let _ = socket.send_to(&answer, caller);
            }
        }
    });
}

/// The answer to a question: header, the question itself, and for an address of [`NAME`] one record.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = question.split_at_checked(12)?;
    let (mut name, mut at) = (String::new(), 0);
    while let Some(&length) = rest.get(at).filter(|length| **length > 0) {
        let label = rest.get(at + 1..at + 1 + usize::from(length))?;
        name.push_str(&String::from_utf8_lossy(label));
        name.push('.');
        at += 1 + usize::from(length);
    }
    // Type A is 1; type and class follow the empty label that ends the name.
    let wants_address = rest.get(at + 1..at + 3)? == [0, 1];
    let known = name.trim_end_matches('.') == NAME;
    let has_record = known && wants_address;
    let mut answer = header.get(..2)?.to_vec();
    // An answer, with recursion; 3 says that there is no such name.
    answer.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(has_record), 0, 0, 0, 0]);
    answer.extend(rest.get(..at + 5)?);
    if has_record {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}
