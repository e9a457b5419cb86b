//! The double and the operator's access, held against a real, running coderd 2.36.1; `make test-contract` runs it.
//! Every request our client makes goes to both, and a disagreement is a fault of the double.
//!
//! What cannot be compared: an upload that coderd accepts, the 500 of a duplicate, and what a license then grants. The
//! stock server takes only licenses that Coder has signed; nobody gave us one, and teaching it to take others would
//! circumvent its license check. So the refusals that come before the signature are compared, the refusal of a wrong
//! signature is pinned on the real server alone (the double checks none), listing and deleting are compared with a row
//! that was put into the table and grants nothing, and the duplicate is pinned by the constraint whose name our client
//! looks for. What provisioner keys and workspace proxies need a license for is listed and pinned in `licensed.rs`; which
//! role our user needs for them, in `roles.rs`; how a workspace proxy starts, in `proxy_process.rs`.

mod compare;
mod kubelet;
mod licensed;
mod operator;
mod operator_access;
mod proxy_process;
mod redirect;
mod requests;
mod roles;
mod sides;

use coder_k8s::coderd::client::{
    Applied, EXTERNAL_PROVISIONERS, Limits, PendingJobs, ProxyAppearance, Tags, WORKSPACE_PROXIES,
};
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Endpoint, Error, Resolve, Uuid};
use coder_k8s::confidential::Confidential;
use requests::{Case, OPERATIONS, REFUSED, USERS};
use serde_json::json;
use sides::{RATE_LIMIT, SEEDED_KEY, Side, Sides, Who};
use std::net::SocketAddr;
use support::coderd::license_with;
use support::real_coderd::Edition;

const LICENSE_ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

/// Sends a request to both; what differs, after one line about it.
async fn compared(sides: &Sides, case: &Case) -> Vec<String> {
    let body = case.body.as_deref();
    let ours = sides.double.ask(case.method, case.path, case.who, body).await;
    // It is strict with clients; here it is asked what no client of ours asks.
    drop(sides.coderd.take_violations());
    let theirs = sides.real.ask(case.method, case.path, case.who, body).await;
    let found = compare::differences((&ours, sides.double.addr), (&theirs, sides.real.addr));
    let shown = format!("{} {} as {:?} {}", case.method, case.path, case.who, body.unwrap_or_default());
    println!(
        "{} {} {}",
        if found.is_empty() { "  same  " } else { "DIFFERS " },
        theirs.status,
        shown.trim_end()
    );
    found.into_iter().map(|difference| format!("{shown}: {difference}")).collect()
}

async fn all_agree(sides: &Sides, cases: &[Case]) {
    let mut found = Vec::new();
    for case in cases {
        found.extend(compared(sides, case).await);
    }
    assert!(found.is_empty(), "the double is wrong {} times:\n{}", found.len(), found.join("\n"));
    println!("{} requests, no difference", cases.len());
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_full_edition_and_the_double_answer_alike() {
    let sides = Sides::start(Edition::Full).await;
    all_agree(&sides, &requests::cases()).await;
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn the_open_source_edition_and_the_double_answer_alike() {
    let sides = Sides::start(Edition::OpenSource).await;
    all_agree(&sides, &requests::cases()).await;
}

#[test]
fn every_call_of_the_client_is_in_the_table() {
    let cases = requests::cases();
    for operation in OPERATIONS {
        let (method, path) = requests::line(operation);
        let of = cases.iter().filter(|case| case.method == method && case.path.starts_with(path));
        assert!(of.count() > 0, "{operation:?} is not compared");
    }
}

/// Our client, led to an address as in a cluster.
fn client_at(addr: SocketAddr, token: Option<Confidential<String>>) -> Client {
    let endpoint = Endpoint::parse("http://coder.team.svc.cluster.local").unwrap();
    let led_there = Resolve::new(vec![format!("*.svc.cluster.local={addr}").parse().unwrap()]);
    Client::new(endpoint, token, &led_there, Limits::default()).unwrap()
}

fn client(side: &Side, who: Who) -> Client {
    client_at(side.addr, side.token(who).map(Confidential::new))
}

/// Makes one call, about this proxy if it is about one.
async fn call(operation: Operation, client: &Client, proxy: Uuid) -> Result<(), Error> {
    let appearance = |name| ProxyAppearance { name, display_name: "A", icon: "/emojis/1f310.png" };
    match operation {
        Operation::Healthz => client.healthz().await,
        Operation::BuildInfo => client.build_info().await.map(drop),
        Operation::Entitlements => client.entitlements().await.map(drop),
        Operation::Me => client.me().await.map(drop),
        Operation::Licenses => client.licenses().await.map(drop),
        Operation::UploadLicense => {
            client.upload_license(&Confidential::new("a.b.c".to_owned())).await.map(drop)
        }
        Operation::DeleteToken => client.delete_token_by_id("aaaaaaaaaa").await,
        Operation::Organization => client.organization("default").await.map(drop),
        Operation::ProvisionerKeys => client.provisioner_keys(default(), |_, _| true).await.map(drop),
        Operation::CreateProvisionerKey => {
            client.create_provisioner_key(default(), "made", &Tags::new()).await.map(drop)
        }
        Operation::DeleteProvisionerKey => client.delete_provisioner_key(default(), "made").await.map(drop),
        Operation::IdentifyProvisionerKey => {
            let unknown = Confidential::new("x".repeat(43));
            client.identify_provisioner_key(&unknown).await.map(|key| assert_eq!(key, None))
        }
        Operation::ProvisionerKeyDaemons => {
            client.provisioner_key_daemons(default(), |_| true).await.map(drop)
        }
        Operation::PendingJobs => client.pending_jobs(default(), &Tags::new()).await.map(drop),
        Operation::Authcheck => client.may_read_provisioner_keys(default()).await.map(drop),
        Operation::WorkspaceProxy => client.workspace_proxy_by_id(proxy).await.map(drop),
        Operation::CreateWorkspaceProxy => client.create_workspace_proxy(&appearance("made")).await.map(drop),
        Operation::UpdateWorkspaceProxy => {
            client.update_workspace_proxy(proxy, &appearance("changed")).await.map(drop)
        }
        Operation::RegenerateProxyToken => {
            client.regenerate_proxy_token(proxy, &appearance("changed")).await.map(drop)
        }
        Operation::VerifyProxyToken => {
            let unknown = Confidential::new(format!("{proxy}:{}", "x".repeat(64)));
            client.is_proxy_token_valid(&unknown).await.map(|is_valid| assert!(!is_valid))
        }
        Operation::DeleteWorkspaceProxy => client.delete_workspace_proxy(proxy).await.map(drop),
    }
}

/// The id by which coderd knows the default organisation of any deployment.
fn default() -> Uuid {
    "00000000-0000-0000-0000-000000000000".parse().unwrap()
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn our_client_understands_both_alike() {
    for edition in [Edition::Full, Edition::OpenSource] {
        let sides = Sides::start(edition).await;
        for who in USERS.into_iter().chain(REFUSED) {
            let (double, real) = (client(&sides.double, who), client(&sides.real, who));
            let proxy = sides.real.proxy().parse().unwrap();
            for operation in OPERATIONS {
                let theirs = call(operation, &real, proxy).await;
                let ours = call(operation, &double, proxy).await;
                assert_eq!(ours, theirs, "{operation:?} as {who:?} of {edition:?}");
            }
        }
        let of_the_full_one = [Operation::Entitlements, Operation::Licenses, Operation::UploadLicense];
        let of_the_full_one = of_the_full_one.into_iter().chain(licensed::NEED_A_LICENSE);
        let owner = client(&sides.real, Who::Owner);
        for operation in of_the_full_one
            .chain([Operation::IdentifyProvisionerKey])
            .filter(|_| edition == Edition::OpenSource)
        {
            assert_eq!(call(operation, &owner, default()).await, Err(Error::RouteMissing { operation }));
        }
        // It was sent no more than it knows: our client asks for nothing strange.
        sides.coderd.assert_no_violations();
    }
}

/// What needs no license is read from the real server too, value by value.
#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn our_client_reads_the_same_values_from_both() {
    let sides = Sides::start(Edition::Full).await;
    for side in [&sides.double, &sides.real] {
        let owner = client(side, Who::Owner);
        let organization = owner.organization("default").await.unwrap();
        assert_eq!((organization.name.as_str(), organization.is_default), ("coder", true));
        assert_eq!(owner.organization_by_id(organization.id).await, Ok(organization.clone()));
        assert_eq!(owner.organization("CODER").await, Ok(organization.clone()));
        assert_eq!(organization.id.to_string(), side.organization);

        let plaintext = Confidential::new(side.seeded_key.clone());
        let key = owner.identify_provisioner_key(&plaintext).await.unwrap().expect("it is there");
        let tags = |pairs: &[(&str, &str)]| -> Tags {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!((key.name.as_str(), key.organization_id), (SEEDED_KEY, organization.id));
        assert_eq!(key.tags, tags(&[("zone", "eu")]));
        for (pairs, count) in [
            (&[][..], 1),
            (&[("zone", "eu")], 1),
            (&[("gpu", "yes")], 0),
            (&[("zone", "eu"), ("gpu", "yes")], 2),
            (&[("zone", "eu"), ("gpu", "")], 1),
        ] {
            let waiting = owner.pending_jobs(organization.id, &tags(pairs)).await;
            assert_eq!(waiting, Ok(PendingJobs { count, more: false }), "{pairs:?}");
        }
        let deployment = owner.build_info().await.unwrap().deployment_id;
        assert!(deployment.parse::<Uuid>().is_ok(), "{deployment}");
        let entitlements = owner.entitlements().await.unwrap();
        for feature in [EXTERNAL_PROVISIONERS, WORKSPACE_PROXIES] {
            assert!(entitlements.features.contains_key(feature) && !entitlements.feature(feature).enabled);
        }
        let token = Confidential::new(side.seeded_proxy.clone());
        assert_eq!(owner.is_proxy_token_valid(&token).await, Ok(true));
    }
    assert_eq!(sides.coderd.take_violations(), Vec::new());
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn too_many_requests_are_refused_alike() {
    let sides = Sides::start(Edition::Full).await;
    let (method, path) = requests::line(Operation::Me);
    for side in [&sides.double, &sides.real] {
        let mut asked = 0;
        // The window slides: at its border a few more get through.
        while side.ask(method, path, Who::Hasty, None).await.status != 429 {
            asked += 1;
            assert!(asked <= 2 * RATE_LIMIT, "no limit after {asked} calls");
        }
    }
    all_agree(&sides, &[Case { method, path, who: Who::Hasty, body: None }]).await;
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn a_license_that_is_there_is_listed_and_deleted_alike() {
    let sides = Sides::start(Edition::Full).await;
    let jwt = license_with(&json!({ "jti": LICENSE_ID, "exp": 4_000_000_000_i64, "iat": 1_700_000_000.5,
        "license_expires": 3_900_000_000_i64, "account_type": "salesforce", "features": { "user_limit": 7 } }));
    let body = json!({ "license": jwt }).to_string();
    let added = sides.double.ask("POST", "/api/v2/licenses", Who::Owner, Some(&body)).await;
    assert_eq!(added.status, 201, "{added:?}");
    let insert = format!(
        "INSERT INTO licenses (uploaded_at, jwt, exp, uuid) \
         VALUES (now(), '{jwt}', to_timestamp(4000000000), '{LICENSE_ID}')"
    );
    sides.postgres.sql(sides.server.database(), &insert);

    let (method, path) = requests::line(Operation::Licenses);
    let list = USERS.map(|who| Case { method, path, who, body: None });
    all_agree(&sides, &list).await;
    let owner = client(&sides.real, Who::Owner);
    let applied = owner.apply_license(&Confidential::new(jwt)).await;
    assert_eq!(applied, Ok(Applied::AlreadyThere { id: 1 }), "known by its id, so it is not sent again");
    assert!(!owner.entitlements().await.unwrap().has_license, "the row grants nothing");

    let delete = Case { method: "DELETE", path: "/api/v2/licenses/1", who: Who::Owner, body: None };
    all_agree(&sides, &[delete.clone(), delete]).await;
    all_agree(&sides, &list).await;
}

#[tokio::test]
#[ignore = "needs a real coderd: make test-contract"]
async fn what_only_the_real_server_can_say_of_licenses_is_pinned() {
    let sides = Sides::start(Edition::Full).await;
    let owner = client(&sides.real, Who::Owner);
    let jwt = Confidential::new(license_with(&json!({ "jti": LICENSE_ID, "exp": 4_000_000_000_i64 })));
    let refused = owner.upload_license(&jwt).await.expect_err("a wrong signature");
    let Error::Invalid { message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.as_str().starts_with("Invalid license: "), "{message}");
    assert!(owner.licenses().await.unwrap().is_empty());
    // The 500 of a duplicate carries the name of this constraint, by which our client knows it.
    let unique = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'licenses_jwt_key'";
    assert_eq!(sides.postgres.sql(sides.server.database(), unique), "UNIQUE (jwt)");
}
