//! Reads what a reconcile of a workspace proxy works with, before it changes anything: the control plane it refers to, the
//! Deployment that runs. What comes of it is decided by pure functions elsewhere.

use super::build;
use super::reconciler::Reconciler;
use super::registration::stored::is_registered_at;
use super::resolve::{Facts, gives_address, owner};
use super::running_values;
use super::way::{Way, given_url, is_of, names_service_of, place, place_of_coderd, registrar, service, url};
use crate::control_plane_access::control_planes::{self, Found};
use crate::controller::attached::address::{Address, Words};
use crate::controller::attached::attachment::ControlPlaneFacts;
use crate::controller::attached::dereference::running;
use crate::controller::attached::facts::FactsReader;
use crate::controller::attached::reconciler::Unread;
use crate::controller::attached::secret::Proven;
use crate::controller::children::deployment::FoundDeployment;
use crate::controller::children::drift;
use crate::controller::object::{Object, Subject};
use crate::controller::references::Contents;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::{CallError, Kept};
use crds::{CoderControlPlane, CoderWorkspaceProxy};
use kube::Resource;
use serde_json::{Value, json};

/// How proxies are spoken of.
const WORDS: Words = Words { pods: "proxies", give: "set spec.primaryAccessURL" };

/// What was read.
pub(super) struct Dereferenced {
    /// The Deployment as it is, whoever it belongs to.
    pub(super) deployment: FoundDeployment,
    /// The object with every default in it, and with what runs where it is silent.
    pub(super) complete: CoderWorkspaceProxy,
    /// The control plane that it refers to, or whose Service `bootstrap` names.
    pub(super) control_plane: Option<Found>,
    /// What tells this coderd from others in our memory: the uid of the control plane, else the address.
    pub(super) coderd: String,
    /// What pods have from it.
    from_control_plane: Option<ControlPlaneFacts>,
    /// What pods have from it once a token is proven for it.
    facts_of_control_plane: Option<ControlPlaneFacts>,
    /// The token that was proven for it, if one was.
    proven: Option<Proven>,
    /// What the spec lets pods read.
    pub(super) contents: Contents,
    /// Whether nobody was asked about the token yet since this replica leads.
    is_first_look: bool,
    uid: String,
    cluster_domain: String,
}

impl Dereferenced {
    /// The Deployment, if it is this object's.
    pub(super) fn running(&self) -> Option<&Value> {
        let labels = json!(owner(&self.complete).labels());
        self.deployment.live.as_ref().filter(|live| drift::is_child_of(live, &self.uid, &labels))
    }

    /// What pods are built from. A token counts only where the spec wants it and where it was proven. As long as it is not known
    /// whether one works, what runs is left as it is, so that it is rolled once.
    pub(super) fn facts(&self) -> Facts<'_> {
        let cluster_domain = self.cluster_domain.as_str();
        if self.is_left_at_first() {
            return Facts { cluster_domain, ..Facts::NONE };
        }
        let proven = self.proven.as_ref().filter(|proven| proven.place == place(&self.complete));
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            token_checksum: proven.map(|proven| proven.checksum.as_str()),
            running: self.running(),
            consumed_checksum: self.contents.checksum.as_deref(),
            cluster_domain,
        }
    }

    /// Whether pods that run can follow the spec to its control plane: it has an address for them, and they are not left as they
    /// are because nobody was asked yet.
    pub(super) fn can_follow(&self) -> bool {
        let facts = self.facts_of_control_plane.as_ref();
        let is_addressed =
            facts.is_some_and(|facts| facts.address.is_ok()) || gives_address(&self.complete.spec);
        is_addressed && !self.is_left_at_first()
    }

    /// Whether pods that run keep what they have from another control plane until a token is proven for the one that is asked for.
    pub(super) fn is_moving(&self) -> bool {
        self.from_control_plane != self.facts_of_control_plane
    }

    /// Whether pods that run are left as they are, because nobody was asked yet since this replica leads.
    pub(super) fn is_left_at_first(&self) -> bool {
        self.is_first_look && self.running().is_some()
    }

    /// Why pods cannot be led to their control plane, if somebody has to mend it.
    pub(super) fn unaddressed(&self) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref()?;
        facts.address.as_ref().err().filter(|_| !gives_address(&self.complete.spec))?.told(WORDS)
    }

    /// The same with a token that was proven meanwhile.
    pub(super) fn with_proven(self, proven: Option<Proven>) -> Self {
        let from_control_plane = self.facts_of_control_plane.clone();
        Self { proven, from_control_plane, is_first_look: false, ..self }
    }
}

/// What the status of an object tells of registrations, whoever wrote it.
pub(super) fn recorded(object: &Object<CoderWorkspaceProxy>) -> &Value {
    &object.value["status"]["registration"]
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        deadline: &mut Deadline,
    ) -> Result<Dereferenced, Unread> {
        let (object, owner) = (&subject.object, owner(&subject.complete));
        let values = running_values::with_running_values;
        let (deployment, complete) = self.with_what_runs(object, &owner, values).await?;
        let running = running(&deployment, &owner, &object.uid);
        let consumed = build::consumed(&complete);
        let contents =
            self.read_consumed(&owner.namespace, &complete.spec, &consumed, running, deadline).await?;
        let control_plane = self.control_plane_of(&object.key.namespace, &complete, recorded(object));
        let there = match &control_plane {
            Some(Found::There(there)) => Some(&**there),
            _ => None,
        };
        let uid = there.and_then(|there| there.metadata.uid.clone());
        let coderd = uid.unwrap_or_else(|| place_of_coderd(&complete.spec));
        let proven = self.proven(&object.key, &object.uid, &coderd);
        let facts = self.facts_of(there, &complete, running).await?;
        let from_control_plane = match (facts.clone(), &proven) {
            (Some(facts), None) => Some(facts.unproven(running.and_then(running_values::attachment))),
            (facts, _) => facts,
        };
        Ok(Dereferenced {
            is_first_look: !self.has_looked(&object.key, &object.uid),
            uid: object.uid.clone(),
            cluster_domain: self.config.cluster_domain.clone(),
            deployment,
            complete,
            control_plane,
            coderd,
            from_control_plane,
            facts_of_control_plane: facts,
            proven,
            contents,
        })
    }

    /// The control plane that a spec refers to, or whose own Service its `bootstrap` names; none where there is none to be found.
    /// Before all were seen nobody knows whose an address is. `recorded` is what the status tells of registrations.
    pub(super) fn control_plane_of(
        &self,
        namespace: &str,
        complete: &CoderWorkspaceProxy,
        recorded: &Value,
    ) -> Option<Found> {
        match Way::of(&complete.spec) {
            Way::ControlPlane(name) => Some(control_planes::named(&self.control_planes, namespace, name)),
            Way::Bootstrap(bootstrap) => {
                let (url, domain) = (url(bootstrap), &self.config.cluster_domain);
                // One that cannot be read has its name: it is not known where its Service listens.
                let is_it = |one: &Kept<CoderControlPlane>| match one.read() {
                    Ok(one) => is_of(url, &one, domain),
                    Err(_) => names_service_of(url, one.meta(), domain),
                };
                let all = self.control_planes.all();
                let mut here = all.iter().filter(|one| one.meta().namespace.as_deref() == Some(namespace));
                match here.find(|one| is_it(one)).and_then(|one| one.meta().name.clone()) {
                    Some(name) => Some(control_planes::named(&self.control_planes, namespace, &name)),
                    None if !self.control_planes.is_synced() => Some(Found::Unlisted),
                    // One that is not allowed and leads to a Service of this namespace is that of a control plane to come, unless
                    // a registration was made there: then it was allowed before.
                    None => {
                        let is_known = self.access.egress.allowed_urls.allow(url)
                            || is_registered_at(recorded, &registrar(bootstrap));
                        let at = service(url, namespace, domain).filter(|_| !is_known)?;
                        let found = control_planes::named(&self.control_planes, namespace, &at.name);
                        matches!(found, Found::Gone).then_some(found)
                    }
                }
            }
            Way::Given(_) | Way::Nowhere => None,
        }
    }

    /// What pods have from the control plane they refer to; without one, the image and the address that their spec gives.
    async fn facts_of(
        &self,
        control_plane: Option<&CoderControlPlane>,
        complete: &CoderWorkspaceProxy,
        running: Option<&Value>,
    ) -> Result<Option<ControlPlaneFacts>, CallError> {
        let spec = &complete.spec;
        let named = spec.image.clone().filter(|image| !image.is_empty());
        let given = given_url(spec).map(|url| Ok(Address { url: url.to_owned(), alias: None }));
        match (Way::of(spec), control_plane) {
            (Way::ControlPlane(_), Some(control_plane)) => {
                let runs = running.and_then(running_values::attachment);
                let reader = FactsReader { kube: &self.kube, cluster_domain: &self.config.cluster_domain };
                let facts = reader.read(control_plane, named, runs.as_ref()).await?;
                Ok(facts.map(|facts| ControlPlaneFacts { address: given.unwrap_or(facts.address), ..facts }))
            }
            (Way::ControlPlane(_), None) => Ok(None),
            _ => Ok(named.zip(given).map(|(image, address)| ControlPlaneFacts {
                image,
                address,
                tls: Vec::new(),
                certificates: None,
            })),
        }
    }
}
