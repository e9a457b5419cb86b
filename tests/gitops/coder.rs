//! The world around a cluster that outlives it: a database with coderd's tables and the double of coderd on it.
//! A cluster is rebuilt beside it; it never looks into one.

use std::sync::Arc;
use support::coderd::Coderd;
use support::database_tokens::Following;
use support::postgres::Postgres;
use tokio_util::task::AbortOnDropHandle;

const RELEASE: &str = "v2.36.1";
/// Where CloudNativePG says that the database of the examples is.
const HOST: &str = "coder-database-rw.coder";

/// coderd and its database.
pub struct Coder {
    pub coderd: Arc<Coderd>,
    /// What CloudNativePG has in its Secret.
    pub database_url: String,
    /// What leads the operator to both.
    pub flags: [String; 2],
    postgres: Arc<Postgres>,
    database: String,
    _following: Following,
    _proxies: AbortOnDropHandle<()>,
}

impl Coder {
    /// One whose database has nothing but its tables.
    pub async fn fresh() -> Self {
        let coderd = Arc::new(Coderd::builder().api_rate_limit(None).start().await);
        let postgres = Arc::new(Postgres::start());
        let name = postgres.coderd_database(RELEASE);
        let answers = coderd.clone();
        let proxies = tokio::spawn(async move {
            support::proxies::come(&answers, "http://sydney.example.com").await;
        });
        Self {
            database_url: postgres.url_at(HOST, "postgres", &name, "sslmode=disable"),
            flags: [
                format!("--resolve={}", postgres.resolve_rule_for(HOST)),
                format!("--resolve=*.svc.cluster.local={}", coderd.addr()),
            ],
            _following: Following::begin(coderd.clone(), postgres.clone(), name.clone()),
            coderd,
            postgres,
            database: name,
            _proxies: AbortOnDropHandle::new(proxies),
        }
    }

    /// Loses the database: in its place, under the same address, is one with nothing but its tables.
    pub fn lose_database(&self) {
        let (name, another) = (&self.database, self.postgres.coderd_database(RELEASE));
        self.postgres.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
        self.postgres.sql("postgres", &format!("ALTER DATABASE {another} RENAME TO {name}"));
        self.coderd.replace_deployment();
    }

    /// The names of the keys and of the proxies that it knows.
    pub fn registered(&self) -> (Vec<String>, Vec<String>) {
        let keys = self.coderd.provisioner_keys("default").into_iter().map(|key| key.name).collect();
        let proxies = self.coderd.workspace_proxies().into_iter().map(|proxy| proxy.name).collect();
        (keys, proxies)
    }
}
