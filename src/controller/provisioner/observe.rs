//! What a provisioner has outside of Kubernetes: the control plane's answer, the license, its keys. It brings the keys to what
//! they should be and returns what was seen; what that means is decided in `outside` and `status`.

use super::dereference::Dereferenced;
use super::key::homes::Homes;
use super::key::record::{Home, SecretPlace};
use super::key::seen::Desired;
use super::key::steps::{Wait, patience};
use super::key::store::RecordStore;
use super::key::work::{KeyWork, Keyed, Rolled};
use super::observed::Outside;
use super::pending_jobs::Jobs;
use super::reconciler::Reconciler;
use super::resolve::owner;
use super::running_values;
use super::unanswered::{is_unanswered, lost, retry};
use crate::coderd::client::Organization;
use crate::coderd::{Error, Operation, Retry, Uuid};
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::entitlement::{FeatureEntitlement, LicensedFeature};
use crate::control_plane_access::reach::{Reached, within};
use crate::control_plane_access::unreached::{About, Unreached};
use crate::controller::attached::apply::Applied;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::reconciler::ProvenSecret;
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::secret::{Proven, Secrets};
use crate::controller::children::ChildOwner;
use crate::controller::object::{Object, ReconciledKind, Subject};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::CallError;
use crds::names::provisioner::{key_base, key_secret, key_secret_key, tags_hash};
use crds::well_known::{annotation, default};
use crds::{CoderControlPlane, CoderProvisioner};
use ring::hmac;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What its license must cover.
const FEATURE: LicensedFeature = LicensedFeature::ExternalProvisioners;
/// How much of a reconcile's time is kept from the coderds of former control planes.
const RESERVED: Duration = Duration::from_secs(15);

/// Everything outside.
pub(super) struct External {
    pub(super) outside: Outside,
    /// The object as it is now: keys are recorded in its status.
    pub(super) object: Value,
    /// What became of the keys, if they were worked on.
    pub(super) keyed: Option<Keyed>,
    /// The organization of the key, if coderd told.
    pub(super) organization: Option<Organization>,
    /// The address of coderd, if it answered.
    pub(super) url: Option<String>,
    /// Version of coderd, if it answered.
    pub(super) version: Option<String>,
    /// By which host alone it lets anybody in, if it redirected us there.
    pub(super) access_host: Option<String>,
    /// Builds that wait for these daemons, if coderd was asked.
    pub(super) pending_jobs: Option<Jobs>,
    /// When to try again, if something failed.
    pub(super) retry: Option<Retry>,
    /// Whether the license covers external provisioners now.
    pub(super) is_entitled: bool,
    /// Whether pods can be started with another key than before.
    pub(super) is_news: bool,
    /// Whether coderd asked to be left alone.
    pub(super) is_left_alone: bool,
    /// Whether a question had no answer, which may come the next time.
    pub(super) is_unanswered: bool,
}

impl External {
    /// coderd could not be asked, or is not to be asked now.
    fn unreached(unreached: &Unreached, bootstrapped: bool, object: &Value) -> Self {
        let outside = Outside::of(AccessStates::unreached(bootstrapped, unreached));
        let is_left_alone = unreached.about() == About::RateLimit;
        Self { is_left_alone, ..Self::without(outside, object, Some(unreached.retry())) }
    }

    /// What coderd says of itself, and nothing of keys.
    fn found(reached: &Reached, outside: Outside, object: &Value, retry: Option<Retry>) -> Self {
        Self {
            url: Some(reached.url.clone()),
            version: Some(reached.version.clone()),
            access_host: reached.client.access_host().map(str::to_owned),
            ..Self::without(outside, object, retry)
        }
    }

    fn without(outside: Outside, object: &Value, retry: Option<Retry>) -> Self {
        Self {
            outside,
            object: object.clone(),
            keyed: None,
            organization: None,
            url: None,
            version: None,
            access_host: None,
            pending_jobs: None,
            retry,
            is_entitled: false,
            is_news: false,
            is_left_alone: false,
            is_unanswered: retry == Some(Retry::Backoff),
        }
    }

    /// The key that pods may be started with.
    pub(super) fn proven(&self) -> Option<Proven> {
        self.keyed.as_ref()?.proven.clone()
    }

    /// The same with what the status told before, for a coderd that asked to be left alone.
    pub(super) fn with_told(self, object: &Object<CoderProvisioner>) -> Self {
        Self { outside: Outside::as_told(&object.status), pending_jobs: Some(Jobs::AsBefore), ..self }
    }

    /// How long coderd is to be left alone.
    pub(super) fn pause(&self) -> Duration {
        match self.retry {
            Some(Retry::After(pause)) => pause,
            Some(Retry::Backoff | Retry::WhenChanged) | None => Duration::ZERO,
        }
    }
}

/// What is asked of coderd, and where the answer is kept.
struct Wanted<'a> {
    subject: &'a Subject<CoderProvisioner>,
    complete: &'a CoderProvisioner,
    control_plane: &'a CoderControlPlane,
    owner: ChildOwner,
    place: SecretPlace,
    /// Whether pods can be started with something else.
    may_roll: bool,
    /// Whether they stay where they are because admission is disabled in their namespace.
    is_held: bool,
}

impl Wanted<'_> {
    /// The Secret whose token is used instead of the operator's, if the spec names one.
    fn credentials(&self) -> Option<&str> {
        let bootstrap = self.complete.spec.bootstrap.as_ref()?;
        bootstrap.credentials_secret_ref.as_ref().map(|reference| reference.name.as_str())
    }

    /// The coderd that was reached, and an organization of it.
    fn home(&self, reached: &Reached, organization: Uuid) -> Home {
        Home {
            control_plane: self.control_plane.metadata.uid.clone().unwrap_or_default(),
            deployment: reached.deployment_id.clone().unwrap_or_default(),
            organization,
        }
    }
}

impl Reconciler {
    /// The control plane, the license and the keys.
    pub(super) async fn observe(
        &self,
        subject: &Subject<CoderProvisioner>,
        read: &Dereferenced,
        applied: &Applied,
        deadline: &mut Deadline,
    ) -> Result<External, CallError> {
        let (object, spec) = (&subject.object.value, &read.complete.spec);
        let reference =
            spec.bootstrap.as_ref().and_then(|bootstrap| bootstrap.credentials_secret_ref.as_ref());
        let bootstrapped = reference.is_some();
        let name = spec.control_plane_ref.name.trim();
        let control_plane = match AccessStates::of_found(&read.control_plane, name, bootstrapped) {
            Ok(control_plane) => control_plane,
            Err((states, retry)) => return Ok(External::without(Outside::of(*states), object, retry)),
        };
        let credentials = Credentials::of_bootstrap(&subject.object.key.namespace, reference);
        // Whoever is slow to say who it is has no time left to be asked for keys.
        let limit = deadline.left(Instant::now()) * 2 / 3;
        let reached = self.access.reach_within(limit, control_plane, credentials).await;
        let reached = match reached.and_then(Reached::identified) {
            Ok(reached) => reached,
            Err(unreached) => return Ok(External::unreached(&unreached, bootstrapped, object)),
        };
        // A coderd that is slow to say who it is is as slow the next time: its keys have a time of their own.
        deadline.begin_next(Instant::now());
        let namespace = &subject.object.key.namespace;
        let may_move = !read.is_moving() || self.may_move(namespace).await;
        let wanted = Wanted {
            subject,
            complete: &read.complete,
            control_plane,
            owner: owner(&read.complete),
            place: place(&read.complete),
            may_roll: applied.may_roll(read.can_follow()) && may_move,
            is_held: !may_move && reached.admission_disabled,
        };
        let external = self.work_on_keys(&wanted, &reached, applied, bootstrapped, deadline).await;
        deadline.ended("the provisioner's keys", Instant::now());
        external
    }

    async fn work_on_keys(
        &self,
        wanted: &Wanted<'_>,
        reached: &Reached,
        applied: &Applied,
        bootstrapped: bool,
        deadline: &Deadline,
    ) -> Result<External, CallError> {
        let object = &wanted.subject.object;
        let left = || deadline.left(Instant::now());
        let name = organization_name(wanted.complete);
        let (answer, asked) = match questions(reached, name, deadline).await {
            Ok(answers) => answers,
            Err(unreached) => return Ok(External::unreached(&unreached, bootstrapped, &object.value)),
        };
        let outside = Outside::of(AccessStates::reached(bootstrapped).licensed(FEATURE, &answer));
        let found = |outside: Outside, retry| External::found(reached, outside, &object.value, retry);
        let organization = match asked {
            Ok(organization) => organization,
            Err(error) => {
                let retry = Some(error.retry());
                return Ok(found(outside.unorganized(name, &error), retry));
            }
        };
        let home = wanted.home(reached, organization.id);
        let mut desired = desired(object, wanted.complete, home, wanted.place.clone());
        let created = wanted.complete.metadata.creation_timestamp.as_ref();
        let rival = self.rival(object, created, &desired, &organization);
        let checksum_key = self.checksum_key();
        let sealing = match checksum_key.get(&self.kube).await {
            Ok(sealing) => sealing,
            Err(error) => return Ok(found(outside.unsealed(&error), Some(Retry::Backoff))),
        };
        let mut store = self.store(wanted, sealing);
        let of_others = self.left_to_others(object, &mut desired, &store, sealing);
        let mut work = self.key_work(wanted, reached, &desired, applied, deadline);
        (work.entitled, work.claimed) = (answer.is_entitled(), rival.is_some());
        work.of_others = of_others;
        let keyed = work.run(&mut store).await;
        let pause = self.note_given_up(object, keyed.gave_up, keyed.is_asked_for);
        self.objects.written(&object.key, store.object()["metadata"]["resourceVersion"].as_str());
        let is_news = keyed.proven.as_ref().is_some_and(|proven| self.is_news(wanted, proven));
        let lost = lost(reached, &keyed);
        let is_left_alone = lost.as_ref().is_some_and(|unreached| unreached.about() == About::RateLimit);
        let outside = match lost {
            Some(unreached) => Outside::of(AccessStates::unreached(bootstrapped, &unreached)),
            None => {
                let is_held = wanted.is_held && keyed.wait == Some(Wait::Rollout) && !keyed.is_asked_for;
                outside.keyed(&keyed, &wanted.place, rival.as_deref(), &object.status).held_if(is_held)
            }
        };
        let (retry, is_unanswered) = (retry(&keyed, &answer, pause), is_unanswered(&keyed, &answer));
        let (home, tags) = (&desired.home, &wanted.complete.spec.tags);
        let asked = (&reached.client, home, wanted.credentials());
        let pending_jobs = self.pending_jobs(&object.key, asked, tags, left()).await;
        Ok(External {
            object: store.object().clone(),
            keyed: Some(keyed),
            organization: Some(organization),
            pending_jobs: Some(pending_jobs),
            is_entitled: answer.is_entitled(),
            is_news,
            is_left_alone,
            is_unanswered,
            ..found(outside, retry)
        })
    }

    fn key_work<'a>(
        &'a self,
        wanted: &'a Wanted<'_>,
        reached: &'a Reached,
        desired: &'a Desired,
        applied: &Applied,
        deadline: &Deadline,
    ) -> KeyWork<'a> {
        let time = TimeLimit { until: deadline.until(), reserved: RESERVED };
        let namespace = &wanted.owner.namespace;
        let mut homes = Homes::new(Coderds::new(&self.access, &self.control_planes, namespace, time));
        homes.know(&desired.home.control_plane, &desired.home.deployment, &reached.client);
        let object = &wanted.subject.object;
        KeyWork {
            secrets: Secrets { kube: &self.kube, owner: &wanted.owner, mark: annotation::KEY_OF },
            homes,
            client: &reached.client,
            desired,
            has_finalizer: object.has_finalizer(),
            rolled: rolled(applied),
            patience: patience(wanted.complete.spec.termination_grace_period_seconds),
            entitled: false,
            claimed: false,
            of_others: BTreeSet::new(),
            read_place: read_place(applied.deployment.as_ref()),
            told_place: told_place(object),
            left_elsewhere: left_elsewhere(object, wanted.complete),
            paused: !self.pause_left(object).is_zero(),
            may_roll: wanted.may_roll,
            tried: BTreeSet::new(),
            identified: BTreeMap::new(),
        }
    }

    fn store<'a>(&'a self, wanted: &'a Wanted<'_>, sealing: &'a hmac::Key) -> RecordStore<'a> {
        let object = &wanted.subject.object;
        let sealer = Sealer { key: sealing, uid: &object.uid };
        RecordStore::new(&self.kube, CoderProvisioner::NAME, &object.key, object.value.clone(), sealer)
    }

    fn is_news(&self, wanted: &Wanted<'_>, proven: &Proven) -> bool {
        let object = &wanted.subject.object;
        let control_plane = wanted.control_plane.metadata.uid.clone().unwrap_or_default();
        let known = ProvenSecret { uid: object.uid.clone(), control_plane, proven: proven.clone() };
        self.note_proven(&object.key, known)
    }
}

/// Whether provisioners are licensed, and the organization. One after the other: whoever is told to slow down has nothing else
/// under way.
async fn questions(
    reached: &Reached,
    name: &str,
    deadline: &Deadline,
) -> Result<(FeatureEntitlement, Result<Organization, Error>), Unreached> {
    let left = || deadline.left(Instant::now());
    let answer = reached.licensed(FEATURE, left()).await;
    if let Some(left) = answer.rate_limited_for() {
        return Err(Unreached::RateLimited { left });
    }
    let asked = within(left(), Operation::Organization, reached.client.organization(name)).await;
    Ok((answer, asked))
}

/// The organization that a spec asks for.
pub(super) fn organization_name(complete: &CoderProvisioner) -> &str {
    let name = complete.spec.organization_name.as_deref().map(str::trim);
    name.filter(|name| !name.is_empty()).unwrap_or(default::ORGANIZATION)
}

/// Where the spec wants the plaintext.
pub(super) fn place(complete: &CoderProvisioner) -> SecretPlace {
    let name = complete.metadata.name.as_deref().unwrap_or_default();
    SecretPlace {
        secret: key_secret(name, &complete.spec),
        data_key: key_secret_key(&complete.spec).to_owned(),
    }
}

/// What the spec asks for, in this coderd.
pub(super) fn desired(
    object: &Object<CoderProvisioner>,
    complete: &CoderProvisioner,
    home: Home,
    place: SecretPlace,
) -> Desired {
    let spec = &complete.spec;
    Desired {
        home,
        base: key_base(&object.key.name, spec).to_owned(),
        tags: spec.tags.clone(),
        tags_hash: tags_hash(&spec.tags),
        place,
        adopt: object.annotation(annotation::ADOPT_KEY).map(str::to_owned),
        // A status that has a record was not written by the older operator.
        former_name: object
            .status
            .provisioner_key_name
            .clone()
            .filter(|_| object.value["status"]["key"].is_null()),
    }
}

/// The name of the key that the older operator left in the coderd of another control plane than the spec names now, by its
/// status. That is no authority: it only keeps a plaintext without a mark from being shown.
pub(super) fn left_elsewhere(
    object: &Object<CoderProvisioner>,
    complete: &CoderProvisioner,
) -> Option<String> {
    let status = &object.status;
    let told = status.control_plane_ref_name.as_deref().map(str::trim).filter(|name| !name.is_empty())?;
    let is_elsewhere = told != complete.spec.control_plane_ref.name.trim();
    is_elsewhere.then(|| status.provisioner_key_name.clone().unwrap_or_else(|| object.key.name.clone()))
}

/// The place of a key that a status tells. Only what is this object's own there counts.
pub(super) fn told_place(object: &Object<CoderProvisioner>) -> Option<SecretPlace> {
    let told = object.status.secret_ref.as_ref()?;
    Some(SecretPlace { secret: told.name.clone(), data_key: told.key.clone()? })
}

/// The place of a key that pods read.
fn read_place(deployment: Option<&Value>) -> Option<SecretPlace> {
    let runs = deployment.and_then(running_values::daemons)?;
    Some(SecretPlace { secret: runs.key.secret, data_key: runs.key.key })
}

/// What every pod runs with, if a rollout to it is complete and no other pod is left.
pub(super) fn rolled(applied: &Applied) -> Option<Rolled> {
    let live = applied.deployment.as_ref()?;
    let is_over = applied.is_asked_for && rollout::is_over(Some(live), &applied.rollout);
    let key = running_values::key(live).filter(|_| is_over)?;
    let place = SecretPlace { secret: key.secret, data_key: key.key };
    let is_idle = applied.rollout == Rollout::ScaledToZero;
    let with = Proven { checksum: key.checksum, place };
    Some(Rolled { with, at: running_values::complete_since(live), is_idle })
}
