//! Operator access in coderd's database, on a real PostgreSQL with the real schema of the newest and the oldest
//! supported coderd.

mod troubles;

use coder_k8s::coderd::database::{
    AccessRequest, Database, DatabaseUrl, EMAIL_DOMAIN, Ensured, Error, Limits, Role, go_operator_token_name,
};
use coder_k8s::coderd::{NewToken, Resolve, Uuid};
use coder_k8s::confidential::Confidential;
use jiff::Timestamp;
use std::sync::LazyLock;
use std::time::Duration;
use support::cluster::pki::Ca;
use support::postgres::{HOST, PASSWORD, Postgres};
use support::wait::{holds, until};
use tokio::net::TcpListener;

const NEWEST: &str = "v2.36.1";
const OLDEST: &str = "v2.30.0";
const SOON: Duration = Duration::from_secs(20);

static CA: LazyLock<Ca> = LazyLock::new(|| Ca::new("test-database"));
static SERVER: LazyLock<Postgres> = LazyLock::new(|| Postgres::start_with_tls(&CA, &[HOST]));

fn url(text: &str) -> DatabaseUrl {
    DatabaseUrl::parse(&Confidential::new(text.to_owned())).unwrap()
}

fn resolve(server: &Postgres) -> Resolve {
    Resolve::new(vec![server.resolve_rule().parse().unwrap()])
}

async fn connect_as(user: &str, database: &str, limits: Limits) -> Database {
    let url = url(&SERVER.url(user, database, "sslmode=disable"));
    Database::connect(&url, &resolve(&SERVER), limits).await.unwrap()
}

async fn connect(database: &str) -> Database {
    connect_as("postgres", database, Limits::default()).await
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
        lifetime: Duration::from_secs(86_400),
        now: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

/// The next generation of a token for the same user.
fn renewed(request: &AccessRequest) -> AccessRequest {
    AccessRequest {
        token: NewToken::generate().unwrap(),
        token_name: format!("{}x", request.token_name),
        ..request.clone()
    }
}

fn count(database: &str, table: &str) -> String {
    SERVER.sql(database, &format!("SELECT count(*) FROM {table}"))
}

/// A human, as coderd itself would have made it.
fn add_human(database: &str, username: &str, email: &str) -> Uuid {
    let id = Uuid::random().unwrap();
    SERVER.sql(
        database,
        &format!(
            "INSERT INTO users (id, email, username, hashed_password, created_at, updated_at, status) \
             VALUES ('{id}', '{email}', '{username}', 'x', now(), now(), 'active')"
        ),
    );
    id
}

#[tokio::test]
async fn a_user_and_a_token_are_made_on_both_schemas() {
    for release in [NEWEST, OLDEST] {
        let name = SERVER.coderd_database(release);
        let request = request();
        let ensured = connect(&name).await.ensure_access(&request).await.unwrap();
        let expires_at = Timestamp::from_second(1_800_086_400).unwrap();
        let username = "coder-k8s-operator".to_owned();
        assert_eq!(ensured, Ensured { user_id: request.user_id, username, created: true, expires_at });
        let user = "SELECT id, email, username, status, rbac_roles, login_type, is_system, deleted, \
                    encode(hashed_password, 'hex') FROM users";
        assert_eq!(
            SERVER.sql(&name, user),
            format!(
                "{}|{}|coder-k8s-operator|active|{{template-admin}}|none|t|f|",
                request.user_id, request.email
            )
        );
        // coderd's own rule: SHA-256 of the twenty-two characters after the dash, kept under the ten before it.
        let plaintext = request.token.plaintext();
        let (id, secret) = plaintext.expose().split_once('-').unwrap();
        let token = format!(
            "SELECT id, hashed_secret = sha256('{secret}'), length(id), length('{secret}'), user_id, login_type, \
             lifetime_seconds, token_name, scopes, allow_list, extract(epoch FROM expires_at)::bigint, ip_address \
             FROM api_keys"
        );
        assert_eq!(
            SERVER.sql(&name, &token),
            format!(
                "{id}|t|10|22|{}|token|86400|coder-k8s-1|{{coder:all}}|{{*:*}}|1800086400|0.0.0.0",
                request.user_id
            )
        );
        assert_eq!(count(&name, "organization_members"), "0", "both roles work site-wide");
    }
}

#[tokio::test]
async fn asking_again_changes_nothing() {
    let name = SERVER.coderd_database(NEWEST);
    let (request, mut database) = (request(), connect(&name).await);
    let first = database.ensure_access(&request).await.unwrap();
    let rows = "SELECT (SELECT md5(string_agg(u::text, '')) FROM users u), (SELECT md5(string_agg(k::text, '')) FROM api_keys k)";
    let before = SERVER.sql(&name, rows);
    let later = AccessRequest { now: request.now + Duration::from_secs(60), ..request.clone() };
    assert_eq!(database.ensure_access(&later).await.unwrap(), Ensured { created: false, ..first });
    assert_eq!(SERVER.sql(&name, rows), before);
}

#[tokio::test]
async fn the_role_follows_what_is_asked_up_and_down() {
    let name = SERVER.coderd_database(NEWEST);
    let (request, mut database) = (request(), connect(&name).await);
    let roles = "SELECT rbac_roles FROM users";
    for (role, shown) in [
        (Role::TemplateAdmin, "{template-admin}"),
        (Role::Owner, "{owner}"),
        (Role::TemplateAdmin, "{template-admin}"),
    ] {
        database.ensure_access(&AccessRequest { role, ..request.clone() }).await.unwrap();
        assert_eq!(SERVER.sql(&name, roles), shown);
    }
    SERVER.sql(&name, "UPDATE users SET rbac_roles = '{owner,auditor}'");
    database.ensure_access(&request).await.unwrap();
    assert_eq!(SERVER.sql(&name, roles), "{template-admin}", "neither more nor less");
}

#[tokio::test]
async fn a_human_of_the_same_name_keeps_the_account() {
    let name = SERVER.coderd_database(NEWEST);
    let human = add_human(&name, "Coder-K8s-Operator", "human@example.com");
    let row = format!("SELECT md5(u::text) FROM users u WHERE id = '{human}'");
    let before = SERVER.sql(&name, &row);
    let request = request();
    let ensured = connect(&name).await.ensure_access(&request).await.unwrap();
    assert_eq!(ensured.username, format!("coder-k8s-operator-{}", &request.user_id.to_string()[..8]));
    assert_eq!(SERVER.sql(&name, &row), before);
    assert_eq!(SERVER.sql(&name, &format!("SELECT count(*) FROM api_keys WHERE user_id = '{human}'")), "0");
}

#[tokio::test]
async fn somebody_elses_id_or_address_is_never_taken_over() {
    let name = SERVER.coderd_database(NEWEST);
    let (request, mut database) = (request(), connect(&name).await);
    // Whoever may make users may also choose our address for one; that makes it no user of ours.
    let trap = add_human(&name, "trap", &request.email.to_uppercase());
    assert_eq!(database.ensure_access(&request).await, Err(Error::ForeignUser));
    SERVER.sql(&name, &format!("UPDATE users SET email = 'trap@example.com' WHERE id = '{trap}'"));
    let stolen = AccessRequest { user_id: trap, ..request.clone() };
    assert_eq!(database.ensure_access(&stolen).await, Err(Error::ForeignUser));
    assert_eq!((count(&name, "users"), count(&name, "api_keys")), ("1".to_owned(), "0".to_owned()));
    assert_eq!(database.ensure_access(&request).await.map(|ensured| ensured.created), Ok(true));
}

#[tokio::test]
async fn a_lost_id_is_found_again_by_the_reserved_address() {
    let name = SERVER.coderd_database(NEWEST);
    let (first, mut database) = (request(), connect(&name).await);
    database.ensure_access(&first).await.unwrap();
    let forgetful = AccessRequest { user_id: Uuid::random().unwrap(), ..renewed(&first) };
    let ensured = database.ensure_access(&forgetful).await.unwrap();
    assert_eq!((ensured.user_id, ensured.created), (first.user_id, false));
    assert_eq!(count(&name, "users"), "1");
}

#[tokio::test]
async fn a_suspended_or_deleted_operator_is_left_alone() {
    let name = SERVER.coderd_database(NEWEST);
    let (request, mut database) = (request(), connect(&name).await);
    database.ensure_access(&request).await.unwrap();
    SERVER.sql(&name, "UPDATE users SET status = 'suspended'");
    let promoted = AccessRequest { role: Role::Owner, ..renewed(&request) };
    assert_eq!(database.ensure_access(&promoted).await, Err(Error::Suspended));
    assert_eq!(SERVER.sql(&name, "SELECT status, rbac_roles FROM users"), "suspended|{template-admin}");
    assert_eq!(count(&name, "api_keys"), "1");
    SERVER.sql(&name, "UPDATE users SET status = 'active', deleted = true");
    assert_eq!(database.ensure_access(&promoted).await, Err(Error::Deleted));
    // A new id is a new user.
    let anew = AccessRequest { user_id: Uuid::random().unwrap(), ..renewed(&request) };
    assert_eq!(database.ensure_access(&anew).await.map(|ensured| ensured.created), Ok(true));
}

#[tokio::test]
async fn a_renewal_keeps_the_old_token_until_it_is_revoked() {
    let name = SERVER.coderd_database(NEWEST);
    let (first, mut database) = (request(), connect(&name).await);
    database.ensure_access(&first).await.unwrap();
    let (second, third) = (renewed(&first), renewed(&renewed(&first)));
    database.ensure_access(&second).await.unwrap();
    database.ensure_access(&third).await.unwrap();
    assert_eq!(count(&name, "api_keys"), "3");
    assert_eq!(database.revoke_token(first.user_id, first.token.id()).await, Ok(1));
    assert_eq!(database.revoke_token(first.user_id, first.token.id()).await, Ok(0));
    assert_eq!(database.revoke_all_but(first.user_id, third.token.id()).await, Ok(1));
    assert_eq!(SERVER.sql(&name, "SELECT id FROM api_keys"), third.token.id());
    assert_eq!(database.disable_access(Some(first.user_id), &first.email, None).await, Ok(Some(1)));
    assert_eq!((count(&name, "users"), count(&name, "api_keys")), ("1".to_owned(), "0".to_owned()));
    assert_eq!(SERVER.sql(&name, "SELECT rbac_roles FROM users"), "{}", "and no right is left");
}

/// Two clusters that shared a user under an earlier release: whoever comes first keeps it, the other makes one of its own,
/// and from then on neither can disable the other.
#[tokio::test]
async fn a_user_of_an_earlier_release_is_kept_by_one_control_plane_and_left_alone_by_others() {
    let name = SERVER.coderd_database(NEWEST);
    let mut database = connect(&name).await;
    let earlier = request();
    database.ensure_access(&earlier).await.unwrap();
    let now = |uid: &str| AccessRequest {
        email: format!("coder-k8s-operator-{uid}@{EMAIL_DOMAIN}"),
        former_email: Some(earlier.email.clone()),
        ..renewed(&earlier)
    };
    let (blue, green) = (now("blue"), now("green"));
    let kept = database.ensure_access(&blue).await.unwrap();
    assert_eq!((kept.user_id, kept.created), (earlier.user_id, false));
    assert_eq!(SERVER.sql(&name, "SELECT email FROM users"), blue.email);
    assert_eq!(database.ensure_access(&green).await, Err(Error::UserElsewhere));
    assert_eq!(
        database.disable_access(Some(earlier.user_id), &green.email, Some(&earlier.email)).await,
        Ok(None)
    );
    let anew = AccessRequest { user_id: Uuid::random().unwrap(), ..green };
    assert_eq!(database.ensure_access(&anew).await.map(|ensured| ensured.created), Ok(true));
    // The address counts more than the id: a record of before still leads to the user of now.
    let again = AccessRequest { user_id: earlier.user_id, ..renewed(&anew) };
    assert_eq!(database.ensure_access(&again).await.map(|ensured| ensured.user_id), Ok(anew.user_id));
    assert_eq!(database.disable_access(None, &anew.email, Some(&earlier.email)).await, Ok(Some(2)));
    assert_eq!(SERVER.sql(&name, "SELECT rbac_roles FROM users ORDER BY email"), "{template-admin}\n{}");
}

#[tokio::test]
async fn a_token_whose_plaintext_was_lost_is_replaced_under_its_name() {
    let name = SERVER.coderd_database(NEWEST);
    let (lost, mut database) = (request(), connect(&name).await);
    database.ensure_access(&lost).await.unwrap();
    let again = AccessRequest { token: NewToken::generate().unwrap(), ..lost.clone() };
    database.ensure_access(&again).await.unwrap();
    assert_eq!(SERVER.sql(&name, "SELECT id FROM api_keys"), again.token.id());
}

#[tokio::test]
async fn tokens_of_others_are_never_revoked() {
    let name = SERVER.coderd_database(NEWEST);
    let (request, mut database) = (request(), connect(&name).await);
    database.ensure_access(&request).await.unwrap();
    let human = add_human(&name, "human", "human@example.com");
    SERVER.sql(&name, &format!("UPDATE api_keys SET user_id = '{human}'"));
    assert_eq!(database.disable_access(Some(human), &request.email, None).await, Ok(Some(0)));
    assert_eq!(database.revoke_token(human, request.token.id()).await, Ok(0));
    let nobody = format!("nobody@{EMAIL_DOMAIN}");
    assert_eq!(database.disable_access(Some(human), &nobody, Some("human@example.com")).await, Ok(None));
    assert!(database.revoke_tokens_named("human@example.com", "coder-k8s-1").await.is_err());
    assert_eq!(count(&name, "api_keys"), "1");
    // The id of the human's token is not ours to use either.
    assert_eq!(database.ensure_access(&request).await, Err(Error::TokenTaken));
}

#[tokio::test]
async fn only_the_named_token_of_the_older_operator_goes() {
    let name = SERVER.coderd_database(NEWEST);
    let old = AccessRequest {
        email: format!("coder-k8s-operator@{EMAIL_DOMAIN}"),
        token_name: go_operator_token_name("team", "coder"),
        ..request()
    };
    let mut database = connect(&name).await;
    database.ensure_access(&old).await.unwrap();
    let other = AccessRequest { token_name: go_operator_token_name("team", "other"), ..renewed(&old) };
    database.ensure_access(&other).await.unwrap();
    assert_eq!(database.revoke_tokens_named(&old.email, &old.token_name).await, Ok(1));
    assert_eq!(
        (SERVER.sql(&name, "SELECT id FROM api_keys"), count(&name, "users")),
        (other.token.id().to_owned(), "1".to_owned())
    );
}

#[tokio::test]
async fn two_operators_at_once_make_one_user() {
    let name = SERVER.coderd_database(NEWEST);
    let (one, other) = (request(), request());
    let other = AccessRequest { user_id: one.user_id, token_name: "coder-k8s-2".to_owned(), ..other };
    let (mut first, mut second) = (connect(&name).await, connect(&name).await);
    // Each in a task of its own, as reconcilers are.
    let one = tokio::spawn(async move { first.ensure_access(&one).await });
    let other = tokio::spawn(async move { second.ensure_access(&other).await });
    let (one, other) = (one.await.unwrap().unwrap(), other.await.unwrap().unwrap());
    assert_eq!([one.created, other.created].iter().filter(|created| **created).count(), 1);
    assert_eq!((count(&name, "users"), count(&name, "api_keys")), ("1".to_owned(), "2".to_owned()));
}
