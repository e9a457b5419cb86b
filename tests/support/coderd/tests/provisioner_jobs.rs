//! Pins the listing of jobs that wait: who sees them, what it filters by, and which daemons it names.
//! It never runs a job.

use serde_json::{Value, json};

use super::client::Ask;
use crate::coderd::{Coderd, Role};

const JOBS: &str = "/api/v2/organizations/default/provisionerjobs";

async fn listed(coderd: &Coderd, token: &str, query: &str) -> Vec<Value> {
    let heard = Ask::get(&format!("{JOBS}{query}")).token(token).send(coderd).await;
    assert_eq!(heard.status, 200, "{}", heard.text);
    heard.json().as_array().expect("an array").clone()
}

#[tokio::test]
async fn a_job_shows_its_tags_its_place_in_the_queue_and_who_could_take_it() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    coderd.add_organization("platform");
    coderd.add_pending_job("platform", &[]);
    let id = coderd.add_pending_job("default", &[("zone", "eu"), ("empty", "")]);
    let job = listed(&coderd, &token, "").await.remove(0);
    assert_eq!((&job["id"], &job["status"]), (&json!(id.to_string()), &json!("pending")));
    assert_eq!(job["tags"], json!({ "zone": "eu", "scope": "organization", "owner": "" }));
    assert_eq!(
        (&job["queue_position"], &job["queue_size"]),
        (&json!(2), &json!(2)),
        "over all organisations"
    );
    assert_eq!(job.get("available_workers"), None);
    let plaintext = coderd.add_provisioner_key("default", "eu", &[("zone", "eu"), ("gpu", "yes")]);
    coderd.connect_daemon(&plaintext, "pod-a").expect("the key works");
    let job = listed(&coderd, &token, "").await.remove(0);
    assert_eq!(job["available_workers"].as_array().map(Vec::len), Some(1));
    coderd.remove_pending_job(id);
    assert_eq!(listed(&coderd, &token, "").await, Vec::<Value>::new());
}

#[tokio::test]
async fn jobs_are_filtered_by_at_least_the_asked_tags_newest_first_and_up_to_a_limit() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let jobs = [&[][..], &[("zone", "eu")], &[("zone", "eu"), ("gpu", "yes")]];
    let ids: Vec<String> = jobs.map(|tags| coderd.add_pending_job("default", tags).to_string()).to_vec();
    let cases = [
        ("?status=pending", vec![2, 1, 0]),
        ("?status=running", vec![]),
        ("?limit=2", vec![2, 1]),
        ("?limit=0", vec![2, 1, 0]),
        ("?tags=%7B%22zone%22%3A%22eu%22%7D", vec![2, 1]),
        ("?tags=%7B%22owner%22%3A%22%22%2C%22scope%22%3A%22organization%22%7D", vec![0]),
        ("?tags=%7B%22scope%22%3A%22organization%22%7D", vec![2, 1, 0]),
    ];
    for (query, expected) in cases {
        let shown = listed(&coderd, &token, query).await;
        let shown: Vec<&str> = shown.iter().filter_map(|job| job["id"].as_str()).collect();
        let expected: Vec<&str> = expected.into_iter().map(|at: usize| ids[at].as_str()).collect();
        assert_eq!(shown, expected, "{query}");
    }
}

#[tokio::test]
async fn the_site_template_admin_and_members_may_not_list_jobs() {
    let coderd = Coderd::start().await;
    for roles in [&[][..], &[Role::TemplateAdmin]] {
        let token = coderd.token_for(roles);
        assert_eq!(Ask::get(JOBS).token(&token).send(&coderd).await.status, 404, "{roles:?}");
    }
    let here = || "coder".to_owned();
    for role in [Role::OrganizationAdmin(here()), Role::OrganizationTemplateAdmin(here())] {
        let token = coderd.token_for(&[role]);
        assert_eq!(listed(&coderd, &token, "").await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn wrong_parameters_are_400_and_named() {
    let coderd = Coderd::start().await;
    let token = coderd.token_for(&[Role::Owner]);
    let heard = Ask::get(&format!("{JOBS}?limit=-1&page=2&tags=x")).token(&token).send(&coderd).await;
    assert_eq!((heard.status, heard.message().as_str()), (400, "Invalid query parameters."));
    let fields: Vec<Value> = heard.json()["validations"].as_array().expect("an array").clone();
    let fields: Vec<&str> = fields.iter().filter_map(|problem| problem["field"].as_str()).collect();
    assert_eq!(fields, ["limit", "page", "tags"]);
    assert_eq!(coderd.take_violations()[0].problem, "unknown query parameter \"page\"");
}
