//! The HTTP client of coderd against the strict double: every call with every fault, by the class of the error, and
//! without a secret in what is printed.

mod connections;
mod hostile_lists;
mod provisioners;
mod proxies;

use coder_k8s::coderd::client::{Applied, Limits, ProxyAppearance, Tags, Tier, Upload};
use coder_k8s::coderd::error::{Lost, Operation};
use coder_k8s::coderd::{Client, Endpoint, Error, Resolve, Retry, Uuid};
use coder_k8s::confidential::Confidential;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use support::coderd::{Coderd, Credential, Fault, NewUser, Occurrence, Role, UserStatus, license_with};

const HOST: &str = "coder.team.svc.cluster.local";
const DAY: Duration = Duration::from_secs(86_400);
const LICENSE_ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

fn led_to(address: SocketAddr) -> Resolve {
    Resolve::new(vec![format!("*.svc.cluster.local={address}").parse().unwrap()])
}

fn limits() -> Limits {
    Limits { total: Duration::from_secs(5), answer: 64 * 1024, list: 256 * 1024, ..Limits::default() }
}

fn client(coderd: &Coderd, token: &str, limits: Limits) -> Client {
    let endpoint = Endpoint::parse(&format!("http://{HOST}")).unwrap();
    Client::new(endpoint, Some(Confidential::new(token.to_owned())), &led_to(coderd.addr()), limits).unwrap()
}

fn license() -> Confidential<String> {
    Confidential::new(license_with(&json!({ "jti": LICENSE_ID, "exp": 4_000_000_000_i64 })))
}

const CALLS: [(Operation, &str); 21] = [
    (Operation::Healthz, "GET /healthz"),
    (Operation::BuildInfo, "GET /buildinfo"),
    (Operation::Entitlements, "GET /entitlements"),
    (Operation::Me, "GET /users/me"),
    (Operation::Licenses, "GET /licenses"),
    (Operation::UploadLicense, "POST /licenses"),
    (Operation::DeleteToken, "DELETE /users/me/keys/{key}"),
    (Operation::Organization, "GET /organizations/{org}"),
    (Operation::ProvisionerKeys, "GET /organizations/{org}/provisionerkeys"),
    (Operation::CreateProvisionerKey, "POST /organizations/{org}/provisionerkeys"),
    (Operation::DeleteProvisionerKey, "DELETE /organizations/{org}/provisionerkeys/{key}"),
    (Operation::IdentifyProvisionerKey, "GET /provisionerkeys/{key}"),
    (Operation::ProvisionerKeyDaemons, "GET /organizations/{org}/provisionerkeys/daemons"),
    (Operation::PendingJobs, "GET /organizations/{org}/provisionerjobs"),
    (Operation::Authcheck, "POST /authcheck"),
    (Operation::WorkspaceProxy, "GET /workspaceproxies/{proxy}"),
    (Operation::CreateWorkspaceProxy, "POST /workspaceproxies"),
    (Operation::UpdateWorkspaceProxy, "PATCH /workspaceproxies/{proxy}"),
    (Operation::RegenerateProxyToken, "PATCH /workspaceproxies/{proxy}"),
    (Operation::DeleteWorkspaceProxy, "DELETE /workspaceproxies/{proxy}"),
    (Operation::VerifyProxyToken, "GET /workspaceagents/connection"),
];

/// A proxy of this name that looks like any other.
fn appearance(name: &str) -> ProxyAppearance<'_> {
    ProxyAppearance { name, display_name: "Frankfurt", icon: "/emojis/1f310.png" }
}

/// The id of a proxy of the double, in the words of our client.
fn proxy(coderd: &Coderd, name: &str) -> Uuid {
    let found = coderd.workspace_proxies().into_iter().find(|proxy| proxy.name == name);
    found.expect("it is there").id.to_string().parse().unwrap()
}

/// The id of an organisation of the double, in the words of our client.
fn organization(coderd: &Coderd, word: &str) -> Uuid {
    coderd.organization_id(word).to_string().parse().unwrap()
}

/// Makes one call; a token, key or proxy that it is about is made for it.
async fn call(operation: Operation, client: &Client, coderd: &Coderd) -> Result<(), Error> {
    let (default, untagged) = (organization(coderd, "default"), Tags::new());
    let name = format!("key-{}", coderd.calls().len());
    let made = |name: &str| coderd.add_provisioner_key("default", name, &[]);
    match operation {
        Operation::Healthz => client.healthz().await,
        Operation::BuildInfo => client.build_info().await.map(drop),
        Operation::Entitlements => client.entitlements().await.map(drop),
        Operation::Me => client.me().await.map(drop),
        Operation::Licenses => client.licenses().await.map(drop),
        Operation::UploadLicense => client.upload_license(&license()).await.map(drop),
        Operation::DeleteToken => {
            let victim = coderd.add_token("ops", DAY);
            client.delete_token_by_id(&victim[..10]).await
        }
        Operation::Organization => client.organization("default").await.map(drop),
        Operation::ProvisionerKeys => client.provisioner_keys(default, |_, _| true).await.map(drop),
        Operation::CreateProvisionerKey => {
            client.create_provisioner_key(default, &name, &untagged).await.map(drop)
        }
        Operation::DeleteProvisionerKey => {
            made(&name);
            client.delete_provisioner_key(default, &name).await.map(drop)
        }
        Operation::IdentifyProvisionerKey => {
            let plaintext = Confidential::new(made(&name));
            client.identify_provisioner_key(&plaintext).await.map(drop)
        }
        Operation::ProvisionerKeyDaemons => client.provisioner_key_daemons(default, |_| true).await.map(drop),
        Operation::PendingJobs => client.pending_jobs(default, &untagged).await.map(drop),
        Operation::Authcheck => client.may_read_provisioner_keys(default).await.map(drop),
        Operation::CreateWorkspaceProxy => client.create_workspace_proxy(&appearance(&name)).await.map(drop),
        of_proxies => {
            let token = Confidential::new(coderd.add_workspace_proxy(&name));
            call_about_proxy(of_proxies, client, (proxy(coderd, &name), &name), &token).await
        }
    }
}

async fn call_about_proxy(
    operation: Operation,
    client: &Client,
    (id, name): (Uuid, &str),
    token: &Confidential<String>,
) -> Result<(), Error> {
    match operation {
        Operation::WorkspaceProxy => client.workspace_proxy(name).await.map(|found| assert!(found.is_some())),
        Operation::UpdateWorkspaceProxy => {
            client.update_workspace_proxy(id, &appearance(name)).await.map(drop)
        }
        Operation::RegenerateProxyToken => {
            client.regenerate_proxy_token(id, &appearance(name)).await.map(drop)
        }
        Operation::DeleteWorkspaceProxy => client.delete_workspace_proxy(id).await.map(drop),
        Operation::VerifyProxyToken => client.is_proxy_token_valid(token).await.map(|valid| assert!(valid)),
        other => panic!("{other:?} is not about a proxy"),
    }
}

/// An owner, its token, and a client with it.
async fn owner_and_client(limits: Limits) -> (Coderd, String, Client) {
    let coderd = Coderd::start().await;
    coderd.add_user(NewUser::named("ops").with(Role::Owner));
    let token = coderd.add_token("ops", DAY);
    let client = client(&coderd, &token, limits);
    (coderd, token, client)
}

/// Every call suffers the fault once, fails with exactly this error, shows no secret, and works the next time.
async fn each_call(fault: impl Fn(&str) -> Fault, expected: impl Fn(Operation) -> Error, skip: &[Operation]) {
    let (coderd, token, client) = owner_and_client(limits()).await;
    for (operation, route) in CALLS.into_iter().filter(|(operation, _)| !skip.contains(operation)) {
        let handle = coderd.inject(route, Occurrence::Next, fault(&token));
        let error = call(operation, &client, &coderd).await.expect_err(route);
        assert_eq!(error.detail(), &expected(operation), "{route}");
        let hidden = matches!(error, Error::NotCoderd { .. });
        assert_eq!(
            hidden,
            operation == Operation::Healthz,
            "{route}: nobody has answered as coderd does yet"
        );
        assert_eq!(handle.hits(), 1, "{route}");
        let shown = format!("{error} {error:?} {client:?}");
        for secret in [&token[11..], license().expose(), "hunter2"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        call(operation, &client, &coderd)
            .await
            .unwrap_or_else(|error| panic!("{route} does not heal: {error}"));
    }
}

/// A body that repeats what was sent, which no error may repeat.
fn echoing(status: u16, token: &str) -> Fault {
    let text = format!("hunter2?{token} {}", license().expose());
    Fault::answer(status, &json!({ "message": text, "detail": text }))
}

#[tokio::test]
async fn refusals_have_their_classes() {
    each_call(|token| echoing(401, token), |operation| Error::Unauthorized { operation }, &[]).await;
    each_call(|token| echoing(403, token), |operation| Error::Forbidden { operation }, &[]).await;
    // What is not there need not be deleted, and is found not to be there.
    let gone = [Operation::DeleteProvisionerKey, Operation::WorkspaceProxy, Operation::DeleteWorkspaceProxy];
    each_call(|token| echoing(404, token), |operation| Error::NotFoundOrForbidden { operation }, &gone).await;
    each_call(|token| echoing(409, token), |operation| Error::Conflict { operation }, &[]).await;
    let premium =
        |_: &str| Fault::answer(403, &json!({ "message": "X is a Premium feature. Contact sales!" }));
    each_call(premium, |operation| Error::NotLicensed { operation }, &[]).await;
    let missing = |_: &str| Fault::answer(404, &json!({ "message": "Route not found." }));
    each_call(missing, |operation| Error::RouteMissing { operation }, &[]).await;
    let gone = |token: &str| echoing(410, token);
    each_call(gone, |operation| Error::Unexpected { operation, status: 410 }, &[]).await;
}

#[tokio::test]
async fn a_400_is_told_in_coderds_words_unless_they_repeat_what_was_sent() {
    let said = |_: &str| Fault::answer(400, &json!({ "message": "Invalid\n license", "detail": "expired" }));
    let expected = |operation| Error::Invalid { operation, message: "Invalid license: expired".into() };
    each_call(said, expected, &[]).await;
    let open = [
        Operation::Healthz,
        Operation::BuildInfo,
        Operation::Entitlements,
        Operation::IdentifyProvisionerKey,
        Operation::VerifyProxyToken,
    ];
    let repeated = |token: &str| Fault::answer(400, &json!({ "message": format!("bad {token}") }));
    let message = "(withheld: it repeats what was sent)";
    each_call(repeated, |operation| Error::Invalid { operation, message: message.into() }, &open).await;
}

/// A coderd that means ill: what a terminal obeys, what turns text around, and a megabyte of it.
#[tokio::test]
async fn hostile_words_are_cleaned_and_cut() {
    let words =
        format!("no \u{1b}]0;owned\u{7}\u{202e}license\u{2066}\r\nERROR forged {}", "x".repeat(900_000));
    let limits = Limits { answer: 1 << 20, ..limits() };
    let (coderd, _, client) = owner_and_client(limits).await;
    coderd.inject("POST /licenses", Occurrence::Next, Fault::answer(400, &json!({ "message": words })));
    let told = client.upload_license(&license()).await.unwrap_err().to_string();
    assert!(told.contains("coderd says: no ]0;owned license ERROR forged xxx"), "{told:.200}");
    assert!(
        !told.contains(|letter: char| letter.is_control() || "\u{202e}\u{2066}".contains(letter)),
        "{told:?}"
    );
    assert!(told.chars().count() <= 300, "{}", told.len());
}

#[tokio::test]
async fn too_many_requests_say_how_long_to_wait() {
    let wait = Duration::from_secs(17);
    let expected = |operation| Error::RateLimited { operation, retry_after: wait };
    each_call(|_| Fault::too_many_requests(wait), expected, &[]).await;
    assert_eq!(expected(Operation::Me).retry(), Retry::After(wait));
}

#[tokio::test]
async fn server_errors_redirects_and_floods_have_their_classes() {
    each_call(|token| echoing(500, token), |operation| Error::Server { operation, status: 500 }, &[]).await;
    let page = |_: &str| Fault::answer_text(502, "text/html", "<h1>hunter2</h1>");
    each_call(page, |operation| Error::Server { operation, status: 502 }, &[]).await;
    let elsewhere = |_: &str| Fault::redirect(307, "http://169.254.169.254/latest?token=hunter2");
    each_call(elsewhere, |operation| Error::Redirected { operation, status: 307 }, &[]).await;
    let flood = |_: &str| Fault::answer_text(200, "application/json", &"x".repeat(64 * 1024 + 1));
    // What is read object by object is no list from its first byte on.
    let listed = [
        Operation::Licenses,
        Operation::ProvisionerKeys,
        Operation::ProvisionerKeyDaemons,
        Operation::PendingJobs,
    ];
    each_call(flood, |operation| Error::TooLarge { operation, limit: 64 * 1024 }, &listed).await;
    let endless = |_: &str| Fault::answer_text(200, "application/json", &" ".repeat(256 * 1024 + 1));
    let others: Vec<Operation> =
        CALLS.into_iter().map(|(one, _)| one).filter(|one| !listed.contains(one)).collect();
    each_call(endless, |operation| Error::TooLarge { operation, limit: 256 * 1024 }, &others).await;
}

#[tokio::test]
async fn broken_connections_and_answers_have_their_classes() {
    let cut = |operation| Error::Unreachable { operation, lost: Lost::Cut };
    each_call(|_| Fault::cut_before_processing(), cut, &[]).await;
    each_call(|_| Fault::response_lost(), cut, &[]).await;
    // An empty answer has no half, and nobody reads it.
    let empty = [Operation::DeleteToken, Operation::DeleteProvisionerKey];
    each_call(|_| Fault::half_body(), cut, &empty).await;
    let unread: Vec<Operation> = empty.into_iter().chain([Operation::DeleteWorkspaceProxy]).collect();
    each_call(|_| Fault::malformed_json(), |operation| Error::Malformed { operation }, &unread).await;
}

#[tokio::test]
async fn a_call_without_an_answer_ends_in_time_and_is_given_up() {
    let short = Limits { total: Duration::from_millis(300), ..limits() };
    let (coderd, _, client) = owner_and_client(short).await;
    for (operation, route) in CALLS {
        let hanging = coderd.inject(route, Occurrence::Next, Fault::hang());
        let error = call(operation, &client, &coderd).await.unwrap_err();
        assert_eq!(error.detail(), &Error::TimedOut { operation }, "{route}");
        hanging.release();
        // Time enough, so that healing is not a race.
        let patient = client_with(&coderd);
        call(operation, &patient, &coderd).await.unwrap_or_else(|error| panic!("{route}: {error}"));
    }
}

fn client_with(coderd: &Coderd) -> Client {
    client(coderd, &coderd.add_token("ops", DAY), limits())
}

#[tokio::test]
async fn answers_are_read_and_open_calls_send_no_token() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let build = client.build_info().await.unwrap();
    assert_eq!((build.version.as_str(), build.deployment_id.len()), ("v2.36.1", 36));
    assert_eq!(build.external_url, "https://github.com/coder/coder");
    let entitlements = client.entitlements().await.unwrap();
    assert_eq!(entitlements.tier(), Tier::Premium);
    client.healthz().await.unwrap();
    assert!(coderd.calls().iter().all(|call| call.credential == Credential::None));
    let me = client.me().await.unwrap();
    assert_eq!(
        (me.username.as_str(), me.status.as_str(), me.roles),
        ("ops", "active", vec!["owner".to_owned()])
    );
}

#[tokio::test]
async fn a_license_is_applied_once_whatever_happens() {
    let coderd = Coderd::builder().unlicensed().start().await;
    coderd.add_user(NewUser::named("ops").with(Role::Owner));
    let client = client(&coderd, &coderd.add_token("ops", DAY), limits());
    assert_eq!(client.entitlements().await.unwrap().tier(), Tier::None);
    // The answer is lost, the license is there.
    coderd.inject("POST /licenses", Occurrence::Next, Fault::response_lost());
    assert!(client.apply_license(&license()).await.is_err());
    assert_eq!(client.apply_license(&license()).await, Ok(Applied::AlreadyThere { id: 1 }));
    assert_eq!(coderd.count("POST /licenses"), 1);
    assert_eq!(client.entitlements().await.unwrap().tier(), Tier::Premium);
    assert_eq!(coderd.licenses().len(), 1);
}

#[tokio::test]
async fn a_duplicate_is_believed_only_after_listing_again() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    assert!(matches!(client.upload_license(&license()).await, Ok(Upload::Accepted(_))));
    assert_eq!(client.upload_license(&license()).await, Ok(Upload::Duplicate));
    // Somebody else was faster between our list and our upload.
    coderd.inject("GET /licenses", Occurrence::Next, Fault::answer(200, &json!([])));
    assert_eq!(client.apply_license(&license()).await, Ok(Applied::AlreadyThere { id: 1 }));
    // coderd says duplicate but lists nothing: not applied.
    coderd.inject("GET /licenses", Occurrence::First(2), Fault::answer(200, &json!(null)));
    assert!(client.apply_license(&license()).await.is_err());
}

#[tokio::test]
async fn another_license_does_not_count_as_ours() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let other =
        license_with(&json!({ "jti": "6f1f6a3e-0000-4000-8000-000000000002", "exp": 4_000_000_000_i64 }));
    client.upload_license(&Confidential::new(other)).await.unwrap();
    assert_eq!(client.apply_license(&license()).await, Ok(Applied::Uploaded { id: 2 }));
    // One without an id of its own is known by its claims.
    let nameless =
        Confidential::new(license_with(&json!({ "exp": 4_000_000_001_i64, "features": { "a": 1 } })));
    assert_eq!(client.apply_license(&nameless).await, Ok(Applied::Uploaded { id: 3 }));
    assert_eq!(client.apply_license(&nameless).await, Ok(Applied::AlreadyThere { id: 3 }));
    assert_eq!(coderd.licenses().len(), 3);
}

#[tokio::test]
async fn a_token_that_ended_and_a_suspended_user_are_unauthorized() {
    let (coderd, token, client) = owner_and_client(limits()).await;
    coderd.set_user_status("ops", UserStatus::Suspended);
    assert_eq!(client.me().await.unwrap_err(), Error::Unauthorized { operation: Operation::Me });
    coderd.set_user_status("ops", UserStatus::Active);
    client.me().await.unwrap();
    client.delete_token_by_id(&token[..10]).await.unwrap();
    assert_eq!(client.me().await.unwrap_err(), Error::Unauthorized { operation: Operation::Me });
    let nonsense = client.with_token(Confidential::new("line\nbreak".to_owned()));
    assert_eq!(nonsense.me().await.unwrap_err(), Error::Unauthorized { operation: Operation::Me });
}
