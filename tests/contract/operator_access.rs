//! The operator's access on a database that a real coderd has migrated: what we write there works on its API, and what
//! we take away does not. It never asks what the rows look like; `tests/coderd/database.rs` does.

use super::client_at;
use super::roles::{self, Rights};
use coder_k8s::coderd::database::{
    AccessRequest, Database, DatabaseUrl, EMAIL_DOMAIN, Error as Refused, Limits, Role,
};
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Error, NewToken, Resolve, Uuid};
use coder_k8s::confidential::Confidential;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;
use support::plain_http::{Answer, Ask};
use support::postgres::Postgres;
use support::real_coderd::{Edition, RealCoderd};
use support::until;
use support::wait::holds;

const SOON: Duration = Duration::from_secs(20);
const UNAUTHORIZED: Error = Error::Unauthorized { operation: Operation::Me };

/// A coderd that has migrated its database, and our way into that database.
struct Scene {
    postgres: Postgres,
    server: RealCoderd,
    database: Database,
}

impl Scene {
    async fn set() -> Self {
        let postgres = Postgres::start();
        let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
        let url = Confidential::new(postgres.url("postgres", server.database(), "sslmode=disable"));
        let resolve = Resolve::new(vec![postgres.resolve_rule().parse().unwrap()]);
        let url = DatabaseUrl::parse(&url).unwrap();
        let database = Database::connect(&url, &resolve, Limits::default()).await.unwrap();
        Self { postgres, server, database }
    }

    /// Our client with the token of a request.
    fn client(&self, request: &AccessRequest) -> Client {
        client_at(self.server.addr(), Some(request.token.plaintext()))
    }

    async fn as_owner(&self, method: &str, path: &str) -> Answer {
        let ask = Ask::new(method, path).header("coder-session-token", self.server.owner_token());
        ask.send(self.server.addr()).await.unwrap()
    }
}

fn request() -> AccessRequest {
    AccessRequest {
        user_id: Uuid::random().unwrap(),
        email: format!("coder-k8s-operator-0123abcd@{EMAIL_DOMAIN}"),
        former_email: None,
        username: "coder-k8s-operator".to_owned(),
        role: Role::TemplateAdmin,
        token: NewToken::generate().unwrap(),
        token_name: "coder-k8s-1".to_owned(),
        lifetime: Duration::from_secs(3600),
        now: Timestamp::now(),
    }
}

fn renewed(request: &AccessRequest) -> AccessRequest {
    AccessRequest {
        token: NewToken::generate().unwrap(),
        token_name: format!("{}x", request.token_name),
        ..request.clone()
    }
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_token_we_write_works_with_the_role_we_asked_for() {
    let mut scene = Scene::set().await;
    let request = request();
    let ensured = scene.database.ensure_access(&request).await.unwrap();
    assert!(ensured.created, "the probe of the schema let us in");
    let client = scene.client(&request);
    let me = client.me().await.unwrap();
    assert_eq!((me.id, me.username), (request.user_id.to_string(), "coder-k8s-operator".to_owned()));
    assert_eq!((me.status.as_str(), me.roles), ("active", vec!["template-admin".to_owned()]));
    assert_eq!(client.build_info().await.unwrap().version, "v2.36.1");
    assert!(!client.entitlements().await.unwrap().has_license);
    assert_eq!(client.licenses().await, Ok(Vec::new()));
    let no_license = Confidential::new("a.b.c".to_owned());
    let operation = Operation::UploadLicense;
    assert_eq!(client.upload_license(&no_license).await, Err(Error::Forbidden { operation }));

    // More rights for the same token at the next call, and less again.
    let owner = AccessRequest { role: Role::Owner, ..request.clone() };
    scene.database.ensure_access(&owner).await.unwrap();
    assert_eq!(client.me().await.unwrap().roles, ["owner"]);
    assert!(matches!(client.upload_license(&no_license).await, Err(Error::Invalid { .. })));
    scene.database.ensure_access(&request).await.unwrap();
    assert_eq!(client.upload_license(&no_license).await, Err(Error::Forbidden { operation }));

    // People do not see it, and it takes no seat.
    let users = scene.as_owner("GET", "/api/v2/users").await.body;
    let users: Value = serde_json::from_str(&users).unwrap();
    let names: Vec<&Value> =
        users["users"].as_array().unwrap().iter().map(|user| &user["username"]).collect();
    assert_eq!(names, ["ops"]);
}

/// Our user belongs to no organisation; what a provisioner needs comes from its role alone.
#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn our_user_manages_keys_as_template_admin_and_sees_jobs_only_as_owner() {
    let mut scene = Scene::set().await;
    let request = request();
    for (role, rights) in [(Role::TemplateAdmin, Rights::KEYS), (Role::Owner, Rights::EVERYTHING)] {
        scene.database.ensure_access(&AccessRequest { role, ..request.clone() }).await.unwrap();
        let token = request.token.plaintext();
        assert_eq!(roles::of(scene.server.addr(), token.expose()).await, rights, "{role:?}");
    }
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn tokens_are_renewed_revoked_and_end_by_themselves() {
    let mut scene = Scene::set().await;
    let first = request();
    scene.database.ensure_access(&first).await.unwrap();
    let second = renewed(&first);
    scene.database.ensure_access(&second).await.unwrap();
    for generation in [&first, &second] {
        assert!(scene.client(generation).me().await.is_ok(), "the old one works until the new one is proven");
    }
    assert_eq!(scene.database.revoke_all_but(first.user_id, second.token.id()).await, Ok(1));
    assert_eq!(scene.client(&first).me().await, Err(UNAUTHORIZED));
    assert!(scene.client(&second).me().await.is_ok());

    let third = renewed(&second);
    scene.database.ensure_access(&third).await.unwrap();
    scene.client(&third).delete_token_by_id(second.token.id()).await.unwrap();
    assert_eq!(scene.client(&second).me().await, Err(UNAUTHORIZED), "a token may delete its siblings");
    assert_eq!(scene.database.disable_access(Some(first.user_id), &first.email, None).await, Ok(Some(1)));
    assert_eq!(scene.client(&third).me().await, Err(UNAUTHORIZED));

    let brief = AccessRequest { lifetime: Duration::from_secs(1), now: Timestamp::now(), ..renewed(&third) };
    scene.database.ensure_access(&brief).await.unwrap();
    let client = scene.client(&brief);
    until("the token to end", SOON, async || {
        let said = client.me().await;
        holds(said == Err(UNAUTHORIZED), format!("{said:?}"))
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn an_operator_that_an_administrator_suspends_stays_out() {
    let mut scene = Scene::set().await;
    let request = request();
    scene.database.ensure_access(&request).await.unwrap();
    let client = scene.client(&request);
    assert!(client.me().await.is_ok());
    let standing = |word: &str| format!("/api/v2/users/{}/status/{word}", request.user_id);
    let suspended = scene.as_owner("PUT", &standing("suspend")).await;
    assert_eq!(suspended.status, 200, "{suspended:?}");
    assert_eq!(client.me().await, Err(UNAUTHORIZED));
    assert_eq!(scene.database.ensure_access(&renewed(&request)).await, Err(Refused::Suspended));
    assert_eq!(scene.as_owner("PUT", &standing("activate")).await.status, 200);
    assert!(client.me().await.is_ok());
    assert!(scene.database.ensure_access(&renewed(&request)).await.is_ok());
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn people_with_our_name_or_address_keep_their_accounts() {
    let mut scene = Scene::set().await;
    let request = request();
    let session = scene.server.add_user("coder-k8s-operator", &[]).await;
    let human = client_at(scene.server.addr(), Some(Confidential::new(session)));
    let before = human.me().await.unwrap();
    let ensured = scene.database.ensure_access(&request).await.unwrap();
    assert_eq!(ensured.username, format!("coder-k8s-operator-{}", &request.user_id.to_string()[..8]));
    assert_eq!(human.me().await, Ok(before.clone()), "the same id and no new role");
    let keys = format!("SELECT count(*) FROM api_keys WHERE user_id = '{}'", before.id);
    assert_eq!(scene.postgres.sql(scene.server.database(), &keys), "1", "its own session");
    assert_eq!(scene.client(&request).me().await.unwrap().username, ensured.username);

    // Whoever may rename may also choose our address.
    let other = AccessRequest {
        user_id: Uuid::random().unwrap(),
        email: format!("trap@{EMAIL_DOMAIN}"),
        ..renewed(&request)
    };
    let take = format!("UPDATE users SET email = '{}' WHERE id = '{}'", other.email, before.id);
    scene.postgres.sql(scene.server.database(), &take);
    assert_eq!(scene.database.ensure_access(&other).await, Err(Refused::ForeignUser));
    assert_eq!(scene.client(&other).me().await, Err(UNAUTHORIZED));
}
