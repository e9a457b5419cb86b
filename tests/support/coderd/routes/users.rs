//! The caller's own user and its tokens.
//! It never shows another user.

use http::StatusCode;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::identity::{Granted, User};
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::state::ServerState;

pub(in crate::coderd) fn me(_: &mut ServerState, inbound: &Inbound) -> Answer {
    Ok(Reply::json(StatusCode::OK, &shown(inbound.caller(), inbound.now)))
}

/// Whether the caller may read provisioner keys, which coderd keeps with the daemons: the one thing that the client asks.
pub(in crate::coderd) fn authcheck(_: &mut ServerState, inbound: &Inbound) -> Answer {
    let Some(body) = &inbound.json else {
        return Err(Reply::detailed(StatusCode::BAD_REQUEST, "Request body must be valid JSON.", ""));
    };
    let id = body["checks"]["read"]["object"]["organization_id"].as_str();
    let organization = id.and_then(Uuid::parse);
    let may = organization.is_some_and(|id| inbound.caller().may_read_organization(id));
    Ok(Reply::json(StatusCode::OK, &json!({ "read": may })))
}

pub(in crate::coderd) fn delete_key(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let (id, caller) = (inbound.param("key"), inbound.caller());
    if !state.delete_token(id, caller) {
        return Err(Reply::not_found());
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn shown(user: &User, now: Timestamp) -> Value {
    let organizations: Vec<String> = user.organizations.iter().map(ToString::to_string).collect();
    json!({
        "id": user.id.to_string(),
        "username": user.username,
        "email": format!("{}@example.com", user.username),
        "created_at": user.created_at.rfc3339(),
        "updated_at": user.created_at.rfc3339(),
        "last_seen_at": now.rfc3339(),
        "status": user.status.word(),
        "login_type": "password",
        "organization_ids": organizations,
        "roles": user.roles.iter().filter_map(site_role).collect::<Vec<Value>>(),
        "has_ai_seat": false,
    })
}

/// Only site roles are listed with a user; those inside an organisation belong to the membership.
fn site_role(role: &Granted) -> Option<Value> {
    match role {
        Granted::Owner => Some(json!({ "name": "owner", "display_name": "Owner" })),
        Granted::TemplateAdmin => Some(json!({ "name": "template-admin", "display_name": "Template Admin" })),
        Granted::OrganizationAdmin(_) | Granted::OrganizationTemplateAdmin(_) => None,
    }
}
