//! Decides every default there is, as a complete object: what `render` prints and the reconciler works with.
//! Never invents a name: while only `generateName` is known, defaults that follow from the name wait.

use crds::defaults::Probes;
use crds::provisioner::ProvisionerRbacSpec;
use crds::shared::{ProbeSpec, RbacSpec, ServiceAccountSpec};
use crds::well_known::{default, secret_key};
use crds::workload::{DisruptionBudgetSpec, MetricsSpec, MonitorSpec};
use crds::{
    CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxy, CoderWorkspaceProxySpec, names,
};
use serde_json::{Map, Value, json};

use super::address::{proxy_access_url, proxy_wildcard_access_url};
use super::{Config, defaulted};
use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;
use crate::schema;
use crate::text::LABEL;

/// The object with every default filled in. A text that is empty counts as not given, as it always has; the image of
/// what follows a control plane stays open, because that is not known here.
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
        if kind == Kind::WorkspaceProxy {
            let addresses = addresses(&complete, config);
            fill(&mut complete, &addresses);
        }
    }
    complete
}

/// Fields where an empty text has always meant the default.
const EMPTY_MEANS_DEFAULT: [&str; 22] = [
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
    "spec.bootstrap.displayName",
    "spec.bootstrap.icon",
    "spec.bootstrap.generatedTokenSecretName",
    "spec.registration.proxyName",
    "spec.registration.displayName",
    "spec.registration.icon",
    "spec.registration.tokenSecretName",
    "spec.accessURL",
    "spec.wildcardAccessURL",
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
        Kind::ControlPlane => control_plane(&mut spec, object, &given),
        Kind::Provisioner => provisioner(&mut spec, &given),
        Kind::WorkspaceProxy => workspace_proxy(&mut spec, object, &given),
    }
    workload(&mut spec, object, &given);
    json!({ "spec": spec })
}

fn control_plane(spec: &mut Map<String, Value>, object: &Value, given: &dyn Fn(&str) -> bool) {
    spec.insert("operatorAccess".into(), json!({"disabled": false}));
    let (silent, rbac) = (CoderControlPlaneSpec::default(), RbacSpec::default());
    let granted =
        json!({"workspacePerms": rbac.grants_workspaces(), "enableDeployments": rbac.grants_deployments()});
    spec.insert("rbac".into(), granted);
    probes(spec, object, given);
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

/// Probes of a server.
fn probes(spec: &mut Map<String, Value>, object: &Value, given: &dyn Fn(&str) -> bool) {
    let restarts = field::at(object, "spec.livenessProbe.enabled") == Some(&json!(true));
    let liveness = ProbeSpec { enabled: Some(restarts), ..ProbeSpec::default() };
    let startup = given("spec.startupProbe").then(ProbeSpec::default);
    let probes = Probes::of(None, Some(&liveness), startup.as_ref());
    spec.insert("readinessProbe".into(), json!(probes.readiness));
    spec.insert("livenessProbe".into(), json!(probes.liveness));
    spec.insert("startupProbe".into(), json!(probes.startup));
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

fn workspace_proxy(spec: &mut Map<String, Value>, object: &Value, given: &dyn Fn(&str) -> bool) {
    spec.insert("derpOnly".into(), json!(false));
    probes(spec, object, given);
    let silent = CoderWorkspaceProxySpec::default();
    spec.insert("terminationGracePeriodSeconds".into(), json!(silent.grace_period_or_default()));
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
        Kind::WorkspaceProxy => named_proxy(object, name),
    }
}

/// What the operator calls a proxy in coderd, and where it keeps its token, in the one place where the spec says so.
fn named_proxy(object: &Value, name: &str) -> Value {
    let spec = CoderWorkspaceProxySpec::default();
    let account = names::workspace_proxy::service_account(name, &spec);
    let mut named = json!({"spec": {"serviceAccount": {"name": account}}});
    let Some(registration) = Registration::of(Kind::WorkspaceProxy, object) else {
        return named;
    };
    let proxy = field::text_at(object, registration.proxy_name).unwrap_or(name);
    let secret = registration.token_secret.rsplit('.').next().unwrap_or_default();
    named["spec"][registration.parent] = json!({
        "proxyName": proxy,
        "displayName": proxy,
        "icon": default::PROXY_ICON,
        secret: names::workspace_proxy::token_secret(name, &spec),
    });
    let address = field::at(object, registration.registrar).filter(|_| !registration.is_with_control_plane());
    if let Some(address) = address {
        named["spec"]["primaryAccessURL"] = address.clone();
    }
    named
}

/// Where a proxy is reached; nothing where its spec cannot be read. Its status plays no part.
fn addresses(object: &Value, config: &Config) -> Value {
    let spec = field::at(object, "spec").cloned().unwrap_or_default();
    let Ok(spec) = serde_json::from_value::<CoderWorkspaceProxySpec>(spec) else {
        return json!({});
    };
    let text = |path: &str| field::text_at(object, path).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut proxy = CoderWorkspaceProxy { spec, ..CoderWorkspaceProxy::default() };
    proxy.metadata.name = text("metadata.name");
    // No namespace has another name, so that no address is made of it.
    proxy.metadata.namespace = text("metadata.namespace").filter(|name| LABEL.matches(name));
    let mut spec = Map::new();
    let (access, wildcard) =
        (proxy_access_url(&proxy, &config.cluster_domain), proxy_wildcard_access_url(&proxy));
    spec.extend(access.map(|url| ("accessURL".to_owned(), json!(url))));
    spec.extend(wildcard.map(|url| ("wildcardAccessURL".to_owned(), json!(url))));
    json!({ "spec": spec })
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
