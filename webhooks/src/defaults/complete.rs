//! Decides every default there is, as a complete object: what `render` prints and the reconciler works with.
//! Never invents a name: while only `generateName` is known, defaults that follow from the name wait.

use crds::defaults::Probes;
use crds::provisioner::ProvisionerRbacSpec;
use crds::shared::{ProbeSpec, RbacSpec, ServiceAccountSpec};
use crds::well_known::{default, secret_key};
use crds::workload::{DisruptionBudgetSpec, MetricsSpec, MonitorSpec};
use crds::{CoderControlPlaneSpec, CoderProvisionerSpec, names};
use serde_json::{Map, Value, json};

use super::{Config, defaulted};
use crate::field;
use crate::kind::Kind;
use crate::schema;

/// The object with every default filled in. A text that is empty counts as not given, as it always has; the image of
/// a provisioner stays open, because it follows a control plane that is not known here.
pub fn resolved(kind: Kind, object: &Value, config: &Config) -> Value {
    let mut complete = schema::without_nulls(kind, object).into_owned();
    if complete.is_object() {
        drop_empty_texts(kind, &mut complete);
        complete = defaulted(kind, &complete, None, config).into_owned();
        let name = field::text_at(&complete, "metadata.name").unwrap_or_default().to_owned();
        let silent = silent(kind, &complete);
        fill(&mut complete, &silent);
        if !name.is_empty() {
            let named = named(kind, &complete, &name);
            fill(&mut complete, &named);
        }
    }
    complete
}

/// Fields where an empty text has always meant the default.
const EMPTY_MEANS_DEFAULT: [&str; 14] = [
    "spec.image",
    "spec.service.type",
    "spec.serviceAccount.name",
    "spec.licenseSecretRef.key",
    "spec.operatorAccess.tokenSecretRef.key",
    "spec.organizationName",
    "spec.key.name",
    "spec.key.secretName",
    "spec.key.secretKey",
    "spec.primaryAccessURL",
    "spec.proxySessionTokenSecretRef.key",
    "spec.bootstrap.credentialsSecretRef.key",
    "spec.bootstrap.proxyName",
    "spec.bootstrap.generatedTokenSecretName",
];

fn drop_empty_texts(kind: Kind, object: &mut Value) {
    for path in EMPTY_MEANS_DEFAULT.into_iter().filter(|path| schema::has_field(kind, path)) {
        let Some((parent, key)) = path.rsplit_once('.') else { continue };
        let parent = format!("/{}", parent.replace('.', "/"));
        let Some(map) = object.pointer_mut(&parent).and_then(Value::as_object_mut) else { continue };
        if map.get(key).and_then(Value::as_str) == Some("") {
            map.remove(key);
        }
    }
}

/// Defaults that follow from nothing but the kind and what else is there.
fn silent(kind: Kind, object: &Value) -> Value {
    let given = |path: &str| field::at(object, path).is_some_and(Value::is_object);
    let mut spec = Map::new();
    spec.insert("suspend".into(), json!(false));
    match kind {
        Kind::ControlPlane => {
            control_plane(&mut spec, object, &given);
            workload(&mut spec, object, &given);
        }
        Kind::Provisioner => {
            provisioner(&mut spec, &given);
            workload(&mut spec, object, &given);
        }
        Kind::WorkspaceProxy => workspace_proxy(&mut spec, &given),
    }
    json!({ "spec": spec })
}

fn control_plane(spec: &mut Map<String, Value>, object: &Value, given: &dyn Fn(&str) -> bool) {
    spec.insert("operatorAccess".into(), json!({"disabled": false}));
    let (silent, rbac) = (CoderControlPlaneSpec::default(), RbacSpec::default());
    let granted =
        json!({"workspacePerms": rbac.grants_workspaces(), "enableDeployments": rbac.grants_deployments()});
    spec.insert("rbac".into(), granted);
    let restarts = field::at(object, "spec.livenessProbe.enabled") == Some(&json!(true));
    let liveness = ProbeSpec { enabled: Some(restarts), ..ProbeSpec::default() };
    let startup = given("spec.startupProbe").then(ProbeSpec::default);
    let probes = Probes::of(None, Some(&liveness), startup.as_ref());
    spec.insert("readinessProbe".into(), json!(probes.readiness));
    spec.insert("livenessProbe".into(), json!(probes.liveness));
    spec.insert("startupProbe".into(), json!(probes.startup));
    spec.insert("terminationGracePeriodSeconds".into(), json!(silent.grace_period_or_default()));
    spec.insert("envUseClusterAccessURL".into(), json!(true));
    spec.insert("aggregation".into(), json!({"names": "Short"}));
    if given("spec.licenseSecretRef") {
        spec.insert("licenseSecretRef".into(), json!({"key": secret_key::LICENSE}));
    }
    if given("spec.operatorAccess.tokenSecretRef") {
        let access = json!({"disabled": false, "tokenSecretRef": {"key": secret_key::TOKEN}});
        spec.insert("operatorAccess".into(), access);
    }
}

/// What every kind says about its pods in the same words: of a budget and metrics, what is given is on, and what is not
/// given stays away.
fn workload(spec: &mut Map<String, Value>, object: &Value, given: &dyn Fn(&str) -> bool) {
    spec.insert("serviceAccount".into(), json!({"disableCreate": ServiceAccountSpec::default().is_given()}));
    if given("spec.podDisruptionBudget") {
        let silent = DisruptionBudgetSpec::default();
        let mut budget = json!({"enabled": silent.is_on()});
        if field::at(object, "spec.podDisruptionBudget.minAvailable").is_none() {
            budget["maxUnavailable"] = json!(silent.max_unavailable_or_default());
        }
        spec.insert("podDisruptionBudget".into(), budget);
    }
    if given("spec.metrics") {
        let mut metrics = json!({"enabled": MetricsSpec::default().is_on()});
        for monitor in ["serviceMonitor", "podMonitor"] {
            if given(&format!("spec.metrics.{monitor}")) {
                metrics[monitor] = json!({"enabled": MonitorSpec::default().is_on()});
            }
        }
        spec.insert("metrics".into(), metrics);
    }
}

fn provisioner(spec: &mut Map<String, Value>, given: &dyn Fn(&str) -> bool) {
    spec.insert("organizationName".into(), json!(default::ORGANIZATION));
    spec.insert("key".into(), json!({"secretKey": secret_key::PROVISIONER_KEY}));
    spec.insert("tags".into(), json!({}));
    let (silent, rbac) = (CoderProvisionerSpec::default(), ProvisionerRbacSpec::default());
    spec.insert("terminationGracePeriodSeconds".into(), json!(silent.grace_period_or_default()));
    let granted =
        json!({"workspacePerms": rbac.grants_workspaces(), "enableDeployments": rbac.grants_deployments()});
    spec.insert("rbac".into(), granted);
    spec.insert("deletionPolicy".into(), json!("Delete"));
    if given("spec.bootstrap.credentialsSecretRef") {
        spec.insert("bootstrap".into(), json!({"credentialsSecretRef": {"key": secret_key::TOKEN}}));
    }
}

fn workspace_proxy(spec: &mut Map<String, Value>, given: &dyn Fn(&str) -> bool) {
    spec.insert("derpOnly".into(), json!(false));
    spec.insert("deletionPolicy".into(), json!("Delete"));
    if given("spec.bootstrap.credentialsSecretRef") {
        spec.insert("bootstrap".into(), json!({"credentialsSecretRef": {"key": secret_key::TOKEN}}));
    }
    if given("spec.proxySessionTokenSecretRef") {
        spec.insert("proxySessionTokenSecretRef".into(), json!({"key": secret_key::TOKEN}));
    }
}

/// Defaults that follow from the name of the object or from another field.
fn named(kind: Kind, object: &Value, name: &str) -> Value {
    match kind {
        Kind::ControlPlane => json!({"spec": {"serviceAccount": {"name": name}}}),
        Kind::Provisioner => {
            let spec = CoderProvisionerSpec::default();
            json!({"spec": {
                "serviceAccount": {"name": names::provisioner::service_account(name, &spec)},
                "key": {
                    "name": names::provisioner::key(name, &spec),
                    "secretName": names::provisioner::key_secret(name, &spec),
                },
            }})
        }
        Kind::WorkspaceProxy if field::at(object, "spec.bootstrap").is_some_and(Value::is_object) => {
            let spec = crds::CoderWorkspaceProxySpec::default();
            let mut named = json!({"spec": {"bootstrap": {
                "proxyName": name,
                "generatedTokenSecretName": names::workspace_proxy::token_secret(name, &spec),
            }}});
            if let Some(address) = field::at(object, "spec.bootstrap.coderURL") {
                named["spec"]["primaryAccessURL"] = address.clone();
            }
            named
        }
        Kind::WorkspaceProxy => json!({}),
    }
}

/// Fills in what is absent, map by map.
fn fill(given: &mut Value, wanted: &Value) {
    let (Value::Object(given), Value::Object(wanted)) = (given, wanted) else {
        return;
    };
    for (key, wanted) in wanted {
        match given.get_mut(key) {
            Some(given) => fill(given, wanted),
            None => {
                given.insert(key.clone(), wanted.clone());
            }
        }
    }
}
