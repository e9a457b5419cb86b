//! The same world on both sides: the double and a real coderd, each with the same users, standings and sessions.
//! It sets scenes and sends; it never judges an answer.

use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use support::coderd::{Coderd, NewUser, Role, UserStatus};
use support::plain_http::{Answer, Ask};
use support::postgres::Postgres;
use support::real_coderd::{Edition, RealCoderd};

const SESSION_HEADER: &str = "coder-session-token";
const KEY_HEADER: &str = "coder-provisioner-daemon-key";
const PROXY_HEADER: &str = "coder-external-proxy-token";
const DAY: Duration = Duration::from_secs(86_400);
/// Calls a minute per user and path: more than the table makes, few enough to be used up.
pub const RATE_LIMIT: u32 = 60;

/// Whose token goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Nobody,
    Owner,
    TemplateAdmin,
    Member,
    Dormant,
    Suspended,
    /// Somebody who has used up the limit of a path.
    Hasty,
    /// A session of a member that has ended.
    Expired,
    /// A session of a member that was deleted by its own id.
    Deleted,
    /// A known id with another secret.
    WrongSecret,
    /// No session, but the form of one.
    Unknown,
    /// Any text as token.
    Text(&'static str),
    /// The plaintext of the provisioner key that both have, and no token.
    SeededKey,
    /// Any text as the plaintext of a provisioner key, and no token.
    Key(&'static str),
    /// The token of the workspace proxy that both have, and none of a user.
    SeededProxy,
    /// The id of that proxy with another secret, and no token of a user.
    SeededProxyWithAnotherSecret,
    /// Any text as the token of a workspace proxy, and none of a user.
    Proxy(&'static str),
}

/// The name of the workspace proxy that both have.
pub const SEEDED_PROXY: &str = "seeded";
/// The name of the provisioner key that both have; its tags are those of the second job that waits.
pub const SEEDED_KEY: &str = "seeded";
/// The tags of the jobs that wait on both sides, oldest first.
const JOBS: [&[(&str, &str)]; 3] = [&[], &[("zone", "eu")], &[("zone", "eu"), ("gpu", "yes")]];

/// One of the two servers.
pub struct Side {
    pub addr: SocketAddr,
    tokens: BTreeMap<Who, String>,
    /// The id of its default organisation.
    pub organization: String,
    /// The plaintext of the key that both have.
    pub seeded_key: String,
    /// The token of the proxy that both have.
    pub seeded_proxy: String,
}

impl Side {
    pub fn token(&self, who: Who) -> Option<String> {
        match who {
            Who::Nobody | Who::SeededKey | Who::Key(_) => None,
            Who::SeededProxy | Who::SeededProxyWithAnotherSecret | Who::Proxy(_) => None,
            Who::Text(text) => Some(text.to_owned()),
            Who::Unknown => Some(format!("{}-{}", "a".repeat(10), "b".repeat(22))),
            Who::WrongSecret => Some(format!("{}-{}", self.key(Who::Member), "b".repeat(22))),
            known => Some(self.tokens[&known].clone()),
        }
    }

    /// The half of a session's token that names it.
    pub fn key(&self, who: Who) -> String {
        self.tokens[&who].split('-').next().unwrap().to_owned()
    }

    /// The id of the proxy that both have.
    pub fn proxy(&self) -> &str {
        self.seeded_proxy.split(':').next().unwrap()
    }

    /// The header by which somebody is known.
    fn credential(&self, who: Who) -> Option<(&'static str, String)> {
        match who {
            Who::SeededKey => Some((KEY_HEADER, self.seeded_key.clone())),
            Who::Key(text) => Some((KEY_HEADER, text.to_owned())),
            Who::SeededProxy => Some((PROXY_HEADER, self.seeded_proxy.clone())),
            Who::SeededProxyWithAnotherSecret => {
                Some((PROXY_HEADER, format!("{}:{}", self.proxy(), "x".repeat(64))))
            }
            Who::Proxy(text) => Some((PROXY_HEADER, text.to_owned())),
            other => Some((SESSION_HEADER, self.token(other)?)),
        }
    }

    pub async fn ask(&self, method: &str, path: &str, who: Who, body: Option<&str>) -> Answer {
        let path = path
            .replace("{owners key}", &self.key(Who::Owner))
            .replace("{members key}", &self.key(Who::Member))
            .replace("{deleted key}", &self.key(Who::Deleted))
            .replace("{organization}", &self.organization)
            .replace("{proxy}", self.proxy());
        let mut ask = Ask::new(method, &path).header("accept", "application/json");
        if let Some((header, value)) = self.credential(who) {
            ask = ask.header(header, &value);
        }
        if let Some(body) = body {
            let body = body.replace("{organization}", &self.organization).replace("{proxy}", self.proxy());
            ask = ask.json(&body);
        }
        ask.send(self.addr).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

/// Both servers.
pub struct Sides {
    pub coderd: Coderd,
    pub double: Side,
    pub real: Side,
    pub postgres: Postgres,
    pub server: RealCoderd,
}

impl Sides {
    /// Starts both, as one edition without a license.
    pub async fn start(edition: Edition) -> Self {
        let postgres = Postgres::start();
        let server = RealCoderd::start(&postgres, edition, RATE_LIMIT).await;
        let real_tokens = real_tokens(&server, &postgres).await;
        let builder = Coderd::builder().unlicensed().api_rate_limit(Some(RATE_LIMIT));
        let builder = if edition == Edition::OpenSource { builder.agpl() } else { builder };
        let coderd = builder.start().await;
        let tokens = double_tokens(&coderd);
        let seeded_key = coderd.add_provisioner_key("default", SEEDED_KEY, JOBS[1]);
        for tags in JOBS {
            coderd.add_pending_job("default", tags);
        }
        let seeded_proxy = coderd.add_workspace_proxy(SEEDED_PROXY);
        seed_proxy(&server, &postgres, &seeded_proxy);
        let organization = coderd.organization_id("default").to_string();
        let (key, proxy) = (seeded_key.clone(), seeded_proxy.clone());
        let double = Side { addr: coderd.addr(), tokens, organization, seeded_key: key, seeded_proxy: proxy };
        let organization = seed(&server, &postgres, &seeded_key).await;
        let real = Side { addr: server.addr(), tokens: real_tokens, organization, seeded_key, seeded_proxy };
        Self { coderd, double, real, postgres, server }
    }
}

const MEMBERS: [(Who, &str); 4] = [
    (Who::Member, "member"),
    (Who::Dormant, "dormant"),
    (Who::Suspended, "suspended"),
    (Who::Hasty, "hasty"),
];

fn double_tokens(coderd: &Coderd) -> BTreeMap<Who, String> {
    coderd.add_user(NewUser::named("ops").with(Role::Owner));
    coderd.add_user(NewUser::named("builder").with(Role::TemplateAdmin));
    let mut tokens = BTreeMap::new();
    for (who, name) in MEMBERS {
        coderd.add_user(NewUser::named(name));
        tokens.insert(who, coderd.add_token(name, DAY));
    }
    for (who, name) in [
        (Who::Owner, "ops"),
        (Who::TemplateAdmin, "builder"),
        (Who::Expired, "member"),
        (Who::Deleted, "member"),
    ] {
        tokens.insert(who, coderd.add_token(name, DAY));
    }
    coderd.expire_token(&tokens[&Who::Expired]);
    coderd.set_user_status("dormant", UserStatus::Dormant);
    coderd.set_user_status("suspended", UserStatus::Suspended);
    tokens
}

async fn real_tokens(server: &RealCoderd, postgres: &Postgres) -> BTreeMap<Who, String> {
    let mut tokens = BTreeMap::from([(Who::Owner, server.owner_token().to_owned())]);
    tokens.insert(Who::TemplateAdmin, server.add_user("builder", &["template-admin"]).await);
    for (who, name) in MEMBERS {
        tokens.insert(who, server.add_user(name, &[]).await);
    }
    for who in [Who::Expired, Who::Deleted] {
        tokens.insert(who, server.log_in("member").await);
    }
    let expired = tokens[&Who::Expired].split('-').next().unwrap();
    postgres.sql(
        server.database(),
        &format!(
            "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = '{expired}'; \
             UPDATE users SET status = 'dormant' WHERE username = 'dormant'; \
             UPDATE users SET status = 'suspended' WHERE username = 'suspended'"
        ),
    );
    tokens
}

/// Gives the real one the key and the jobs that the double has, and says the id of its default organisation. It makes keys
/// for nobody without a license, so this one comes by its database; the jobs come by its API, as people make them.
async fn seed(server: &RealCoderd, postgres: &Postgres, plaintext: &str) -> String {
    let tags = |pairs: &[(&str, &str)]| json!(pairs.iter().copied().collect::<BTreeMap<&str, &str>>());
    let organization = postgres.sql(server.database(), "SELECT id FROM organizations WHERE is_default");
    postgres.sql(
        server.database(),
        &format!(
            "INSERT INTO provisioner_keys (id, created_at, organization_id, name, hashed_secret, tags) VALUES \
             (gen_random_uuid(), now(), '{organization}', '{SEEDED_KEY}', sha256('{plaintext}'), '{}')",
            tags(JOBS[1])
        ),
    );
    for pairs in JOBS {
        let version = json!({ "name": "waiting", "storage_method": "file", "example_id": "scratch",
            "provisioner": "terraform", "tags": tags(pairs) });
        let path = format!("/api/v2/organizations/{organization}/templateversions");
        let ask = Ask::new("POST", &path).header(SESSION_HEADER, server.owner_token());
        let made = ask.json(&version.to_string()).send(server.addr()).await.unwrap();
        assert_eq!(made.status, 201, "{made:?}");
    }
    organization
}

/// Gives the real one the proxy that the double has, by its database as well.
fn seed_proxy(server: &RealCoderd, postgres: &Postgres, token: &str) {
    let (id, secret) = token.split_once(':').unwrap();
    postgres.sql(
        server.database(),
        &format!(
            "INSERT INTO workspace_proxies (id, name, display_name, icon, url, wildcard_hostname, created_at, updated_at, \
             deleted, token_hashed_secret) VALUES ('{id}', '{SEEDED_PROXY}', '{SEEDED_PROXY}', '/emojis/1f3e1.png', '', \
             '', now(), now(), false, sha256('{secret}'))"
        ),
    );
}
