//! Takes back a token of our own: revoked in the database if that can be reached, its Secret removed in any case.
//! It never waits for a database: what cannot be revoked ends by itself within a day.

use super::TokenEvent;
use super::record::{self, Found};
use super::source::{self, Source};
use super::steps::Record;
use crate::coderd::Egress;
use crate::coderd::database::{Database, DatabaseUrl, EMAIL_DOMAIN, Error};
use crate::control_plane_access::plan::Place;
use crate::controller::children::drift;
use crate::controller::identity::Owner;
use crate::kubernetes::{CallError, Kube, Target};
use crds::CoderControlPlaneSpec;
use crds::names::control_plane::{former_operator_token_secret, operator_token};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

/// How often the database is asked.
const TRIES: usize = 2;

/// Why nothing was revoked although the database answered.
const UNKNOWN_USER: &str =
    "the database that CODER_PG_CONNECTION_URL names now does not know the operator's user";

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// What there is to tell.
    pub token_events: Vec<TokenEvent>,
    /// Why a token that the older operator made is still valid. It lives for a year, so its Secret stays: as long as that
    /// is there, it is known that something is left to revoke.
    pub former_left: Option<String>,
}

/// Takes back everything; without places for the URL the database is not asked.
pub(super) async fn retire(
    kube: &Kube,
    egress: &Egress,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
    places: Option<&[Place]>,
) -> Result<Retired, CallError> {
    let found = record::read(kube.ours::<Secret>().get(&owner.secret()).await?.as_ref());
    let former = former(kube, owner, spec).await?;
    let ours = match &found {
        Found::Ours { record, uid, owner, .. } => Some((record.as_deref(), uid.as_str(), owner.as_str())),
        Found::Nothing | Found::Foreign => None,
    };
    if ours.is_none() && former.is_none() {
        return Ok(Retired::default());
    }
    let made = ours.map(|(record, _, uid)| (record, uid));
    let revoked = match places {
        None => Err("it was asked to leave it".to_owned()),
        Some(places) => {
            let url = url(kube, owner, spec, places).await;
            revoke(url, egress, owner, made, former.is_some()).await
        }
    };
    if let Err(error) = &revoked {
        tracing::warn!(
            error,
            "a token could not be revoked in coderd's database; one made by this operator ends by itself within a day"
        );
    }
    let mut retired = Retired::default();
    if let Some((record, uid, _)) = ours {
        kube.remove(secret(kube.namespace(), &owner.secret()), uid).await?;
        retired.token_events.extend(deed(record, &revoked));
    }
    match (former, revoked) {
        (Some((name, uid)), Ok(_)) => remove_former(kube, owner, &name, &uid).await?,
        (Some(_), Err(error)) => retired.former_left = Some(error),
        (None, _) => {}
    }
    Ok(retired)
}

/// What is told of a token whose Secret was removed, given whether the database knew its user.
pub(super) fn deed(record: Option<&Record>, known: &Result<bool, String>) -> Option<TokenEvent> {
    match known {
        Ok(true) => Some(TokenEvent::Revoked),
        // It was only about to be made.
        Ok(false) if record.is_some_and(|record| record.role.is_none() && record.current.is_none()) => None,
        Ok(false) => Some(TokenEvent::LeftToExpire(UNKNOWN_USER.to_owned())),
        Err(why) => Some(TokenEvent::LeftToExpire(why.clone())),
    }
}

/// Takes role and tokens of the user that a record was made for, whether or not it can still be read; returns whether
/// the database knew it. The address holds the uid of that object, so that no other's user is meant.
pub(super) async fn disable(
    database: &mut Database,
    owner: Owner<'_>,
    record: Option<&Record>,
) -> Result<bool, Error> {
    let (id, former) = (record.map(|record| record.user_id), owner.former_email());
    // By the address, too: a user that was there before has another id until it is recorded.
    Ok(database.disable_access(id, &owner.email(), Some(&former)).await?.is_some())
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

/// A record, if it can be read, and the uid of the control plane it was made for.
type Made<'a> = (Option<&'a Record>, &'a str);

/// Revokes with a bound on the tries; returns whether the database knew the user.
async fn revoke(
    url: Result<DatabaseUrl, String>,
    egress: &Egress,
    owner: Owner<'_>,
    made: Option<Made<'_>>,
    former: bool,
) -> Result<bool, String> {
    let url = url?;
    let mut outcome = Ok(false);
    for _ in 0..TRIES {
        outcome = revoke_once(&url, egress, owner, made, former).await.map_err(|error| error.to_string());
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
    made: Option<Made<'_>>,
    former: bool,
) -> Result<bool, Error> {
    let mut database = source::connect(egress, url).await?;
    let mut known = false;
    if let Some((record, uid)) = made {
        known = disable(&mut database, owner.of_record(uid), record).await?;
        if uid != owner.uid {
            // This one may have had a user, too, before somebody brought the record of the other back.
            known |= disable(&mut database, owner, None).await?;
        }
    }
    if former {
        revoke_former(&mut database, owner).await?;
    }
    Ok(known)
}

/// Revokes the token that the older operator, written in Go, made for this control plane.
pub(super) async fn revoke_former(database: &mut Database, owner: Owner<'_>) -> Result<u64, Error> {
    let email = format!("coder-k8s-operator@{EMAIL_DOMAIN}");
    database.revoke_tokens_named(&email, &operator_token(owner.namespace, owner.name)).await
}

/// Name and uid of the Secret that the older operator kept its token in, if it is there and this control plane's.
pub(super) async fn former(
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
pub(super) async fn remove_former(
    kube: &Kube,
    owner: Owner<'_>,
    name: &str,
    uid: &str,
) -> Result<(), CallError> {
    match kube.remove(secret(owner.namespace, name), uid).await {
        Err(error) if error.is_refused() => {
            tracing::warn!(secret = name, %error,
                "the Secret of the older operator's token stays until its control plane goes");
            Ok(())
        }
        other => other,
    }
}

fn secret<'a>(namespace: &'a str, name: &'a str) -> Target<'a> {
    Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::{NewToken, Uuid};

    #[test]
    fn a_token_counts_as_revoked_only_where_the_database_knew_its_user() {
        let prepared = Record::prepared(None, Uuid::random().unwrap(), NewToken::generate().unwrap());
        let made = Record { current: prepared.next.clone(), ..prepared.clone() };
        let left = |why: &str| Some(TokenEvent::LeftToExpire(why.to_owned()));
        for record in [None, Some(&made)] {
            assert_eq!(deed(record, &Ok(true)), Some(TokenEvent::Revoked));
            assert_eq!(deed(record, &Ok(false)), left(UNKNOWN_USER));
            assert_eq!(deed(record, &Err("away".to_owned())), left("away"));
        }
        assert_eq!(deed(Some(&prepared), &Ok(false)), None, "nothing was made");
        assert_eq!(deed(Some(&prepared), &Ok(true)), Some(TokenEvent::Revoked));
    }
}
