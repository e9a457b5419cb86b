//! What each answer about a workspace proxy means.

use super::*;
use crate::coderd::Endpoint;
use crate::coderd::client::Limits;
use crate::coderd::client::answers::tests::answer_to;
use crate::coderd::client::proxy_health::ProxyStatus;
use crate::coderd::resolve::Resolve;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";
pub(super) const OTHER: &str = "6f1f6a3e-0000-4000-8000-000000000002";

fn id() -> Uuid {
    ID.parse().unwrap()
}

fn token_of(id: &str) -> String {
    format!("{id}:{}", "x".repeat(64))
}

fn confidential(text: &str) -> Confidential<String> {
    Confidential::new(text.to_owned())
}

pub(super) fn proxy(with: &Value) -> Value {
    let mut proxy = json!({ "id": ID, "name": "eu", "display_name": "Frankfurt", "icon_url": "/emojis/1f310.png",
        "healthy": false, "path_app_url": "", "wildcard_hostname": "", "derp_enabled": true, "derp_only": false,
        "status": { "status": "unregistered", "report": { "errors": [], "warnings": [] },
            "checked_at": "2026-11-18T00:00:00Z" },
        "created_at": "2026-11-18T00:00:00.123456Z", "updated_at": "2026-11-18T00:00:00Z", "deleted": false,
        "version": "", "a field of tomorrow": {} });
    for (name, value) in with.as_object().unwrap() {
        proxy[name] = value.clone();
    }
    proxy
}

fn found(body: &Value) -> Result<Option<WorkspaceProxy>, Error> {
    answer_to(Operation::WorkspaceProxy, 200, body).found_proxy()
}

fn with(with: &Value) -> WorkspaceProxy {
    found(&proxy(with)).unwrap().unwrap()
}

#[test]
fn a_proxy_is_read_and_a_deleted_one_is_none() {
    let fresh = with(&json!({}));
    assert_eq!((fresh.id, fresh.name.as_str()), (id(), "eu"));
    assert_eq!((fresh.display_name.as_str(), fresh.icon.as_str()), ("Frankfurt", "/emojis/1f310.png"));
    assert_eq!(fresh.created_at.to_string(), "2026-11-18T00:00:00.123456Z");
    assert_eq!(
        (fresh.health.status, fresh.version, fresh.access_url),
        (ProxyStatus::Unregistered, None, None)
    );
    let running = with(&json!({ "version": "v2.36.1+a", "path_app_url": "https://eu.example.com" }));
    assert_eq!(running.version.as_deref(), Some("v2.36.1+a"));
    assert_eq!(running.access_url.as_deref(), Some("https://eu.example.com"));
    assert_eq!(found(&proxy(&json!({ "deleted": true }))), Ok(None), "coderd shows it by its id");
    let operation = Operation::WorkspaceProxy;
    for broken in [json!({}), json!(null), json!({ "id": ID }), proxy(&json!({ "id": "7" })), json!([])] {
        assert_eq!(found(&broken), Err(Error::Malformed { operation }), "{broken}");
    }
    let missing = |message: &str| answer_to(operation, 404, &json!({ "message": message })).found_proxy();
    assert_eq!(missing("Resource not found or you do not have access to this resource"), Ok(None));
    assert_eq!(missing("Route not found."), Err(Error::RouteMissing { operation }));
}

#[test]
fn what_is_compared_stays_as_it_is_and_what_is_told_is_cleaned() {
    let odd = "👩\u{200d}💻 \u{202e}team\n";
    let named = with(&json!({ "name": odd, "display_name": odd, "icon_url": odd }));
    assert_eq!((named.name.as_str(), named.display_name.as_str(), named.icon.as_str()), (odd, odd, odd));
    let endless = with(&json!({ "display_name": "ä".repeat(100_000), "name": "x".repeat(8192) }));
    assert_eq!((endless.display_name.chars().count(), endless.name.len()), (4097, 8192));
    assert!(endless.display_name.ends_with('…'));
    let said = with(&json!({ "version": "v2\u{1b}[2J", "path_app_url": "x".repeat(100_000) }));
    assert_eq!(said.version.as_deref(), Some("v2 [2J"));
    assert_eq!(said.access_url.unwrap().chars().count(), 301);
}

#[test]
fn a_token_names_its_proxy_or_is_none() {
    assert_eq!(proxy_id_of_token(&confidential(&token_of(ID))), Some(id()));
    let secret = "x".repeat(64);
    for text in [
        String::new(),
        ID.to_owned(),
        format!("{ID}:"),
        format!("{ID}:{}", "x".repeat(63)),
        format!("{ID}:{}", "x".repeat(65)),
        format!("{ID}:{}:", "x".repeat(63)),
        format!("{ID}:{}-", "x".repeat(63)),
        format!("{ID}:{secret}\n"),
        format!(" {ID}:{secret}"),
        format!("eu:{secret}"),
        format!(":{secret}"),
    ] {
        assert_eq!(proxy_id_of_token(&confidential(&text)), None, "{text:?}");
    }
}

fn created(status: u16, body: &Value) -> Option<(WorkspaceProxy, Option<Confidential<String>>)> {
    let read =
        |body: &[u8]| Changed::read(body).map(|(proxy, token)| (proxy.unless_deleted().unwrap(), token));
    answer_to(Operation::CreateWorkspaceProxy, status, body).shown_once(read).ok()
}

/// Anything else would be a text of somebody's choice in a Secret of ours.
#[test]
fn only_a_token_of_the_proxy_that_it_comes_with_is_one() {
    let body = |token: Value| json!({ "proxy": proxy(&json!({})), "proxy_token": token });
    let (proxy, token) = created(201, &body(json!(token_of(ID)))).unwrap();
    assert_eq!((proxy.id, token), (id(), Some(confidential(&token_of(ID)))));
    for none in [json!(""), json!(null)] {
        assert_eq!(created(201, &body(none)).unwrap().1, None);
    }
    for text in [&token_of(OTHER), "postgres://evil", "two words", &format!("{}\u{7}", token_of(ID))] {
        assert_eq!(created(201, &body(json!(text))), None, "{text}");
    }
    assert_eq!(created(201, &json!({ "proxy_token": token_of(ID) })), None);
    assert_eq!(created(409, &body(json!(token_of(ID)))), None);
}

#[test]
fn a_change_is_one_of_the_proxy_that_was_asked_for_and_is_there() {
    let operation = Operation::UpdateWorkspaceProxy;
    let changed = |status, body: Value| answer_to(operation, status, &body).changed_proxy(id());
    let ok = |with: Value| changed(200, json!({ "proxy": proxy(&with), "proxy_token": "" }));
    assert_eq!(ok(json!({ "name": "us" })).unwrap().0.name, "us");
    assert_eq!(ok(json!({ "id": OTHER })), Err(Error::Malformed { operation }));
    assert_eq!(ok(json!({ "deleted": true })), Err(Error::NotFoundOrForbidden { operation }));
    assert_eq!(changed(200, json!({})), Err(Error::Malformed { operation }));
    let said = |detail: &str| {
        changed(500, json!({ "message": "An internal server error occurred.", "detail": detail }))
    };
    let unique = "pq: duplicate key value violates unique constraint \"workspace_proxies_lower_name_idx\"";
    assert_eq!(said(unique), Err(Error::Conflict { operation }));
    assert_eq!(said("unauthorized: rbac: forbidden"), Err(Error::Forbidden { operation }));
    assert_eq!(said("something else"), Err(Error::Server { operation, status: 500 }));
    let told = Error::Conflict { operation }.to_string();
    assert_eq!(
        told, "changing a workspace proxy failed: it conflicts with what coderd has",
        "no 409 was sent"
    );
    assert_eq!(changed(404, json!({})), Err(Error::NotFoundOrForbidden { operation }));
}

#[test]
fn a_deletion_says_whether_there_was_anything_to_delete() {
    let operation = Operation::DeleteWorkspaceProxy;
    let deleted = |status, body: Value| answer_to(operation, status, &body).proxy_deletion();
    assert_eq!(deleted(200, json!({ "message": "Proxy has been deleted!" })), Ok(ProxyDeletion::Deleted));
    assert_eq!(deleted(404, json!({ "message": "Resource not found" })), Ok(ProxyDeletion::NotThere));
    assert_eq!(deleted(400, json!({ "message": PRIMARY })), Ok(ProxyDeletion::Impossible));
    assert!(matches!(deleted(400, json!({ "message": "bad gateway" })), Err(Error::Invalid { .. })));
    let missing = deleted(404, json!({ "message": "Route not found." }));
    assert_eq!(missing, Err(Error::RouteMissing { operation }));
    let premium = json!({ "message": "Workspace Proxy is a Premium feature. Contact sales!" });
    assert_eq!(deleted(403, premium), Err(Error::NotLicensed { operation }));
}

#[test]
fn a_token_is_valid_or_not_in_coderds_words_alone() {
    let operation = Operation::VerifyProxyToken;
    let verified = |status, body: &Value| answer_to(operation, status, body).verified_token();
    let said = |status, message: &str| verified(status, &json!({ "message": message }));
    assert_eq!(
        verified(200, &json!({ "derp_map": { "Regions": {} }, "hostname_suffix": "coder" })),
        Ok(true)
    );
    assert_eq!(said(401, INVALID_TOKEN), Ok(false));
    assert_eq!(said(401, "sign in"), Err(Error::Unauthorized { operation }));
    assert_eq!(said(200, "welcome"), Err(Error::Malformed { operation }));
    assert_eq!(said(403, "X is a Premium feature."), Err(Error::NotLicensed { operation }));
    assert_eq!(said(404, INVALID_TOKEN), Err(Error::NotFoundOrForbidden { operation }));
    assert_eq!(said(404, "Route not found."), Err(Error::RouteMissing { operation }));
}

/// A client of somebody who answers 404 to whatever is asked for by id, and has these in the list.
async fn client_of_a_list(listed: Vec<Value>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.windows(4).any(|end| end == b"\r\n\r\n")
                && stream.read_buf(&mut asked).await.unwrap() > 0
            {}
            let (status, body) = match asked.starts_with(b"GET /api/v2/workspaceproxies ") {
                true => ("200 OK", json!({ "regions": listed })),
                false => ("404 Not Found", json!({ "message": "Resource not found" })),
            };
            let (body, json) = (body.to_string(), "content-type: application/json");
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\n{json}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let resolve = Resolve::new(vec![format!("coderd.test=127.0.0.1:{port}").parse().unwrap()]);
    let endpoint = Endpoint::parse("http://coderd.test").unwrap();
    Client::new(endpoint, Some(confidential("token")), &resolve, Limits::default()).unwrap()
}

#[tokio::test]
async fn a_proxy_is_gone_only_if_the_list_does_not_have_it_either() {
    let there = client_of_a_list(vec![proxy(&json!({ "id": OTHER })), proxy(&json!({ "name": "us" }))]).await;
    assert_eq!(there.workspace_proxy_by_id(id()).await, Ok(None));
    let found = there.workspace_proxy_unless_gone(id()).await.unwrap();
    assert_eq!(found.map(|found| found.name).as_deref(), Some("us"), "whatever its name is now");
    let operation = Operation::DeleteWorkspaceProxy;
    assert_eq!(there.delete_workspace_proxy(id()).await, Err(Error::Forbidden { operation }));
    let gone = client_of_a_list(vec![proxy(&json!({ "id": OTHER }))]).await;
    assert_eq!(gone.workspace_proxy_unless_gone(id()).await, Ok(None));
    assert_eq!(gone.delete_workspace_proxy(id()).await, Ok(ProxyDeletion::NotThere));
}
