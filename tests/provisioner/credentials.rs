//! Whose token is used: that of `spec.bootstrap.credentialsSecretRef` where there is one, and never another because it does not
//! work.

use crate::env::{Case, run_all};
use crate::site::{MAKE, NAME, Site};
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::{Credential, NewUser, Role};
use support::objects::{condition, is_ready, secret, text};

const DAY: Duration = Duration::from_secs(86_400);
const LIST: &str = "GET /organizations/{org}/provisionerkeys";

/// The provisioner with a token of its own in Secret `maker`.
fn bootstrapped() -> Value {
    json!({ "replicas": 0, "bootstrap": { "credentialsSecretRef": { "name": "maker" } } })
}

/// Somebody who may make keys, and a token.
fn maker(site: &Site) -> String {
    let organization = Role::OrganizationTemplateAdmin("default".to_owned());
    site.coderd().add_user(NewUser::named("maker").with(organization));
    site.coderd().add_token("maker", DAY)
}

async fn give(site: &Site, data: &Value) {
    site.put(&secret(&site.ns, "maker", data)).await;
}

/// Who made the keys.
fn makers(site: &Site) -> Vec<Credential> {
    site.coderd().calls_to(MAKE).into_iter().map(|call| call.credential).collect()
}

async fn a_token_that_was_given_is_used_instead() {
    let site = Site::new("bootstrap").await;
    let token = maker(&site);
    // The control plane lets nobody in: whoever brings a token of his own does not need it.
    let disabled = json!({ "operatorAccess": { "disabled": true } });
    site.apply_control_plane("coder", &site.double, &disabled).await;
    give(&site, &json!({ "token": token })).await;
    site.apply(&bootstrapped()).await;
    let ready = site.ready().await;
    assert_eq!(condition(&ready, "BootstrapSecretReady")["status"], "True");
    assert_eq!(condition(&ready, "OperatorAccessReady")["reason"], "NotRequested");
    assert_eq!(makers(&site), [Credential::User("maker".to_owned())]);
    // The same token deletes it.
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new());
}

async fn one_that_does_not_work_is_replaced_by_no_other() {
    let site = Site::new("broken").await;
    let token = maker(&site);
    site.apply(&bootstrapped()).await;
    let told = site.until_reason("BootstrapSecretReady", "BootstrapSecretUnavailable").await;
    assert!(text(condition(&told, "Ready"), "/message").contains("Secret maker"), "{told}");
    for (data, words) in [
        (json!({ "session": token }), "no key token"),
        (json!({ "token": "" }), "is empty"),
        (json!({ "token": "abcdefghij-0123456789012345678901" }), "(401)"),
    ] {
        give(&site, &data).await;
        let told = site
            .until(&format!("{words:?} to be told"), |object| {
                text(condition(object, "BootstrapSecretReady"), "/message").contains(words)
            })
            .await;
        assert_eq!(condition(&told, "BootstrapSecretReady")["reason"], "BootstrapSecretUnavailable");
        assert!(!is_ready(&told));
    }
    let asked = site.coderd().calls_to(LIST).len() + site.coderd().calls_to(MAKE).len();
    assert_eq!(asked, 0, "the operator's token, which works, is not for this");
    give(&site, &json!({ "token": token })).await;
    site.ready().await;
    assert_eq!(makers(&site), [Credential::User("maker".to_owned())]);
}

async fn a_role_that_is_too_low_is_told() {
    let site = Site::new("lowly").await;
    let token = site.coderd().token_for(&[]);
    give(&site, &json!({ "token": token })).await;
    site.apply(&bootstrapped()).await;
    let told = site.until_reason("ProvisionerKeyReady", "ProvisionerKeyFailed").await;
    assert_eq!(condition(&told, "Ready")["status"], "False");
    assert_eq!(site.keys(), Vec::<String>::new());
    give(&site, &json!({ "token": site.token })).await;
    site.ready().await;
    assert_eq!(site.keys(), [NAME]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_with_the_token_that_the_spec_names() {
    let cases: Vec<Case<'_>> = vec![
        ("given".to_owned(), Box::pin(a_token_that_was_given_is_used_instead())),
        ("broken".to_owned(), Box::pin(one_that_does_not_work_is_replaced_by_no_other())),
        ("lowly".to_owned(), Box::pin(a_role_that_is_too_low_is_told())),
    ];
    run_all(cases).await;
}
