//! Pins the routes of workspace proxies: made once, found by id or name, changed as a whole, deleted softly, and who may.
//! It never tests what a proxy does once it was let in.

use serde_json::{Value, json};

use super::client::{Ask, Heard};
use crate::coderd::{Coderd, Credential, Entitlement, ProxyRefused, ProxyStatus, Role};

const PROXIES: &str = "/api/v2/workspaceproxies";
const CONNECTION: &str = "/api/v2/workspaceagents/connection";
const NOT_FOUND: &str = "Resource not found or you do not have access to this resource";

async fn owner() -> (Coderd, String) {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    (coderd, token)
}

async fn create(coderd: &Coderd, token: &str, body: Value) -> Heard {
    Ask::post(PROXIES, &body).token(token).send(coderd).await
}

async fn show(coderd: &Coderd, token: &str, word: &str) -> Heard {
    Ask::get(&format!("{PROXIES}/{word}")).token(token).send(coderd).await
}

async fn change(coderd: &Coderd, token: &str, word: &str, body: &Value) -> Heard {
    let ask = Ask::new("PATCH", &format!("{PROXIES}/{word}")).header("Content-Type", "application/json");
    ask.body(&body.to_string()).token(token).send(coderd).await
}

async fn delete(coderd: &Coderd, token: &str, word: &str) -> Heard {
    Ask::delete(&format!("{PROXIES}/{word}")).token(token).send(coderd).await
}

async fn verify(coderd: &Coderd, proxy_token: &str) -> Heard {
    Ask::get(CONNECTION).header("Coder-External-Proxy-Token", proxy_token).send(coderd).await
}

fn wish(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "display_name": "Frankfurt", "icon": "/emojis/1f310.png" })
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_proxy_is_made_with_a_token_that_names_it_and_is_found_by_id_and_name() {
    let (coderd, token) = owner().await;
    let made = create(&coderd, &token, json!({ "name": "eu", "display_name": "F", "icon": "/i.png" })).await;
    assert_eq!(made.status, 201);
    let (proxy, shown_once) = (made.json()["proxy"].clone(), text(&made.json()["proxy_token"]));
    let id = text(&proxy["id"]);
    assert_eq!(shown_once.split_once(':').map(|(of, secret)| (of, secret.len())), Some((id.as_str(), 64)));
    let fields: Vec<&String> = proxy.as_object().expect("an object").keys().collect();
    assert_eq!(
        fields,
        [
            "created_at",
            "deleted",
            "derp_enabled",
            "derp_only",
            "display_name",
            "healthy",
            "icon_url",
            "id",
            "name",
            "path_app_url",
            "status",
            "updated_at",
            "version",
            "wildcard_hostname"
        ]
    );
    assert_eq!((&proxy["icon_url"], &proxy["status"]["status"]), (&json!("/i.png"), &json!("unregistered")));
    for word in ["eu", &id, &id.to_uppercase()] {
        assert_eq!(show(&coderd, &token, word).await.json(), proxy, "{word}");
    }
    for word in ["EU", "us", "6f1f6a3e-0000-4000-8000-000000000001"] {
        let heard = show(&coderd, &token, word).await;
        assert_eq!((heard.status, heard.message().as_str()), (404, NOT_FOUND), "{word}");
    }
    let listed = Ask::get(PROXIES).token(&token).send(&coderd).await.json();
    assert_eq!(listed["regions"][0]["name"], "primary");
    assert_eq!((&listed["regions"][1], listed["regions"].as_array().map(Vec::len)), (&proxy, Some(2)));
    assert!(!format!("{coderd:?}").contains(&shown_once), "nothing prints it");
}

#[tokio::test]
async fn a_taken_name_is_409_in_any_case_and_primary_and_nothing_are_400() {
    let (coderd, token) = owner().await;
    coderd.add_workspace_proxy("eu");
    let taken = create(&coderd, &token, json!({ "name": "EU" })).await;
    assert_eq!(
        (taken.status, taken.message().as_str()),
        (409, "Workspace proxy with name \"EU\" already exists.")
    );
    let reserved = create(&coderd, &token, json!({ "name": "Primary" })).await;
    assert_eq!(reserved.status, 400);
    assert_eq!(reserved.message(), "The name \"primary\" is reserved for the primary region.");
    let nameless = create(&coderd, &token, json!({ "name": "", "icon": "" })).await;
    let text = "Validation failed for tag \"required\" with value: \"\"";
    let expected =
        json!({ "message": "Validation failed.", "validations": [{ "field": "name", "detail": text }] });
    assert_eq!((nameless.status, nameless.json()), (400, expected));
    coderd.remove_workspace_proxy("eu");
    assert_eq!(create(&coderd, &token, json!({ "name": "EU" })).await.status, 201, "it is free again");
}

#[tokio::test]
async fn a_change_needs_every_field_and_keeps_the_token_unless_asked_for_another() {
    let (coderd, token) = owner().await;
    let first = coderd.add_workspace_proxy("eu");
    let id = coderd.workspace_proxies()[0].id.to_string();
    for (field, shown) in
        [("id", "00000000-0000-0000-0000-000000000000"), ("name", ""), ("display_name", ""), ("icon", "")]
    {
        let mut body = wish(&id, "us");
        body[field] = json!(shown);
        let heard = change(&coderd, &token, &id, &body).await;
        let detail = format!("Validation failed for tag \"required\" with value: \"{shown}\"");
        assert_eq!(heard.json()["validations"], json!([{ "field": field, "detail": detail }]));
        assert_eq!(heard.status, 400);
    }
    let renamed = change(&coderd, &token, &id, &wish(&id, "us")).await.json();
    assert_eq!((&renamed["proxy"]["name"], &renamed["proxy_token"]), (&json!("us"), &json!("")));
    assert_eq!(verify(&coderd, &first).await.status, 200);
    let mut again = wish(&id, "us");
    again["regenerate_token"] = json!(true);
    let second = text(&change(&coderd, &token, "us", &again).await.json()["proxy_token"]);
    assert_ne!(first, second);
    assert_eq!((verify(&coderd, &first).await.status, verify(&coderd, &second).await.status), (401, 200));
    assert_eq!(coderd.token_of_proxy("us"), Some(second));
    assert_eq!(coderd.workspace_proxies()[0].regenerations, 1);
}

#[tokio::test]
async fn a_change_to_a_taken_name_is_an_internal_error_that_names_the_index() {
    let (coderd, token) = owner().await;
    coderd.add_workspace_proxy("eu");
    coderd.add_workspace_proxy("us");
    let id = coderd.workspace_proxies()[0].id.to_string();
    let heard = change(&coderd, &token, &id, &wish(&id, "US")).await;
    assert_eq!((heard.status, heard.message().as_str()), (500, "An internal server error occurred."));
    let detail = "pq: duplicate key value violates unique constraint \"workspace_proxies_lower_name_idx\"";
    assert_eq!(heard.json()["detail"], detail);
    assert_eq!(
        change(&coderd, &token, &id, &wish(&id, "EU")).await.status,
        200,
        "its own name in another case"
    );
}

#[tokio::test]
async fn a_deleted_proxy_is_found_by_its_id_alone_and_may_be_deleted_and_changed_again() {
    let (coderd, token) = owner().await;
    let proxy_token = coderd.add_workspace_proxy("eu");
    let id = coderd.workspace_proxies()[0].id.to_string();
    let gone = delete(&coderd, &token, "eu").await;
    assert_eq!((gone.status, gone.message().as_str()), (200, "Proxy has been deleted!"));
    assert_eq!((show(&coderd, &token, "eu").await.status, coderd.workspace_proxies().len()), (404, 0));
    let shown = show(&coderd, &token, &id).await.json();
    assert_eq!((&shown["deleted"], &shown["status"]["status"]), (&json!(true), &json!("unknown")));
    assert_eq!(delete(&coderd, &token, &id).await.status, 200);
    assert_eq!(change(&coderd, &token, &id, &wish(&id, "eu")).await.json()["proxy"]["deleted"], true);
    let refused = verify(&coderd, &proxy_token).await;
    assert_eq!((refused.status, refused.json()["detail"].clone()), (401, json!("Proxy has been deleted.")));
}

#[tokio::test]
async fn the_control_plane_is_shown_and_neither_renamed_nor_deleted() {
    let (coderd, token) = owner().await;
    let id = coderd.deployment_id().to_string();
    for word in ["primary", &id] {
        let shown = show(&coderd, &token, word).await.json();
        assert_eq!((&shown["id"], &shown["name"]), (&json!(id), &json!("primary")));
        assert_eq!(delete(&coderd, &token, word).await.message(), "Cannot delete primary proxy");
        assert_eq!(change(&coderd, &token, word, &wish(&id, "eu")).await.status, 400);
    }
}

#[tokio::test]
async fn every_user_reads_proxies_and_only_an_owner_writes_them() {
    let coderd = Coderd::start().await;
    coderd.add_workspace_proxy("eu");
    let id = coderd.workspace_proxies()[0].id.to_string();
    for roles in [vec![], vec![Role::TemplateAdmin], vec![Role::OrganizationAdmin("default".to_owned())]] {
        let token = coderd.token_for(&roles);
        assert_eq!(show(&coderd, &token, "eu").await.status, 200);
        let refused = create(&coderd, &token, json!({ "name": "us" })).await;
        let detail = refused.json()["detail"].clone();
        assert_eq!((refused.status, detail), (500, json!("unauthorized: rbac: forbidden")));
        assert_eq!(change(&coderd, &token, &id, &wish(&id, "us")).await.status, 404);
        assert_eq!(delete(&coderd, &token, &id).await.status, 404);
    }
    assert_eq!(coderd.workspace_proxies()[0].name, "eu");
}

#[tokio::test]
async fn a_token_opens_the_door_of_its_own_proxy_and_says_why_not() {
    let coderd = Coderd::start().await;
    let token = coderd.add_workspace_proxy("eu");
    let id = coderd.workspace_proxies()[0].id;
    assert_eq!(verify(&coderd, &token).await.status, 200);
    assert_eq!(coderd.calls()[0].credential, Credential::WorkspaceProxy(id));
    assert_eq!(coderd.proxy_proven_by(&token), Some(id));
    let secret = "x".repeat(64);
    for (text, detail) in [
        (format!("{id}:{secret}"), json!("Invalid proxy token secret.")),
        (format!("6f1f6a3e-0000-4000-8000-000000000001:{secret}"), json!("Proxy not found.")),
        (format!("{id}:short"), json!(null)),
        (format!("eu:{secret}"), json!(null)),
        ("nonsense".to_owned(), json!(null)),
    ] {
        let heard = verify(&coderd, &text).await;
        assert_eq!((heard.status, heard.message().as_str()), (401, "Invalid external proxy token"));
        assert_eq!(heard.json()["detail"], detail, "{text}");
        assert_eq!(coderd.proxy_proven_by(&text), None);
    }
    let nobody = Ask::get(CONNECTION).send(&coderd).await;
    let text = "API key or external proxy authentication required, but none provided";
    assert_eq!((nobody.status, nobody.message().as_str()), (401, text));
    assert!(!format!("{:?}", coderd.calls()).contains(&token));
}

#[tokio::test]
async fn without_the_feature_nobody_is_asked_who_they_are() {
    let (coderd, token) = owner().await;
    let proxy_token = coderd.add_workspace_proxy("eu");
    coderd.set_feature("workspace_proxy", Entitlement::NotEntitled, false);
    let text = "Workspace Proxy is a Premium feature. Contact sales!";
    for heard in [
        create(&coderd, &token, json!({ "name": "us" })).await,
        show(&coderd, &token, "eu").await,
        show(&coderd, "nonsense", "eu").await,
        Ask::get(PROXIES).send(&coderd).await,
    ] {
        assert_eq!((heard.status, heard.message().as_str()), (403, text));
    }
    assert_eq!(coderd.proxy_comes(&proxy_token, "http://a"), Err(ProxyRefused::NotLicensed));
    assert_eq!(verify(&coderd, &proxy_token).await.status, 200, "a token is known all the same");
}

#[tokio::test]
async fn a_proxy_comes_with_its_address_and_a_test_says_how_it_is() {
    let (coderd, token) = owner().await;
    let proxy_token = coderd.add_workspace_proxy("eu");
    let id = coderd.workspace_proxies()[0].id;
    assert_eq!(coderd.proxy_comes("nonsense", "https://eu.example.com"), Err(ProxyRefused::InvalidToken));
    assert_eq!(coderd.proxy_comes(&proxy_token, "https://eu.example.com"), Ok(id));
    let shown = show(&coderd, &token, "eu").await.json();
    assert_eq!(
        (&shown["path_app_url"], &shown["version"]),
        (&json!("https://eu.example.com"), &json!("v2.36.1"))
    );
    assert_eq!((&shown["healthy"], &shown["status"]["status"]), (&json!(true), &json!("ok")));
    coderd.set_proxy_health("eu", ProxyStatus::Unhealthy, &["no way"], &["old"]);
    let shown = show(&coderd, &token, "eu").await.json();
    assert_eq!(shown["status"]["report"], json!({ "errors": ["no way"], "warnings": ["old"] }));
    assert_eq!((&shown["healthy"], &shown["status"]["status"]), (&json!(false), &json!("unhealthy")));
    coderd.rename_workspace_proxy("eu", "us", "Ohio");
    assert_eq!(show(&coderd, &token, "us").await.json()["display_name"], "Ohio");
    coderd.replace_deployment();
    assert_eq!((coderd.workspace_proxies().len(), coderd.proxy_proven_by(&proxy_token)), (0, None));
}

#[tokio::test]
async fn the_token_of_a_proxy_belongs_to_its_own_route() {
    let (coderd, token) = owner().await;
    let proxy_token = coderd.add_workspace_proxy("eu");
    let header = "Coder-External-Proxy-Token";
    Ask::get(PROXIES).token(&token).header(header, &proxy_token).send(&coderd).await;
    let both = Ask::get(CONNECTION).token(&token).header(header, &proxy_token);
    both.send(&coderd).await;
    let found: Vec<String> = coderd.take_violations().into_iter().map(|one| one.problem).collect();
    let unexpected = |name: &str| format!("unexpected header {name:?}");
    assert_eq!(found, [unexpected("coder-external-proxy-token"), unexpected("coder-session-token")]);
}

#[tokio::test]
async fn the_open_source_build_has_no_proxies() {
    let coderd = Coderd::builder().agpl().start().await;
    let heard = Ask::get(PROXIES).send(&coderd).await;
    assert_eq!((heard.status, heard.message().as_str()), (404, "Route not found."));
}
