//! Liveness and build information, open to everybody.
//! It never looks at the database: a real coderd answers both while it is broken.

use http::StatusCode;
use serde_json::json;

use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::state::World;

pub(in crate::coderd) fn healthz(_: &mut World, _: &Inbound) -> Answer {
    Ok(Reply::typed(StatusCode::OK, "text/plain; charset=utf-8", "OK"))
}

pub(in crate::coderd) fn build_info(world: &mut World, _: &Inbound) -> Answer {
    let release = format!("https://github.com/coder/coder/releases/tag/{}", world.version);
    let body = json!({
        "external_url": release,
        "version": world.version,
        "dashboard_url": world.url,
        "telemetry": false,
        "workspace_proxy": false,
        "agent_api_version": "2.10",
        "provisioner_api_version": "1.18",
        "upgrade_message": "",
        "deployment_id": world.deployment_id.to_string(),
    });
    Ok(Reply::json(StatusCode::OK, &body))
}
