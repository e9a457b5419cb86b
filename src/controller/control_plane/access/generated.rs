//! A token of our own, step by step: what `steps` decides is done here, each step recorded before the next.
//! A token that works stays in use whatever fails on the way to the next one.

use super::reasons::{Trouble, pending, state, unproven};
use super::record::{self, Found};
use super::source::{self, Source};
use super::steps::{self, LIFETIME, Record, Seen, Standing, Step, Which};
use super::{AccessContext, Accessed, TokenEvent, reference, retire, waiting_for_coderd, worked_before};
use crate::coderd::database::{self, AccessRequest, Database, DatabaseUrl, Role};
use crate::coderd::{Error, NewToken, Uuid};
use crate::control_plane_access::plan::Place;
use crate::controller::control_plane::observed::ExternalPhase;
use crate::controller::control_plane::reasons::Reason;
use crds::well_known::secret_key;
use k8s_openapi::api::core::v1::Secret;
use std::time::Instant;

/// More than any way from nothing to rest.
const STEPS: usize = 12;
/// Wanted name of the user; taken ones get a suffix.
const USERNAME: &str = "coder-k8s-operator";

const OUT_OF_TIME: &str = "the reconcile had no time for the next step towards a token of the operator's own; it goes on \
     in the next one";
const OTHER_DATABASE: &str = "coderd does not know the token that the operator wrote to the database; \
     CODER_PG_CONNECTION_URL may name another database than coderd uses";

/// The URL at these places, or what is wrong with it; nothing if none of them has one.
pub(super) async fn url(
    context: &AccessContext<'_>,
    places: &[Place],
) -> Option<Result<DatabaseUrl, Trouble>> {
    match source::find(context.kube, context.owner.namespace, places).await {
        Ok(Source::Url(url)) => Some(DatabaseUrl::parse(&url).map_err(Trouble::from)),
        Ok(Source::Missing(what)) => Some(Err(Trouble::passing(Reason::DatabaseUrlMissing, what))),
        Ok(Source::Nowhere) => None,
        Err(error) => Some(Err(Trouble::passing(Reason::ReferenceUnreadable, error.to_string()))),
    }
}

/// The access that a token of our own gives.
pub(super) async fn apply(context: &AccessContext<'_>, url: Result<DatabaseUrl, Trouble>) -> Accessed {
    let readable = url.is_ok();
    if !context.has_finalizer {
        // Nothing was made yet, and nothing is made before somebody is there to undo it.
        let state = url.map_or_else(
            |trouble| trouble.state,
            |_| pending(Reason::Preparing, "the operator's access is being made"),
        );
        return Accessed { needs_finalizer: readable, ..Accessed::without(state) };
    }
    work(context, url, Extent::Everything).await
}

/// The same, as far as it keeps a token that is there.
pub(super) async fn renew(context: &AccessContext<'_>, url: Result<DatabaseUrl, Trouble>) -> Accessed {
    work(context, url, Extent::Renewal).await
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All there is to do.
    Everything,
    /// A token is renewed; no role is changed, and nothing that others left is touched.
    Renewal,
}

async fn work(context: &AccessContext<'_>, url: Result<DatabaseUrl, Trouble>, extent: Extent) -> Accessed {
    let readable = url.is_ok();
    let mut work = match Work::start(context, url, extent).await {
        Ok(work) => work,
        Err(trouble) => {
            return Accessed {
                needs_finalizer: true,
                retry: Some(trouble.retry),
                ..Accessed::without(trouble.state)
            };
        }
    };
    let trouble = work.run().await;
    let needs_finalizer = readable || work.exists();
    Accessed {
        needs_finalizer,
        token_events: std::mem::take(&mut work.token_events),
        ..work.accessed(trouble)
    }
}

/// One pass over the steps.
struct Work<'a> {
    context: &'a AccessContext<'a>,
    extent: Extent,
    url: Result<DatabaseUrl, Trouble>,
    record: Option<Record>,
    /// Version of the Secret; none if there is no Secret.
    version: Option<String>,
    /// What the Secret holds of an earlier object of this name, by its uid.
    earlier: Option<(String, Option<Box<Record>>)>,
    standing: Standing,
    /// Why coderd did not say how the current token stands.
    unsure: Option<Error>,
    /// Opened when the first step needs it.
    database: Option<Database>,
    /// Whether another token or user was made because the one before was taken.
    made_another: bool,
    token_events: Vec<TokenEvent>,
}

impl<'a> Work<'a> {
    async fn start(
        context: &'a AccessContext<'a>,
        url: Result<DatabaseUrl, Trouble>,
        extent: Extent,
    ) -> Result<Self, Trouble> {
        let name = context.owner.secret();
        let secret = context.kube.ours::<Secret>().get(&name).await.map_err(unrecorded)?;
        let (record, version, earlier) = match record::read(secret.as_ref()) {
            Found::Nothing => (None, None, None),
            Found::Ours { record, version, owner, .. } if owner == context.owner.uid => {
                (record.map(|record| *record), Some(version), None)
            }
            // What an earlier object of this name left is not sent to the coderd of this one: a new token is made, after
            // the other is taken back.
            Found::Ours { record, version, owner, .. } => (None, Some(version), Some((owner, record))),
            Found::Foreign => {
                let place = context.kube.namespace();
                let message = format!(
                    "Secret {name} in namespace {place} was not created by the operator; it is left alone: find out whose it is and \
                     remove it from there"
                );
                return Err(Trouble::lasting(Reason::SecretConflict, message));
            }
        };
        let mut work = Self {
            context,
            extent,
            url,
            record,
            version,
            earlier,
            standing: Standing::Unknown,
            unsure: None,
            database: None,
            made_another: false,
            token_events: Vec::new(),
        };
        work.look().await;
        Ok(work)
    }

    /// Asks coderd how the current token stands.
    async fn look(&mut self) {
        let current = self.record.as_ref().and_then(|record| record.current.as_ref());
        let (Some(client), Some(current)) = (self.context.client, current) else { return };
        match client.with_token(current.token.plaintext()).me().await {
            Ok(_) => self.standing = Standing::Accepted,
            Err(Error::Unauthorized { .. }) => self.standing = Standing::Rejected,
            Err(error) => self.unsure = Some(error),
        }
    }

    fn role(&self) -> Role {
        let given = self.record.as_ref().and_then(|record| record.role);
        if let (Extent::Renewal, Some(given)) = (self.extent, given) {
            return given;
        }
        // One that is renewed has the role that it was given.
        self.context.needs.role(given).unwrap_or(Role::TemplateAdmin)
    }

    fn exists(&self) -> bool {
        self.version.is_some()
    }

    /// Step after step, until nothing is left to do or one fails.
    async fn run(&mut self) -> Option<Trouble> {
        for _ in 0..STEPS {
            let step = steps::next(&Seen {
                has_finalizer: self.context.has_finalizer,
                record: self.record.as_ref(),
                standing: self.standing,
                role: self.role(),
                now: self.context.now,
            });
            let left_alone = self.extent == Extent::Renewal && step == Step::ClearFormer;
            if step == Step::Rest || left_alone {
                return None;
            }
            if self.context.deadline.is_over(Instant::now()) {
                // What is recorded says where the next reconcile goes on.
                return Some(Trouble::passing(Reason::DeadlineExceeded, OUT_OF_TIME));
            }
            if let Err(trouble) = self.act(step).await {
                return Some(trouble);
            }
        }
        Some(Trouble::passing(
            Reason::DatabaseError,
            "the token was created repeatedly and never came into use",
        ))
    }

    async fn act(&mut self, step: Step) -> Result<(), Trouble> {
        let record = self.record.clone();
        match (step, record) {
            (Step::Prepare, record) => self.prepare(record.as_ref()).await,
            (Step::Ensure(which), Some(record)) => self.ensure(&record, which).await,
            (Step::Prove, Some(record)) => self.prove(&record).await,
            (Step::Revoke, Some(record)) => {
                if let Some(current) = &record.current {
                    self.database().await?.revoke_all_but(record.user_id, current.token.id()).await?;
                }
                self.write(record.revoked()).await
            }
            (Step::ClearFormer, Some(record)) => {
                self.clear_former().await?;
                self.write(record.cleared()).await
            }
            // An object without our finalizer is handled before, and without a record the step is to prepare one.
            (Step::AddFinalizer | Step::Rest, _) | (_, None) => Ok(()),
        }
    }

    async fn prepare(&mut self, record: Option<&Record>) -> Result<(), Trouble> {
        // Without a way to the database a new token is of no use.
        self.url.as_ref().map_err(Clone::clone)?;
        // Before the record is written over: afterwards nobody would know what there was to take back.
        let deed = self.disable_earlier().await?;
        let (user, token) = (Uuid::random().map_err(no_luck)?, NewToken::generate().map_err(no_luck)?);
        self.write(Record::prepared(record, user, token)).await?;
        self.earlier = None;
        self.token_events.extend(deed);
        Ok(())
    }

    /// Takes role and tokens of an earlier object's user, if its record is there; what there is to tell of it.
    async fn disable_earlier(&mut self) -> Result<Option<TokenEvent>, Trouble> {
        let Some((uid, record)) = self.earlier.clone() else { return Ok(None) };
        let owner = self.context.owner;
        let known = retire::disable(self.database().await?, owner.of_record(&uid), record.as_deref()).await?;
        Ok(retire::deed(record.as_deref(), &Ok(known)))
    }

    async fn ensure(&mut self, record: &Record, which: Which) -> Result<(), Trouble> {
        let Some(kept) = record.kept(which) else { return Ok(()) };
        let owner = self.context.owner;
        let role = self.role();
        let request = AccessRequest {
            user_id: record.user_id,
            email: owner.email(),
            former_email: Some(owner.former_email()),
            username: USERNAME.to_owned(),
            role,
            token: kept.token.clone(),
            token_name: owner.token_name(kept.generation),
            lifetime: LIFETIME,
            now: self.context.now,
        };
        match self.database().await?.ensure_access(&request).await {
            Ok(ensured) => self.write(record.ensured(which, ensured.user_id, role, ensured.expires_at)).await,
            // Its id is somebody else's by chance: another one is made. Twice is no chance: a database that says so each
            // time would have us write for as long as it likes.
            Err(database::Error::TokenTaken) if which == Which::Next && !self.made_another => {
                self.made_another = true;
                self.prepare(Some(record)).await
            }
            // An earlier release had one user for two clusters on one database, and the other was faster: another is made.
            Err(database::Error::UserElsewhere) if !self.made_another => {
                self.made_another = true;
                let user_id = Uuid::random().map_err(no_luck)?;
                self.prepare(Some(&Record { user_id, role: None, ..record.clone() })).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn prove(&mut self, record: &Record) -> Result<(), Trouble> {
        let Some(next) = &record.next else { return Ok(()) };
        let Some(client) = self.context.client else {
            return Err(Trouble { state: waiting_for_coderd(), retry: crate::coderd::Retry::WhenChanged });
        };
        match client.with_token(next.token.plaintext()).me().await {
            Ok(_) => {
                self.write(record.promoted()).await?;
                self.token_events.push(if record.current.is_some() {
                    TokenEvent::Renewed
                } else {
                    TokenEvent::Issued
                });
                self.standing = Standing::Accepted;
                Ok(())
            }
            Err(Error::Unauthorized { .. }) => {
                self.write(record.doubted()).await?;
                Err(Trouble::passing(Reason::TokenRejected, OTHER_DATABASE))
            }
            Err(error) => Err(unproven(&error)),
        }
    }

    async fn clear_former(&mut self) -> Result<(), Trouble> {
        let (kube, owner, spec) = (self.context.kube, self.context.owner, self.context.spec);
        let Some((name, uid)) = retire::former(kube, owner, spec).await.map_err(unrecorded)? else {
            return Ok(());
        };
        retire::revoke_former(self.database().await?, owner).await?;
        retire::remove_former(kube, owner, &name, &uid).await.map_err(unrecorded)
    }

    async fn database(&mut self) -> Result<&mut Database, Trouble> {
        let database = match self.database.take() {
            Some(database) => database,
            None => {
                let url = self.url.clone()?;
                let AccessContext { kube, owner, spec, egress, .. } = self.context;
                let url = source::trusting(kube, owner.namespace, spec, url).await;
                source::connect(egress, &url).await?
            }
        };
        Ok(self.database.insert(database))
    }

    /// Writes the record; somebody who was faster makes it fail.
    async fn write(&mut self, record: Record) -> Result<(), Trouble> {
        let (kube, secrets) = (self.context.kube, self.context.kube.ours::<Secret>());
        let secret = record::written(self.context.owner, kube.namespace(), &record, self.version.as_deref());
        let written = match self.version {
            Some(_) => secrets.replace(&secret).await,
            None => secrets.create(&secret).await,
        };
        self.version = written.map_err(unrecorded)?.metadata.resource_version;
        self.record = Some(record);
        Ok(())
    }

    /// What came of it.
    fn accessed(&self, trouble: Option<Trouble>) -> Accessed {
        let usable =
            self.record.as_ref().and_then(|record| steps::usable(record, self.standing, self.context.now));
        let Some(current) = usable else {
            let trouble = trouble.unwrap_or_else(|| Trouble {
                state: waiting_for_coderd(),
                retry: crate::coderd::Retry::WhenChanged,
            });
            // Without coderd nothing is to be gained by hurry: it is asked again when it is there.
            let retry = self.context.client.map(|_| trouble.retry);
            return Accessed { retry, ..Accessed::without(trouble.state) };
        };
        let unsure = self.unsure.as_ref().filter(|_| self.standing == Standing::Unknown);
        let (message, retry) = match (trouble, unsure) {
            (None, None) => ("the operator's own token works and renews itself".to_owned(), None),
            (None, Some(error)) => worked_before(error),
            (Some(trouble), _) => (
                format!(
                    "the operator's own token works; what is left is tried again: {}",
                    trouble.state.message
                ),
                Some(trouble.retry),
            ),
        };
        let context = self.context;
        Accessed {
            client: context.client.map(|client| client.with_token(current.token.plaintext())),
            token: Some(reference(context.kube.namespace(), &context.owner.secret(), secret_key::TOKEN)),
            retry,
            ..Accessed::without(state(ExternalPhase::Granted, Reason::TokenProven, message))
        }
    }
}

fn no_luck(error: crate::coderd::uuid::NoRandomness) -> Trouble {
    Trouble::passing(Reason::RecordFailed, error.to_string())
}

fn unrecorded(error: crate::kubernetes::CallError) -> Trouble {
    Trouble::passing(Reason::RecordFailed, error.to_string())
}
