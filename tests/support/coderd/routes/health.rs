//! Liveness and build information, open to everybody.
//! It never looks at the database: a real coderd answers both while it is broken.

use http::StatusCode;
use serde_json::json;

use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::state::ServerState;

/// A point of P-256, as browsers want it: 65 bytes in base64url.
const WEBPUSH_PUBLIC_KEY: &str =
    "BAtjTkO9Hl4U-alRvRdAgSY42DM3X85sdPDC_EKCjAlG2DCyJ9i_jbg_xesd9Gp9OWi0idJjSHh9pbl-vxNAAh4";

pub(in crate::coderd) fn healthz(_: &mut ServerState, _: &Inbound) -> Answer {
    Ok(Reply::typed(StatusCode::OK, "text/plain; charset=utf-8", "OK"))
}

pub(in crate::coderd) fn build_info(state: &mut ServerState, _: &Inbound) -> Answer {
    let body = json!({
        // A build from a checkout names its commit here; one from the module has none.
        "external_url": "https://github.com/coder/coder",
        "version": state.version,
        "dashboard_url": state.url,
        "telemetry": false,
        "workspace_proxy": false,
        // The version of its REST routes for agents, which is frozen; agents ask for the other one elsewhere.
        "agent_api_version": "1.0",
        "provisioner_api_version": "1.18",
        "upgrade_message": "",
        "deployment_id": state.deployment_id.to_string(),
        "webpush_public_key": WEBPUSH_PUBLIC_KEY,
    });
    Ok(Reply::json(StatusCode::OK, &body))
}
