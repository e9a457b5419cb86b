//! The areas of the API the double plays, one file each, and the table of their routes.
//! It never holds state: each area says what it adds to the state.

pub(super) mod entitlements;
pub(super) mod health;
pub(super) mod licenses;
pub(super) mod organizations;
pub(super) mod provisioner_daemons;
pub(super) mod provisioner_jobs;
pub(super) mod provisioner_keys;
pub(super) mod tags;
pub(super) mod users;
pub(super) mod workspace_proxies;

use super::route::Route;
use super::route::Wanted::{DaemonKey, Nothing, OptionalSession, ProxyToken, Session};
use entitlements::WORKSPACE_PROXY;

/// Every route the double knows; all others are violations.
pub(super) const TABLE: &[Route] = &[
    Route::new("GET", "/healthz", Nothing, health::healthz),
    Route::new("GET", "/api/v2/buildinfo", OptionalSession, health::build_info),
    Route::new("GET", "/api/v2/entitlements", OptionalSession, entitlements::show).premium(),
    Route::new("GET", "/api/v2/users/me", Session, users::me),
    Route::new("POST", "/api/v2/authcheck", Session, users::authcheck).body(&[
        "checks.read.object.resource_type",
        "checks.read.object.organization_id",
        "checks.read.action",
    ]),
    Route::new("DELETE", "/api/v2/users/me/keys/{key}", Session, users::delete_key),
    Route::new("GET", "/api/v2/licenses", Session, licenses::list).premium(),
    Route::new("POST", "/api/v2/licenses", Session, licenses::add)
        .premium()
        .body(&["license"])
        .secret_fields(&["license"]),
    Route::new("DELETE", "/api/v2/licenses/{id}", Session, licenses::delete).premium(),
    Route::new("GET", "/api/v2/organizations", Session, organizations::list),
    Route::new("GET", "/api/v2/organizations/{org}", Session, organizations::show),
    Route::new("POST", "/api/v2/organizations/{org}/provisionerkeys", Session, provisioner_keys::create)
        .premium()
        .body(&["name", "tags.*"]),
    Route::new("GET", "/api/v2/organizations/{org}/provisionerkeys", Session, provisioner_keys::list)
        .premium(),
    Route::new(
        "GET",
        "/api/v2/organizations/{org}/provisionerkeys/daemons",
        Session,
        provisioner_keys::list_with_daemons,
    )
    .premium(),
    Route::new(
        "DELETE",
        "/api/v2/organizations/{org}/provisionerkeys/{key}",
        Session,
        provisioner_keys::delete,
    )
    .premium(),
    Route::new("GET", "/api/v2/provisionerkeys/{key}", DaemonKey, provisioner_keys::fetch_by_plaintext)
        .premium(),
    Route::new("GET", "/api/v2/organizations/{org}/provisionerdaemons", Session, provisioner_daemons::list)
        .query(&["limit", "ids", "status", "tags", "offline", "max_age"]),
    Route::new("GET", "/api/v2/organizations/{org}/provisionerjobs", Session, provisioner_jobs::list)
        .query(&["limit", "status", "tags"]),
    Route::new("POST", "/api/v2/workspaceproxies", Session, workspace_proxies::create)
        .licensed_for(WORKSPACE_PROXY)
        .body(&["name", "display_name", "icon"]),
    Route::new("GET", "/api/v2/workspaceproxies", Session, workspace_proxies::list)
        .licensed_for(WORKSPACE_PROXY),
    Route::new("GET", "/api/v2/workspaceproxies/{proxy}", Session, workspace_proxies::show)
        .licensed_for(WORKSPACE_PROXY),
    Route::new("PATCH", "/api/v2/workspaceproxies/{proxy}", Session, workspace_proxies::change)
        .licensed_for(WORKSPACE_PROXY)
        .body(&["id", "name", "display_name", "icon", "regenerate_token"]),
    Route::new("DELETE", "/api/v2/workspaceproxies/{proxy}", Session, workspace_proxies::delete)
        .licensed_for(WORKSPACE_PROXY),
    Route::new("GET", "/api/v2/workspaceagents/connection", ProxyToken, workspace_proxies::agent_connection),
];

/// The table's name of a route a test wrote with or without `/api/v2`.
pub(super) fn canonical_name(route: &str) -> String {
    let name = route.replacen(" /api/v2/", " /", 1);
    let known: Vec<String> = TABLE.iter().map(Route::name).collect();
    assert!(known.contains(&name), "the double has no route {route:?}; it has:\n{}", known.join("\n"));
    name
}
