//! Which role of coderd is the least that serves external provisioners and workspace proxies, by what a real coderd says of
//! each built-in one. Keys and proxies need a license that nobody gave us; what coderd's own authorization says of them does
//! not, and it is asked about the very objects that their handlers ask about (`RBACObject` of `ProvisionerKey` and of
//! `WorkspaceProxy` in coderd's source).

use super::{client_at, default};
use coder_k8s::coderd::client::{Deletion, ProxyAppearance, ProxyDeletion, Tags, proxy_id_of_token};
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Error};
use coder_k8s::confidential::Confidential;
use serde_json::{Value, json};
use std::net::SocketAddr;
use support::coderd::{Coderd, Role};
use support::plain_http::Ask;
use support::postgres::Postgres;
use support::real_coderd::{Edition, RealCoderd};

/// What somebody may do in the default organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Read the organisation.
    pub organization: bool,
    /// Make, list (with their daemons) and delete provisioner keys.
    pub keys: [bool; 3],
    /// List the jobs that wait.
    pub jobs: bool,
    /// Make, read, change and delete workspace proxies.
    pub proxies: [bool; 4],
}

impl Rights {
    /// What every member of the organisation may.
    const MEMBER: Self = Self {
        organization: true,
        keys: [false, true, false],
        jobs: false,
        proxies: [false, true, false, false],
    };
    /// What a provisioner needs.
    pub const KEYS: Self = Self { keys: [true; 3], ..Self::MEMBER };
    /// And what tells the length of its queue.
    pub const KEYS_AND_JOBS: Self = Self { jobs: true, ..Self::KEYS };
    /// And what a workspace proxy needs.
    pub const EVERYTHING: Self = Self { proxies: [true; 4], ..Self::KEYS_AND_JOBS };
}

/// What a real coderd lets the holder of a token do.
pub async fn of(addr: SocketAddr, token: &str) -> Rights {
    let client = client_at(addr, Some(Confidential::new(token.to_owned())));
    let (organization, jobs) = seen_by(&client).await;
    let organization_id = client.organization("default").await.map(|found| found.id.to_string());
    let on_keys = |action: &str| {
        let object =
            json!({ "resource_type": "provisioner_daemon", "organization_id": organization_id.clone().ok() });
        json!({ "object": object, "action": action })
    };
    let actions = ["create", "read", "delete"];
    let on_proxies = ["create", "read", "update", "delete"];
    let proxies =
        |action: &str| json!({ "object": { "resource_type": "workspace_proxy" }, "action": action });
    let mut checks: serde_json::Map<String, Value> =
        actions.into_iter().map(|action| (action.to_owned(), on_keys(action))).collect();
    checks.extend(on_proxies.map(|action| (format!("{action} proxies"), proxies(action))));
    let ask = Ask::new("POST", "/api/v2/authcheck").header("coder-session-token", token);
    let said = ask.json(&json!({ "checks": checks }).to_string()).send(addr).await.unwrap();
    assert_eq!(said.status, 200, "{said:?}");
    let said: Value = serde_json::from_str(&said.body).unwrap();
    let proxies = on_proxies.map(|action| said[format!("{action} proxies")] == true);
    Rights { organization, keys: actions.map(|action| said[action] == true), jobs, proxies }
}

/// Whether somebody sees the organisation, and the jobs that wait in it.
async fn seen_by(client: &Client) -> (bool, bool) {
    let hidden = |operation| Error::NotFoundOrForbidden { operation };
    let organization = client.organization("default").await.map(drop);
    let jobs = client.pending_jobs(default(), &Tags::new()).await.map(drop);
    for (said, operation) in [(&organization, Operation::Organization), (&jobs, Operation::PendingJobs)] {
        assert!(*said == Ok(()) || *said == Err(hidden(operation)), "{said:?}");
    }
    (organization.is_ok(), jobs.is_ok())
}

/// What the licensed double lets the holder of a token do, by doing it.
async fn of_double(coderd: &Coderd, token: String) -> Rights {
    let client = client_at(coderd.addr(), Some(Confidential::new(token)));
    let (organization, jobs) = seen_by(&client).await;
    coderd.add_provisioner_key("default", "there", &[]);
    let made = client.create_provisioner_key(default(), "made", &Tags::new()).await;
    let operation = Operation::CreateProvisionerKey;
    assert!(made.is_ok() || made == Err(Error::Forbidden { operation }), "{made:?}");
    let listed = client.provisioner_keys(default(), |_, _| true).await.unwrap();
    let in_full = client.provisioner_key_daemons(default(), |_| true).await.unwrap();
    let there = listed.iter().find(|key| key.name == "there").map(|key| key.id);
    let read = there.is_some();
    assert_eq!(in_full.iter().filter(|one| Some(one.key) == there).count(), usize::from(read));
    let deleted = client.delete_provisioner_key(default(), "there").await;
    let operation = Operation::DeleteProvisionerKey;
    assert!(matches!(deleted, Ok(Deletion::Deleted)) || deleted == Err(Error::Forbidden { operation }));
    let left = coderd.provisioner_keys("default");
    assert_eq!(left.iter().any(|key| key.name == "there"), deleted.is_err());
    left.iter().for_each(|key| coderd.remove_provisioner_key("default", &key.name));
    let proxies = proxies_of_double(coderd, &client).await;
    Rights { organization, keys: [made.is_ok(), read, deleted.is_ok()], jobs, proxies }
}

/// What of workspace proxies the licensed double lets a client do, by doing it.
async fn proxies_of_double(coderd: &Coderd, client: &Client) -> [bool; 4] {
    let appearance = |name| ProxyAppearance { name, display_name: "A", icon: "/emojis/1f310.png" };
    let token = Confidential::new(coderd.add_workspace_proxy("there"));
    let id = proxy_id_of_token(&token).unwrap();
    let forbidden = |operation| Error::Forbidden { operation };
    let made = client.create_workspace_proxy(&appearance("made")).await;
    assert!(made.is_ok() || made == Err(forbidden(Operation::CreateWorkspaceProxy)), "{made:?}");
    let read = client.workspace_proxy("there").await.unwrap().is_some();
    let changed = client.update_workspace_proxy(id, &appearance("changed")).await;
    let operation = Operation::UpdateWorkspaceProxy;
    assert!(changed.is_ok() || changed == Err(Error::NotFoundOrForbidden { operation }), "{changed:?}");
    let deleted = client.delete_workspace_proxy(id).await;
    assert!(
        deleted == Ok(ProxyDeletion::Deleted) || deleted == Err(forbidden(Operation::DeleteWorkspaceProxy))
    );
    coderd.workspace_proxies().iter().for_each(|proxy| coderd.remove_workspace_proxy(&proxy.name));
    [made.is_ok(), read, changed.is_ok(), deleted.is_ok()]
}

/// Every built-in role of coderd with what it may, all of them members of the default organisation.
const SITE_ROLES: [(&str, Rights); 4] = [
    ("auditor", Rights::MEMBER),
    ("user-admin", Rights::MEMBER),
    ("template-admin", Rights::KEYS),
    ("owner", Rights::EVERYTHING),
];
const ORGANIZATION_ROLES: [(&str, Rights); 5] = [
    ("organization-auditor", Rights::MEMBER),
    ("organization-user-admin", Rights::MEMBER),
    ("organization-workspace-creation-ban", Rights::MEMBER),
    ("organization-template-admin", Rights::KEYS_AND_JOBS),
    ("organization-admin", Rights::KEYS_AND_JOBS),
];

/// Gives a user a role in the default organisation.
async fn promote(server: &RealCoderd, user: &str, role: &str) {
    let path = format!("/api/v2/organizations/default/members/{user}/roles");
    let ask = Ask::new("PUT", &path).header("coder-session-token", server.owner_token());
    let said = ask.json(&json!({ "roles": [role] }).to_string()).send(server.addr()).await.unwrap();
    assert_eq!(said.status, 200, "{role}: {said:?}");
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_site_wide_template_admin_is_the_least_for_keys_and_the_owner_for_proxies() {
    let postgres = Postgres::start();
    let server = RealCoderd::start(&postgres, Edition::Full, 512).await;
    let token = server.add_user("plain", &[]).await;
    let mut found = vec![("member", of(server.addr(), &token).await, Rights::MEMBER)];
    for (role, expected) in SITE_ROLES {
        let token = server.add_user(&format!("a-{role}"), &[role]).await;
        found.push((role, of(server.addr(), &token).await, expected));
    }
    for (role, expected) in ORGANIZATION_ROLES {
        let user = role.replacen("organization", "o", 1).chars().take(30).collect::<String>();
        let token = server.add_user(&user, &[]).await;
        promote(&server, &user, role).await;
        found.push((role, of(server.addr(), &token).await, expected));
    }
    println!("{:38} organization  keys: make list delete  jobs  proxies: make, read, change, delete", "role");
    for (role, rights, _) in &found {
        let Rights { organization, keys: [make, list, delete], jobs, proxies } = rights;
        println!("{role:38} {organization:<19} {make:<5} {list:<5} {delete:<6} {jobs:<5} {proxies:?}");
    }
    for (role, rights, expected) in found {
        assert_eq!(rights, expected, "{role}");
    }
}

#[tokio::test]
async fn the_double_gives_each_role_what_coderd_does() {
    let coderd = Coderd::start().await;
    let here = || "default".to_owned();
    let roles = [
        (vec![], Rights::MEMBER),
        (vec![Role::TemplateAdmin], Rights::KEYS),
        (vec![Role::Owner], Rights::EVERYTHING),
        (vec![Role::OrganizationTemplateAdmin(here())], Rights::KEYS_AND_JOBS),
        (vec![Role::OrganizationAdmin(here())], Rights::KEYS_AND_JOBS),
    ];
    for (roles, expected) in roles {
        let token = coderd.token_for(&roles);
        assert_eq!(of_double(&coderd, token).await, expected, "{roles:?}");
    }
}
