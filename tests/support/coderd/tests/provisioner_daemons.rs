//! Pins the life of daemons: they arrive late, fade by missed heartbeats, and outlive the key they came with.
//! It never sleeps: time is the double's own.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Ask;
use crate::coderd::{Coderd, DaemonArrival, DialRefused, Role};

const DAEMONS: &str = "/api/v2/organizations/default/provisionerdaemons";

async fn listed(coderd: &Coderd, token: &str, query: &str) -> Vec<Value> {
    let heard = Ask::get(&format!("{DAEMONS}{query}")).token(token).send(coderd).await;
    assert_eq!(heard.status, 200, "{}", heard.text);
    heard.json().as_array().expect("an array").clone()
}

fn names(daemons: &[Value]) -> Vec<&str> {
    daemons.iter().filter_map(|daemon| daemon["name"].as_str()).collect()
}

async fn with_daemon() -> (Coderd, String) {
    let coderd = Coderd::builder().frozen_clock().start().await;
    let plaintext = coderd.add_provisioner_key("default", "eu", &[("zone", "eu")]);
    coderd.connect_daemon(&plaintext, "pod-a").expect("the key works");
    let token = coderd.token_for(&[Role::Owner]);
    (coderd, token)
}

#[tokio::test]
async fn a_daemon_shows_its_key_its_tags_and_that_it_is_idle() {
    let (coderd, token) = with_daemon().await;
    let key = &coderd.provisioner_keys("default")[0];
    let daemon = &listed(&coderd, &token, "").await[0];
    assert_eq!(daemon["key_id"], key.id.to_string());
    assert_eq!(daemon["organization_id"], key.organization.to_string());
    assert_eq!((&daemon["key_name"], &daemon["status"]), (&json!("eu"), &json!("idle")));
    assert_eq!(daemon["tags"], json!({ "zone": "eu", "scope": "organization", "owner": "" }));
    assert_eq!(daemon["provisioners"], json!(["terraform"]));
    coderd.set_daemon_busy("pod-a", true);
    let daemon = &listed(&coderd, &token, "?status=busy").await[0];
    assert_eq!((&daemon["status"], &daemon["current_job"]["status"]), (&json!("busy"), &json!("running")));
}

#[tokio::test]
async fn the_tags_of_a_key_become_those_of_a_daemon_without_empty_ones_and_with_scope_and_owner() {
    let (coderd, token) = with_daemon().await;
    let nobody = "00000000-0000-0000-0000-000000000000";
    for (name, given, settled) in [
        ("empty", [("zone", ""), ("a", "b")], json!({ "a": "b", "scope": "organization", "owner": "" })),
        ("other", [("scope", "all"), ("owner", "me")], json!({ "scope": "organization", "owner": "" })),
        ("users", [("scope", "user"), ("a", "b")], json!({ "a": "b", "scope": "user", "owner": nobody })),
    ] {
        let plaintext = coderd.add_provisioner_key("default", name, &given);
        coderd.connect_daemon(&plaintext, name).expect("the key works");
        let daemons = listed(&coderd, &token, "").await;
        let daemon = daemons.iter().find(|daemon| daemon["name"] == name).expect("it is listed");
        assert_eq!(daemon["tags"], settled);
    }
}

#[tokio::test]
async fn a_daemon_is_offline_ninety_seconds_after_its_last_heartbeat() {
    let (coderd, token) = with_daemon().await;
    coderd.clock().advance(Duration::from_secs(3600));
    assert_eq!(names(&listed(&coderd, &token, "").await), ["pod-a"], "heartbeats keep it");
    coderd.disconnect_daemon("pod-a");
    coderd.clock().advance(Duration::from_secs(90));
    assert_eq!(names(&listed(&coderd, &token, "").await), ["pod-a"]);
    coderd.clock().advance(Duration::from_secs(1));
    assert_eq!(listed(&coderd, &token, "").await.len(), 0, "offline ones are hidden");
    for query in ["?offline=true", "?status=offline"] {
        assert_eq!(listed(&coderd, &token, query).await[0]["status"], "offline", "{query}");
    }
    coderd.clock().advance(Duration::from_secs(7 * 86_400));
    let token = coderd.token_for(&[Role::Owner]);
    assert_eq!(listed(&coderd, &token, "?offline=true").await.len(), 0, "rows are purged after a week");
}

#[tokio::test]
async fn the_listing_of_keys_keeps_a_daemon_three_minutes() {
    let (coderd, token) = with_daemon().await;
    let path = "/api/v2/organizations/default/provisionerkeys/daemons";
    let count = async || {
        let keys = Ask::get(path).token(&token).send(&coderd).await.json();
        keys[3]["daemons"].as_array().map(Vec::len)
    };
    coderd.disconnect_daemon("pod-a");
    coderd.clock().advance(Duration::from_secs(180));
    assert_eq!(count().await, Some(1));
    coderd.clock().advance(Duration::from_secs(1));
    assert_eq!(count().await, Some(0));
}

#[tokio::test]
async fn a_daemon_appears_after_the_configured_delay_or_when_revealed() {
    for arrival in [DaemonArrival::After(Duration::from_secs(5)), DaemonArrival::WhenRevealed] {
        let coderd = Coderd::builder().frozen_clock().daemon_arrival(arrival).start().await;
        let token = coderd.token_for(&[Role::Owner]);
        let plaintext = coderd.add_provisioner_key("default", "eu", &[]);
        coderd.connect_daemon(&plaintext, "pod-a").expect("the key works");
        assert_eq!(listed(&coderd, &token, "?offline=true").await.len(), 0);
        match arrival {
            DaemonArrival::After(delay) => coderd.clock().advance(delay),
            DaemonArrival::Immediately | DaemonArrival::WhenRevealed => coderd.reveal_daemons(),
        }
        assert_eq!(listed(&coderd, &token, "").await.len(), 1);
    }
}

#[tokio::test]
async fn deleting_a_key_hides_its_daemons_but_does_not_disconnect_them() {
    let (coderd, token) = with_daemon().await;
    coderd.remove_provisioner_key("default", "eu");
    assert_eq!(listed(&coderd, &token, "?offline=true").await.len(), 0);
    let sessions = coderd.daemons();
    assert!(sessions[0].connected && !sessions[0].listed, "{sessions:?}");
}

#[tokio::test]
async fn a_daemon_that_dials_again_under_its_name_takes_over_the_row() {
    let (coderd, token) = with_daemon().await;
    let before = listed(&coderd, &token, "").await[0].clone();
    let next = coderd.add_provisioner_key("default", "eu-2", &[]);
    coderd.clock().advance(Duration::from_secs(10));
    coderd.connect_daemon(&next, "pod-a").expect("the key works");
    let after = listed(&coderd, &token, "").await;
    assert_eq!(after.len(), 1);
    assert_eq!((&after[0]["id"], &after[0]["created_at"]), (&before["id"], &before["created_at"]));
    assert_eq!(after[0]["key_name"], "eu-2");
}

#[tokio::test]
async fn dialling_is_refused_with_an_unknown_key_and_without_a_license() {
    let (coderd, _) = with_daemon().await;
    let plaintext = coderd.add_provisioner_key("default", "us", &[]);
    assert_eq!(coderd.connect_daemon(&"x".repeat(43), "pod"), Err(DialRefused::UnknownKey));
    coderd.remove_license();
    assert_eq!(coderd.connect_daemon(&plaintext, "pod"), Err(DialRefused::NotLicensed));
}

#[tokio::test]
async fn the_site_template_admin_and_members_may_not_list_daemons() {
    let (coderd, _) = with_daemon().await;
    for roles in [&[][..], &[Role::TemplateAdmin]] {
        let token = coderd.token_for(roles);
        assert_eq!(Ask::get(DAEMONS).token(&token).send(&coderd).await.status, 404, "{roles:?}");
    }
    for role in
        [Role::OrganizationAdmin("coder".to_owned()), Role::OrganizationTemplateAdmin("coder".to_owned())]
    {
        let token = coderd.token_for(&[role]);
        assert_eq!(names(&listed(&coderd, &token, "").await), ["pod-a"]);
    }
}

#[tokio::test]
async fn the_listing_filters_by_limit_id_status_tags_and_age() {
    let (coderd, token) = with_daemon().await;
    coderd.clock().advance(Duration::from_secs(30));
    let plaintext = coderd.add_provisioner_key("default", "us", &[]);
    coderd.connect_daemon(&plaintext, "pod-b").expect("the key works");
    let all = listed(&coderd, &token, "?limit=0").await;
    assert_eq!(names(&all), ["pod-b", "pod-a"], "newest first");
    let id = all[1]["id"].as_str().expect("an id");
    let cases = [
        ("?limit=1".to_owned(), "pod-b"),
        (format!("?ids={id}"), "pod-a"),
        ("?tags=%7B%22zone%22%3A%22eu%22%7D".to_owned(), "pod-a"),
        ("?tags=%7B%22scope%22%3A%22organization%22%2C%22owner%22%3A%22%22%7D".to_owned(), "pod-b"),
        ("?max_age=29s".to_owned(), "pod-b"),
    ];
    for (query, expected) in cases {
        assert_eq!(names(&listed(&coderd, &token, &query).await), [expected], "{query}");
    }
    assert_eq!(listed(&coderd, &token, "?status=busy").await.len(), 0);
}

#[tokio::test]
async fn unknown_and_wrong_query_parameters_are_400_and_named() {
    let (coderd, token) = with_daemon().await;
    let heard = Ask::get(&format!("{DAEMONS}?limit=-1&page=2")).token(&token).send(&coderd).await;
    assert_eq!((heard.status, heard.message().as_str()), (400, "Invalid query parameters."));
    let validations = heard.json()["validations"].clone();
    assert_eq!((&validations[0]["field"], &validations[1]["field"]), (&json!("limit"), &json!("page")));
    assert_eq!(validations[1]["detail"], "\"page\" is not a valid query param");
    let violations = coderd.take_violations();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].problem, "unknown query parameter \"page\"");
}
