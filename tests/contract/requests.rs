//! Every request that our client makes of coderd, each with good, bad and missing tokens and bodies.
//! It is a table; who answers and whether they agree is decided elsewhere.

use super::sides::Who;
use coder_k8s::coderd::error::Operation;

/// One request, the same for both sides.
#[derive(Debug, Clone)]
pub struct Case {
    pub method: &'static str,
    pub path: &'static str,
    pub who: Who,
    pub body: Option<String>,
}

/// All calls of the client.
pub const OPERATIONS: [Operation; 21] = [
    Operation::Healthz,
    Operation::BuildInfo,
    Operation::Entitlements,
    Operation::Me,
    Operation::Licenses,
    Operation::UploadLicense,
    Operation::DeleteToken,
    Operation::Organization,
    Operation::ProvisionerKeys,
    Operation::CreateProvisionerKey,
    Operation::DeleteProvisionerKey,
    Operation::IdentifyProvisionerKey,
    Operation::ProvisionerKeyDaemons,
    Operation::PendingJobs,
    Operation::Authcheck,
    Operation::WorkspaceProxy,
    Operation::CreateWorkspaceProxy,
    Operation::UpdateWorkspaceProxy,
    Operation::RegenerateProxyToken,
    Operation::VerifyProxyToken,
    Operation::DeleteWorkspaceProxy,
];

/// The request line of a call. A new call does not compile before it has one, and fails before it has cases.
pub fn line(operation: Operation) -> (&'static str, &'static str) {
    match operation {
        Operation::Healthz => ("GET", "/healthz"),
        Operation::BuildInfo => ("GET", "/api/v2/buildinfo"),
        Operation::Entitlements => ("GET", "/api/v2/entitlements"),
        Operation::Me => ("GET", "/api/v2/users/me"),
        Operation::Licenses => ("GET", "/api/v2/licenses"),
        Operation::UploadLicense => ("POST", "/api/v2/licenses"),
        Operation::DeleteToken => ("DELETE", "/api/v2/users/me/keys/"),
        Operation::Organization => ("GET", "/api/v2/organizations/default"),
        Operation::ProvisionerKeys => ("GET", "/api/v2/organizations/{organization}/provisionerkeys"),
        Operation::CreateProvisionerKey => ("POST", "/api/v2/organizations/{organization}/provisionerkeys"),
        Operation::DeleteProvisionerKey => {
            ("DELETE", "/api/v2/organizations/{organization}/provisionerkeys/seeded")
        }
        Operation::IdentifyProvisionerKey => ("GET", "/api/v2/provisionerkeys/by-header"),
        Operation::ProvisionerKeyDaemons => {
            ("GET", "/api/v2/organizations/{organization}/provisionerkeys/daemons")
        }
        Operation::PendingJobs => ("GET", "/api/v2/organizations/{organization}/provisionerjobs"),
        Operation::Authcheck => ("POST", "/api/v2/authcheck"),
        Operation::WorkspaceProxy => ("GET", "/api/v2/workspaceproxies/seeded"),
        Operation::CreateWorkspaceProxy => ("POST", "/api/v2/workspaceproxies"),
        Operation::UpdateWorkspaceProxy | Operation::RegenerateProxyToken => {
            ("PATCH", "/api/v2/workspaceproxies/{proxy}")
        }
        Operation::DeleteWorkspaceProxy => ("DELETE", "/api/v2/workspaceproxies/{proxy}"),
        Operation::VerifyProxyToken => ("GET", "/api/v2/workspaceagents/connection"),
    }
}

/// Tokens that are refused before anybody looks into the database, or after.
pub const REFUSED: [Who; 10] = [
    Who::Nobody,
    Who::Suspended,
    Who::Expired,
    Who::WrongSecret,
    Who::Unknown,
    Who::Text("nonsense"),
    Who::Text("a-b-c"),
    Who::Text("short-bbbbbbbbbbbbbbbbbbbbbb"),
    Who::Text("aaaaaaaaaa-short"),
    Who::Text("-"),
];
pub const USERS: [Who; 3] = [Who::Owner, Who::TemplateAdmin, Who::Member];

fn case(operation: Operation, who: Who) -> Case {
    let (method, path) = line(operation);
    Case { method, path, who, body: None }
}

fn each(operation: Operation, callers: &[Who]) -> Vec<Case> {
    callers.iter().map(|who| case(operation, *who)).collect()
}

/// What is sent to both editions, in this order.
pub fn cases() -> Vec<Case> {
    let mut cases = each(Operation::Healthz, &[Who::Nobody]);
    cases.extend(each(Operation::BuildInfo, &[Who::Nobody, Who::Owner, Who::Unknown]));
    cases.extend(each(Operation::Entitlements, &[Who::Nobody, Who::Owner, Who::Unknown]));
    cases.extend(each(Operation::Me, &USERS));
    cases.extend(each(Operation::Me, &[Who::Dormant]));
    cases.extend(each(Operation::Me, &REFUSED));
    cases.extend(each(Operation::Licenses, &USERS));
    cases.extend(each(Operation::Licenses, &REFUSED));
    cases.extend(uploads());
    cases.extend(deletions_of_tokens());
    cases.extend(deletions_of_licenses());
    cases.extend(lines_that_nobody_serves());
    cases.extend(organizations());
    cases.extend(provisioner_keys());
    cases.extend(plaintexts_of_keys());
    cases.extend(pending_jobs());
    cases.extend(rights());
    cases.extend(workspace_proxies());
    cases.extend(tokens_of_proxies());
    cases.extend(routes_without_a_caller());
    // Last, since it is used above: an owner may delete what is not its own.
    let of_another =
        Case { path: "/api/v2/users/me/keys/{members key}", ..case(Operation::DeleteToken, Who::Owner) };
    cases.extend([of_another, case(Operation::Me, Who::Member)]);
    cases
}

fn uploads() -> Vec<Case> {
    let upload =
        |who: Who, body: &str| Case { body: Some(body.to_owned()), ..case(Operation::UploadLicense, who) };
    let license = |text: &str| serde_json::json!({ "license": text }).to_string();
    let mut cases: Vec<Case> = [Who::Nobody, Who::TemplateAdmin, Who::Member, Who::Expired]
        .map(|who| upload(who, &license("a.b.c")))
        .to_vec();
    let bodies =
        ["{}", r#"{"license":""}"#, r#"{"license":7}"#, r#"{"license":null}"#, "[]", "nonsense", "{", ""];
    cases.extend(bodies.map(|body| upload(Who::Owner, body)));
    cases.extend(NO_LICENSES.map(|text| upload(Who::Owner, &license(text))));
    cases
}

/// Texts that coderd refuses before it checks a signature, with the header and the claims in base64url.
const NO_LICENSES: [&str; 9] = [
    "nonsense",
    "a.b",
    "a.b.c.d",
    "!!.!!.!!",
    // {}.{}.
    "e30.e30.",
    // {"alg":"EdDSA"}: no key is named.
    "eyJhbGciOiJFZERTQSJ9.e30.c2ln",
    // {"alg":"EdDSA","kid":"mine"}: a key that Coder does not have.
    "eyJhbGciOiJFZERTQSIsImtpZCI6Im1pbmUifQ.e30.c2ln",
    // {"alg":"none","kid":"2022-08-12"}: no signature at all.
    "eyJhbGciOiJub25lIiwia2lkIjoiMjAyMi0wOC0xMiJ9.e30.",
    // {"alg":"EdDSA","kid":"2022-08-12"} with claims that are no JSON.
    "eyJhbGciOiJFZERTQSIsImtpZCI6IjIwMjItMDgtMTIifQ.bm9uc2Vuc2U.c2ln",
];

fn deletions_of_tokens() -> Vec<Case> {
    let delete = |path: &'static str, who: Who| Case { path, ..case(Operation::DeleteToken, who) };
    vec![
        delete("/api/v2/users/me/keys/aaaaaaaaaa", Who::Owner),
        delete("/api/v2/users/me/keys/aaaaaaaaaa", Who::Nobody),
        delete("/api/v2/users/me/keys/{owners key}", Who::Member),
        delete("/api/v2/users/me/keys/{members key}", Who::TemplateAdmin),
        // Its own, by itself; then it is gone.
        delete("/api/v2/users/me/keys/{deleted key}", Who::Deleted),
        delete("/api/v2/users/me/keys/{deleted key}", Who::Deleted),
        delete("/api/v2/users/me/keys/{deleted key}", Who::Member),
        case(Operation::Me, Who::Deleted),
    ]
}

/// The client deletes no license yet; the double can, so it must do it as coderd does.
fn deletions_of_licenses() -> Vec<Case> {
    let delete =
        |path: &'static str, who: Who| Case { method: "DELETE", path, ..case(Operation::Licenses, who) };
    vec![
        delete("/api/v2/licenses/7", Who::Nobody),
        delete("/api/v2/licenses/7", Who::Owner),
        delete("/api/v2/licenses/7", Who::Member),
        delete("/api/v2/licenses/7", Who::TemplateAdmin),
        delete("/api/v2/licenses/seven", Who::Owner),
        delete("/api/v2/licenses/seven", Who::Member),
        delete("/api/v2/licenses/99999999999", Who::Owner),
    ]
}

/// Whoever may or may not see what an organisation has.
const CALLERS: [Who; 5] = [Who::Nobody, Who::Owner, Who::TemplateAdmin, Who::Member, Who::Expired];

/// The ways to name an organisation, right and wrong.
fn organizations() -> Vec<Case> {
    let words = [
        "/api/v2/organizations/default",
        "/api/v2/organizations/Default",
        "/api/v2/organizations/coder",
        "/api/v2/organizations/CODER",
        "/api/v2/organizations/{organization}",
        "/api/v2/organizations/00000000-0000-0000-0000-000000000000",
        "/api/v2/organizations/6f1f6a3e-0000-4000-8000-000000000001",
        "/api/v2/organizations/nonsense",
        "/api/v2/organizations/non%20sense%3F",
    ];
    let ask = |path: &'static str, who: Who| Case { path, ..case(Operation::Organization, who) };
    words.into_iter().flat_map(|path| CALLERS.map(|who| ask(path, who))).collect()
}

/// Keys of organisations: without a license they are refused before anything else is looked at but the organisation.
fn provisioner_keys() -> Vec<Case> {
    let mut cases = each(Operation::ProvisionerKeys, &CALLERS);
    cases.extend(each(Operation::ProvisionerKeyDaemons, &CALLERS));
    cases.extend(each(Operation::DeleteProvisionerKey, &CALLERS));
    let create = |who: Who, body: &str| Case {
        body: Some(body.to_owned()),
        ..case(Operation::CreateProvisionerKey, who)
    };
    cases.extend(CALLERS.map(|who| create(who, r#"{"name":"a","tags":{}}"#)));
    cases.extend(["{}", r#"{"name":"psk"}"#, "nonsense", ""].map(|body| create(Who::Owner, body)));
    let nowhere = [
        (Operation::ProvisionerKeys, "/api/v2/organizations/nonsense/provisionerkeys"),
        (Operation::ProvisionerKeyDaemons, "/api/v2/organizations/nonsense/provisionerkeys/daemons"),
        (Operation::CreateProvisionerKey, "/api/v2/organizations/nonsense/provisionerkeys"),
        (Operation::DeleteProvisionerKey, "/api/v2/organizations/nonsense/provisionerkeys/a"),
        (Operation::DeleteProvisionerKey, "/api/v2/organizations/{organization}/provisionerkeys/a%20key"),
        (Operation::DeleteProvisionerKey, "/api/v2/organizations/{organization}/provisionerkeys/daemons"),
    ];
    cases.extend(nowhere.map(|(operation, path)| Case { path, ..case(operation, Who::Owner) }));
    cases
}

/// The one call of keys that needs no license.
fn plaintexts_of_keys() -> Vec<Case> {
    each(
        Operation::IdentifyProvisionerKey,
        &[
            Who::SeededKey,
            Who::Key("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
            Who::Key("short"),
            Who::Nobody,
            Who::Owner,
        ],
    )
}

/// Whether callers may see the keys of the default organisation.
fn rights() -> Vec<Case> {
    let body = r#"{"checks":{"read":{"object":{"resource_type":"provisioner_daemon","organization_id":"{organization}"},"action":"read"}}}"#;
    let ask = |who: Who| Case { body: Some(body.to_owned()), ..case(Operation::Authcheck, who) };
    CALLERS.map(ask).into()
}

/// The jobs that wait on both sides, asked for as our client does and as it does not.
fn pending_jobs() -> Vec<Case> {
    let ask = |path: &'static str, who: Who| Case { path, ..case(Operation::PendingJobs, who) };
    let mut cases = each(Operation::PendingJobs, &CALLERS);
    for path in [
        "/api/v2/organizations/{organization}/provisionerjobs?status=pending&limit=50&tags=%7B%22owner%22%3A%22%22%2C%22scope%22%3A%22organization%22%7D",
        "/api/v2/organizations/{organization}/provisionerjobs?status=pending&limit=50&tags=%7B%22scope%22%3A%22organization%22%2C%22zone%22%3A%22eu%22%7D",
        "/api/v2/organizations/{organization}/provisionerjobs?status=pending&limit=50&tags=%7B%22scope%22%3A%22organization%22%7D",
        "/api/v2/organizations/{organization}/provisionerjobs?status=pending&limit=1&tags=",
        "/api/v2/organizations/{organization}/provisionerjobs?status=running&limit=0",
        "/api/v2/organizations/{organization}/provisionerjobs?limit=-1",
        "/api/v2/organizations/{organization}/provisionerjobs?limit=some",
        "/api/v2/organizations/{organization}/provisionerjobs?page=2",
        "/api/v2/organizations/nonsense/provisionerjobs",
    ] {
        cases.extend([Who::Owner, Who::TemplateAdmin, Who::Member].map(|who| ask(path, who)));
    }
    cases
}

/// Proxies: without a license they are refused before anybody is asked who they are.
fn workspace_proxies() -> Vec<Case> {
    let with = |operation: Operation, who: Who, body: &str| Case {
        body: Some(body.to_owned()),
        ..case(operation, who)
    };
    let mut cases = each(Operation::WorkspaceProxy, &CALLERS);
    cases.extend(each(Operation::DeleteWorkspaceProxy, &CALLERS));
    let shown = r#""name":"a","display_name":"A","icon":"/emojis/1f310.png""#;
    let (made, changed) = (format!("{{{shown}}}"), format!(r#"{{"id":"{{proxy}}",{shown}}}"#));
    cases.extend(CALLERS.map(|who| with(Operation::CreateWorkspaceProxy, who, &made)));
    cases.extend(CALLERS.map(|who| with(Operation::UpdateWorkspaceProxy, who, &changed)));
    let regenerated = format!(r#"{{"id":"{{proxy}}",{shown},"regenerate_token":true}}"#);
    cases.push(with(Operation::RegenerateProxyToken, Who::Owner, &regenerated));
    for body in ["{}", r#"{"name":"primary"}"#, "nonsense", ""] {
        cases.push(with(Operation::CreateWorkspaceProxy, Who::Owner, body));
        cases.push(with(Operation::UpdateWorkspaceProxy, Who::Owner, body));
    }
    for path in [
        "/api/v2/workspaceproxies/{proxy}",
        "/api/v2/workspaceproxies/nonsense",
        "/api/v2/workspaceproxies/a%20proxy",
        "/api/v2/workspaceproxies/primary",
        "/api/v2/workspaceproxies/me",
    ] {
        cases.push(Case { path, ..case(Operation::WorkspaceProxy, Who::Owner) });
    }
    cases
}

/// The one call of proxies that needs no license.
fn tokens_of_proxies() -> Vec<Case> {
    each(
        Operation::VerifyProxyToken,
        &[
            Who::SeededProxy,
            Who::SeededProxyWithAnotherSecret,
            Who::Proxy(
                "6f1f6a3e-0000-4000-8000-000000000001:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            ),
            Who::Proxy("6f1f6a3e-0000-4000-8000-000000000001:short"),
            Who::Proxy("a:b:c"),
            Who::Proxy("nonsense"),
            Who::Nobody,
        ],
    )
}

/// What the double can answer and the client does not ask for.
fn routes_without_a_caller() -> Vec<Case> {
    let ask = |method: &'static str, path: &'static str, who: Who| Case { method, path, who, body: None };
    let paths = [
        "/api/v2/organizations",
        "/api/v2/organizations/default/provisionerdaemons",
        "/api/v2/workspaceproxies",
    ];
    paths.into_iter().flat_map(|path| CALLERS.map(|who| ask("GET", path, who))).collect()
}

/// How a coderd without a route says so: our client tells it from a thing that is not there.
fn lines_that_nobody_serves() -> Vec<Case> {
    let get = |path: &'static str, who: Who| Case { path, ..case(Operation::BuildInfo, who) };
    vec![
        get("/api/v2/nonsense", Who::Nobody),
        get("/api/v2/nonsense", Who::Owner),
        get("/api/v2/users/me/keys/a/nonsense", Who::Owner),
        Case { method: "PUT", ..case(Operation::Licenses, Who::Owner) },
        Case { method: "DELETE", ..case(Operation::BuildInfo, Who::Nobody) },
    ]
}
