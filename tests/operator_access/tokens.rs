//! The operator's own token beside one that was given, beside another cluster's, while suspended, and after somebody
//! laid hands on it. Each test works in a namespace and a database of its own.

use crate::env::OperatorAccessEnv;
use crate::from_secret;
use coder_k8s::coderd::database::{AccessRequest, Database, DatabaseUrl, Limits};
use coder_k8s::coderd::{NewToken, Resolve, Uuid};
use coder_k8s::confidential::Confidential;
use coder_k8s::controller::identity::Owner;
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::Role;
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

const USER: &str = "SELECT id, email, rbac_roles FROM users ORDER BY created_at";

/// A namespace whose control plane has a token of its own, and its database.
async fn with_a_token(env: &OperatorAccessEnv, purpose: &str) -> (String, String) {
    let ns = env.cluster.namespace(purpose).await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    (ns, database)
}

async fn only_token_left(env: &OperatorAccessEnv, database: &str, count: &str) {
    until("everything else to be revoked", LIMIT, async || {
        let live = env.live_tokens(database);
        holds(live == count, live)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_our_own_goes_only_when_the_given_one_works() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, database) = with_a_token(env, "handover").await;
    only_token_left(env, &database, "1").await;
    let given =
        json!({ "extraEnv": from_secret(), "operatorAccess": { "tokenSecretRef": { "name": "mine" } } });
    env.apply_control_plane(&ns, "coder", &given).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenSecretMissing").await;
    env.apply_secret(&ns, "mine", &json!({ "token": format!("{}-{}", "a".repeat(10), "b".repeat(22)) }))
        .await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenRejected").await;
    assert!(plane["metadata"]["finalizers"].is_array(), "there is something to take back");
    assert!(env.record(&ns).await.is_some_and(|record| record["data"]["token"].is_string()));
    assert_eq!(env.live_tokens(&database), "1", "the way back works");
    env.apply_secret(&ns, "mine", &json!({ "token": env.coderd().token_for(&[Role::Owner]) })).await;
    env.until(&ns, "coder", "the given token, and nothing else", |plane| {
        condition(plane, "OperatorAccessReady")["reason"] == "TokenProven"
            && plane["metadata"]["finalizers"].is_null()
    })
    .await;
    assert_eq!((env.live_tokens(&database).as_str(), env.record(&ns).await), ("0", None));
    let user = env.postgres.sql(&database, USER);
    assert!(user.ends_with("|{}"), "no role is left: {user}");
}

async fn database(env: &OperatorAccessEnv, name: &str) -> Database {
    let url = Confidential::new(env.postgres.url("postgres", name, "sslmode=disable"));
    let resolve = Resolve::new(vec![env.postgres.resolve_rule().parse().unwrap()]);
    Database::connect(&DatabaseUrl::parse(&url).unwrap(), &resolve, Limits::default()).await.unwrap()
}

/// Blue and green from one Git repository: the same namespace and name in two clusters, on one database.
#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_on_one_database_leave_each_other_alone() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("green").await;
    env.add_provisioner(&ns).await;
    let (name, url) = env.database();
    let blue = Owner { namespace: &ns, name: "coder", uid: "0b1ue000-0000-4000-8000-000000000001" };
    let request = AccessRequest {
        user_id: Uuid::random().unwrap(),
        email: blue.email(),
        former_email: None,
        username: "coder-k8s-operator".to_owned(),
        role: coder_k8s::coderd::database::Role::Owner,
        token: NewToken::generate().unwrap(),
        token_name: blue.token_name(1),
        lifetime: Duration::from_secs(86_400),
        now: jiff::Timestamp::now(),
    };
    database(env, &name).await.ensure_access(&request).await.unwrap();
    let blues = format!(
        "SELECT rbac_roles FROM users u JOIN api_keys k ON k.user_id = u.id WHERE k.id = '{}'",
        request.token.id()
    );
    assert_eq!(env.postgres.sql(&name, &blues), "{owner}");
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    // Whatever green revokes when its first token is proven, and when it goes.
    let words = format!("delete codercontrolplane coder -n {ns} --timeout=60s");
    env.cluster.kubectl(&words).await.expect_ok();
    assert_eq!(env.postgres.sql(&name, &blues), "{owner}", "blue has its token and its role");
    let users = env.postgres.sql(&name, "SELECT rbac_roles FROM users ORDER BY created_at");
    assert_eq!(users, "{owner}\n{}", "a user each, and after the deletion green's may do nothing");
    assert_eq!(env.live_tokens(&name), "1");
}

/// An earlier release of this operator knew its users by an address without the owner's uid.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_an_address_of_an_earlier_release_is_kept_by_its_recorded_id() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, database) = with_a_token(env, "earlier").await;
    only_token_left(env, &database, "1").await;
    let before = env.postgres.sql(&database, USER);
    let former = format!("{}@coder-k8s.invalid", crds::names::control_plane::operator_token(&ns, "coder"));
    // The token is gone as well, so that another one is due.
    env.postgres.sql(&database, &format!("DELETE FROM api_keys; UPDATE users SET email = '{former}'"));
    env.followed();
    env.reconcile(&ns, "coder", "upgraded").await;
    until("another token of the same user", LIMIT, async || {
        let (user, live) = (env.postgres.sql(&database, USER), env.live_tokens(&database));
        holds(user == before && live == "1", format!("{user} with {live} tokens, before: {before}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_control_plane_renews_its_token_and_nothing_else() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, database) = with_a_token(env, "renewing").await;
    only_token_left(env, &database, "1").await;
    let first = env.record(&ns).await.unwrap()["data"]["token"].clone();
    // Something else that would be done, and is not while it is suspended: more rights, and another image.
    let spec = json!({ "extraEnv": from_secret(), "suspend": true, "image": "ghcr.io/coder/coder:v2.36.2",
        "licenseSecretRef": { "name": "license" } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.until_reason(&ns, "coder", "Suspended", "Suspended").await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
    patch_record(env, &ns, &json!({ "stringData": { "token-expires-at": soon.to_string() } })).await;
    until("another token", LIMIT, async || {
        let token = env.record(&ns).await.unwrap()["data"]["token"].clone();
        holds(token != first && env.live_tokens(&database) == "1", "not yet")
    })
    .await;
    let user = env.postgres.sql(&database, USER);
    assert!(user.ends_with("|{template-admin}"), "{user}");
    let deployment = env.get("deployment", &ns, "coder").await.unwrap();
    let image = deployment.pointer("/spec/template/spec/containers/0/image").unwrap();
    assert_eq!(image, "ghcr.io/coder/coder:v2.36.1");
    let plane = env.reconcile(&ns, "coder", "truth").await;
    assert_eq!(condition(&plane, "OperatorAccessReady")["reason"], "TokenProven");

    // One that ended and cannot be renewed is told.
    let url = format!("postgres://postgres@{}/x?sslmode=disable", crate::env::NOBODY);
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.postgres.sql(&database, "DELETE FROM api_keys");
    env.followed();
    env.reconcile(&ns, "coder", "ended").await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseLoginFailed").await;
    assert_eq!(plane["status"]["operatorAccessReady"], false);
    assert_eq!(condition(&plane, "Suspended")["status"], "True");
    assert_eq!(condition(&plane, "Ready")["status"], "True", "it keeps its Ready");
}

async fn patch_record(env: &OperatorAccessEnv, ns: &str, patch: &Value) {
    let (name, namespace) = (format!("{ns}.coder.operator-token"), &env.installation.namespace);
    let words = format!("patch secret {name} -n {namespace} --type=merge --patch-file=/dev/stdin");
    env.cluster.kubectl_with_input(&words, &patch.to_string()).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_somebody_emptied_is_written_anew() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, database) = with_a_token(env, "emptied").await;
    only_token_left(env, &database, "1").await;
    let user = env.postgres.sql(&database, USER);
    let first = env.record(&ns).await.unwrap()["data"]["token"].clone();
    for (patch, what) in [
        (json!({ "data": null }), "all of it"),
        (json!({ "data": { "token": "" } }), "the token"),
        (json!({ "data": { "token": null } }), "the key"),
    ] {
        patch_record(env, &ns, &patch).await;
        until(&format!("{what} to be written anew"), LIMIT, async || {
            let token = env.record(&ns).await.unwrap()["data"]["token"].clone();
            let whole = token.as_str().is_some_and(|token| !token.is_empty()) && token != first;
            holds(
                whole && env.live_tokens(&database) == "1",
                format!("{} living", env.live_tokens(&database)),
            )
        })
        .await;
    }
    assert_eq!(env.postgres.sql(&database, USER), user, "of the same user");
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
}

/// Whoever may patch Services could have the token sent anywhere while nobody mends them.
#[tokio::test(flavor = "multi_thread")]
async fn while_suspended_no_token_is_sent_elsewhere_and_a_lost_one_is_told() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, _) = with_a_token(env, "lured").await;
    let spec = |suspend: bool| json!({ "extraEnv": from_secret(), "suspend": suspend });
    env.apply_control_plane(&ns, "coder", &spec(true)).await;
    env.until_reason(&ns, "coder", "Suspended", "Suspended").await;
    for (patch, what) in [
        (json!({ "spec": { "selector": { "evil": "yes" } } }), "another selector"),
        (
            json!({ "spec": { "type": "ExternalName", "externalName": "evil.example.com",
                "selector": { "evil": null } } }),
            "another place",
        ),
    ] {
        let words = format!("patch service coder -n {ns} --type=merge --patch-file=/dev/stdin");
        env.cluster.kubectl_with_input(&words, &patch.to_string()).await.expect_ok();
        let plane = env.reconcile(&ns, "coder", &what.replace(' ', "-")).await;
        let reachable = condition(&plane, "CoderdReachable");
        let said = (reachable["status"].as_str(), reachable["reason"].as_str());
        assert_eq!(said, (Some("False"), Some("ServiceChanged")), "{what}");
    }
    let (name, namespace) = (format!("{ns}.coder.operator-token"), &env.installation.namespace);
    env.cluster.kubectl(&format!("delete secret {name} -n {namespace}")).await.expect_ok();
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "RecordLost").await;
    assert_eq!(plane["status"]["operatorAccessReady"], false);
    assert!(plane["status"]["operatorTokenSecretRef"].is_null());
    assert_eq!(condition(&plane, "OperatorAccessReady")["status"], "False");
    env.apply_control_plane(&ns, "coder", &spec(false)).await;
    env.until(&ns, "coder", "everything to be mended", |plane| {
        condition(plane, "OperatorAccessReady")["reason"] == "TokenProven"
            && condition(plane, "CoderdReachable")["reason"] == "Answered"
    })
    .await;
}

/// After a restore the object has another uid than the record in the operator's namespace.
#[tokio::test(flavor = "multi_thread")]
async fn the_user_of_an_earlier_object_of_this_name_loses_role_and_token() {
    let env = OperatorAccessEnv::shared().await;
    let (ns, database) = with_a_token(env, "restored").await;
    only_token_left(env, &database, "1").await;
    let earlier = Owner { namespace: &ns, name: "coder", uid: "0ea511e0-0000-4000-8000-000000000001" };
    env.postgres.sql(&database, &format!("UPDATE users SET email = '{}'", earlier.email()));
    let mark = json!({ "metadata": { "annotations": { "coder.com/control-plane-uid": earlier.uid } } });
    patch_record(env, &ns, &mark).await;
    until("a user of its own, and nothing left of the other", LIMIT, async || {
        let roles = env.postgres.sql(&database, "SELECT rbac_roles FROM users ORDER BY created_at");
        let live = env.live_tokens(&database);
        holds(roles == "{}\n{template-admin}" && live == "1", format!("{roles} with {live} tokens"))
    })
    .await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    until("both to be told", LIMIT, async || {
        let told = env.events_of(&ns, "OperatorToken").await;
        holds(told == ["Normal TokenIssued x2", "Normal TokenRevoked x1"], format!("{told:?}"))
    })
    .await;
    // Nobody is told that a token was revoked where the database does not know its user.
    env.postgres.sql(&database, "DELETE FROM api_keys; UPDATE users SET email = 'x' || email");
    let words = format!("delete codercontrolplane coder -n {ns} --timeout=60s");
    env.cluster.kubectl(&words).await.expect_ok();
    let told = env.events_of(&ns, "OperatorToken").await;
    assert!(told.contains(&"Warning TokenNotRevoked x1".to_owned()), "{told:?}");
}

/// A database that says each time that the token is somebody else's, and counts how often it was asked in how many
/// sessions. Sequences count on when a transaction is undone.
const ALWAYS_TAKEN: &str = "CREATE SEQUENCE tries; CREATE SEQUENCE sessions; \
     CREATE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       PERFORM nextval('tries'); \
       BEGIN PERFORM currval('sessions'); \
       EXCEPTION WHEN object_not_in_prerequisite_state THEN PERFORM nextval('sessions'); END; \
       RETURN NULL; END $$; \
     CREATE TRIGGER taken BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION taken()";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_token_is_asked_twice_in_a_reconcile_and_no_more() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("taken").await;
    env.add_provisioner(&ns).await;
    let (database, url) = env.database();
    env.postgres.sql(&database, ALWAYS_TAKEN);
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": url }] }),
    )
    .await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "DatabaseError").await;
    let counted = "SELECT (SELECT last_value FROM tries), (SELECT last_value FROM sessions)";
    let counted = env.postgres.sql(&database, counted);
    let numbers: Vec<u64> =
        counted.split(['|', '\t', ' ']).filter_map(|word| word.trim().parse().ok()).collect();
    let [tries, sessions] = numbers[..] else { panic!("two numbers: {counted}") };
    assert!((1..=2 * sessions).contains(&tries), "{tries} tries in {sessions} sessions");
}
