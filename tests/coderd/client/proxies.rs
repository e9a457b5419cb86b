//! The calls for workspace proxies against the double: what they read, what they send, and what each refusal means.
//! Every token stays in its header and in what the caller is given.

use super::{appearance, client, limits, owner_and_client, proxy};
use coder_k8s::coderd::client::{
    Entitlement, Feature, Limits, ProxyAppearance, ProxyDeletion, ProxyStatus, WORKSPACE_PROXIES,
    proxy_id_of_token,
};
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Error, Uuid};
use coder_k8s::confidential::Confidential;
use serde_json::{Value, json};
use support::coderd::{self, Coderd, Credential, Fault, Occurrence, Role};

const CREATE: &str = "POST /workspaceproxies";
const SHOW: &str = "GET /workspaceproxies/{proxy}";
const CHANGE: &str = "PATCH /workspaceproxies/{proxy}";
const DELETE: &str = "DELETE /workspaceproxies/{proxy}";
const VERIFY: &str = "GET /workspaceagents/connection";
const NOWHERE: &str = "6f1f6a3e-0000-4000-8000-000000000001";

/// A client of a new user with these roles.
fn client_of(coderd: &Coderd, roles: &[Role]) -> Client {
    client(coderd, &coderd.token_for(roles), limits())
}

fn confidential(text: &str) -> Confidential<String> {
    Confidential::new(text.to_owned())
}

fn nowhere() -> Uuid {
    NOWHERE.parse().unwrap()
}

#[tokio::test]
async fn a_proxy_is_registered_found_changed_and_deleted() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    assert_eq!(client.workspace_proxy("eu").await, Ok(None));
    let (made, token) = client.create_workspace_proxy(&appearance("eu")).await.unwrap();
    assert_eq!(coderd.token_of_proxy("eu").as_ref(), Some(token.expose()));
    assert_eq!(proxy_id_of_token(&token), Some(made.id));
    assert_eq!((made.name.as_str(), made.display_name.as_str()), ("eu", "Frankfurt"));
    assert_eq!((made.icon.as_str(), made.health.status), ("/emojis/1f310.png", ProxyStatus::Unregistered));
    assert_eq!((&made.version, &made.access_url), (&None, &None));
    let age = jiff::Timestamp::now().duration_since(made.created_at);
    assert!(age.as_secs().abs() < 3600, "{age:?}");
    assert_eq!(client.workspace_proxy("eu").await, Ok(Some(made.clone())));
    assert_eq!(client.workspace_proxy("EU").await, Ok(None), "coderd looks for it as it is written");
    assert_eq!(client.workspace_proxy_by_id(made.id).await, Ok(Some(made.clone())));

    let appearance = ProxyAppearance { name: "us", display_name: "Ohio \"1\"", icon: "/emojis/1f1fa.png" };
    let changed = client.update_workspace_proxy(made.id, &appearance).await.unwrap();
    assert_eq!((changed.id, changed.name.as_str()), (made.id, "us"));
    assert_eq!((changed.display_name.as_str(), changed.icon.as_str()), ("Ohio \"1\"", "/emojis/1f1fa.png"));
    assert_eq!(client.is_proxy_token_valid(&token).await, Ok(true), "its token stays");
    assert_eq!(client.workspace_proxy("eu").await, Ok(None));

    assert_eq!(client.delete_workspace_proxy(made.id).await, Ok(ProxyDeletion::Deleted));
    assert_eq!(client.workspace_proxy_by_id(made.id).await, Ok(None), "though coderd shows it by its id");
    assert_eq!(client.delete_workspace_proxy(made.id).await, Ok(ProxyDeletion::Deleted), "once more");
    assert_eq!(client.is_proxy_token_valid(&token).await, Ok(false));
    assert!(coderd.workspace_proxies().is_empty());
    for shown in [format!("{token} {token:?} {client:?}"), format!("{:?}", coderd.calls())] {
        assert!(!shown.contains(&token.expose()[37..]), "{shown}");
    }
}

#[tokio::test]
async fn a_regenerated_token_replaces_the_one_before_and_nothing_else() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let first = confidential(&coderd.add_workspace_proxy("eu"));
    let id = proxy(&coderd, "eu");
    let second = client.regenerate_proxy_token(id, &appearance("eu")).await.unwrap();
    assert_eq!(proxy_id_of_token(&second), Some(id));
    assert_eq!(client.is_proxy_token_valid(&first).await, Ok(false));
    assert_eq!(client.is_proxy_token_valid(&second).await, Ok(true));
    assert_eq!(coderd.workspace_proxies()[0].regenerations, 1);
    // The answer is lost, the token is not what it was.
    coderd.inject(CHANGE, Occurrence::Next, Fault::response_lost());
    assert!(client.regenerate_proxy_token(id, &appearance("eu")).await.is_err());
    assert_eq!(client.is_proxy_token_valid(&second).await, Ok(false));
}

#[tokio::test]
async fn a_token_is_verified_in_its_own_header_by_a_call_without_effect() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let token = confidential(&coderd.add_workspace_proxy("eu"));
    let (id, before) = (proxy(&coderd, "eu"), coderd.workspace_proxies());
    assert_eq!(client.is_proxy_token_valid(&token).await, Ok(true));
    let call = coderd.calls_to(VERIFY).pop().unwrap();
    assert!(matches!(&call.credential, Credential::WorkspaceProxy(of) if of.to_string() == id.to_string()));
    assert_eq!((call.body, coderd.workspace_proxies()), (None, before));
    let secret = "x".repeat(64);
    for unknown in [format!("{id}:{secret}"), format!("{NOWHERE}:{secret}")] {
        assert_eq!(client.is_proxy_token_valid(&confidential(&unknown)).await, Ok(false), "{unknown}");
    }
    let sent = coderd.calls().len();
    let own = token.expose();
    for unsendable in ["", " ", "two words", NOWHERE, &format!("{own}\n"), &format!(" {own}"), &own[..100]] {
        let said = client.is_proxy_token_valid(&confidential(unsendable)).await;
        assert_eq!(said, Ok(false), "{unsendable:?}: no proxy comes in with it");
    }
    assert_eq!(coderd.calls().len(), sent, "what is no token goes nowhere");
}

#[tokio::test]
async fn only_coderds_own_words_make_a_token_invalid_or_valid() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let token = confidential(&coderd.add_workspace_proxy("eu"));
    let operation = Operation::VerifyProxyToken;
    let page = |status: u16| Fault::answer_text(status, "text/html", "<h1>who are you?</h1>");
    for (fault, error) in [
        (page(401), Error::Unauthorized { operation }),
        (page(200), Error::Malformed { operation }),
        (page(404), Error::NotFoundOrForbidden { operation }),
        (page(502), Error::Server { operation, status: 502 }),
        (
            Fault::answer(401, &json!({ "message": "Missing required external proxy token" })),
            Error::Unauthorized { operation },
        ),
    ] {
        coderd.inject(VERIFY, Occurrence::Next, fault);
        assert_eq!(client.is_proxy_token_valid(&token).await, Err(error));
    }
    let repeated = Fault::answer(400, &json!({ "message": format!("bad {}", token.expose()) }));
    coderd.inject(VERIFY, Occurrence::Next, repeated);
    let error = client.is_proxy_token_valid(&token).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&token.expose()[37..]), "{error}");
}

#[tokio::test]
async fn a_refused_proxy_says_why() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    coderd.add_workspace_proxy("eu");
    coderd.add_workspace_proxy("us");
    let create = async |name: &str| client.create_workspace_proxy(&appearance(name)).await.map(drop);
    let operation = Operation::CreateWorkspaceProxy;
    assert_eq!(create("EU").await, Err(Error::Conflict { operation }), "in any case");
    let reserved =
        "The name \"primary\" is reserved for the primary region.: Cannot name a workspace proxy 'primary'.";
    assert_eq!(create("Primary").await, Err(Error::Invalid { operation, message: reserved.into() }));
    assert_eq!(create("").await, Err(Error::Invalid { operation, message: "Validation failed.".into() }));

    let operation = Operation::UpdateWorkspaceProxy;
    let update = async |id: Uuid, appearance: &ProxyAppearance<'_>| {
        client.update_workspace_proxy(id, appearance).await.map(drop)
    };
    let eu = proxy(&coderd, "eu");
    assert_eq!(update(eu, &appearance("US")).await, Err(Error::Conflict { operation }), "told with a 500");
    let nameless = ProxyAppearance { icon: "", ..appearance("eu") };
    let message = "Validation failed.".into();
    assert_eq!(update(eu, &nameless).await, Err(Error::Invalid { operation, message }));
    assert_eq!(update(nowhere(), &appearance("ap")).await, Err(Error::NotFoundOrForbidden { operation }));
    coderd.remove_workspace_proxy("us");
    assert_eq!(update(eu, &appearance("us")).await, Ok(()), "the name is free again");

    let primary = coderd.deployment_id().to_string().parse().unwrap();
    let renamed = update(primary, &appearance("eu")).await;
    assert!(matches!(&renamed, Err(Error::Invalid { .. })), "{renamed:?}");
    assert_eq!(client.delete_workspace_proxy(primary).await, Ok(ProxyDeletion::Impossible));
    assert_eq!(client.delete_workspace_proxy(nowhere()).await, Ok(ProxyDeletion::NotThere));
    assert_eq!(coderd.workspace_proxies().len(), 1);
}

/// coderd finds a deleted proxy by its id, changes it and gives it a token that opens nothing.
#[tokio::test]
async fn a_deleted_proxy_is_not_there_whatever_is_asked_of_it() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    coderd.add_workspace_proxy("eu");
    let id = proxy(&coderd, "eu");
    coderd.remove_workspace_proxy("eu");
    assert_eq!(client.workspace_proxy_by_id(id).await, Ok(None));
    let gone = |operation| Error::NotFoundOrForbidden { operation };
    let updated = client.update_workspace_proxy(id, &appearance("eu")).await;
    assert_eq!(updated, Err(gone(Operation::UpdateWorkspaceProxy)));
    let regenerated = client.regenerate_proxy_token(id, &appearance("eu")).await;
    assert_eq!(regenerated, Err(gone(Operation::RegenerateProxyToken)));
}

#[tokio::test]
async fn whoever_is_no_owner_reads_and_is_told_that_they_may_not_write() {
    let coderd = Coderd::start().await;
    let token = confidential(&coderd.add_workspace_proxy("eu"));
    let id = proxy(&coderd, "eu");
    for roles in [vec![], vec![Role::TemplateAdmin]] {
        let client = client_of(&coderd, &roles);
        assert!(client.workspace_proxy("eu").await.unwrap().is_some());
        let operation = Operation::CreateWorkspaceProxy;
        let created = client.create_workspace_proxy(&appearance("us")).await;
        assert_eq!(created, Err(Error::Forbidden { operation }), "told with a 500");
        let operation = Operation::UpdateWorkspaceProxy;
        let updated = client.update_workspace_proxy(id, &appearance("us")).await;
        assert_eq!(updated, Err(Error::NotFoundOrForbidden { operation }));
        let operation = Operation::DeleteWorkspaceProxy;
        let denied = client.delete_workspace_proxy(id).await.unwrap_err();
        assert_eq!(denied, Error::Forbidden { operation }, "told with a 404, and it is still there");
        let told = "deleting a workspace proxy failed: the token's user may not do this";
        assert_eq!(denied.to_string(), told);
        assert_eq!(client.is_proxy_token_valid(&token).await, Ok(true), "by the token of the proxy itself");
    }
    assert_eq!(coderd.workspace_proxies().len(), 1);
    // Whether it is there cannot be asked: it is not taken for gone.
    let member = client_of(&coderd, &[]);
    coderd.inject(SHOW, Occurrence::Next, Fault::status(500));
    let operation = Operation::WorkspaceProxy;
    assert_eq!(member.delete_workspace_proxy(id).await, Err(Error::Server { operation, status: 500 }));
}

#[tokio::test]
async fn without_a_license_everything_but_a_token_is_refused_whoever_asks() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let token = confidential(&coderd.add_workspace_proxy("eu"));
    let id = proxy(&coderd, "eu");
    let now = async || client.entitlements().await.unwrap().feature(WORKSPACE_PROXIES);
    assert_eq!(now().await, Feature { entitlement: Entitlement::Entitled, enabled: true });
    coderd.set_feature(WORKSPACE_PROXIES, coderd::Entitlement::GracePeriod, true);
    assert_eq!(now().await, Feature { entitlement: Entitlement::GracePeriod, enabled: true });
    coderd.set_feature(WORKSPACE_PROXIES, coderd::Entitlement::NotEntitled, false);
    assert!(!now().await.enabled);
    for client in [client.clone(), client.with_token(confidential("nonsense"))] {
        let refused = |operation| Error::NotLicensed { operation };
        let shown = (client.workspace_proxy("eu").await, client.workspace_proxy_by_id(id).await);
        let expected = Err(refused(Operation::WorkspaceProxy));
        assert_eq!(shown, (expected.clone(), expected));
        let created = client.create_workspace_proxy(&appearance("us")).await;
        assert_eq!(created, Err(refused(Operation::CreateWorkspaceProxy)));
        let updated = client.update_workspace_proxy(id, &appearance("us")).await;
        assert_eq!(updated, Err(refused(Operation::UpdateWorkspaceProxy)));
        let regenerated = client.regenerate_proxy_token(id, &appearance("eu")).await;
        assert_eq!(regenerated, Err(refused(Operation::RegenerateProxyToken)));
        let deleted = client.delete_workspace_proxy(id).await;
        assert_eq!(deleted, Err(refused(Operation::DeleteWorkspaceProxy)));
        assert_eq!(client.is_proxy_token_valid(&token).await, Ok(true), "which needs no license");
    }
    coderd.add_license();
    let unknown = client.with_token(confidential("nonsense"));
    let operation = Operation::WorkspaceProxy;
    assert_eq!(unknown.workspace_proxy("eu").await, Err(Error::Unauthorized { operation }));
}

#[tokio::test]
async fn the_open_source_build_has_no_such_route() {
    let coderd = Coderd::builder().agpl().start().await;
    let client = client_of(&coderd, &[Role::Owner]);
    let missing = |operation| Error::RouteMissing { operation };
    assert_eq!(client.workspace_proxy("eu").await, Err(missing(Operation::WorkspaceProxy)), "and not: none");
    let deleted = client.delete_workspace_proxy(nowhere()).await;
    assert_eq!(deleted, Err(missing(Operation::DeleteWorkspaceProxy)));
    let token = confidential(&format!("{NOWHERE}:{}", "x".repeat(64)));
    assert_eq!(client.is_proxy_token_valid(&token).await, Ok(false));
}

#[tokio::test]
async fn names_that_mean_something_else_find_no_proxy_of_another() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    for name in ["a proxy", "a?b#c", "50%", "a:b@c", "ümläut", "a%2Fb", "you"] {
        coderd.add_workspace_proxy(name);
        assert!(client.workspace_proxy(name).await.unwrap().is_some(), "{name}");
    }
    let id = proxy(&coderd, "you").to_string();
    assert_eq!(client.workspace_proxy(&id).await, Ok(None), "it has the id and not the name");
    let (sent, operation) = (coderd.calls().len(), Operation::WorkspaceProxy);
    for name in ["", "..", "a/b", "me", "me/register", &"n".repeat(1025)] {
        assert_eq!(
            client.workspace_proxy(name).await,
            Err(Error::NotFoundOrForbidden { operation }),
            "{name}"
        );
    }
    assert_eq!(coderd.calls().len(), sent, "nothing else was asked for");
    let primary = client.workspace_proxy("primary").await.unwrap().expect("the control plane itself");
    assert_eq!(primary.id.to_string(), coderd.deployment_id().to_string());
}

#[tokio::test]
async fn what_coderd_found_is_told_in_clean_words() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let token = coderd.add_workspace_proxy("eu");
    let health = async || client.workspace_proxy("eu").await.unwrap().unwrap().health;
    for (given, status) in [
        (coderd::ProxyStatus::Unknown, ProxyStatus::Unknown),
        (coderd::ProxyStatus::Unregistered, ProxyStatus::Unregistered),
        (coderd::ProxyStatus::Unreachable, ProxyStatus::Unreachable),
        (coderd::ProxyStatus::Unhealthy, ProxyStatus::Unhealthy),
        (coderd::ProxyStatus::Ok, ProxyStatus::Ok),
    ] {
        coderd.set_proxy_health("eu", given, &["no \u{1b}[2Jway\n in"], &["old"]);
        let health = health().await;
        assert_eq!(
            (health.status, health.errors, health.warnings),
            (status, vec!["no [2Jway in".to_owned()], vec!["old".to_owned()])
        );
    }
    let id = coderd.proxy_comes(&token, "https://eu.example.com").unwrap();
    let here = client.workspace_proxy("eu").await.unwrap().unwrap();
    assert_eq!(here.id.to_string(), id.to_string());
    assert_eq!(
        (here.version.as_deref(), here.access_url.as_deref()),
        (Some("v2.36.1"), Some("https://eu.example.com"))
    );
}

/// A token that is lost cannot be asked for again: an answer that lacks it is no success.
#[tokio::test]
async fn an_answer_without_the_token_of_that_proxy_is_no_answer() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    coderd.add_workspace_proxy("eu");
    let id = proxy(&coderd, "eu");
    let shown = json!({ "id": id.to_string(), "name": "eu", "created_at": "2026-11-18T00:00:00Z" });
    let secret = "x".repeat(64);
    let with = |token: Value| json!({ "proxy": shown, "proxy_token": token });
    for body in [
        json!({}),
        json!([]),
        json!({ "proxy_token": format!("{id}:{secret}") }),
        with(json!(null)),
        with(json!("")),
        with(json!(7)),
        with(json!("postgres://evil")),
        with(json!(format!("{NOWHERE}:{secret}"))),
        with(json!(format!("{id}:{secret}\n"))),
        json!({ "proxy": shown }),
    ] {
        coderd.inject(CREATE, Occurrence::Next, Fault::answer(201, &body));
        let operation = Operation::CreateWorkspaceProxy;
        let made = client.create_workspace_proxy(&appearance("us")).await;
        assert_eq!(made, Err(Error::Malformed { operation }), "{body}");
        coderd.inject(CHANGE, Occurrence::Next, Fault::answer(200, &body));
        let operation = Operation::RegenerateProxyToken;
        let regenerated = client.regenerate_proxy_token(id, &appearance("eu")).await;
        assert_eq!(regenerated, Err(Error::Malformed { operation }), "{body}");
    }
    let other = json!({ "id": NOWHERE, "name": "eu", "created_at": "2026-11-18T00:00:00Z" });
    coderd.inject(CHANGE, Occurrence::Next, Fault::answer(200, &json!({ "proxy": other })));
    let operation = Operation::UpdateWorkspaceProxy;
    assert_eq!(
        client.update_workspace_proxy(id, &appearance("eu")).await,
        Err(Error::Malformed { operation })
    );
    let operation = Operation::WorkspaceProxy;
    coderd.inject(SHOW, Occurrence::Next, Fault::answer(200, &other));
    assert_eq!(client.workspace_proxy_by_id(id).await, Err(Error::Malformed { operation }));
}

/// A proxy says of itself what it likes, and coderd has no bounds for names: neither keeps us from the rest.
#[tokio::test]
async fn a_flood_of_words_is_cut_and_leaves_the_proxy_readable() {
    let (coderd, token, _) = owner_and_client(limits()).await;
    let client = client(&coderd, &token, Limits { answer: 1 << 20, ..limits() });
    coderd.add_workspace_proxy("eu");
    let id = proxy(&coderd, "eu");
    let lines: Vec<String> = (0..50_000).map(|number| format!("line {number}")).collect();
    let flood = json!({ "id": id.to_string(), "name": "n".repeat(100_000), "display_name": "ä\u{202e}".repeat(10_000),
        "icon_url": "x".repeat(20_000), "created_at": "2026-11-18T00:00:00Z", "version": "v".repeat(10_000),
        "path_app_url": "\u{1b}".repeat(10_000), "status": { "status": "unhealthy", "report": { "errors": lines } } });
    coderd.inject(SHOW, Occurrence::Next, Fault::answer(200, &flood));
    let read = client.workspace_proxy_by_id(id).await.unwrap().unwrap();
    assert!(read.name.len() + read.display_name.len() + read.icon.len() < 3 * 8200);
    assert_eq!((read.health.errors.len(), read.health.errors[7].as_str()), (8, "line 7"));
    assert_eq!((read.version.unwrap().chars().count(), read.access_url), (301, None));
    coderd.inject(DELETE, Occurrence::Next, Fault::answer_text(200, "text/html", "<h1>done</h1>"));
    assert_eq!(client.delete_workspace_proxy(id).await, Ok(ProxyDeletion::Deleted), "nobody reads more");
}
