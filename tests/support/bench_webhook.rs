//! `make bench-webhook`: our two webhooks beside one that allows everything, over TLS and HTTP/1.1 keep-alive, as the
//! API server calls them. All three run as processes of their own and take turns.
//!
//!   cargo run --release -p support --bin bench-webhook -- target/release/coder-k8s

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::json;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::cluster::pki::{Ca, Pair};
use support::figures::{Figure, report};
use support::process::{Process, scratch_folder};
use support::{Cluster, Installation, https, ports, until};
use tokio::net::TcpListener;
use tower::ServiceExt;

const ROUNDS: usize = 7;
const SINGLE: usize = 400;
const CONNECTIONS: u8 = 8;
const BURST: Duration = Duration::from_millis(700);
const NAME: &str = "bench.example.com";

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--noop", folder] => noop(folder).await,
        [binary] => bench(binary).await,
        _ => panic!("usage: bench-webhook PATH-OF-CODER-K8S"),
    }
}

/// The floor: the same libraries, and the least that is a webhook at all. The API server takes an answer only with the
/// uid of its question, so the review is parsed; then everything is allowed.
async fn noop(folder: &str) {
    let read = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("the pair was written");
    let chain = vec![pem(&read("tls.crt"))];
    let key = rustls::pki_types::pem::PemObject::from_pem_slice(&read("tls.key")).expect("a key");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).expect("a pair");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let router = Router::new().route("/", post(allow));
    let listener = TcpListener::bind(ports::loopback(0)).await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::fs::write(format!("{folder}/port"), port.to_string()).expect("a writable folder");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = hyper::service::service_fn(move |request| router.clone().oneshot(request));
            // The client hangs up when it is done.
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn allow(body: Bytes) -> String {
    let review: serde_json::Value = serde_json::from_slice(&body).expect("a review");
    let response = json!({ "uid": review["request"]["uid"], "allowed": true });
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
        .to_string()
}

fn pem(bytes: &[u8]) -> rustls::pki_types::CertificateDer<'static> {
    rustls::pki_types::pem::PemObject::from_pem_slice(bytes).expect("a certificate")
}

/// One server under measurement.
struct Subject {
    port: u16,
    ca: String,
    path: &'static str,
}

/// What was measured of it, a value a round.
#[derive(Default)]
struct Measured {
    median: Vec<f64>,
    throughput: Vec<f64>,
}

async fn bench(binary: &str) {
    println!("--> starting a cluster, the operator and the handler that does nothing");
    let cluster = Cluster::start(Default::default()).await;
    let installation = Installation::new(&cluster, "bench").await;
    let mut options = installation.operator("webhooks").await;
    options.flags.push(format!("--serving-name={NAME}"));
    let mut operator = support::Operator::start(binary, &options).await;
    operator.ready(Duration::from_secs(30)).await;
    let (_process, floor_port, floor_ca) = start_noop().await;
    let ours = |path| Subject { port: operator.ports.webhooks, ca: String::new(), path };
    let ca = installation.ca().await;
    let subjects = [
        Subject { port: floor_port, ca: floor_ca, path: "/" },
        Subject { ca: ca.clone(), ..ours("/mutate") },
        Subject { ca, ..ours("/validate") },
    ];
    let mut measured = [Measured::default(), Measured::default(), Measured::default()];
    for round in 1..=ROUNDS {
        println!("    round {round}/{ROUNDS}");
        for (subject, measured) in subjects.iter().zip(&mut measured) {
            measured.median.push(single(subject).await);
            measured.throughput.push(burst(subject).await);
        }
    }
    report("bench-webhook", &figures(&mut measured));
}

async fn start_noop() -> (Process, u16, String) {
    let folder = scratch_folder("noop");
    let ca = Ca::new("bench");
    let Pair { certificate, key } = ca.server(&[NAME]);
    std::fs::write(folder.join("tls.crt"), certificate).expect("a writable folder");
    std::fs::write(folder.join("tls.key"), key).expect("a writable folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let process = Process::start("noop", &folder, command.arg("--noop").arg(&folder));
    let port = until("the floor to listen", Duration::from_secs(10), async || {
        let text = std::fs::read_to_string(folder.join("port")).map_err(|error| error.to_string())?;
        text.parse::<u16>().map_err(|error| error.to_string())
    })
    .await;
    (process, port, ca.certificate)
}

fn figures(measured: &mut [Measured; 3]) -> Vec<Figure> {
    let middle = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [floor, mutate, validate] = measured;
    let (floor_median, floor_throughput) = (middle(&mut floor.median), middle(&mut floor.throughput));
    let mut figures = Vec::new();
    for (name, subject) in [("mutate", mutate), ("validate", validate)] {
        let (median, throughput) = (middle(&mut subject.median), middle(&mut subject.throughput));
        figures.push(Figure::against(
            &format!("{name}, one connection, p50"),
            median,
            "us",
            floor_median,
            2.0,
        ));
        let name = format!("{name}, {CONNECTIONS} connections, requests");
        figures.push(Figure::at_least(&name, throughput, "/s", floor_throughput, 0.5));
    }
    figures
}

/// Connection number `caller` comes from an address of its own: no honest caller sends as much as all of them together, and
/// one that does is slowed down.
async fn connect(subject: &Subject, caller: u8) -> SendRequest<Full<Bytes>> {
    let source = Ipv4Addr::new(127, 0, 0, caller + 1);
    let connected = https::connect_from(source, subject.port, &subject.ca, NAME).await;
    let stream = connected.expect("a verified connection");
    let handshake = hyper::client::conn::http1::Builder::new().handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.expect("HTTP/1.1");
    tokio::spawn(connection);
    sender
}

async fn call(sender: &mut SendRequest<Full<Bytes>>, path: &str, body: &Bytes) {
    let request = http::Request::post(path).header("host", NAME).header("content-type", "application/json");
    let request = request.body(Full::new(body.clone())).expect("a request");
    sender.ready().await.expect("the connection is kept alive");
    let answer = sender.send_request(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let text = answer.into_body().collect().await.expect("a body").to_bytes();
    assert!(
        text.windows(14).any(|window| window == b"\"allowed\":true"),
        "{}",
        String::from_utf8_lossy(&text)
    );
}

/// The median of one connection, in microseconds.
async fn single(subject: &Subject) -> f64 {
    let (mut sender, body) = (connect(subject, 0).await, review());
    let mut times = Vec::with_capacity(SINGLE);
    for _ in 0..SINGLE {
        let began = Instant::now();
        call(&mut sender, subject.path, &body).await;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[SINGLE / 2]
}

/// Requests a second over several connections.
async fn burst(subject: &Subject) -> f64 {
    let body = review();
    let mut loops = tokio::task::JoinSet::new();
    for caller in 0..CONNECTIONS {
        let (mut sender, body, path) = (connect(subject, caller).await, body.clone(), subject.path);
        loops.spawn(async move {
            let (began, mut count) = (Instant::now(), 0_u32);
            while began.elapsed() < BURST {
                call(&mut sender, path, &body).await;
                count += 1;
            }
            f64::from(count) / began.elapsed().as_secs_f64()
        });
    }
    loops.join_all().await.into_iter().sum()
}

/// A review of about four kilobytes, as a change of an ordinary manifest makes one. It changes nothing that needs a right,
/// so nobody is asked: what is measured is ours alone.
fn review() -> Bytes {
    let environment: Vec<_> = (0..20)
        .map(|number| json!({ "name": format!("CODER_SETTING_{number}"), "value": "an ordinary value" }))
        .collect();
    let old = json!({
        "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": "coder", "labels": { "team": "platform" } },
        "spec": { "image": "ghcr.io/coder/coder:v2.36.1", "replicas": 2, "extraEnv": environment },
    });
    let mut object = old.clone();
    object["spec"]["replicas"] = json!(3);
    let request = json!({
        "uid": "u", "operation": "UPDATE", "namespace": "coder", "name": "coder", "object": object, "oldObject": old,
        "userInfo": { "username": "jane", "groups": ["system:authenticated"] },
        "resource": { "group": "coder.com", "version": "v1alpha1", "resource": "codercontrolplanes" },
    });
    let review =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    Bytes::from(review.to_string())
}
