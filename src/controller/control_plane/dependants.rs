//! What of the cluster needs the operator's access to a control plane, as the shared watches have it: provisioners and workspace
//! proxies that refer to it, and the aggregated API. It keeps no object, and decides nothing about the access itself. A proxy that
//! brings the credentials that register it needs none of ours.

use super::access::Needs;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{Kept, Reflected};
use crds::{CoderProvisioner, CoderWorkspaceProxy};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize as DeriveDeserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeSet;

/// The group of the aggregated API.
const AGGREGATED: &str = "aggregation.coder.com";
/// Bytes of a name.
const LONGEST_NAME: usize = 253;

/// What is read of a spec.
#[derive(DeriveDeserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    control_plane_ref: Option<ControlPlaneRef>,
    #[serde(default)]
    bootstrap: Option<IgnoredAny>,
    #[serde(default)]
    suspend: Option<bool>,
}

#[derive(DeriveDeserialize)]
struct ControlPlaneRef {
    name: String,
}

impl ControlPlaneRef {
    /// A longer text names nothing.
    fn name(&self) -> String {
        let name = self.name.trim();
        if name.len() > LONGEST_NAME { String::new() } else { name.to_owned() }
    }
}

/// The name of the control plane that a provisioner refers to; nothing if it cannot be read.
fn reference(provisioner: &Kept<CoderProvisioner>) -> Option<String> {
    let spec: Spec = provisioner.spec()?.ok()?;
    spec.control_plane_ref.map(|reference| reference.name())
}

/// The uids of the control planes that the status of an object has recorded something of in this field; nothing if it is longer
/// than is kept. What is not on its way out counts only if `counts`.
fn recorded<K>(kept: &Kept<K>, field: &str, counts: impl Fn(&Value) -> bool) -> Option<Vec<String>> {
    let record = kept.status_field(field)?;
    let retiring = record["retiring"].as_array().into_iter().flatten();
    let standing = [&record["current"], &record["pending"]].into_iter().filter(|one| counts(one));
    let entries = standing.chain(retiring);
    Some(entries.filter_map(|entry| entry["controlPlaneUID"].as_str().map(str::to_owned)).collect())
}

/// The watches that tell.
#[derive(Clone)]
pub(crate) struct Dependants {
    /// Every one.
    pub provisioners: Reflected<Kept<CoderProvisioner>>,
    /// Every one.
    pub proxies: Reflected<Kept<CoderWorkspaceProxy>>,
    /// Those that are labelled as ours.
    pub api_services: Reflected<APIService>,
}

/// What they told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The namespaces where a watch has not listed what there is; the empty name is the whole cluster.
    unlisted: BTreeSet<String>,
    /// The control planes that provisioners refer to.
    referred: BTreeSet<ObjectKey>,
    /// The uids of control planes that provisioners have recorded keys in: those must be deleted there one day. What a status
    /// says can keep an access that its namespace has anyway, and nothing else.
    recorded: BTreeSet<String>,
    /// Namespaces with a provisioner whose status is not kept, and may say that of any control plane there.
    unkept: BTreeSet<String>,
    /// Namespaces with a provisioner that our types cannot read, which may refer to any control plane there.
    unreadable: BTreeSet<String>,
    /// The control planes that workspace proxies refer to. One that cannot be read refers to none: it gives nobody an owner.
    proxied: BTreeSet<ObjectKey>,
    /// The uids of control planes that workspace proxies have recorded registrations in, in the same way. Beside each the control
    /// plane that this is not to count for: a suspended proxy asks for nothing of the one that its spec names. It asks again when
    /// it goes on, and when it goes.
    recorded_proxies: BTreeSet<(String, Option<ObjectKey>)>,
    aggregated: bool,
}

impl Dependants {
    /// What there is now.
    pub(crate) fn seen(&self) -> Seen {
        self.seen_of(|_| true)
    }

    /// What needs the access to a control plane, besides its own spec. Only provisioners that can mean it are read: this is
    /// asked in every reconcile.
    pub(crate) fn of(&self, key: &ObjectKey, uid: &str) -> Needs {
        self.seen_of(|metadata| metadata.namespace.as_ref() == Some(&key.namespace)).of(key, uid)
    }

    fn seen_of(&self, counts: impl Fn(&ObjectMeta) -> bool) -> Seen {
        let unlisted = [self.provisioners.unlisted(), self.proxies.unlisted(), self.api_services.unlisted()];
        let mut seen = Seen {
            unlisted: unlisted.into_iter().flatten().collect(),
            aggregated: self.api_services.all().iter().any(|service| is_aggregated(service)),
            ..Seen::default()
        };
        let provisioners = self.provisioners.all();
        provisioners.iter().filter(|one| counts(one.meta())).for_each(|one| seen.note(one));
        let proxies = self.proxies.all();
        proxies.iter().filter(|one| counts(one.meta())).for_each(|one| seen.note_proxy(one));
        seen
    }

    /// Returns after the next change.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = self.provisioners.changed() => {}
            () = self.proxies.changed() => {}
            () = self.api_services.changed() => {}
        }
    }
}

fn is_aggregated(service: &APIService) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.group.as_deref() == Some(AGGREGATED))
}

impl Seen {
    fn note(&mut self, provisioner: &Kept<CoderProvisioner>) {
        let namespace = provisioner.meta().namespace.clone().unwrap_or_default();
        match reference(provisioner) {
            Some(name) => _ = self.referred.insert(ObjectKey { namespace: namespace.clone(), name }),
            None => _ = self.unreadable.insert(namespace.clone()),
        }
        match recorded(provisioner, "key", |_| true) {
            Some(uids) => self.recorded.extend(uids.into_iter().map(|uid| format!("{namespace}/{uid}"))),
            None => _ = self.unkept.insert(namespace),
        }
    }

    fn note_proxy(&mut self, proxy: &Kept<CoderWorkspaceProxy>) {
        let namespace = proxy.meta().namespace.clone().unwrap_or_default();
        let spec: Option<Spec> = proxy.spec().and_then(Result::ok);
        let is_suspended = spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
        let asks_nothing = is_suspended && proxy.meta().deletion_timestamp.is_none();
        let has_bootstrap = spec.as_ref().is_some_and(|spec| spec.bootstrap.is_some());
        let reference = spec.and_then(|spec| spec.control_plane_ref);
        let brings_credentials = has_bootstrap && reference.is_none();
        let named = reference.map(|one| ObjectKey { namespace: namespace.clone(), name: one.name() });
        let excepted = named.clone().filter(|_| asks_nothing);
        self.proxied.extend(named.filter(|_| !asks_nothing));
        // Credentials of its own made it, and take it back.
        let needs_ours = |entry: &Value| !(brings_credentials && entry["brought"] == true);
        match recorded(proxy, "registration", needs_ours) {
            Some(uids) => {
                let here = |uid: String| (format!("{namespace}/{uid}"), excepted.clone());
                self.recorded_proxies.extend(uids.into_iter().map(here));
            }
            None => _ = self.unkept.insert(namespace),
        }
    }

    /// What needs the access to a control plane of this uid, besides its own spec.
    pub(crate) fn of(&self, key: &ObjectKey, uid: &str) -> Needs {
        let here = format!("{}/{uid}", key.namespace);
        let is_of_it =
            |(uid, excepted): &(String, Option<ObjectKey>)| *uid == here && excepted.as_ref() != Some(key);
        let recorded_proxies = self.recorded_proxies.iter().any(is_of_it);
        let recorded =
            self.recorded.contains(&here) || recorded_proxies || self.unkept.contains(&key.namespace);
        let is_referred = self.referred.contains(key) || self.unreadable.contains(&key.namespace);
        Needs {
            known: ["", &key.namespace].into_iter().all(|place| !self.unlisted.contains(place)),
            license: false,
            provisioners: is_referred,
            proxies: self.proxied.contains(key),
            recorded,
            recorded_proxies,
            aggregated: self.aggregated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, from_value, json};

    fn provisioner(namespace: &str, spec: Value) -> Kept<CoderProvisioner> {
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "builders", "namespace": namespace }, "spec": spec });
        from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn a_provisioner_needs_the_control_plane_of_its_namespace_that_it_names() {
        let mut seen = Seen::default();
        seen.note(&provisioner("team", json!({ "controlPlaneRef": { "name": " coder " } })));
        seen.note(&provisioner("odd", json!({ "controlPlaneRef": 7 })));
        seen.note(&provisioner("bare", Value::Null));
        let needs = |seen: &Seen, namespace: &str, name: &str| {
            let key = ObjectKey { namespace: namespace.to_owned(), name: name.to_owned() };
            seen.of(&key, "u1").provisioners
        };
        assert!(needs(&seen, "team", "coder"));
        assert!(!needs(&seen, "team", "other") && !needs(&seen, "elsewhere", "coder"));
        let moved = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
            "metadata": { "name": "moved", "namespace": "left" }, "spec": { "controlPlaneRef": { "name": "new" } },
            "status": { "key": { "retiring": [{ "name": "k", "controlPlaneUID": "u1" }] } } });
        assert!(!needs(&seen, "left", "old"));
        seen.note(&from_str(&moved.to_string()).unwrap());
        let key = ObjectKey { namespace: "left".to_owned(), name: "old".to_owned() };
        assert!(seen.of(&key, "u1").recorded, "a key of it is still to be deleted there");
        assert!(!seen.of(&key, "u1").provisioners, "which nobody but a status says");
        assert!(!seen.of(&key, "u2").recorded);
        let mut long = moved;
        long["status"]["key"]["retiring"][0]["name"] = json!("x".repeat(100_000));
        seen.note(&from_str(&long.to_string()).unwrap());
        assert!(seen.of(&key, "u2").recorded, "one that is not kept may say so of any");
        let elsewhere = ObjectKey { namespace: "team".to_owned(), ..key };
        assert!(!seen.of(&elsewhere, "u2").recorded);
        let large = json!({ "controlPlaneRef": { "name": "x".repeat(100_000) } });
        assert_eq!(reference(&provisioner("team", large)).as_deref(), Some(""), "no object has such a name");
        assert!(
            needs(&seen, "odd", "coder") && needs(&seen, "bare", "coder"),
            "one that cannot be read may mean it"
        );
    }

    #[test]
    fn a_proxy_needs_the_control_plane_that_registers_it_and_those_it_is_recorded_in() {
        let proxy = |spec: Value, status: Value| -> Kept<CoderWorkspaceProxy> {
            let metadata = json!({ "name": "eu", "namespace": "team" });
            from_str(&json!({ "metadata": metadata, "spec": spec, "status": status }).to_string()).unwrap()
        };
        let mut seen = Seen::default();
        let bootstrap = json!({ "coderURL": "https://coder", "credentialsSecretRef": { "name": "c" } });
        seen.note_proxy(&proxy(json!({ "bootstrap": bootstrap }), json!({})));
        let key = |name: &str| ObjectKey { namespace: "team".to_owned(), name: name.to_owned() };
        assert_eq!(seen.of(&key("coder"), "u1"), Seen::default().of(&key("coder"), "u1"));
        seen.note_proxy(&proxy(json!({ "controlPlaneRef": { "name": "coder" } }), json!({})));
        assert!(seen.of(&key("coder"), "u1").proxies && !seen.of(&key("other"), "u1").proxies);
        let record = json!({ "registration": { "retiring": [{ "controlPlaneUID": "u2" }] } });
        seen.note_proxy(&proxy(json!({}), record));
        let needs = seen.of(&key("old"), "u2");
        assert!(needs.recorded && needs.recorded_proxies && !needs.proxies);
        let recorded = |brought: bool, spec: Value| {
            let entry = |uid: &str| json!({ "controlPlaneUID": uid, "brought": brought });
            let record = json!({ "current": entry("u3"), "pending": entry("u4"), "retiring": [entry("u5")] });
            let mut seen = Seen::default();
            seen.note_proxy(&proxy(spec, json!({ "registration": record })));
            ["u3", "u4", "u5"].map(|uid| seen.of(&key("coder"), uid).recorded_proxies)
        };
        let bootstrap = || json!({ "bootstrap": bootstrap });
        assert_eq!(recorded(true, bootstrap()), [false, false, true], "its own credentials take it back");
        assert_eq!(recorded(false, bootstrap()), [true; 3]);
        assert_eq!(recorded(true, json!({})), [true; 3], "the credentials are gone");
    }

    #[test]
    fn a_suspended_proxy_asks_for_nothing_until_it_goes_on_or_goes() {
        let proxy = |spec: Value, metadata: Value| -> Kept<CoderWorkspaceProxy> {
            let status = json!({ "registration": { "current": { "controlPlaneUID": "u1" },
                "retiring": [{ "controlPlaneUID": "u0" }] } });
            from_str(&json!({ "metadata": metadata, "spec": spec, "status": status }).to_string()).unwrap()
        };
        let needs = |proxy: &Kept<CoderWorkspaceProxy>, name: &str, uid: &str| {
            let mut seen = Seen::default();
            seen.note_proxy(proxy);
            let needs = seen.of(&ObjectKey { namespace: "team".to_owned(), name: name.to_owned() }, uid);
            [needs.proxies, needs.recorded, needs.recorded_proxies]
        };
        let metadata = json!({ "name": "eu", "namespace": "team" });
        let spec = |suspend: bool| json!({ "controlPlaneRef": { "name": "coder" }, "suspend": suspend });
        assert_eq!(needs(&proxy(spec(false), metadata.clone()), "coder", "u1"), [true; 3]);
        let suspended = proxy(spec(true), metadata);
        assert_eq!(needs(&suspended, "coder", "u1"), [false; 3], "its record asks for no owner either");
        assert_eq!(
            needs(&suspended, "former", "u0"),
            [false, true, true],
            "nobody would ask again for the access to one that its spec does not name"
        );
        let going = json!({ "name": "eu", "namespace": "team", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(
            needs(&proxy(spec(true), going), "coder", "u1"),
            [true; 3],
            "its registration is to be removed"
        );
    }

    #[test]
    fn only_the_aggregated_api_of_ours_counts() {
        let service = |spec: Value| -> APIService { from_value(json!({ "spec": spec })).unwrap() };
        let of = |group: &str| json!({ "group": group, "groupPriorityMinimum": 1, "versionPriority": 1 });
        assert!(is_aggregated(&service(of("aggregation.coder.com"))));
        assert!(!is_aggregated(&service(of("mirror.coder.com"))));
        assert!(!is_aggregated(&APIService::default()));
    }
}
