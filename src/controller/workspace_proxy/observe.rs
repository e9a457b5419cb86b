//! What a workspace proxy has outside of Kubernetes: the control plane's answer, the license, its registration. It brings the
//! registration to what it should be and returns what was seen; what that means is decided in `outside` and `status`.

use super::dereference::Dereferenced;
use super::observed::Outside;
use super::reconciler::Reconciler;
use super::registration::record::Home;
use super::registration::seen::Desired;
use super::registration::steps::Wait;
use super::registration::store::RecordStore;
use super::registration::work::{Registered, RegistrationError, RegistrationWork};
use super::resolve::owner;
use super::running_values;
use super::way::{Way, place, registrar, service, url};
use crate::coderd::Retry;
use crate::control_plane_access::control_planes::Found;
use crate::control_plane_access::credentials::Credentials;
use crate::control_plane_access::entitlement::{FeatureEntitlement, LicensedFeature};
use crate::control_plane_access::reach::Reached;
use crate::control_plane_access::unreached::Unreached;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::coderds::{Coderds, TimeLimit};
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::reconciler::{ProvenSecret, is_ready};
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::secret::{Proven, SecretPlace, Secrets};
use crate::controller::attached::status_record::StatusRecord;
use crate::controller::object::{Object, ReconciledKind, Subject};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::workload::rollout;
use crate::kubernetes::CallError;
use crds::CoderWorkspaceProxy;
use crds::names::hash::hex32;
use crds::names::workspace_proxy::registration;
use crds::well_known::{annotation, default, secret_key};
use crds::workspace_proxy::ProxyBootstrapSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How much of a reconcile's time is kept from the coderds of former control planes.
const RESERVED: Duration = Duration::from_secs(15);

/// Everything outside.
pub(super) struct External {
    pub(super) outside: Outside,
    /// The object as it is now: registrations are recorded in its status.
    pub(super) object: Value,
    /// What became of the registration, if it was worked on.
    pub(super) registered: Option<Registered>,
    /// The token that pods may be started with.
    pub(super) proven: Option<Proven>,
    /// When to try again, if something failed.
    pub(super) retry: Option<Retry>,
    /// Whether pods can be started with another token than before.
    pub(super) is_news: bool,
    /// Whether there was no time for all of it.
    pub(super) is_cut: bool,
}

impl External {
    pub(super) fn without(outside: Outside, object: &Value, retry: Option<Retry>) -> Self {
        Self {
            outside,
            object: object.clone(),
            registered: None,
            proven: None,
            retry,
            is_news: false,
            is_cut: false,
        }
    }
}

impl External {
    /// The same with what the status told before where coderd asked to be left alone: what worked a moment ago is not unready
    /// because it is not to be asked now.
    pub(super) fn unless_left_alone(self, object: &Object<CoderWorkspaceProxy>) -> Self {
        let is_left_alone = self.outside.reach.rate_limited.is_some() && is_ready(&object.value);
        if is_left_alone { Self { outside: Outside::as_told(&object.status), ..self } } else { self }
    }
}

impl Reconciler {
    /// The control plane, the license and the registration.
    pub(super) async fn observe(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        applied: &Applied,
        deadline: &mut Deadline,
    ) -> Result<External, CallError> {
        let object = &subject.object.value;
        let way = Way::of(&read.complete.spec);
        match way {
            Way::Given(_) => return self.given(subject, read, applied, deadline).await,
            Way::Nowhere => return Ok(External::without(Outside::nowhere(), object, None)),
            Way::ControlPlane(_) | Way::Bootstrap(_) => {}
        }
        // Whoever is slow to say who it is has no time left to be asked for more.
        let limit = deadline.left(Instant::now()) * 2 / 3;
        let reached = match self.reach(subject, read, limit).await {
            Ok(reached) => reached,
            Err((outside, retry)) => return Ok(External::without(*outside, object, retry)),
        };
        deadline.ended("reaching the control plane", Instant::now());
        let external = self.register(subject, read, applied, &reached, deadline).await;
        deadline.ended("the proxy's registration", Instant::now());
        external
    }

    /// The coderd that the proxy is registered in, or what is said where it is not reached.
    async fn reach(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        limit: Duration,
    ) -> Result<Reached, (Box<Outside>, Option<Retry>)> {
        let (namespace, way) = (&subject.object.key.namespace, Way::of(&read.complete.spec));
        let brought = way.brings_credentials();
        let unreached = |unreached: Unreached| {
            let outside = Outside::of(AccessStates::unreached(brought, &unreached));
            (Box::new(outside), Some(unreached.retry()))
        };
        let found = match (&read.control_plane, way) {
            (None, Way::Bootstrap(bootstrap)) => {
                let url = url(bootstrap);
                if !self.access.egress.allowed_urls.allow(url) {
                    return Err((Box::new(Outside::not_allowed(url)), None));
                }
                let (secret, key) = credentials(bootstrap);
                let reached = self.access.reach_url_within(limit, url, namespace, secret, key).await;
                return reached.and_then(Reached::identified).map_err(unreached);
            }
            (found, _) => found.as_ref().unwrap_or(&Found::Gone),
        };
        let named;
        let (name, credentials) = match way {
            Way::ControlPlane(name) => (name, Credentials::Operator),
            Way::Bootstrap(bootstrap) => {
                let reference = Some(&bootstrap.credentials_secret_ref);
                let at = service(url(bootstrap), namespace, &self.config.cluster_domain);
                named = at.map(|at| at.name).unwrap_or_default();
                (named.as_str(), Credentials::of_bootstrap(namespace, reference))
            }
            Way::Given(_) | Way::Nowhere => ("", Credentials::Operator),
        };
        let plane = AccessStates::of_found(found, name, brought)
            .map_err(|(states, retry)| (Box::new(Outside::of(*states)), retry))?;
        let reached = self.access.reach_within(limit, plane, credentials).await;
        reached.and_then(Reached::of_owner).and_then(Reached::identified).map_err(unreached)
    }

    async fn register(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
        applied: &Applied,
        reached: &Reached,
        deadline: &Deadline,
    ) -> Result<External, CallError> {
        let (object, complete) = (&subject.object, &read.complete);
        let brought = Way::of(&complete.spec).brings_credentials();
        let feature = LicensedFeature::WorkspaceProxies;
        let answer = reached.licensed(feature, deadline.left(Instant::now())).await;
        let outside = Outside::of(AccessStates::reached(brought).licensed(feature, &answer));
        let checksum_key = self.checksum_key();
        let sealing = match checksum_key.get(&self.kube).await {
            Ok(sealing) => sealing,
            Err(error) => {
                let outside = outside.failed(error.to_string());
                return Ok(External::without(outside, &object.value, Some(Retry::Backoff)));
            }
        };
        let desired = desired(object, complete, home(read, reached));
        let rival = self.rival(object, complete);
        let (owner, time) = (owner(complete), TimeLimit { until: deadline.until(), reserved: RESERVED });
        let coderds = Coderds::new(&self.access, &self.control_planes, &object.key.namespace, time);
        let mut store = self.store(object, sealing);
        store.locate(&desired.home).await?;
        let work = RegistrationWork {
            secrets: Secrets { kube: &self.kube, owner: &owner, mark: annotation::TOKEN_OF },
            coderds,
            client: Some(&reached.client),
            desired: &desired,
            has_finalizer: object.has_finalizer(),
            rolled: rolled(applied),
            may_roll: applied.may_roll(read.can_follow())
                && (!read.is_moving() || self.may_move(&object.key.namespace).await),
            admission_disabled: reached.admission_disabled,
            entitled: answer.is_entitled(),
            claimed: rival.is_some(),
            of_others: self.of_others(object, sealing),
            former: former(object),
            paused: !self.pause_left(object).is_zero(),
            tried: BTreeSet::new(),
            checked: BTreeMap::new(),
            failed: BTreeMap::new(),
        };
        let registered = work.run(&mut store).await;
        let pause = self.note_given_up(object, registered.gave_up, registered.proven.is_some());
        self.objects.written(&object.key, store.object()["metadata"]["resourceVersion"].as_str());
        let is_news = registered.proven.as_ref().is_some_and(|proven| self.is_news(object, read, proven));
        let outside = match lost(reached, &registered) {
            Some(unreached) => Outside::of(AccessStates::unreached(brought, &unreached)),
            None => outside.registered(&registered, &desired.name, &desired.place, rival.as_deref()),
        };
        Ok(External {
            outside,
            object: store.object().clone(),
            proven: registered.proven.clone(),
            retry: retry(&registered, &answer, pause),
            is_news,
            is_cut: registered.is_cut,
            registered: Some(registered),
        })
    }

    /// The record of an object.
    pub(super) fn store<'a>(
        &'a self,
        object: &'a Object<CoderWorkspaceProxy>,
        sealing: &'a ring::hmac::Key,
    ) -> RecordStore<'a> {
        let field = StatusRecord::new(
            &self.kube,
            CoderWorkspaceProxy::NAME,
            &object.key,
            "registration",
            object.value.clone(),
        );
        RecordStore::new(field, Sealer { key: sealing, uid: &object.uid })
    }

    pub(super) fn is_news(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        read: &Dereferenced,
        proven: &Proven,
    ) -> bool {
        let (uid, control_plane) = (object.uid.clone(), read.coderd.clone());
        self.note_proven(&object.key, ProvenSecret { uid, control_plane, proven: proven.clone() })
    }
}

/// The Secret with the credentials of `bootstrap`, and the key in it.
pub(super) fn credentials(bootstrap: &ProxyBootstrapSpec) -> (&str, &str) {
    let reference = &bootstrap.credentials_secret_ref;
    let key = reference.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
    (reference.name.trim(), key.unwrap_or(secret_key::TOKEN))
}

/// Which coderd was reached.
fn home(read: &Dereferenced, reached: &Reached) -> Home {
    let uid = match &read.control_plane {
        Some(Found::There(plane)) => plane.metadata.uid.clone(),
        _ => None,
    };
    home_of(uid, &read.complete, reached)
}

/// The coderd that was reached behind the control plane of this uid, else at the address of the spec.
pub(super) fn home_of(uid: Option<String>, complete: &CoderWorkspaceProxy, reached: &Reached) -> Home {
    let deployment = reached.deployment_id.clone().unwrap_or_default();
    match (uid, Way::of(&complete.spec)) {
        (Some(uid), _) => Home::behind(uid, deployment),
        (None, Way::Bootstrap(bootstrap)) => Home::at(registrar(bootstrap), deployment),
        (None, _) => Home { deployment, ..super::deletion::nowhere() },
    }
}

/// What the spec asks for, in this coderd. coderd takes no empty display name or icon.
pub(super) fn desired(
    object: &Object<CoderWorkspaceProxy>,
    complete: &CoderWorkspaceProxy,
    home: Home,
) -> Desired {
    let spec = &complete.spec;
    let (display_name, icon) = match (&spec.registration, &spec.bootstrap) {
        (Some(given), _) if spec.control_plane_ref.is_some() => (&given.display_name, &given.icon),
        (_, Some(given)) if spec.control_plane_ref.is_none() => (&given.display_name, &given.icon),
        _ => (&None, &None),
    };
    let name = registration(&object.key.name, spec);
    let text = |given: &Option<String>, default: &str| {
        let given = given.as_deref().filter(|text| !text.trim().is_empty());
        given.unwrap_or(default).to_owned()
    };
    Desired {
        home,
        brought: Way::of(spec).brings_credentials(),
        name: name.to_owned(),
        display_name: text(display_name, name),
        icon: text(icon, default::PROXY_ICON),
        origin: object.uid.clone(),
        place: place(complete),
        adopt: object.annotation(annotation::ADOPT_PROXY).map(str::to_owned),
        rotate: object.annotation(annotation::ROTATE_TOKEN).map(short),
    }
}

/// Characters of a value that are kept, as the schema says.
const LONGEST_ROTATION: usize = 256;

/// A value of an annotation that fits into a status: a longer one is known by its hash.
fn short(value: &str) -> String {
    if value.chars().count() <= LONGEST_ROTATION { value.to_owned() } else { hex32(value.as_bytes()) }
}

/// The Secret that pods read so far, as the status told it.
pub(super) fn former(object: &Object<CoderWorkspaceProxy>) -> Option<SecretPlace> {
    let told = object.status.proxy_token_secret_ref.as_ref()?;
    Some(SecretPlace { secret: told.name.clone(), data_key: told.key.clone()? })
}

/// What every pod runs with, if a rollout to it is complete and no other pod is left.
pub(super) fn rolled(applied: &Applied) -> Option<Proven> {
    let live = applied.deployment.as_ref()?;
    let is_over = applied.is_asked_for && rollout::is_over(Some(live), &applied.rollout);
    let token = running_values::token(live).filter(|_| is_over)?;
    let place = SecretPlace { secret: token.secret, data_key: token.key };
    Some(Proven { checksum: token.checksum, place })
}

/// What an error of a call means for the access itself.
fn lost(reached: &Reached, registered: &Registered) -> Option<Unreached> {
    match registered.error.as_ref()? {
        RegistrationError::Coderd(error) => reached.lost(error),
        RegistrationError::Kubernetes(_) | RegistrationError::Unwritable { .. } | RegistrationError::Late => {
            None
        }
    }
}

fn retry(registered: &Registered, answer: &FeatureEntitlement, pause: Duration) -> Option<Retry> {
    let failed = registered.error.as_ref().map(|error| match error {
        RegistrationError::Coderd(error) => error.retry(),
        RegistrationError::Kubernetes(_) | RegistrationError::Unwritable { .. } | RegistrationError::Late => {
            Retry::Backoff
        }
    });
    failed.or(match answer {
        FeatureEntitlement::Failed(error) => Some(error.retry()),
        _ if registered.wait == Some(Wait::Pause) => Some(Retry::After(pause.max(Duration::from_secs(1)))),
        _ => registered.is_cut.then_some(Retry::Backoff),
    })
}
