//! The operator's access to coderd: given as a Secret, made in coderd's database, or none. `plan` and `steps` decide,
//! the rest reads and acts; no token and no URL ever reaches a log, a status or an error.

mod deed;
mod generated;
mod given;
mod plan;
mod reasons;
mod record;
mod retire;
mod source;
mod steps;

use super::status::{Wish, WishState};
use crate::coderd::{Client, Egress, Error, Retry};
use crate::kubernetes::{CallError, Kube};
use crds::shared::NamespacedSecretKeySelector;
use crds::{CoderControlPlaneSpec, CoderControlPlaneStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use plan::{Place, Plan};
use reasons::{pending, refused, unproven, wish};

pub use deed::Deed;
pub use record::{OWNER_UID, Owner, WRITTEN_OVER};
use retire::Retired;

/// What access is settled for, and with what.
pub struct Asked<'a> {
    /// The API server.
    pub kube: &'a Kube,
    /// How connections are opened.
    pub egress: &'a Egress,
    /// Which control plane.
    pub owner: Owner<'a>,
    /// What it says.
    pub spec: &'a CoderControlPlaneSpec,
    /// What was said of it before.
    pub before: &'a CoderControlPlaneStatus,
    /// Whether our finalizer is on it.
    pub held: bool,
    /// coderd, if it answered.
    pub client: Option<&'a Client>,
    /// The time.
    pub now: Timestamp,
}

/// The access there is.
#[derive(Debug)]
pub struct Accessed {
    /// For the condition.
    pub wish: Wish,
    /// Whether something the spec asks for cannot be done without it.
    pub needed: bool,
    /// coderd with the token; absent without access, or when coderd did not answer.
    pub client: Option<Client>,
    /// Where the token is kept.
    pub token: Option<NamespacedSecretKeySelector>,
    /// When to try again, if something failed.
    pub retry: Option<Retry>,
    /// Whether there is, or is about to be, something that our finalizer must undo.
    pub hold: bool,
    /// What was done about a token of our own.
    pub deeds: Vec<Deed>,
}

impl Accessed {
    fn without(wish: Wish) -> Self {
        Self { wish, needed: false, client: None, token: None, retry: None, hold: false, deeds: Vec::new() }
    }

    /// Whether the operator can act in coderd.
    pub fn is_granted(&self) -> bool {
        self.wish.state == WishState::Granted
    }

    /// Writes what it means into a status.
    pub fn describe(&self, status: &mut CoderControlPlaneStatus) {
        status.operator_access_ready = Some(self.is_granted());
        status.operator_token_secret_ref.clone_from(&self.token);
    }
}

const NO_URL: &str =
    "no CODER_PG_CONNECTION_URL in spec.extraEnv or spec.envFrom, so the operator makes no user of its own";
const NO_URL_NEEDED: &str = "spec.licenseSecretRef needs the operator's access to coderd; set \
     spec.operatorAccess.tokenSecretRef, or CODER_PG_CONNECTION_URL in spec.extraEnv";

/// Brings the access to what the spec asks for, as far as it goes now.
pub async fn settle(asked: &Asked<'_>) -> Accessed {
    let needed = asked.spec.license_secret_ref.is_some();
    let accessed = match plan::plan(asked.spec) {
        Plan::Disabled => {
            let disabled = wish(WishState::NotAsked, "Disabled", "spec.operatorAccess.disabled is true");
            retired(asked, Accessed::without(disabled)).await
        }
        Plan::Given { secret, key } => match given::settle(asked, &secret, &key).await {
            (accessed, true) => retired(asked, accessed).await,
            // One of our own, if there is one, is the way back as long as this one is not known to work.
            (accessed, false) => Accessed { hold: asked.held, ..accessed },
        },
        Plan::NoUrl => without_url(asked, needed).await,
        Plan::Unresolvable(why) => generated::settle(asked, Err(refused_url(why))).await,
        Plan::Generated(places) => match generated::url(asked, &places).await {
            Some(url) => generated::settle(asked, url).await,
            None => without_url(asked, needed).await,
        },
    };
    Accessed { needed, ..accessed }
}

/// Whether a suspended control plane has a token to be kept: one that was given, or a record of our own.
pub async fn is_kept(asked: &Asked<'_>) -> Result<bool, CallError> {
    Ok(match plan::plan(asked.spec) {
        Plan::Given { .. } => true,
        Plan::Generated(_) | Plan::Unresolvable(_) => {
            asked.held && asked.kube.ours::<Secret>().get(&asked.owner.secret()).await?.is_some()
        }
        Plan::Disabled | Plan::NoUrl => false,
    })
}

/// Renews the token of a suspended control plane; no role is changed and nothing is taken back.
pub async fn renew(asked: &Asked<'_>) -> Accessed {
    match plan::plan(asked.spec) {
        Plan::Given { secret, key } => given::settle(asked, &secret, &key).await.0,
        Plan::Generated(places) => {
            let url = generated::url(asked, &places).await;
            generated::renew(asked, url.unwrap_or_else(|| Err(refused_url(NO_URL)))).await
        }
        Plan::Unresolvable(why) => generated::renew(asked, Err(refused_url(why))).await,
        Plan::Disabled | Plan::NoUrl => Accessed::without(wish(WishState::NotAsked, "NoDatabaseURL", NO_URL)),
    }
}

fn refused_url(why: &str) -> reasons::Trouble {
    reasons::Trouble::lasting("DatabaseUrlUnresolved", why)
}

async fn without_url(asked: &Asked<'_>, needed: bool) -> Accessed {
    let wish = if needed {
        refused("NoDatabaseURL", NO_URL_NEEDED)
    } else {
        wish(WishState::NotAsked, "NoDatabaseURL", NO_URL)
    };
    retired(asked, Accessed::without(wish)).await
}

/// Takes back a token of our own that is no longer asked for. An object we do not hold has none.
async fn retired(asked: &Asked<'_>, accessed: Accessed) -> Accessed {
    if !asked.held {
        return accessed;
    }
    let places = plan::places(asked.spec).unwrap_or_default();
    match retire::retire(asked.kube, asked.egress, asked.owner, asked.spec, Some(&places)).await {
        Ok(Retired { deeds, former_left: None }) => Accessed { deeds, ..accessed },
        Ok(Retired { deeds, .. }) => Accessed { deeds, hold: true, retry: Some(Retry::Backoff), ..accessed },
        Err(error) => {
            tracing::warn!(namespace = asked.owner.namespace, name = asked.owner.name, %error,
                "the operator's own token could not be taken back; it is tried again");
            Accessed { hold: true, retry: Some(Retry::Backoff), ..accessed }
        }
    }
}

/// Takes back what was made for a control plane that is going. A database that is gone delays it by seconds only; with
/// `release` it is not asked at all.
pub async fn end(
    kube: &Kube,
    egress: &Egress,
    owner: Owner<'_>,
    spec: &CoderControlPlaneSpec,
    release: bool,
) -> Result<Vec<Deed>, CallError> {
    let places: Vec<Place> = plan::places(spec).unwrap_or_default();
    let Retired { mut deeds, former_left } =
        retire::retire(kube, egress, owner, spec, (!release).then_some(&places[..])).await?;
    deeds.extend(former_left.map(Deed::FormerLeft));
    Ok(deeds)
}

/// Which Secret, and where, for the status.
fn reference(namespace: &str, name: &str, key: &str) -> NamespacedSecretKeySelector {
    NamespacedSecretKeySelector {
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        key: Some(key.to_owned()),
    }
}

/// What to say of a token that worked and that coderd would not judge now, and when to ask again: no answer takes
/// nothing away.
fn worked_before(error: &Error) -> (String, Option<Retry>) {
    (format!("the token worked before; now {error}"), Some(unproven(error).retry))
}

/// Access that cannot be had before coderd answers.
fn waiting_for_coderd() -> Wish {
    pending("WaitingForCoderd", "the token is there; coderd has to answer before it is used")
}
