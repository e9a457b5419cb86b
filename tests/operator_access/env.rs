//! The environment that the tests of this suite share, with one PostgreSQL with coderd's schema and doubles of coderd that
//! know the tokens of the databases. Each test works in a namespace and a database of its own.

use serde_json::Value;
use std::ops::Deref;
use std::sync::Mutex;
use std::time::Duration;
use support::coderd::{Coderd, DatabaseToken};
use support::postgres::Postgres;
use support::{Cluster, ClusterOptions, TestEnv, objects};
use tokio::sync::OnceCell;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const RELEASE: &str = "v2.36.1";
/// A name behind which nobody listens.
pub const NOBODY: &str = "gone.team.svc.cluster.local";
/// An address that the operator is told not to dial.
pub const DENIED: &str = "127.0.0.9";

/// Control planes with a coderd of their own, for tests that change how it behaves.
const ALONE: [&str; 7] =
    ["redirected", "flaky", "ending", "stopped", "hostile", "moved-daemons", "moved-proxy"];

/// The namespace of a control plane named `coder`, and its own coderd.
pub struct Alone {
    pub namespace: String,
    pub coderd: Coderd,
}

/// A [`TestEnv`] with databases.
pub struct OperatorAccessEnv {
    env: TestEnv,
    pub postgres: Postgres,
    alone: Vec<Alone>,
    databases: Mutex<Vec<String>>,
}

impl Deref for OperatorAccessEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl OperatorAccessEnv {
    /// The one that all tests share, started by whoever comes first.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<OperatorAccessEnv> = OnceCell::const_new();
        static FOLLOWED: std::sync::Once = std::sync::Once::new();
        let env = SHARED.get_or_init(Self::start).await;
        FOLLOWED.call_once(|| {
            std::thread::spawn(move || {
                loop {
                    env.followed();
                    // A real coderd reads its database at each call; PostgreSQL tells nobody of a commit, so we look.
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        });
        env
    }

    async fn start() -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
        let postgres = Postgres::start();
        let mut alone = Vec::new();
        for purpose in ALONE {
            let coderd = Coderd::builder().api_rate_limit(None).start().await;
            alone.push(Alone { namespace: cluster.namespace(purpose).await, coderd });
        }
        let env = TestEnv::builder(BINARY)
            .in_cluster(&cluster)
            .flag(format!("--resolve={}", postgres.resolve_rule()))
            .flag(format!("--resolve={NOBODY}=127.0.0.1:1"))
            .flags(crate::strangers::started())
            .flag(format!("--deny-cidr=192.0.2.0/24,{DENIED}/32"))
            .flags(alone.iter().flat_map(resolved))
            .coderd_with_tls()
            .start()
            .await;
        Self { env, postgres, alone, databases: Mutex::default() }
    }

    /// Every token in every database.
    fn tokens(&self) -> Vec<DatabaseToken> {
        let databases = self.databases.lock().unwrap().clone();
        databases.iter().flat_map(|name| self.postgres.coderd_tokens(name).unwrap()).collect()
    }

    /// Lets the doubles know the databases as they are now.
    pub fn followed(&self) {
        let tokens = self.tokens();
        for coderd in self.alone.iter().map(|alone| &alone.coderd).chain([self.coderd()]) {
            coderd.follow_database(&tokens);
        }
    }

    /// A control plane with a coderd of its own; each purpose is for one test.
    pub fn alone(&self, purpose: &str) -> &Alone {
        let at = ALONE.iter().position(|known| *known == purpose).expect("one of the list");
        &self.alone[at]
    }

    /// A fresh database, and its URL.
    pub fn database(&self) -> (String, String) {
        let name = self.postgres.coderd_database(RELEASE);
        self.databases.lock().unwrap().push(name.clone());
        let url = self.postgres.url("postgres", &name, "sslmode=disable");
        (name, url)
    }

    /// How many tokens a database has that still live.
    pub fn live_tokens(&self, database: &str) -> String {
        self.postgres.sql(database, "SELECT count(*) FROM api_keys WHERE expires_at > now()")
    }

    /// Gives the control plane of a namespace a provisioner, for which the operator needs a token.
    pub async fn add_provisioner(&self, namespace: &str) {
        self.apply(&objects::provisioner(namespace, "builders", "coder")).await;
    }

    /// The Events of this action: type, reason, and how often.
    pub async fn events_of(&self, namespace: &str, action: &str) -> Vec<String> {
        let events = self.events(namespace, |event| event["action"] == action).await;
        events.into_iter().map(|(kind, reason, _, count)| format!("{kind} {reason} x{count}")).collect()
    }

    /// The Secret with the operator's own token.
    pub async fn record(&self, namespace: &str) -> Option<Value> {
        let name = format!("{namespace}.coder.operator-token");
        self.get("secret", &self.installation.namespace, &name).await
    }
}

/// The rules that lead the Service of a control plane to its own double, with TLS and without.
fn resolved(alone: &Alone) -> [String; 2] {
    let (host, coderd) = (format!("coder.{}.svc.cluster.local", alone.namespace), &alone.coderd);
    [format!("--resolve={host}:443={}", coderd.tls_addr()), format!("--resolve={host}={}", coderd.addr())]
}
