//! The operator's access to coderd and the license, on a real API server and a real PostgreSQL with coderd's schema:
//! made, kept, renewed, taken back, and what the status says of it.

mod ending_license;
mod env;
mod moves;
mod needed;
mod reach;
mod strangers;
mod tokens;
mod words;

use env::{NOBODY, OperatorAccessEnv};
use serde_json::{Value, json};
use support::coderd::{Role, license_with};
use support::objects::{condition, text};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// The database's URL out of the Secret `db`.
fn from_secret() -> Value {
    json!([{ "name": "CODER_PG_CONNECTION_URL", "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_our_own_is_made_kept_and_taken_back() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("generated").await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    let waiting = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseUrlMissing").await;
    assert!(waiting["metadata"]["finalizers"].is_null(), "nothing is made yet");
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;

    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    assert_eq!(plane["metadata"]["finalizers"], json!(["coder.com/workspace-rbac-cleanup"]));
    assert_eq!(plane["status"]["operatorAccessReady"], true);
    let reference = json!({ "name": format!("{ns}.coder.operator-token"), "key": "token",
        "namespace": env.installation.namespace });
    assert_eq!(plane["status"]["operatorTokenSecretRef"], reference);
    let record = env.record(&ns).await.unwrap();
    assert!(record["data"]["token"].is_string() && record["data"]["next"].is_null());
    assert_eq!(record["metadata"]["labels"]["coder.com/control-plane-namespace"], ns);
    until("everything to be revoked but one", LIMIT, async || {
        let live = env.live_tokens(&database);
        holds(live == "1", live)
    })
    .await;
    let user = "SELECT id, rbac_roles, is_system FROM users";
    let first = env.postgres.sql(&database, user);
    assert!(first.ends_with("|{template-admin}|t"), "{first}");
    let secrets = env.get("secrets", &ns, "").await.unwrap();
    let names = secrets["items"].as_array().unwrap().iter().map(|secret| text(secret, "/metadata/name"));
    let others: Vec<&str> = names.filter(|name| !name.ends_with("-provisioner-key")).collect();
    assert_eq!(others, ["db"], "besides the key of the provisioner only its own");

    // A lost Secret: another token of the same user.
    let name = format!("{ns}.coder.operator-token");
    let words = format!("delete secret {name} -n {}", env.installation.namespace);
    env.cluster.kubectl(&words).await.expect_ok();
    until("another token", LIMIT, async || {
        let again = env.record(&ns).await.unwrap_or_default();
        let is_new = again["data"]["token"].is_string() && again["data"]["token"] != record["data"]["token"];
        holds(is_new && env.live_tokens(&database) == "1", "not yet")
    })
    .await;
    assert_eq!(env.postgres.sql(&database, user), first, "the same user");

    // Disabled: nothing of it is left, and nothing holds the object.
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": from_secret(), "operatorAccess": { "disabled": true } }),
    )
    .await;
    let plane = env
        .until(&ns, "coder", "disabled and let go", |plane| {
            condition(plane, "OperatorAccessReady")["reason"] == "Disabled"
                && plane["metadata"]["finalizers"].is_null()
        })
        .await;
    assert!(plane["status"]["operatorTokenSecretRef"].is_null());
    assert_eq!((env.live_tokens(&database).as_str(), env.record(&ns).await), ("0", None));
    let user = env.postgres.sql(&database, user);
    assert!(user.ends_with("|{}|t"), "it may do nothing any more: {user}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_access_disabled_and_enabled_again() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("again").await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    let spec =
        |disabled: bool| json!({ "extraEnv": from_secret(), "operatorAccess": { "disabled": disabled } });
    let user = "SELECT id FROM users";
    env.apply_control_plane(&ns, "coder", &spec(false)).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    let (first, token) =
        (env.postgres.sql(&database, user), env.record(&ns).await.unwrap()["data"]["token"].clone());
    env.apply_control_plane(&ns, "coder", &spec(true)).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "Disabled").await;
    assert_eq!((env.live_tokens(&database).as_str(), env.record(&ns).await), ("0", None));
    env.apply_control_plane(&ns, "coder", &spec(false)).await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    assert_eq!(plane["status"]["operatorAccessReady"], true);
    assert_ne!(env.record(&ns).await.unwrap()["data"]["token"], token, "another token");
    assert_eq!(env.postgres.sql(&database, user), first, "of the same user");
    until("everything to be revoked but one", LIMIT, async || {
        let live = env.live_tokens(&database);
        holds(live == "1", live)
    })
    .await;
    until("what was done to be told", LIMIT, async || {
        let told = env.events_of(&ns, "OperatorToken").await;
        holds(told == ["Normal TokenIssued x2", "Normal TokenRevoked x1"], told.join(", "))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_license_needs_more_rights_and_gets_them_without_another_token() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("license").await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    let user = "SELECT id, rbac_roles, is_system FROM users";
    let jwt =
        license_with(&json!({ "jti": "6f1f6a3e-0000-4000-8000-000000000001", "exp": 4_000_000_000_i64 }));
    env.apply_secret(&ns, "license", &json!({ "license": jwt })).await;
    let before = env.record(&ns).await.unwrap()["data"]["token"].clone();
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": from_secret(), "licenseSecretRef": { "name": "license" } }),
    )
    .await;
    until("more rights", LIMIT, async || {
        let now = env.postgres.sql(&database, user);
        holds(now.ends_with("|{owner}|t"), now)
    })
    .await;
    // A real coderd looks into its database at each call; the double a moment later.
    env.followed();
    let words = format!("annotate codercontrolplane coder -n {ns} coder.com/reconcile-at=license");
    env.cluster.kubectl(&words).await.expect_ok();
    let licensed = env.until_reason(&ns, "coder", "LicenseApplied", "Applied").await;
    assert!(
        licensed["status"]["licenseLastAppliedHash"].is_string()
            && licensed["status"]["licenseTier"].is_string()
    );
    assert_eq!(env.record(&ns).await.unwrap()["data"]["token"], before);
    assert!(env.postgres.sql(&database, user).ends_with("|{owner}|t"));
    assert_eq!(env.coderd().licenses().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hiccup_of_the_database_takes_nothing_away_and_a_dead_one_lets_go() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("hiccup").await;
    env.add_provisioner(&ns).await;
    let (_, url) = env.database();
    let env_from = json!([{ "secretRef": { "name": "db" } }]);
    env.apply_secret(&ns, "db", &json!({ "CODER_PG_CONNECTION_URL": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": env_from })).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;

    // The database goes, and a role is due that only it can give.
    let dead = format!("postgres://postgres:hunter2@{NOBODY}/x?sslmode=disable");
    env.apply_secret(&ns, "db", &json!({ "CODER_PG_CONNECTION_URL": dead })).await;
    env.apply_secret(&ns, "license", &json!({ "license": "a.b.c" })).await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "envFrom": env_from, "licenseSecretRef": { "name": "license" } }),
    )
    .await;
    let plane = env
        .until(&ns, "coder", "access in spite of the database", |plane| {
            let message = condition(plane, "OperatorAccessReady")["message"].as_str().unwrap_or_default();
            message.contains("cannot log in to coderd's database")
        })
        .await;
    assert_eq!(condition(&plane, "OperatorAccessReady")["status"], "True");
    assert_eq!(
        (condition(&plane, "LicenseApplied")["reason"].as_str(), &plane["status"]["operatorAccessReady"]),
        (Some("Invalid"), &json!(true))
    );
    assert!(!plane.to_string().contains("hunter2"));

    env.cluster.kubectl(&format!("delete codercontrolplane coder -n {ns} --timeout=60s")).await.expect_ok();
    assert_eq!(env.record(&ns).await, None);
    assert_eq!(
        env.events_of(&ns, "OperatorToken").await,
        ["Normal TokenIssued x1", "Warning TokenNotRevoked x1"],
        "whoever deletes it hears that a token lives on for a while"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_said_without_the_url() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("password").await;
    env.add_provisioner(&ns).await;
    let (_, url) = env.database();
    let url = url.replace("postgres:cnry", "postgres:hunter2");
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": url }] }),
    )
    .await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseLoginFailed").await;
    assert!(!plane["status"].to_string().contains("hunter2"), "{}", plane["status"]);
    assert_eq!(condition(&plane, "OperatorAccessReady")["status"], "False");
    let composed = json!([{ "name": "CODER_PG_CONNECTION_URL", "value": "postgres://u:$(P)@h/d" }]);
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": composed, "licenseSecretRef": { "name": "license" } }),
    )
    .await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseUrlUnresolved").await;
    assert_eq!(condition(&plane, "Stalled")["reason"], "DatabaseUrlUnresolved", "a license needs access");
    env.cluster.kubectl(&format!("delete codercontrolplane coder -n {ns} --timeout=60s")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_token_is_used_as_it_is_until_coderd_refuses_it() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("given").await;
    let token = env.coderd().token_for(&[Role::Owner]);
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "operatorAccess": { "tokenSecretRef": { "name": "mine" } } }),
    )
    .await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenSecretMissing").await;
    env.apply_secret(&ns, "mine", &json!({ "token": token })).await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    let reference = json!({ "name": "mine", "namespace": ns, "key": "token" });
    assert_eq!(plane["status"]["operatorTokenSecretRef"], reference);
    assert!(plane["metadata"]["finalizers"].is_null());
    env.coderd().revoke_token(&token);
    let words = format!("annotate codercontrolplane coder -n {ns} coder.com/reconcile-at=now");
    env.cluster.kubectl(&words).await.expect_ok();
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenRejected").await;
    assert_eq!(plane["status"]["operatorAccessReady"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_older_operator_left_is_revoked_once_ours_works() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("former").await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    let variables = json!([{ "name": "CODER_PG_CONNECTION_URL", "value": url }]);
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": variables, "suspend": true })).await;
    let uid = suspended(env, &ns).await;
    env.apply(&former_secret(&ns, &uid, "old")).await;
    // Without this right it stays, with a token that no longer works, until its control plane goes.
    let account = format!("{}:{}", env.installation.namespace, env.installation.service_account);
    for words in [
        format!("create role take-over -n {ns} --verb=delete --resource=secrets"),
        format!("create rolebinding take-over -n {ns} --role=take-over --serviceaccount={account}"),
    ] {
        env.cluster.kubectl(&words).await.expect_ok();
    }
    let token = crds::names::control_plane::operator_token(&ns, "coder");
    let ours = crds::names::control_plane::operator_user(&uid);
    let made_by_go = format!(
        "INSERT INTO users (id, email, username, name, hashed_password, created_at, updated_at, status, rbac_roles, \
         login_type, is_system) VALUES (gen_random_uuid(), 'coder-k8s-operator@coder-k8s.invalid', 'coder-k8s-operator', '', \
         'none', now(), now(), 'active', '{{owner}}', 'none', true); \
         INSERT INTO api_keys (id, hashed_secret, user_id, last_used, expires_at, created_at, updated_at, login_type, \
         lifetime_seconds, token_name, scopes, allow_list) SELECT 'oldoldold0', '', id, now(), now() + '1 year', now(), now(), \
         'token', 31536000, '{token}', ARRAY['coder:all']::api_key_scope[], ARRAY['*:*'] FROM users"
    );
    env.postgres.sql(&database, &made_by_go);
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": variables, "suspend": false })).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    until("the old token to be gone", LIMIT, async || {
        let left = env.postgres.sql(&database, "SELECT token_name FROM api_keys");
        holds(left == format!("{ours}-1"), left)
    })
    .await;
    until("its Secret to be gone", LIMIT, async || {
        let left = env.cluster.kubectl(&format!("get secrets -n {ns} -o name")).await.expect_ok();
        holds(!left.contains("coder-operator-token"), left)
    })
    .await;
}

async fn suspended(env: &OperatorAccessEnv, ns: &str) -> String {
    let plane =
        env.until(ns, "coder", "suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    plane["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Where the older operator keeps its token.
fn former_secret(ns: &str, uid: &str, token: &str) -> Value {
    let owner = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder", "uid": uid,
        "controller": true });
    json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "token": token },
        "metadata": { "name": "coder-operator-token", "namespace": ns, "ownerReferences": [owner] } })
}

/// The token of the older operator lives for a year: its Secret is the only trace of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_older_operator_that_cannot_be_revoked_is_not_forgotten() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("unrevoked").await;
    let dead = json!([{ "name": "CODER_PG_CONNECTION_URL",
        "value": format!("postgres://postgres@{NOBODY}/x?sslmode=disable") }]);
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": dead, "suspend": true })).await;
    let uid = suspended(env, &ns).await;
    env.apply(&former_secret(&ns, &uid, "old")).await;
    let held = r#"{"metadata":{"finalizers":["coder.com/workspace-rbac-cleanup"]}}"#;
    let words = format!("patch codercontrolplane coder -n {ns} --type=merge -p {held}");
    env.cluster.kubectl(&words).await.expect_ok();
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": dead, "operatorAccess": { "disabled": true } }),
    )
    .await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "Disabled").await;
    assert!(plane["metadata"]["finalizers"].is_array(), "somebody must be there to revoke it");
    assert!(env.get("secret", &ns, "coder-operator-token").await.is_some());
    env.cluster.kubectl(&format!("delete codercontrolplane coder -n {ns} --timeout=60s")).await.expect_ok();
    assert_eq!(env.events_of(&ns, "OperatorToken").await, ["Warning FormerTokenNotRevoked x1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_older_operator_that_was_given_to_us_is_never_taken_back() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("kept").await;
    env.apply_control_plane(&ns, "coder", &json!({ "suspend": true })).await;
    let uid = suspended(env, &ns).await;
    env.apply(&former_secret(&ns, &uid, &env.coderd().token_for(&[Role::Owner]))).await;
    // It has rights abroad, so that it is held and looked at for what is to be taken back.
    let team = env.cluster.namespace("kept-team").await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "operatorAccess": { "tokenSecretRef": { "name": "coder-operator-token" } },
            "rbac": { "workspaceNamespaces": [team] } }),
    )
    .await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    let plane = env.reconcile(&ns, "coder", "again").await;
    assert_eq!(condition(&plane, "OperatorAccessReady")["reason"], "TokenProven");
    assert!(plane["metadata"]["finalizers"].is_array());
    assert!(env.get("secret", &ns, "coder-operator-token").await.is_some());
    assert_eq!(env.events_of(&ns, "OperatorToken").await, Vec::<String>::new());
}
