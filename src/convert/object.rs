//! Decides which object of ours a release becomes, and what of its values is particular to that kind.
//! Never names an object otherwise than the chart does unless it is told to.

use super::environment::Environment;
use super::values::Values;
use super::{Release, exposure, object, pods};
use crds::{names, well_known::app_name};
use serde_json::{Map, Value, json};
use webhooks::text::LABEL;

/// The object of a release of the chart for coderd.
pub(super) fn control_plane(values: &mut Values, release: &Release) -> Value {
    let name = release.name.as_deref().unwrap_or("coder");
    let mut spec = Map::new();
    let mut environment = Environment::take(values);
    let metrics = environment.remove_metrics(values);
    environment.add_profiler_address();
    if let Some(secret) = values.take_text("provisionerDaemon.pskSecretName") {
        let key = json!({ "name": secret, "key": "psk" });
        environment
            .add(json!({ "name": "CODER_PROVISIONER_DAEMON_PSK", "valueFrom": { "secretKeyRef": key } }));
    }
    environment.write(&mut spec);
    served(values, &mut spec, metrics);
    if let Some(used) = values.take_bool("coder.envUseClusterAccessURL") {
        spec.insert("envUseClusterAccessURL".to_owned(), used.into());
    }
    match pods::image(values, release) {
        Some(image) => drop(spec.insert("image".to_owned(), image.into())),
        None => values.not_carried_as(pods::unknown_version()),
    }
    insert_list(&mut spec, "extraArgs", pods::arguments(values, &["server"]));
    insert(&mut spec, "serviceAccount", pods::account(values, "coder", name));
    insert(&mut spec, "rbac", permissions(values, release, true));
    pods::write(values, &mut spec, &names::child_labels(app_name::CONTROL_PLANE, name));
    object("CoderControlPlane", release, "coder", spec.into())
}

/// The object of a release of the same chart that is a workspace proxy.
pub(super) fn workspace_proxy(values: &mut Values, release: &Release) -> Value {
    let name = release.name.as_deref().unwrap_or("coder");
    let mut spec = Map::new();
    let mut environment = Environment::take(values);
    let metrics = environment.remove_metrics(values);
    for (variable, field) in [
        ("CODER_PRIMARY_ACCESS_URL", "primaryAccessURL"),
        ("CODER_ACCESS_URL", "accessURL"),
        ("CODER_WILDCARD_ACCESS_URL", "wildcardAccessURL"),
    ] {
        insert(&mut spec, field, environment.remove_value(variable).map(Value::from));
    }
    token(values, &mut environment, &mut spec);
    environment.write(&mut spec);
    served(values, &mut spec, metrics);
    insert(&mut spec, "image", pods::image(values, release).map(Value::from));
    if !spec.contains_key("image") {
        values.not_carried_as(pods::unknown_version());
    }
    insert_list(&mut spec, "extraArgs", pods::arguments(values, &["wsproxy", "server"]));
    insert(&mut spec, "serviceAccount", pods::account(values, "coder", name));
    // A proxy manages no workspaces: what the chart grants it is not used.
    for unused in ["workspacePerms", "enableDeployments", "extraRules", "workspaceNamespaces"] {
        values.take(&format!("coder.serviceAccount.{unused}"));
    }
    values.take("coder.envUseClusterAccessURL");
    pods::write(values, &mut spec, &names::child_labels(app_name::WORKSPACE_PROXY, name));
    object("CoderWorkspaceProxy", release, "coder", spec.into())
}

/// The token of a proxy that somebody registered.
fn token(values: &mut Values, environment: &mut Environment, spec: &mut Map<String, Value>) {
    let path = "coder.env[CODER_PROXY_SESSION_TOKEN]";
    let given = environment.remove("CODER_PROXY_SESSION_TOKEN");
    let secret = given.as_ref().map(|given| given["valueFrom"]["secretKeyRef"].clone()).unwrap_or_default();
    if secret["name"].is_string() {
        let reference = json!({ "name": secret["name"], "key": secret["key"] });
        spec.insert("proxySessionTokenSecretRef".to_owned(), reference);
    } else {
        values.not_carried(
            path,
            "the token of a proxy comes from a Secret that the object names",
            "put it into a Secret and name that in spec.proxySessionTokenSecretRef, or use spec.controlPlaneRef",
        );
    }
}

/// The object of a release of the chart for provisioner daemons.
pub(super) fn provisioner(values: &mut Values, release: &Release) -> Value {
    let name = release.name.as_deref().unwrap_or("coder-provisioner");
    let mut spec = Map::new();
    spec.insert("controlPlaneRef".to_owned(), json!({ "name": release.control_plane }));
    let mut environment = Environment::take(values);
    if environment.remove_metrics(values) {
        spec.insert("metrics".to_owned(), json!({ "enabled": true }));
    }
    if environment.remove("CODER_URL").is_some() {
        let why = "the daemons dial the control plane that spec.controlPlaneRef names";
        values.not_carried("coder.env[CODER_URL]", why, "look whether --control-plane names the right one");
    }
    environment.write(&mut spec);
    for key in ["pskSecretName", "keySecretName"] {
        if values.take_text(&format!("provisionerDaemon.{key}")).is_some() {
            let why = "the operator makes a key of its own and rotates it";
            let instead = "delete the old key in coderd when no daemon uses it any more";
            values.not_carried(&format!("provisionerDaemon.{key}"), why, instead);
        }
    }
    values.take("provisionerDaemon.keySecretKey");
    let tags = values.take_map("provisionerDaemon.tags");
    insert(&mut spec, "tags", (!tags.is_empty()).then(|| tags.into()));
    let grace = values.take_number("provisionerDaemon.terminationGracePeriodSeconds");
    insert(&mut spec, "terminationGracePeriodSeconds", grace.map(Value::from));
    // Without a tag it follows the control plane, as it should.
    insert(&mut spec, "image", pods::image(values, release).map(Value::from));
    insert_list(&mut spec, "extraArgs", pods::arguments(values, &["provisionerd", "start"]));
    insert(&mut spec, "serviceAccount", pods::account(values, "coder-provisioner", name));
    insert(&mut spec, "rbac", permissions(values, release, false));
    pods::write(values, &mut spec, &names::child_labels(app_name::PROVISIONER, name));
    object("CoderProvisioner", release, "coder-provisioner", spec.into())
}

/// What coderd and a proxy have in common.
fn served(values: &mut Values, spec: &mut Map<String, Value>, metrics: bool) {
    insert(spec, "service", Some(exposure::service(values)));
    insert(spec, "expose", exposure::expose(values));
    insert(spec, "metrics", metrics.then(|| json!({ "enabled": true })));
    let secrets = values.take_list("coder.tls.secretNames");
    insert(spec, "tls", (!secrets.is_empty()).then(|| json!({ "secretNames": secrets })));
    for probe in ["readinessProbe", "livenessProbe"] {
        let fields = [
            "initialDelaySeconds",
            "periodSeconds",
            "timeoutSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        let mut given = Map::new();
        insert(&mut given, "enabled", values.take_bool(&format!("coder.{probe}.enabled")).map(Value::from));
        for field in fields {
            let number = values.take_number(&format!("coder.{probe}.{field}"));
            insert(&mut given, field, number.map(Value::from));
        }
        insert(spec, probe, (!given.is_empty()).then(|| given.into()));
    }
}

/// What is allowed for workspaces. `by_default` says whether ours allows Deployments where nothing is said, as the charts do.
fn permissions(values: &mut Values, release: &Release, by_default: bool) -> Option<Value> {
    let mut rbac = Map::new();
    let at = |key: &str| format!("coder.serviceAccount.{key}");
    let allowed = values.take_bool(&at("workspacePerms"));
    insert(&mut rbac, "workspacePerms", allowed.map(Value::from));
    let deployments = values.take_bool(&at("enableDeployments")).or((!by_default).then_some(true));
    insert(&mut rbac, "enableDeployments", deployments.map(Value::from));
    insert_list(&mut rbac, "extraRules", values.take_list(&at("extraRules")));
    let everywhere = [
        ("workspacePerms", allowed.unwrap_or(true)),
        ("enableDeployments", deployments.unwrap_or(by_default)),
    ];
    insert_list(&mut rbac, "workspaceNamespaces", workspace_namespaces(values, release, everywhere));
    (!rbac.is_empty()).then(|| rbac.into())
}

/// Namespaces of workspaces: a list, in older charts under `namespaces`. Ours grants the same in all of them: what is granted
/// everywhere is told only where a namespace differs.
fn workspace_namespaces(values: &mut Values, release: &Release, everywhere: [(&str, bool); 2]) -> Vec<Value> {
    let home = release.namespace.as_deref().unwrap_or("<namespace of the control plane>");
    let path = "coder.serviceAccount.workspaceNamespaces";
    let older = values.take_list(&format!("{path}.namespaces"));
    let listed = if older.is_empty() { values.take_list(path) } else { older };
    let mut names = Vec::new();
    for (index, item) in listed.into_iter().enumerate() {
        let Value::Object(mut item) = item else { continue };
        let Some(name) = item.remove("name") else { continue };
        item.retain(|key, value| !everywhere.iter().any(|(same, held)| key == same && *value == json!(held)));
        for key in item.keys() {
            let path = format!("{path}[{index}].{key}");
            let instead = "grant the difference by a Role of your own in that namespace";
            values.not_carried(&path, "spec.rbac grants the same in every namespace", instead);
        }
        let place = format!("{path}[{index}].name");
        // What is told is a command that somebody runs.
        let Some(namespace) = name.as_str().filter(|name| LABEL.matches(name)) else {
            values.not_carried(&place, "no namespace can have this name", "correct it and convert again");
            continue;
        };
        values.left_to_do(
            &place,
            "a namespace has to agree before coderd gets rights in it",
            &format!("kubectl label namespace {namespace} coder.com/workspaces-from={home}"),
        );
        names.push(name);
    }
    names
}

fn insert(spec: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value {
        spec.insert(field.to_owned(), value);
    }
}

fn insert_list(spec: &mut Map<String, Value>, field: &str, items: Vec<Value>) {
    insert(spec, field, (!items.is_empty()).then(|| items.into()));
}
