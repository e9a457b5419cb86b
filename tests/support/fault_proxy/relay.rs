//! Carries requests to the API server or coderd and answers back, line by line where they are watches.
//! It asks others what happens to each; it never changes what a request asks for, but from where a rewound watch goes on.

use super::inspector::Exchange;
use super::journal::{CrashTiming, Delivered};
use super::mutation::{System, mutation};
use super::rules::{self, Fault};
use super::watches::{self, End};
use super::{Seen, Shared, locked};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(super) type Broken = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Broken>;
type Data = BoxStream<'static, Result<Bytes, Broken>>;

/// Who answers.
pub(super) enum Upstream {
    ApiServer(kube::Client),
    Coderd(Box<Client<HttpConnector, Full<Bytes>>>, SocketAddr),
}

impl Upstream {
    pub(super) fn coderd(address: SocketAddr) -> Self {
        Self::Coderd(Box::new(Client::builder(TokioExecutor::new()).build_http()), address)
    }

    fn system(&self) -> System {
        match self {
            Self::ApiServer(_) => System::Kubernetes,
            Self::Coderd(..) => System::Coderd,
        }
    }

    fn error(&self, code: u16) -> Response<Body> {
        let body = match self {
            Self::ApiServer(_) => rules::status(code),
            Self::Coderd(..) => rules::coderd_error(),
        };
        let mut response = Response::new(whole(Bytes::from(body.to_string())));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
        response
    }

    async fn send(&self, mut parts: http::request::Parts, body: Bytes) -> Result<Response<Data>, Broken> {
        match self {
            Self::ApiServer(client) => {
                parts.headers.remove(http::header::HOST);
                let request = Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
                Ok(client.send(request).await?.map(data))
            }
            Self::Coderd(client, address) => {
                let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
                parts.uri = format!("http://{address}{path}").parse()?;
                Ok(client.request(Request::from_parts(parts, Full::new(body))).await?.map(data))
            }
        }
    }
}

fn data<B>(body: B) -> Data
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Broken>,
{
    body.into_data_stream().map(|data| data.map_err(Into::into)).boxed()
}

async fn gathered(mut body: Data) -> Result<Bytes, Broken> {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.next().await {
        bytes.extend_from_slice(&data?);
    }
    Ok(bytes.freeze())
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (shared, term) = (shared.clone(), shared.journal.term());
        connections.spawn(async move {
            let handle = hyper::service::service_fn(move |request| pass(request, shared.clone(), term));
            let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // A connection that ends early is the client's business or our own cut.
            let _ = builder.serve_connection(TokioIo::new(stream), handle).await;
        });
    }
}

async fn pass(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    term: usize,
) -> Result<Response<Body>, Broken> {
    let (method, url) = (request.method().to_string(), request.uri().to_string());
    let seen = Seen { at: Instant::now(), method: method.clone(), path: url.clone() };
    locked(&shared.seen).push(seen);
    moving(&shared).await;
    let fault = locked(&shared.rules).fault(&method, &url);
    match fault {
        Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
        Some(Fault::Hold) => {
            let _ = shared.held.subscribe().wait_for(|held| !held).await;
        }
        Some(Fault::CutBefore) => return Err("cut before".into()),
        Some(Fault::Answer(status)) => return Ok(shared.upstream.error(status)),
        Some(Fault::CutAfter) => {
            forward(request, &shared, term).await?;
            return Err("cut after".into());
        }
        None => {}
    }
    forward(request, &shared, term).await
}

async fn moving(shared: &Shared) {
    // The sender lives as long as `shared`, so this ends only when things move.
    let _ = shared.frozen.subscribe().wait_for(|frozen| !frozen).await;
}

/// The client of this request is dead, or is about to be: nothing of it goes on, and it hears nothing any more.
async fn dead<T>() -> T {
    std::future::pending().await
}

async fn forward(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    term: usize,
) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let url = parts.uri.to_string();
    let is_lease = url.contains("/leases/");
    // Who leads is renewed by a clock, whatever else happens: it is no sign that the operator went on.
    let timing = match is_lease {
        true => None,
        false => shared.journal.arrived(mutation(shared.upstream.system(), parts.method.as_str(), &url)),
    };
    if timing == Some(CrashTiming::BeforeForwarding) {
        shared.journal.shut();
    }
    if shared.journal.is_shut(term) {
        return dead().await;
    }
    let answer = inspected(shared, parts, body, &url).await?;
    moving(shared).await;
    match timing {
        Some(CrashTiming::AnswerLost) => {
            answer.into_body().collect().await?;
            shared.journal.shut();
            dead().await
        }
        Some(CrashTiming::AfterAnswer) => {
            let (parts, body) = answer.into_parts();
            let delivered = Delivered(shared.journal.clone());
            let body = Frame::data(body.collect().await?.to_bytes());
            let frames = futures::stream::once(async move { Ok(body) }).chain(until_dropped(delivered));
            Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
        }
        _ => Ok(answer),
    }
}

/// Sends a request while somebody looks on, if anybody wants to.
async fn inspected(
    shared: &Arc<Shared>,
    parts: http::request::Parts,
    body: Bytes,
    url: &str,
) -> Result<Response<Body>, Broken> {
    let Some(inspector) = shared.inspector.get() else { return exchange(shared, parts, body, url).await };
    let shown = Exchange {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers.clone(),
        body: body.clone(),
    };
    inspector.request(&shown).await;
    let answer = exchange(shared, parts, body, url).await?;
    if shown.method == "GET" {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    inspector.answered(&shown, parts.status, &body);
    Ok(Response::from_parts(parts, whole(body)))
}

/// Nothing, holding something until the stream is dropped: the server does that when it has written what came before.
fn until_dropped<T>(held: impl Send + 'static) -> impl Stream<Item = T> + Send {
    futures::stream::unfold(held, |_held| async { None })
}

/// Sends a request and edits what of the answer the client sees.
async fn exchange(
    shared: &Arc<Shared>,
    mut parts: http::request::Parts,
    body: Bytes,
    url: &str,
) -> Result<Response<Body>, Broken> {
    let is_watch = watches::is_watch(parts.method.as_str(), url);
    let rewound = if is_watch { locked(&shared.watches).rewind(url) } else { None };
    if let Some(rewound) = rewound {
        parts.uri = rewound.parse()?;
    }
    let is_list = parts.method == http::Method::GET && !is_watch && !url.contains("/namespaces/");
    let answer = shared.upstream.send(parts, body).await?;
    let ok = answer.status().is_success();
    let (mut parts, body) = answer.into_parts();
    if is_list && ok && locked(&shared.watches).hides_something() {
        let list = gathered(body).await?;
        let shown = locked(&shared.watches).shown_of(&list);
        parts.headers.remove(http::header::CONTENT_LENGTH);
        return Ok(Response::from_parts(parts, whole(shown.map_or(list, Bytes::from))));
    }
    let body = if is_watch && ok { lines(body, url, shared) } else { body };
    let shared = shared.clone();
    let frames = body.then(move |data| {
        let shared = shared.clone();
        async move {
            moving(&shared).await;
            data.map(Frame::data)
        }
    });
    Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
}

/// A running watch.
struct Watch {
    body: Data,
    buffer: BytesMut,
    ended: watch::Receiver<Option<End>>,
    over: bool,
    number: usize,
    url: String,
    shared: Arc<Shared>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        locked(&self.shared.watches).close(self.number);
    }
}

/// The lines of a watch that its client gets to see.
fn lines(body: Data, url: &str, shared: &Arc<Shared>) -> Data {
    let (number, ended) = locked(&shared.watches).open(url);
    let (url, shared) = (url.to_owned(), shared.clone());
    let watch = Watch { body, buffer: BytesMut::new(), ended, over: false, number, url, shared };
    futures::stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) }).boxed()
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if self.over {
                return None;
            }
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1).freeze();
                if locked(&self.shared.watches).passes(&self.url, &line) {
                    return Some(Ok(line));
                }
                continue;
            }
            let ended = self.ended.wait_for(|end| end.is_some());
            let data = tokio::select! {
                end = ended => {
                    self.over = true;
                    let gone = end.is_ok_and(|end| *end == Some(End::Gone));
                    return gone.then(|| Ok(Bytes::from(watches::gone())));
                }
                data = self.body.next() => data?,
            };
            match data {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
