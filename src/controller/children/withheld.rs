//! Decides what is not applied while admission is disabled in the namespace of an object: nobody was asked then whether
//! its author may have it, so that what its children may do stays that of the live ones and is never widened.
//! Pure: it compares children with what is live, and never says that something is to be removed.
//!
//! A child is applied as a whole or left as it is. Putting live values into our manifest would make us the owner of what
//! the API server and others have set there, and would take it away again when the label goes.

use super::grants::rules;
use super::{Child, ChildKind, drift, permissions};
use crds::well_known::annotation;
use crds::well_known::label::{ADMISSION, ADMISSION_DISABLED};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The children that are left as they are; all of them are applied where admission is in force.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Withheld {
    children: BTreeSet<(ChildKind, String, String)>,
    told: Vec<String>,
}

impl Withheld {
    /// Whether a child is left as it is.
    pub(crate) fn has(&self, child: &Child) -> bool {
        self.children.contains(&(child.kind, child.namespace.clone(), child.name.clone()))
    }

    /// What is held back, one by one.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> &[String] {
        &self.told
    }

    /// What is held back and what to do, for a person; nothing if nothing is.
    pub(crate) fn told(&self, namespace: &str) -> Option<String> {
        (!self.told.is_empty()).then(|| {
            format!(
                "namespace {namespace} has the label {ADMISSION}={ADMISSION_DISABLED}, so nothing new is granted; run kubectl label \
                 namespace {namespace} {ADMISSION}- to apply: {}",
                self.told.join(", ")
            )
        })
    }
}

/// Which children of an object in the namespace `home` are left as they are; each comes with the one of its name that is
/// live and of this uid.
pub(crate) fn withheld(home: &str, children: &[(&Child, Option<Value>)]) -> Withheld {
    let mut withheld = Withheld::default();
    let is_left = |(child, live): &(&Child, Option<Value>)| {
        child.kind == ChildKind::Deployment && live.is_some() && widened(child, live.as_ref()).is_some()
    };
    let left = children.iter().any(is_left);
    for (child, live) in children {
        // Pods that are left listen where they did.
        let moved = || {
            let there = live.as_ref().filter(|_| left && child.kind == ChildKind::Service);
            there.filter(|live| !listens_alike(live, &child.manifest)).map(|_| "its ports")
        };
        if let Some(what) = widened(child, live.as_ref()).or_else(moved) {
            withheld.children.insert((child.kind, child.namespace.clone(), child.name.clone()));
            let elsewhere = child.namespace != home;
            let place = if elsewhere { format!("{}/", child.namespace) } else { String::new() };
            withheld.told.push(format!("{} {place}{} ({what})", child.kind.as_str(), child.name));
        }
    }
    withheld
}

/// What a child would get that its live one does not have; nothing if nothing.
fn widened(child: &Child, live: Option<&Value>) -> Option<&'static str> {
    let (wanted, differs) = (&child.manifest, |same: bool, what| (!same).then_some(what));
    match (child.kind, live) {
        // They let nobody do anything.
        (ChildKind::PodDisruptionBudget | ChildKind::ServiceMonitor | ChildKind::PodMonitor, _) => None,
        (ChildKind::Service, None) => differs(is_inside(wanted), "its type"),
        (_, None) => Some("it is not there yet"),
        (ChildKind::Deployment, Some(live)) => differs(runs_the_same(live, wanted), "what its pods run"),
        (ChildKind::Role, Some(live)) => {
            differs(permissions::beyond(&rules(wanted), &rules(live)).is_empty(), "its rules")
        }
        (ChildKind::RoleBinding, Some(live)) => {
            let same = |field: &str| drift::holds(&live[field], &wanted[field]);
            differs(same("roleRef") && same("subjects"), "its account")
        }
        (ChildKind::ServiceAccount, Some(live)) => {
            differs(is_annotated_alike(live, wanted), "its annotations")
        }
        (ChildKind::Service, Some(live)) => {
            let narrower = is_inside(wanted) && is_annotated_alike(live, wanted);
            differs(narrower || leads_alike(live, wanted), "its type")
        }
        (ChildKind::Ingress | ChildKind::HttpRoute, Some(live)) => {
            differs(leads_alike(live, wanted), "its hosts")
        }
    }
}

fn is_inside(service: &Value) -> bool {
    service["spec"]["type"] == "ClusterIP"
}

/// Whether a Service leads to the same ports of the pods by the same ports of its own.
pub(crate) fn listens_alike(live: &Value, wanted: &Value) -> bool {
    let ports = |service: &Value| -> BTreeSet<String> {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        ports.map(|port| format!("{} {}", port["port"], port["targetPort"])).collect()
    };
    ports(live) == ports(wanted)
}

/// Whether a way from outside is the same; controllers act on its annotations.
fn leads_alike(live: &Value, wanted: &Value) -> bool {
    is_annotated_alike(live, wanted)
        && is_same(&live["spec"], &wanted["spec"], &drift::written(live)["f:spec"])
}

fn is_annotated_alike(live: &Value, wanted: &Value) -> bool {
    let annotations = |object: &Value| {
        Value::Object(object["metadata"]["annotations"].as_object().cloned().unwrap_or_default())
    };
    let mut fields = drift::written(live)["f:metadata"]["f:annotations"].clone();
    // Every apply of ours writes it.
    without(&mut fields, "f:", &[annotation::FINGERPRINT]);
    is_same(&annotations(live), &annotations(wanted), &fields)
}

/// Fields of a pod by which it gets no right: where it is scheduled, and how soon it ends.
const SCHEDULING: [&str; 5] =
    ["nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "terminationGracePeriodSeconds"];

/// Annotations of a pod that change with the values of the Secrets it reads already.
const CHECKSUMS: [&str; 4] =
    [annotation::CHECKSUM, annotation::KEY_CHECKSUM, annotation::TOKEN_CHECKSUM, annotation::TRUST_CHECKSUM];

/// Fields of the main container by which it gets no right, as for admission. Its probes are ours: one of another container
/// may be a command.
const MEASURES: [&str; 8] = webhooks::HARMLESS;

/// Whether the pods of a Deployment are the same but for where they run, how much they get, and the values of the Secrets
/// they read already. Any other difference counts: what is taken away may be a restriction.
fn runs_the_same(live: &Value, wanted: &Value) -> bool {
    let template = |object: &Value| object["spec"]["template"].clone();
    let (mut wanted, mut fields) = (template(wanted), drift::written(live)["f:spec"]["f:template"].clone());
    for (object, prefix) in [(&mut wanted, ""), (&mut fields, "f:")] {
        let (metadata, spec) = (format!("{prefix}metadata"), format!("{prefix}spec"));
        // What is not there must not come to be by being looked at.
        let annotations = format!("/{metadata}/{prefix}annotations");
        object.pointer_mut(&annotations).into_iter().for_each(|map| without(map, prefix, &CHECKSUMS));
        object.get_mut(&spec).into_iter().for_each(|pod| without(pod, prefix, &SCHEDULING));
        for (list, names) in [("containers", &MEASURES[..]), ("initContainers", &["resources"][..])] {
            let containers = object.pointer_mut(&format!("/{spec}/{prefix}{list}"));
            containers.into_iter().flat_map(items).for_each(|container| without(container, prefix, names));
        }
    }
    is_same(&template(live), &wanted, &fields)
}

fn without(map: &mut Value, prefix: &str, names: &[&str]) {
    if let Some(map) = map.as_object_mut() {
        map.retain(|key, _| !names.iter().any(|name| key.strip_prefix(prefix) == Some(name)));
    }
}

/// The items of a list, or of what `managedFields` says of one.
fn items(list: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match list {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(items) => Box::new(items.values_mut()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether a live part has everything that is wanted, and nothing we wrote there is wanted no more. What the API server
/// and others added is theirs.
fn is_same(live: &Value, wanted: &Value, written: &Value) -> bool {
    drift::holds(live, wanted) && is_covered(written, wanted)
}

/// Whether everything we wrote, in the words of `managedFields`, is wanted still.
fn is_covered(written: &Value, wanted: &Value) -> bool {
    written.as_object().into_iter().flatten().all(|(path, below)| match path.split_once(':') {
        Some(("f", field)) => wanted.get(field).is_some_and(|wanted| is_covered(below, wanted)),
        Some(("k", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let is_meant = |item: &&Value| {
                keys.iter().all(|(key, value)| item.get(key).is_none_or(|wanted| wanted == value))
            };
            let mut items = wanted.as_array().into_iter().flatten();
            items.find(is_meant).is_some_and(|item| is_covered(below, item))
        }
        Some(("v", value)) => {
            let value: Value = serde_json::from_str(value).unwrap_or_default();
            wanted.as_array().is_some_and(|items| items.contains(&value))
        }
        _ => true,
    })
}
