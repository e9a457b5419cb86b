//! Callers of a TLS port that mean no good, beside one that does: what they send, and what they are answered.
//! Each has a loopback address of its own, and nothing but loopback is dialled.

use crate::https;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The honest one: the address every other test comes from.
pub const HONEST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The other one.
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// As large as a review may be.
pub const LARGE: usize = 3 * 1024 * 1024;

const LIMIT: Duration = Duration::from_secs(20);

/// A caller at an address.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Where it comes from.
    pub source: Ipv4Addr,
    /// The port it calls.
    pub port: u16,
    /// What it trusts.
    pub ca: String,
    /// The name it expects.
    pub name: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// The body.
    pub text: String,
}

impl Caller {
    /// The same caller at another address.
    pub fn at(&self, source: Ipv4Addr) -> Self {
        Self { source, ..self.clone() }
    }

    /// A connection on which nothing was said yet.
    pub async fn connect(&self) -> Result<TlsStream<TcpStream>, String> {
        https::connect_from(self.source, self.port, &self.ca, &self.name).await
    }

    /// The answer to a review sent whole, on a connection of its own.
    pub async fn send(&self, path: &str, body: &str) -> Result<Answer, String> {
        let exchange = async {
            let mut stream = self.connect().await?;
            // Whoever is refused may be cut off before everything is sent; the answer still counts.
            let sent = stream.write_all(request(&self.name, path, body.len(), body).as_bytes()).await;
            answer(&mut stream).await.map_err(|error| format!("{error}; sending: {sent:?}"))
        };
        tokio::time::timeout(LIMIT, exchange).await.map_err(|_| "no answer".to_owned())?
    }
}

/// A request that announces this many bytes and sends this much of them.
pub fn request(name: &str, path: &str, announced: usize, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {name}\r\nContent-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{body}"
    )
}

/// Reads one answer with a body of known length.
pub async fn answer(stream: &mut TlsStream<TcpStream>) -> Result<Answer, String> {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(answer) = parsed(&read) {
            return Ok(answer);
        }
        match stream.read(&mut buffer).await {
            Ok(0) => return Err(format!("cut after {} bytes of an answer", read.len())),
            Ok(count) => read.extend_from_slice(&buffer[..count]),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn parsed(read: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(read);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let header = |name: &str| {
        let found = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.lines().find_map(found)
    };
    let length: usize = header("content-length")?.parse().ok()?;
    let body = body.get(..length)?.to_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, retry_after: header("retry-after").and_then(|text| text.parse().ok()), text: body })
}

/// A review of this object, in JSON.
fn review(object: &str, old: &str, operation: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"{operation}","namespace":"coder","name":"coder","userInfo":{{"username":"jane","groups":["system:authenticated"]}},"resource":{{"group":"coder.com","version":"v1alpha1","resource":"codercontrolplanes"}},"object":{object},"oldObject":{old}}}}}"#
    )
}

/// An object of ours with this text as its spec.
fn object(spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"coder.com/v1alpha1","kind":"CoderControlPlane","metadata":{{"name":"coder","namespace":"coder"}},"spec":{spec}}}"#
    )
}

/// What an ordinary manifest makes.
pub fn honest() -> String {
    let variables: Vec<Value> = (0..20)
        .map(|number| json!({ "name": format!("CODER_SETTING_{number}"), "value": "an ordinary value" }))
        .collect();
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "replicas": 2, "extraEnv": variables });
    review(&object(&spec.to_string()), "null", "CREATE")
}

/// A review of a few kilobytes that is allowed but for its rights, of which it adds more than can be asked.
pub fn many_rights() -> String {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let rules: Vec<Value> = (0..64)
        .map(|rule| {
            let resources: Vec<String> = (0..5).map(|number| format!("r{rule}x{number}")).collect();
            json!({ "apiGroups": [""], "resources": resources, "verbs": verbs })
        })
        .collect();
    let namespaces: Vec<String> = (0..256).map(|number| format!("n{number}")).collect();
    let rbac = json!({ "extraRules": rules, "workspaceNamespaces": namespaces });
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "rbac": rbac });
    review(&object(&spec.to_string()), "null", "CREATE")
}

/// Maps in maps in maps.
pub fn nested() -> String {
    let levels = LARGE / 7;
    review(&object(&format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))), "null", "CREATE")
}

/// As many of these values as fit.
pub fn many(value: &str) -> String {
    let count = LARGE / (value.len() + 1) - 1000;
    review(&object(&format!(r#"{{"extraEnv":[{}0]}}"#, format!("{value},").repeat(count))), "null", "CREATE")
}

/// Twice this many values, in the object and in the old one: the most that is still built, if the number is right.
pub fn as_many_as_are_built(value: &str, count: usize) -> String {
    let object = object(&format!(r#"{{"extraEnv":[{}0]}}"#, format!("{value},").repeat(count)));
    review(&object, &object, "UPDATE")
}
