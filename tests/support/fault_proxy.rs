//! A proxy in front of the API server that can delay, hold, refuse, cut and freeze what one client sends.
//! Other clients use the API server directly: a frozen operator meets a cluster that goes on without it.

use crate::cluster::Cluster;
use crate::ports;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is forwarded after this time.
    Delay(Duration),
    /// It is forwarded when [`FaultProxy::release`] is called.
    Hold,
    /// The connection is closed before anything is forwarded.
    CutBefore,
    /// It is forwarded and takes effect, but the answer is lost.
    CutAfter,
    /// It is answered with this status and never forwarded.
    Answer(u16),
}

/// A request as the proxy saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it arrived.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
}

type Matches = Box<dyn Fn(&str, &str) -> bool + Send>;
type Broken = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Broken>;

struct Shared {
    upstream: kube::Client,
    rules: Mutex<Vec<(Matches, Fault)>>,
    seen: Mutex<Vec<Seen>>,
    frozen: watch::Sender<bool>,
    held: watch::Sender<bool>,
}

/// A running proxy. Dropping it cuts every connection.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: AbortOnDropHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy to the cluster's API server. It adds no credentials: callers bring a token.
    pub async fn start(cluster: &Cluster) -> Self {
        let upstream = cluster.anonymous_client();
        let listener = TcpListener::bind(ports::loopback(0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            upstream,
            rules: Mutex::default(),
            seen: Mutex::default(),
            frozen: watch::Sender::new(false),
            held: watch::Sender::new(true),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Self { address, shared, _server: AbortOnDropHandle::new(server) }
    }

    /// The URL for a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, requests for which `matches(method, path)` holds suffer `fault`.
    pub fn on(&self, fault: Fault, matches: impl Fn(&str, &str) -> bool + Send + 'static) {
        self.shared.held.send_replace(true);
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner).push((Box::new(matches), fault));
    }

    /// Forgets all rules and lets held requests through.
    pub fn release(&self) {
        self.shared.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.held.send_replace(false);
    }

    /// Nothing moves any more: no request, no answer, no event of a running watch.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Everything moves again.
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            let handle = hyper::service::service_fn(move |request| pass(request, shared.clone()));
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // A connection that ends early is the client's business or our own cut.
            let _ = builder.serve_connection(TokioIo::new(stream), handle).await;
        });
    }
}

async fn pass(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Body>, Broken> {
    let (method, path) = (request.method().to_string(), request.uri().to_string());
    let seen = Seen { at: Instant::now(), method: method.clone(), path: path.clone() };
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    moving(&shared).await;
    let fault = {
        let rules = shared.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().find(|(matches, _)| matches(&method, &path)).map(|(_, fault)| fault.clone())
    };
    match fault {
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::Hold) => {
            let _ = shared.held.subscribe().wait_for(|held| !held).await;
        }
        Some(Fault::CutBefore) => return Err("cut before".into()),
        Some(Fault::Answer(status)) => return Ok(answer(status)),
        Some(Fault::CutAfter) => {
            forward(request, &shared).await?;
            return Err("cut after".into());
        }
        None => {}
    }
    forward(request, &shared).await
}

async fn moving(shared: &Shared) {
    // The sender lives as long as `shared`, so this ends only when things move.
    let _ = shared.frozen.subscribe().wait_for(|frozen| !frozen).await;
}

fn answer(status: u16) -> Response<Body> {
    let body = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status,
        "message": "answered by the fault proxy", "reason": "InternalError" });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).expect("a status code");
    response
}

async fn forward(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Response<Body>, Broken> {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let body = body.collect().await?.to_bytes().to_vec();
    let answer = shared.upstream.send(Request::from_parts(parts, kube::client::Body::from(body))).await?;
    moving(shared).await;
    let (parts, body) = answer.into_parts();
    let shared = shared.clone();
    let frames = body.into_data_stream().then(move |data| {
        let shared = shared.clone();
        async move {
            moving(&shared).await;
            data.map(Frame::data).map_err(|error| Box::new(error) as Broken)
        }
    });
    Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
}
