//! A small HTTP client over a plain socket, which shows exactly what came over the wire.
//! It never retries and never hides a broken connection.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::coderd::Coderd;

/// A request being written.
pub(super) struct Ask {
    line: String,
    headers: String,
    body: String,
}

impl Ask {
    /// A request of that method and path.
    pub(super) fn new(method: &str, path: &str) -> Self {
        Self { line: format!("{method} {path} HTTP/1.1\r\n"), headers: String::new(), body: String::new() }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(super) fn delete(path: &str) -> Self {
        Self::new("DELETE", path)
    }

    pub(super) fn post(path: &str, body: &Value) -> Self {
        Self::new("POST", path).header("Content-Type", "application/json").body(&body.to_string())
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("Coder-Session-Token", token)
    }

    pub(super) fn daemon_key(self, plaintext: &str) -> Self {
        self.header("Coder-Provisioner-Daemon-Key", plaintext)
    }

    /// Sends it and reads a complete answer.
    pub(super) async fn send(self, coderd: &Coderd) -> Heard {
        let heard = self.listen(coderd).await.expect("the connection works");
        heard.expect("an answer arrives")
    }

    /// Sends it and reads until the connection ends; none means not one byte came back.
    pub(super) async fn listen(self, coderd: &Coderd) -> io::Result<Option<Heard>> {
        let mut stream = TcpStream::connect(coderd.addr()).await?;
        let mut request =
            format!("{}Host: {}\r\nConnection: close\r\n{}", self.line, coderd.addr(), self.headers);
        if !self.body.is_empty() {
            let _ = write!(request, "Content-Length: {}\r\n", self.body.len());
        }
        let _ = write!(request, "\r\n{}", self.body);
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        Ok((!bytes.is_empty()).then(|| Heard::parse(&bytes)))
    }
}

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) text: String,
}

impl Heard {
    fn parse(bytes: &[u8]) -> Self {
        let all = String::from_utf8_lossy(bytes);
        let (head, text) = all.split_once("\r\n\r\n").expect("an answer has a head");
        let mut lines = head.split("\r\n");
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line has a status");
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.parse().expect("a status is a number"),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            text: text.to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|problem| panic!("{problem}: {:?}", self.text))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn message(&self) -> String {
        self.json()["message"].as_str().expect("errors have a message").to_owned()
    }
}
