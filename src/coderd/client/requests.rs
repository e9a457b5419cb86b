//! The requests we send: method, path, body, and what goes along to prove who asks.
//! It builds values; it never sends them.

use super::jobs::{ASKED_FOR, Tags};
use super::path;
use super::proxies::ProxyAppearance;
use crate::coderd::error::Operation;
use crate::coderd::uuid::Uuid;
use crate::confidential::Confidential;
use http::Method;
use serde::Serialize;
use serde_json::json;
use zeroize::Zeroizing;

/// What goes along with a request, each in a header of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Credential {
    /// Nothing: a token where none is needed only spreads it.
    Nothing,
    /// The token of the client.
    Session,
    /// The plaintext of a provisioner key, and no token.
    ProvisionerKey(Confidential<String>),
    /// The token of a workspace proxy, and none of the client.
    WorkspaceProxy(Confidential<String>),
}

/// A request before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Confidential<String>>,
    /// What the answer must not repeat.
    pub(super) secret: Option<Confidential<String>>,
    pub(super) credential: Credential,
}

impl Request {
    fn get(operation: Operation, path: &str) -> Self {
        Self {
            operation,
            method: Method::GET,
            path: path.to_owned(),
            body: None,
            secret: None,
            credential: Credential::Session,
        }
    }

    fn open(self) -> Self {
        Self { credential: Credential::Nothing, ..self }
    }

    pub(super) fn healthz() -> Self {
        Self::get(Operation::Healthz, "/healthz").open()
    }

    pub(super) fn build_info() -> Self {
        Self::get(Operation::BuildInfo, "/api/v2/buildinfo").open()
    }

    pub(super) fn entitlements() -> Self {
        Self::get(Operation::Entitlements, "/api/v2/entitlements").open()
    }

    pub(super) fn me() -> Self {
        Self::get(Operation::Me, "/api/v2/users/me")
    }

    pub(super) fn licenses() -> Self {
        Self::get(Operation::Licenses, "/api/v2/licenses")
    }

    pub(super) fn upload_license(jwt: &Confidential<String>) -> Self {
        let secret = jwt.clone().trimmed();
        Self {
            method: Method::POST,
            body: Some(license_body(secret.expose())),
            secret: Some(secret),
            ..Self::get(Operation::UploadLicense, "/api/v2/licenses")
        }
    }

    pub(super) fn delete_token(id: &str) -> Self {
        // Ids are letters and digits; anything else is no id of coderd and must not shape the path.
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let path = format!("/api/v2/users/me/keys/{id}");
        Self { method: Method::DELETE, ..Self::get(Operation::DeleteToken, &path) }
    }

    /// None for what is no name of coderd's and cannot be asked for.
    pub(super) fn organization(name: &str) -> Option<Self> {
        let path = format!("/api/v2/organizations/{}", path::segment(name)?);
        Some(Self::get(Operation::Organization, &path))
    }

    /// What an organisation has, below its id: a name may be another one's tomorrow.
    fn within(operation: Operation, organization: Uuid, rest: &str) -> Self {
        Self::get(operation, &format!("/api/v2/organizations/{organization}/{rest}"))
    }

    pub(super) fn provisioner_keys(organization: Uuid) -> Self {
        Self::within(Operation::ProvisionerKeys, organization, "provisionerkeys")
    }

    pub(super) fn create_provisioner_key(organization: Uuid, name: &str, tags: &Tags) -> Self {
        let body = json!({ "name": name, "tags": tags }).to_string();
        Self {
            method: Method::POST,
            body: Some(Confidential::new(body)),
            ..Self::within(Operation::CreateProvisionerKey, organization, "provisionerkeys")
        }
    }

    /// None for a name that cannot be part of a path, though coderd accepts it for a key.
    pub(super) fn delete_provisioner_key(organization: Uuid, name: &str) -> Option<Self> {
        let rest = format!("provisionerkeys/{}", path::segment(name)?);
        let request = Self::within(Operation::DeleteProvisionerKey, organization, &rest);
        Some(Self { method: Method::DELETE, ..request })
    }

    /// coderd looks at the header alone; its own client also writes the plaintext into the path, where logs find it.
    pub(super) fn identify_provisioner_key(plaintext: &Confidential<String>) -> Self {
        Self {
            credential: Credential::ProvisionerKey(plaintext.clone()),
            ..Self::get(Operation::IdentifyProvisionerKey, "/api/v2/provisionerkeys/by-header")
        }
    }

    pub(super) fn provisioner_key_daemons(organization: Uuid) -> Self {
        Self::within(Operation::ProvisionerKeyDaemons, organization, "provisionerkeys/daemons")
    }

    /// Whether the token's user may read the provisioner keys of an organisation: coderd keeps them with the daemons.
    pub(super) fn may_read_provisioner_keys(organization: Uuid) -> Self {
        let object =
            json!({ "resource_type": "provisioner_daemon", "organization_id": organization.to_string() });
        let body = json!({ "checks": { "read": { "object": object, "action": "read" } } }).to_string();
        Self {
            method: Method::POST,
            body: Some(Confidential::new(body)),
            ..Self::get(Operation::Authcheck, "/api/v2/authcheck")
        }
    }

    pub(super) fn pending_jobs(organization: Uuid, filter: &Tags) -> Self {
        let tags = path::query_value(&json!(filter).to_string());
        let rest = format!("provisionerjobs?status=pending&limit={ASKED_FOR}&tags={tags}");
        Self::within(Operation::PendingJobs, organization, &rest)
    }

    fn proxies(operation: Operation, rest: &str) -> Self {
        Self::get(operation, &format!("/api/v2/workspaceproxies{rest}"))
    }

    /// None for a name that cannot be part of a path, or that means the proxy that asks.
    pub(super) fn workspace_proxy(name: &str) -> Option<Self> {
        let segment = path::segment(name).filter(|name| name != "me")?;
        Some(Self::proxies(Operation::WorkspaceProxy, &format!("/{segment}")))
    }

    pub(super) fn workspace_proxy_by_id(id: Uuid) -> Self {
        Self::proxies(Operation::WorkspaceProxy, &format!("/{id}"))
    }

    pub(super) fn workspace_proxies() -> Self {
        Self::proxies(Operation::WorkspaceProxy, "")
    }

    pub(super) fn create_workspace_proxy(proxy: &ProxyAppearance<'_>) -> Self {
        let ProxyAppearance { name, display_name, icon } = proxy;
        let body = json!({ "name": name, "display_name": display_name, "icon": icon }).to_string();
        Self {
            method: Method::POST,
            body: Some(Confidential::new(body)),
            ..Self::proxies(Operation::CreateWorkspaceProxy, "")
        }
    }

    pub(super) fn update_workspace_proxy(id: Uuid, proxy: &ProxyAppearance<'_>) -> Self {
        Self::change_proxy(Operation::UpdateWorkspaceProxy, id, proxy, false)
    }

    pub(super) fn regenerate_proxy_token(id: Uuid, proxy: &ProxyAppearance<'_>) -> Self {
        Self::change_proxy(Operation::RegenerateProxyToken, id, proxy, true)
    }

    fn change_proxy(
        operation: Operation,
        id: Uuid,
        proxy: &ProxyAppearance<'_>,
        regenerate_token: bool,
    ) -> Self {
        let ProxyAppearance { name, display_name, icon } = proxy;
        let body = json!({ "id": id.to_string(), "name": name, "display_name": display_name, "icon": icon,
            "regenerate_token": regenerate_token });
        Self {
            method: Method::PATCH,
            body: Some(Confidential::new(body.to_string())),
            ..Self::proxies(operation, &format!("/{id}"))
        }
    }

    pub(super) fn delete_workspace_proxy(id: Uuid) -> Self {
        let request = Self::proxies(Operation::DeleteWorkspaceProxy, &format!("/{id}"));
        Self { method: Method::DELETE, ..request }
    }

    /// How agents are reached, which coderd tells every proxy: a question without effect, and one that needs no license.
    pub(super) fn verify_proxy_token(token: &Confidential<String>) -> Self {
        Self {
            credential: Credential::WorkspaceProxy(token.clone()),
            ..Self::get(Operation::VerifyProxyToken, "/api/v2/workspaceagents/connection")
        }
    }
}

/// The license in the JSON that coderd takes, written once into a place that is large enough: what is moved to a larger
/// one stays behind in the smaller.
fn license_body(jwt: &str) -> Confidential<String> {
    #[derive(Serialize)]
    struct Upload<'a> {
        license: &'a str,
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * jwt.len() + 32));
    // One text under one name always serialises, and JSON is UTF-8.
    let written = serde_json::to_writer(&mut *bytes, &Upload { license: jwt });
    let text = written.ok().and_then(|()| std::str::from_utf8(&bytes).ok()).unwrap_or_default();
    Confidential::new(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORGANIZATION: &str = "6f1f6a3e-0000-4000-8000-000000000001";

    fn organization() -> Uuid {
        ORGANIZATION.parse().unwrap()
    }

    #[test]
    fn only_calls_that_need_a_token_take_one() {
        for open in [Request::healthz(), Request::build_info(), Request::entitlements()] {
            assert_eq!(open.credential, Credential::Nothing, "{open:?}");
        }
        for closed in [Request::me(), Request::licenses(), Request::provisioner_keys(organization())] {
            assert_eq!(closed.credential, Credential::Session, "{closed:?}");
        }
    }

    #[test]
    fn a_license_travels_trimmed_and_unseen() {
        let request = Request::upload_license(&Confidential::new(" hunter2\n".to_owned()));
        assert_eq!(request.body.as_ref().unwrap().expose(), r#"{"license":"hunter2"}"#);
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(Request::delete_token("a/../b?c").path, "/api/v2/users/me/keys/abc");
    }

    #[test]
    fn a_name_is_escaped_or_refused() {
        let keys = format!("/api/v2/organizations/{ORGANIZATION}/provisionerkeys");
        let delete = |name| Request::delete_provisioner_key(organization(), name).map(|request| request.path);
        assert_eq!(delete("a key?"), Some(format!("{keys}/a%20key%3F")));
        for name in ["", "..", "a/b"] {
            assert_eq!((delete(name), Request::organization(name)), (None, None), "{name}");
        }
        let default = Request::organization("default").map(|request| request.path);
        assert_eq!(default.as_deref(), Some("/api/v2/organizations/default"));
    }

    #[test]
    fn a_key_is_made_with_its_name_and_tags_as_they_are() {
        let tags = Tags::from([("zone".to_owned(), "eu \"west\"".to_owned())]);
        let request = Request::create_provisioner_key(organization(), "EU", &tags);
        let body = request.body.as_ref().unwrap().expose();
        assert_eq!(body, r#"{"name":"EU","tags":{"zone":"eu \"west\""}}"#);
    }

    #[test]
    fn the_plaintext_of_a_key_is_nowhere_but_in_its_header() {
        let request = Request::identify_provisioner_key(&Confidential::new("hunter2".to_owned()));
        assert!(matches!(&request.credential, Credential::ProvisionerKey(key) if key.expose() == "hunter2"));
        assert!(!request.path.contains("hunter2") && request.body.is_none());
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn pending_jobs_are_asked_for_within_bounds() {
        let request =
            Request::pending_jobs(organization(), &Tags::from([("a".to_owned(), "b&c".to_owned())]));
        let query = "status=pending&limit=50&tags=%7B%22a%22%3A%22b%26c%22%7D";
        assert_eq!(request.path, format!("/api/v2/organizations/{ORGANIZATION}/provisionerjobs?{query}"));
    }

    const APPEARANCE: ProxyAppearance<'_> =
        ProxyAppearance { name: "eu", display_name: "Frankfurt \"1\"", icon: "/emojis/1f310.png" };

    #[test]
    fn a_proxy_is_asked_for_by_a_name_that_is_one_or_by_its_id() {
        let path = |name| Request::workspace_proxy(name).map(|request| request.path);
        assert_eq!(path("eu west").as_deref(), Some("/api/v2/workspaceproxies/eu%20west"));
        for name in ["", "..", "a/b", "me"] {
            assert_eq!(path(name), None, "{name}");
        }
        let by_id = Request::workspace_proxy_by_id(organization());
        assert_eq!(by_id.path, format!("/api/v2/workspaceproxies/{ORGANIZATION}"));
        let deletion = Request::delete_workspace_proxy(organization());
        assert_eq!((deletion.method, deletion.path), (Method::DELETE, by_id.path));
    }

    #[test]
    fn a_change_of_a_proxy_says_everything_and_only_a_regeneration_asks_for_a_token() {
        let body = |request: Request| -> serde_json::Value {
            serde_json::from_str(request.body.as_ref().unwrap().expose()).unwrap()
        };
        let shown = json!({ "name": "eu", "display_name": "Frankfurt \"1\"", "icon": "/emojis/1f310.png" });
        assert_eq!(body(Request::create_workspace_proxy(&APPEARANCE)), shown);
        for (request, regenerate) in [
            (Request::update_workspace_proxy(organization(), &APPEARANCE), false),
            (Request::regenerate_proxy_token(organization(), &APPEARANCE), true),
        ] {
            assert_eq!(request.method, Method::PATCH);
            let mut changed = shown.clone();
            changed["id"] = json!(ORGANIZATION);
            changed["regenerate_token"] = json!(regenerate);
            assert_eq!(body(request), changed);
        }
    }

    #[test]
    fn the_token_of_a_proxy_is_nowhere_but_in_its_header() {
        let request = Request::verify_proxy_token(&Confidential::new("hunter2".to_owned()));
        assert!(
            matches!(&request.credential, Credential::WorkspaceProxy(token) if token.expose() == "hunter2")
        );
        assert!(!request.path.contains("hunter2") && request.body.is_none());
        assert!(!format!("{request:?}").contains("hunter2"));
    }
}
