//! Somebody who is shown what one client does, write by write: in time to see what the world was right before.
//! It judges; it never changes or holds back anything for good.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, StatusCode};

/// One request that passes.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Its method.
    pub method: String,
    /// Its path, without a query.
    pub path: String,
    /// What it carries besides.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Is shown what passes a proxy.
pub trait Inspector: Send + Sync {
    /// A request is about to be forwarded, and is when this returns. One of an operator that is dead is never shown.
    fn request<'a>(&'a self, exchange: &'a Exchange) -> BoxFuture<'a, ()>;

    /// A write was answered; whether the client hears of it is another matter.
    fn answered(&self, exchange: &Exchange, status: StatusCode, body: &[u8]);
}
