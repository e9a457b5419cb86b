//! A real coderd of the pinned release on a fresh database, with a first user; it dies with the test process.
//! It is never licensed: the stock server takes only what Coder has signed, and making it take more is not ours to do.

use crate::cluster::pki::Pair;
use crate::plain_http::{Answer, Ask};
use crate::ports;
use crate::postgres::Postgres;
use crate::process::{Process, scratch_folder};
use crate::until;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// It migrates first, which on a busy machine takes a while.
const STARTS_WITHIN: Duration = Duration::from_secs(120);
const SESSION_HEADER: &str = "coder-session-token";
const PASSWORD: &str = "cnry+coderd/Password=1";

/// Which of coder's two main packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edition {
    /// What users run.
    Full,
    /// Without everything a license is for.
    OpenSource,
}

/// A running server.
#[derive(Debug)]
pub struct RealCoderd {
    addr: SocketAddr,
    database: String,
    owner: String,
    organization: String,
    _server: Process,
}

impl RealCoderd {
    /// Starts it on a new, empty database of this server, waits until it answers, and makes the user `ops`, an owner.
    ///
    /// # Panics
    /// If it was not built, does not start, or does not answer as coderd does.
    pub async fn start(postgres: &Postgres, edition: Edition, api_rate_limit: u32) -> Self {
        let mut coderd = Self::launch(postgres, edition, |addr| {
            vec![
                ("CODER_ACCESS_URL", format!("http://{addr}")),
                ("CODER_API_RATE_LIMIT", api_rate_limit.to_string()),
            ]
        })
        .await;
        let first =
            json!({ "email": "ops@example.com", "username": "ops", "password": PASSWORD, "trial": false });
        let made = coderd.post("/api/v2/users/first", &first).await;
        coderd.organization = text(&made, "organization_id");
        coderd.owner = coderd.log_in("ops").await;
        coderd
    }

    /// Starts one that redirects to this access URL, and that also serves TLS, at the second address; without any user.
    ///
    /// # Panics
    /// If it was not built, does not start, or its folder cannot be written.
    pub async fn redirecting(postgres: &Postgres, access_url: &str, pair: &Pair) -> (Self, SocketAddr) {
        let [port] = ports::free();
        let (tls_addr, folder) = (ports::loopback(port), scratch_folder("coderd-tls"));
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        std::fs::write(&certificate, &pair.certificate).expect("the folder is writable");
        std::fs::write(&key, &pair.key).expect("the folder is writable");
        let coderd = Self::launch(postgres, Edition::Full, |_| {
            vec![
                ("CODER_ACCESS_URL", access_url.to_owned()),
                ("CODER_REDIRECT_TO_ACCESS_URL", "true".to_owned()),
                ("CODER_TLS_ENABLE", "true".to_owned()),
                ("CODER_TLS_ADDRESS", tls_addr.to_string()),
                ("CODER_TLS_CERT_FILE", certificate.display().to_string()),
                ("CODER_TLS_KEY_FILE", key.display().to_string()),
            ]
        })
        .await;
        (coderd, tls_addr)
    }

    async fn launch(
        postgres: &Postgres,
        edition: Edition,
        more: impl FnOnce(SocketAddr) -> Vec<(&'static str, String)>,
    ) -> Self {
        let database = postgres.empty_database();
        let [port] = ports::free();
        let addr = ports::loopback(port);
        let folder = scratch_folder("coderd");
        let settings = [
            ("HOME", folder.display().to_string()),
            ("CODER_CONFIG_DIR", folder.join("config").display().to_string()),
            ("CODER_CACHE_DIRECTORY", folder.join("cache").display().to_string()),
            ("CODER_PG_CONNECTION_URL", postgres.loopback_url(&database)),
            ("CODER_HTTP_ADDRESS", addr.to_string()),
            // Terraform would be downloaded for the first built-in provisioner.
            ("CODER_PROVISIONER_DAEMONS", "0".to_owned()),
            ("CODER_TELEMETRY_ENABLE", "false".to_owned()),
            ("CODER_UPDATE_CHECK", "false".to_owned()),
            ("CODER_DERP_SERVER_STUN_ADDRESSES", "disable".to_owned()),
            ("CODER_OAUTH2_GITHUB_DEFAULT_PROVIDER_ENABLE", "false".to_owned()),
        ];
        let mut command = Command::new(program(edition));
        // Settings of whoever runs the tests must not become settings of the server.
        command.arg("server").env_clear().envs(settings).envs(more(addr)).current_dir(&folder);
        let mut server = Process::start("coderd", &folder, &mut command);
        until("coderd to answer", STARTS_WITHIN, async || {
            server.check_running().unwrap_or_else(|end| panic!("{end}"));
            let answer = Ask::new("GET", "/healthz").send(addr).await?;
            if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
        Self { addr, database, owner: String::new(), organization: String::new(), _server: server }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The name of its database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// A session of the user `ops`.
    pub fn owner_token(&self) -> &str {
        &self.owner
    }

    /// A new active member of the default organisation with these site-wide roles, and a session of it.
    ///
    /// # Panics
    /// If coderd refuses.
    pub async fn add_user(&self, username: &str, roles: &[&str]) -> String {
        let new = json!({ "email": format!("{username}@example.com"), "username": username, "password": PASSWORD,
            "login_type": "password", "user_status": "active", "organization_ids": [self.organization],
            "roles": roles });
        self.post("/api/v2/users", &new).await;
        self.log_in(username).await
    }

    /// Another session of a user.
    ///
    /// # Panics
    /// If coderd refuses.
    pub async fn log_in(&self, username: &str) -> String {
        let credentials = json!({ "email": format!("{username}@example.com"), "password": PASSWORD });
        text(&self.post("/api/v2/users/login", &credentials).await, "session_token")
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let mut ask = Ask::new("POST", path).json(&body.to_string());
        if !self.owner.is_empty() {
            ask = ask.header(SESSION_HEADER, &self.owner);
        }
        let answer = ask.send(self.addr).await.expect("coderd answers");
        created(path, &answer)
    }
}

fn created(path: &str, answer: &Answer) -> Value {
    assert_eq!(answer.status, 201, "POST {path}: {}", answer.body);
    serde_json::from_str(&answer.body).expect("coderd answers in JSON")
}

fn text(body: &Value, field: &str) -> String {
    body[field].as_str().unwrap_or_else(|| panic!("no {field} in {body}")).to_owned()
}

/// The program, where its build script has put it.
///
/// # Panics
/// If it was not built.
pub fn program(edition: Edition) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tools/coderd/build.sh");
    let said = Command::new("bash").args([script, "--where"]).output().expect("bash runs build.sh --where");
    let name = match edition {
        Edition::Full => "coder",
        Edition::OpenSource => "coder-open-source",
    };
    let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim()).join(name);
    assert!(path.is_file(), "{} is not built: run `make test-contract`", path.display());
    path
}
