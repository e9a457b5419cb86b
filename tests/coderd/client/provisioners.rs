//! The calls for external provisioners against the double: what they read, what they send, and what each refusal means.
//! Every plaintext stays in its header and in what the caller is given.

use super::{client, limits, organization, owner_and_client};
use coder_k8s::coderd::client::{Deletion, EXTERNAL_PROVISIONERS, Entitlement, Feature, PendingJobs, Tags};
use coder_k8s::coderd::error::Operation;
use coder_k8s::coderd::{Client, Error, Uuid};
use coder_k8s::confidential::Confidential;
use serde_json::json;
use std::collections::BTreeSet;
use support::coderd::{self, Coderd, Credential, Fault, Occurrence, Role};

const CREATE: &str = "POST /organizations/{org}/provisionerkeys";
const IDENTIFY: &str = "GET /provisionerkeys/{key}";

/// A client of a new user with these roles.
fn client_of(coderd: &Coderd, roles: &[Role]) -> Client {
    client(coderd, &coderd.token_for(roles), limits())
}

fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn plaintext(text: &str) -> Confidential<String> {
    Confidential::new(text.to_owned())
}

#[tokio::test]
async fn an_organisation_is_found_by_name_and_stays_itself_when_renamed() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    coderd.add_organization("platform");
    let platform = client.organization("Platform").await.unwrap();
    assert_eq!((platform.id, platform.is_default), (organization(&coderd, "platform"), false));
    let default = client.organization("default").await.unwrap();
    assert_eq!((default.name.as_str(), default.is_default), ("coder", true));
    coderd.rename_organization("platform", "infra");
    let operation = Operation::Organization;
    assert_eq!(client.organization("platform").await, Err(Error::NotFoundOrForbidden { operation }));
    let renamed = client.organization_by_id(platform.id).await.unwrap();
    assert_eq!((renamed.id, renamed.name.as_str()), (platform.id, "infra"));
    let before = coderd.calls().len();
    for name in ["", "..", "a/b", "default/provisionerkeys"] {
        assert_eq!(client.organization(name).await, Err(Error::NotFoundOrForbidden { operation }), "{name}");
    }
    assert_eq!(coderd.calls().len(), before, "nothing else was asked for");
}

#[tokio::test]
async fn a_key_is_made_listed_identified_and_deleted() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let wanted = tags(&[("zone", "eu"), ("odd \"name\"", "ä")]);
    let secret = client.create_provisioner_key(default, "EU-West", &wanted).await.unwrap();
    assert_eq!(coderd.plaintext_of("default", "eu-west").as_ref(), Some(secret.expose()));

    let keys = client.provisioner_keys(default, |_, _| true).await.unwrap();
    assert_eq!(keys.len(), 1, "coderd's own are left out");
    assert_eq!((keys[0].name.as_str(), &keys[0].tags), ("eu-west", &wanted));
    assert_eq!(keys[0].organization_id, default);
    assert!(keys[0].is_named("eu-WEST") && !keys[0].is_named("eu"));
    let age = jiff::Timestamp::now().duration_since(keys[0].created_at);
    assert!(age.as_secs().abs() < 3600, "{age:?}");

    assert_eq!(client.identify_provisioner_key(&secret).await, Ok(Some(keys[0].clone())));
    let call = coderd.calls_to(IDENTIFY).pop().unwrap();
    assert!(matches!(call.credential, Credential::ProvisionerKey(_)), "and no token went along");

    assert_eq!(client.delete_provisioner_key(default, "EU-WEST").await, Ok(Deletion::Deleted));
    assert_eq!(client.delete_provisioner_key(default, "EU-WEST").await, Ok(Deletion::NotThere));
    assert_eq!(client.identify_provisioner_key(&secret).await, Ok(None));
    assert_eq!(client.provisioner_keys(default, |_, _| true).await, Ok(Vec::new()));
    for shown in [format!("{secret} {secret:?} {client:?}"), format!("{:?}", coderd.calls())] {
        assert!(!shown.contains(secret.expose()), "{shown}");
    }
}

#[tokio::test]
async fn names_with_odd_characters_are_deleted_or_refused_but_never_another_key() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    for name in ["a key", "a?b#c", "50%", "a:b@c", "ümläut", "daemons", "a%2Fb"] {
        coderd.add_provisioner_key("default", name, &[]);
        assert_eq!(client.delete_provisioner_key(default, name).await, Ok(Deletion::Deleted), "{name}");
    }
    coderd.add_provisioner_key("default", "a/b", &[]);
    let before = coderd.calls().len();
    for name in ["a/b", "", ".."] {
        assert_eq!(client.delete_provisioner_key(default, name).await, Ok(Deletion::Impossible), "{name}");
    }
    assert_eq!((coderd.calls().len(), coderd.provisioner_keys("default").len()), (before, 1));
}

#[tokio::test]
async fn admission_lets_no_key_have_a_name_by_which_it_cannot_be_deleted() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let is_admitted = |name: &str| {
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "b", "namespace": "ns" },
            "spec": { "controlPlaneRef": { "name": "coder" }, "key": { "name": name } } });
        webhooks::validate(webhooks::Kind::Provisioner, &object, webhooks::Operation::Create).allowed()
    };
    let (mut admitted, mut impossible) = (0, 0);
    for name in [
        "eu", "a key", "a?b#c", "50%", "a%2Fb", "ümläut", "a\\b", "...", "daemons", "a/b", "/", "", ".",
        "..", "a/../b",
    ] {
        let is_impossible = client.delete_provisioner_key(default, name).await == Ok(Deletion::Impossible);
        assert!(!(is_impossible && is_admitted(name)), "{name:?} is admitted and cannot be deleted");
        admitted += usize::from(is_admitted(name));
        impossible += usize::from(is_impossible);
    }
    assert_eq!((admitted, impossible), (9, 6));
}

#[tokio::test]
async fn a_refused_key_says_why() {
    let (coderd, _, owner) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let operation = Operation::CreateProvisionerKey;
    let create = async |client: &Client, name: &str| {
        client.create_provisioner_key(default, name, &Tags::new()).await.map(drop)
    };
    coderd.add_provisioner_key("default", "eu", &[]);
    assert_eq!(create(&owner, "EU").await, Err(Error::Conflict { operation }));
    for (name, said) in [("", "Name is required"), ("PSK", "Name cannot be reserved name 'PSK'")] {
        let refused = Error::Invalid { operation, message: said.into() };
        assert_eq!(create(&owner, name).await, Err(refused));
    }
    let long = create(&owner, &"n".repeat(65)).await;
    assert!(matches!(long, Err(Error::Invalid { .. })), "{long:?}");

    let member = client_of(&coderd, &[]);
    assert_eq!(create(&member, "us").await, Err(Error::Forbidden { operation }), "told with a 500");
    let operation = Operation::DeleteProvisionerKey;
    let denied = member.delete_provisioner_key(default, "eu").await.unwrap_err();
    assert_eq!(denied, Error::Forbidden { operation });
    let told = "deleting a provisioner key failed: the token's user may not do this";
    assert_eq!(denied.to_string(), told, "without a status that nobody sent");
    assert_eq!(
        member.provisioner_keys(default, |_, _| true).await.unwrap().len(),
        1,
        "every member reads them"
    );
    assert_eq!(coderd.provisioner_keys("default").len(), 1);

    let reserved = owner.delete_provisioner_key(default, "psk").await;
    let said = "Cannot delete reserved 'psk' provisioner key".into();
    assert_eq!(reserved, Err(Error::Invalid { operation, message: said }));
}

#[tokio::test]
async fn a_gone_organisation_is_told_apart_from_a_gone_key_by_asking_for_it() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let nowhere = Uuid::random().unwrap();
    let hidden = |operation| Error::NotFoundOrForbidden { operation };
    assert_eq!(client.provisioner_keys(nowhere, |_, _| true).await, Err(hidden(Operation::ProvisionerKeys)));
    let created = client.create_provisioner_key(nowhere, "eu", &Tags::new()).await;
    assert_eq!(created, Err(hidden(Operation::CreateProvisionerKey)));
    assert_eq!(client.delete_provisioner_key(nowhere, "eu").await, Ok(Deletion::NotThere));
    assert_eq!(client.organization_by_id(nowhere).await, Err(hidden(Operation::Organization)));
    assert!(coderd.provisioner_keys("default").is_empty());
}

#[tokio::test]
async fn without_a_license_keys_are_refused_but_a_plaintext_is_still_identified() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let secret = plaintext(&coderd.add_provisioner_key("default", "eu", &[]));
    let now = async || client.entitlements().await.unwrap().feature(EXTERNAL_PROVISIONERS);
    assert_eq!(now().await, Feature { entitlement: Entitlement::Entitled, enabled: true });
    let feature = EXTERNAL_PROVISIONERS;
    coderd.set_feature(feature, coderd::Entitlement::GracePeriod, true);
    assert_eq!(now().await, Feature { entitlement: Entitlement::GracePeriod, enabled: true });
    coderd.set_feature(feature, coderd::Entitlement::Entitled, false);
    assert!(!now().await.enabled, "covered and switched off");
    coderd.remove_license();
    assert_eq!(now().await, Feature { entitlement: Entitlement::NotEntitled, enabled: false });

    let refused = |operation| Error::NotLicensed { operation };
    assert_eq!(client.provisioner_keys(default, |_, _| true).await, Err(refused(Operation::ProvisionerKeys)));
    let created = client.create_provisioner_key(default, "us", &Tags::new()).await;
    assert_eq!(created, Err(refused(Operation::CreateProvisionerKey)));
    let deleted = client.delete_provisioner_key(default, "eu").await;
    assert_eq!(deleted, Err(refused(Operation::DeleteProvisionerKey)));
    let daemons = client.provisioner_key_daemons(default, |_| true).await;
    assert_eq!(daemons, Err(refused(Operation::ProvisionerKeyDaemons)));
    assert!(client.identify_provisioner_key(&secret).await.unwrap().is_some());
    assert_eq!(client.pending_jobs(default, &Tags::new()).await, Ok(PendingJobs { count: 0, more: false }));
}

#[tokio::test]
async fn only_coderds_own_words_make_a_key_unknown() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let secret = plaintext(&coderd.add_provisioner_key("default", "eu", &[]));
    for unknown in ["x".repeat(43), "short".to_owned(), "x".repeat(200)] {
        assert_eq!(client.identify_provisioner_key(&plaintext(&unknown)).await, Ok(None), "{unknown}");
    }
    let before = coderd.calls().len();
    for unsendable in
        ["", " ", "a b", "line\nbreak", "ümläut", &format!("{}\n", secret.expose()), &"x".repeat(257)]
    {
        let said = client.identify_provisioner_key(&plaintext(unsendable)).await;
        assert_eq!(said, Ok(None), "{unsendable:?}: no daemon could send it either");
    }
    assert_eq!(coderd.calls().len(), before);

    let operation = Operation::IdentifyProvisionerKey;
    let page = |status: u16| Fault::answer_text(status, "text/html", "<h1>who are you?</h1>");
    for (fault, error) in [
        (page(401), Error::Unauthorized { operation }),
        (page(404), Error::NotFoundOrForbidden { operation }),
        (
            Fault::answer(401, &json!({ "message": "provisioner daemon key required" })),
            Error::Unauthorized { operation },
        ),
        (Fault::answer(200, &json!({})), Error::Malformed { operation }),
    ] {
        coderd.inject(IDENTIFY, Occurrence::Next, fault);
        assert_eq!(client.identify_provisioner_key(&secret).await, Err(error));
    }
    let repeated = Fault::answer(400, &json!({ "message": format!("bad {}", secret.expose()) }));
    coderd.inject(IDENTIFY, Occurrence::Next, repeated);
    let error = client.identify_provisioner_key(&secret).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(secret.expose()), "{error}");
}

/// A key without its plaintext is lost: an answer that lacks it is no success.
#[tokio::test]
async fn an_answer_without_a_usable_plaintext_is_no_answer() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let operation = Operation::CreateProvisionerKey;
    for body in [
        json!({}),
        json!({ "key": "" }),
        json!({ "key": null }),
        json!({ "key": "two words" }),
        json!({ "key": "x".repeat(300) }),
        json!({ "key": "escaped\u{7}" }),
        json!([]),
    ] {
        coderd.inject(CREATE, Occurrence::Next, Fault::answer(201, &body));
        let made = client.create_provisioner_key(default, "eu", &Tags::new()).await;
        assert_eq!(made, Err(Error::Malformed { operation }), "{body}");
    }
}

#[tokio::test]
async fn daemons_are_listed_with_their_keys() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let secret = coderd.add_provisioner_key("default", "eu", &[]);
    coderd.add_provisioner_key("default", "us", &[]);
    coderd.connect_daemon(&secret, "pod-b").unwrap();
    coderd.connect_daemon(&secret, "pod-a").unwrap();
    let listed = client.provisioner_key_daemons(default, |_| true).await.unwrap();
    let keys = client.provisioner_keys(default, |_, _| true).await.unwrap();
    let id = |name: &str| keys.iter().find(|key| key.is_named(name)).unwrap().id;
    let names = |id: Uuid| listed.iter().find(|one| one.key == id).unwrap().names.clone();
    let expected = ["pod-a", "pod-b"].map(str::to_owned).into();
    assert_eq!((names(id("eu")), names(id("us"))), (expected, BTreeSet::new()));
    assert_eq!(listed.len(), 5, "coderd's own keys are there too");
    let eu = id("eu");
    let one = client.provisioner_key_daemons(default, |id| id == eu).await.unwrap();
    assert_eq!(one.iter().map(|one| one.key).collect::<Vec<Uuid>>(), [eu], "of the others nothing is kept");
}

#[tokio::test]
async fn jobs_that_wait_are_counted_by_the_tags_of_a_key() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    coderd.add_organization("platform");
    coderd.add_pending_job("platform", &[]);
    coderd.add_pending_job("default", &[]);
    let first = coderd.add_pending_job("default", &[("zone", "eu")]);
    coderd.add_pending_job("default", &[("zone", "us")]);
    coderd.add_pending_job("default", &[("zone", "eu"), ("gpu", "yes")]);
    coderd.add_pending_job("default", &[("zone", "eu"), ("scope", "user")]);
    let waiting = async |pairs: &[(&str, &str)]| client.pending_jobs(default, &tags(pairs)).await.unwrap();
    let count = |count| PendingJobs { count, more: false };
    assert_eq!(waiting(&[]).await, count(1));
    assert_eq!(waiting(&[("zone", "eu")]).await, count(1));
    assert_eq!(waiting(&[("zone", "eu"), ("gpu", "yes")]).await, count(2));
    assert_eq!(waiting(&[("zone", "ap")]).await, count(0));
    coderd.remove_pending_job(first);
    assert_eq!(waiting(&[("zone", "eu"), ("gpu", "yes")]).await, count(1));
    for _ in 0..60 {
        coderd.add_pending_job("default", &[("zone", "us")]);
    }
    assert_eq!(waiting(&[("zone", "us")]).await, PendingJobs { count: 50, more: true }, "at least");
    assert_eq!(waiting(&[("zone", "eu")]).await, count(0), "the others do not get in the way");
    assert_eq!(waiting(&[("zone", "eu"), ("gpu", "yes")]).await, PendingJobs { count: 0, more: true });
}

/// What the least role of a user with keys may: everything here but counting jobs.
#[tokio::test]
async fn a_template_administrator_manages_keys_but_sees_no_jobs() {
    let coderd = Coderd::start().await;
    let default = organization(&coderd, "default");
    let admin = client_of(&coderd, &[Role::TemplateAdmin]);
    let secret = admin.create_provisioner_key(default, "eu", &Tags::new()).await.unwrap();
    coderd.connect_daemon(secret.expose(), "pod-a").unwrap();
    assert_eq!(admin.provisioner_keys(default, |_, _| true).await.unwrap().len(), 1);
    assert_eq!(
        admin.provisioner_key_daemons(default, |_| true).await.unwrap().last().unwrap().names.len(),
        1
    );
    let operation = Operation::PendingJobs;
    let jobs = admin.pending_jobs(default, &Tags::new()).await;
    assert_eq!(jobs, Err(Error::NotFoundOrForbidden { operation }));
    let of_organization = client_of(&coderd, &[Role::OrganizationTemplateAdmin("default".to_owned())]);
    assert!(of_organization.pending_jobs(default, &Tags::new()).await.is_ok());
    assert_eq!(admin.delete_provisioner_key(default, "eu").await, Ok(Deletion::Deleted));
}

#[tokio::test]
async fn another_database_behind_the_url_has_another_identity_and_none_of_the_keys() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let secret = plaintext(&coderd.add_provisioner_key("default", "eu", &[]));
    let before = client.build_info().await.unwrap().deployment_id;
    assert_eq!(before, coderd.deployment_id().to_string());
    coderd.replace_deployment();
    assert_ne!(client.build_info().await.unwrap().deployment_id, before);
    assert_eq!(client.identify_provisioner_key(&secret).await, Ok(None));
    let default = client.organization("default").await.unwrap();
    assert_eq!(client.provisioner_keys(default.id, |_, _| true).await, Ok(Vec::new()));
}
