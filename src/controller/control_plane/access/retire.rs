//! Takes back a token of our own: revoked in the database if that can be reached, its Secret removed in any case.
//! It never waits for a database: what cannot be revoked ends by itself within a day.

use super::Deed;
use super::plan::Place;
use super::record::{self, Found, Owner};
use super::source::{self, Source};
use super::steps::Record;
use crate::coderd::Egress;
use crate::coderd::database::{Database, DatabaseUrl, EMAIL_DOMAIN, Error, Limits};
use crate::controller::drift;
use crate::kubernetes::{CallError, Kube, Target};
use crds::CoderControlPlaneSpec;
use crds::names::control_plane::{former_operator_token_secret, operator_token};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

/// How often the database is asked.
const TRIES: usize = 2;

/// What became of it.
#[derive(Debug, Default)]
pub struct Retired {
    /// What there is to tell.
    pub deeds: Vec<Deed>,
    /// Why a token that the older operator made is still valid. It lives for a year, so its Secret stays: as long as that
    /// is there, it is known that something is left to revoke.
    pub former_left: Option<String>,
}

/// Takes back everything; without places for the URL the database is not asked.
pub async fn retire(
    kube: &Kube,
    egress: &Egress,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
    places: Option<&[Place]>,
) -> Result<Retired, CallError> {
    let found = record::read(kube.ours::<Secret>().get(&owner.secret()).await?.as_ref());
    let former = former(kube, owner, spec).await?;
    let (record, uid) = match found {
        Found::Ours { record, uid, .. } => (record, Some(uid)),
        Found::Nothing | Found::Foreign => (None, None),
    };
    if record.is_none() && uid.is_none() && former.is_none() {
        return Ok(Retired::default());
    }
    let revoked = match places {
        None => Err("it was asked to leave it".to_owned()),
        Some(places) => {
            let url = url(kube, owner, spec, places).await;
            revoke(url, egress, owner, record.as_deref(), former.is_some()).await
        }
    };
    if let Err(error) = &revoked {
        tracing::warn!(
            namespace = owner.namespace,
            name = owner.name,
            error,
            "a token could not be revoked in coderd's database; one made by this operator ends by itself within a day"
        );
    }
    let mut retired = Retired::default();
    if let Some(uid) = uid {
        kube.remove(secret(kube.namespace(), &owner.secret()), &uid).await?;
        let deed = revoked.clone().map_or_else(Deed::LeftToExpire, |()| Deed::Revoked);
        retired.deeds.push(deed);
    }
    match (former, revoked) {
        (Some((name, uid)), Ok(())) => remove_former(kube, owner, &name, &uid).await?,
        (Some(_), Err(error)) => retired.former_left = Some(error),
        (None, _) => {}
    }
    Ok(retired)
}

/// The database, if its URL is still there; the error is for the log and holds no secret.
async fn url(
    kube: &Kube,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
    places: &[Place],
) -> Result<DatabaseUrl, String> {
    let source = source::find(kube, owner.namespace, places).await.map_err(|error| error.to_string())?;
    let url = match source {
        Source::Url(url) => DatabaseUrl::parse(&url).map_err(|error| error.to_string())?,
        Source::Missing(what) => return Err(what),
        Source::Nowhere => return Err("there is no CODER_PG_CONNECTION_URL".to_owned()),
    };
    Ok(source::trusting(kube, owner.namespace, spec, url).await)
}

/// Revokes with a bound on the tries.
async fn revoke(
    url: Result<DatabaseUrl, String>,
    egress: &Egress,
    owner: Owner<'_>,
    record: Option<&Record>,
    former: bool,
) -> Result<(), String> {
    let url = url?;
    let mut outcome = Ok(());
    for _ in 0..TRIES {
        outcome = revoke_once(&url, egress, owner, record, former).await.map_err(|error| error.to_string());
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn revoke_once(
    url: &DatabaseUrl,
    egress: &Egress,
    owner: Owner<'_>,
    record: Option<&Record>,
    former: bool,
) -> Result<(), Error> {
    let mut database = Database::connect(url, &egress.resolve, Limits::default()).await?;
    if let Some(record) = record {
        // By the address, too: a user that was there before has another id until it is recorded.
        database.disable_access(record.user_id, &owner.email(), Some(&owner.former_email())).await?;
    }
    if former {
        revoke_former(&mut database, owner).await?;
    }
    Ok(())
}

/// Revokes the token that the older operator, written in Go, made for this control plane.
pub async fn revoke_former(database: &mut Database, owner: Owner<'_>) -> Result<u64, Error> {
    let email = format!("coder-k8s-operator@{EMAIL_DOMAIN}");
    database.revoke_tokens_named(&email, &operator_token(owner.namespace, owner.name)).await
}

/// Name and uid of the Secret that the older operator kept its token in, if it is there and this control plane's.
pub async fn former(
    kube: &Kube,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
) -> Result<Option<(String, String)>, CallError> {
    let name = former_operator_token_secret(owner.name, spec);
    let given = spec.operator_access.as_ref().and_then(|access| access.token_secret_ref.as_ref());
    if given.is_some_and(|given| given.name.trim() == name) {
        // Its author gave it to us: it is used, and never taken back.
        return Ok(None);
    }
    let live = kube.read(secret(owner.namespace, &name)).await?;
    let live = live.filter(|live| drift::is_controlled_by(live, owner.uid));
    let uid = live.as_ref().and_then(|live| live.pointer("/metadata/uid")).and_then(Value::as_str);
    Ok(uid.map(|uid| (name, uid.to_owned())))
}

/// Removes that Secret. Where we may not, the garbage collector will: it belongs to the control plane.
pub async fn remove_former(kube: &Kube, owner: Owner<'_>, name: &str, uid: &str) -> Result<(), CallError> {
    match kube.remove(secret(owner.namespace, name), uid).await {
        Err(error) if error.is_refused() => {
            tracing::warn!(namespace = owner.namespace, name, %error,
                "the Secret of the older operator's token stays until its control plane goes");
            Ok(())
        }
        other => other,
    }
}

fn secret<'a>(namespace: &'a str, name: &'a str) -> Target<'a> {
    Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name }
}
