//! The shipped rights are exactly what the operator uses: nothing it tries is refused, and nothing it may do goes unused.

use coder_k8s::manifests::rbac::INJECTS_CA;
use std::collections::BTreeSet;
use std::time::Duration;
use support::audit;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);

/// `verb group/resource`, as granted or as used.
pub(crate) type Right = String;

fn right(verb: &str, group: &str, resource: &str) -> Right {
    format!("{verb} {group}/{resource}")
}

/// Every right of some rules.
fn rights_of(rules: &serde_json::Value) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
        let all = |field: &str| -> Vec<&str> {
            rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
        };
        for (group, resource) in all("apiGroups")
            .into_iter()
            .flat_map(|group| all("resources").into_iter().map(move |resource| (group, resource)))
        {
            rights.extend(all("verbs").into_iter().map(|verb| right(verb, group, resource)));
        }
    }
    rights
}

/// What the roles bound to one of our accounts grant, by the API server's own word: a binding that nobody thought of
/// counts too.
pub(crate) async fn granted(
    cluster: &Cluster,
    installation: &Installation,
    account: &str,
) -> BTreeSet<Right> {
    let (namespace, mut rights) = (&installation.namespace, BTreeSet::new());
    let bindings = cluster.kubectl("get clusterrolebindings,rolebindings -A -o json").await.expect_ok();
    let bindings: serde_json::Value = serde_json::from_str(&bindings).unwrap();
    let subject = |binding: &&serde_json::Value| {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        subjects.any(|subject| subject["name"] == account && subject["namespace"] == namespace.as_str())
    };
    for binding in bindings["items"].as_array().unwrap().iter().filter(subject) {
        let (kind, name) = (binding["roleRef"]["kind"].as_str().unwrap(), &binding["roleRef"]["name"]);
        let place = binding["metadata"]["namespace"].as_str().unwrap_or("default");
        let words = format!("get {kind} {} -n {place} -o json", name.as_str().unwrap());
        let role: serde_json::Value =
            serde_json::from_str(&cluster.kubectl(&words).await.expect_ok()).unwrap();
        rights.extend(rights_of(&role["rules"]));
    }
    rights
}

/// What was done with the rights of a user, by the audit log, and what was refused.
pub(crate) fn used(cluster: &Cluster, user: &str) -> (BTreeSet<Right>, Vec<String>) {
    let (mut rights, mut refused) = (BTreeSet::new(), Vec::new());
    let log = cluster.audit_log();
    for line in log.lines().filter(|line| line.contains(user)) {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["user"]["username"] == user && !event["impersonatedUser"].is_null() {
            rights.insert(right("impersonate", "", "serviceaccounts"));
        }
        if audit::rights_of(&event) != user {
            continue;
        }
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        // Everybody may ask what he may do himself.
        if text(&object["resource"]).starts_with("selfsubject") {
            continue;
        }
        if event["responseStatus"]["code"] == 403 {
            refused.push(line.to_owned());
        }
        let resource = match object["subresource"].as_str() {
            Some(part) => format!("{}/{part}", text(&object["resource"])),
            None => text(&object["resource"]),
        };
        rights.insert(right(&text(&event["verb"]), &text(&object["apiGroup"]), &resource));
        // A watch that begins with all there is is a list as well, and where the API server does not take it, it is one.
        if event["verb"] == "watch" && text(&event["requestURI"]).contains("sendInitialEvents=true") {
            rights.insert(right("list", &text(&object["apiGroup"]), &resource));
        }
        // An apply that makes an object needs both rights.
        if event["verb"] == "patch" && event["responseStatus"]["code"] == 201 {
            rights.insert(right("create", &text(&object["apiGroup"]), &resource));
            if ["deployments", "roles"].contains(&resource.as_str()) {
                // Admission asked for it, because these children hold back the deletion of their owner.
                rights.insert(right("update", "coder.com", "codercontrolplanes/finalizers"));
                rights.insert(right("update", "coder.com", "coderprovisioners/finalizers"));
            }
            // A proxy has no Role.
            if resource == "deployments" {
                rights.insert(right("update", "coder.com", "coderworkspaceproxies/finalizers"));
            }
        }
    }
    (rights, refused)
}

/// Whether a right is used only for what does not happen here, and is used with the same account where it does: coderd makes keys in
/// `tests/provisioner`, and a Helm release with pods that run is taken over in `tests/control_plane/helm_release.rs`.
pub(crate) fn is_used_elsewhere(granted: &Right) -> bool {
    let elsewhere = [
        right("create", "", "secrets"),
        right("patch", "", "secrets"),
        right("delete", "", "secrets"),
        right("delete", "apps", "deployments"),
        right("delete", "", "pods"),
        right("delete", "", "services"),
        right("get", "apps", "replicasets"),
        right("list", "apps", "replicasets"),
        right("delete", "apps", "replicasets"),
        right("get", "discovery.k8s.io", "endpointslices"),
        right("list", "discovery.k8s.io", "endpointslices"),
    ];
    elsewhere.contains(granted) || granted.ends_with("/podmonitors")
}

/// Whether a right is a mark by which a policy knows the operator: `ca_injection.rs` shows what it is for.
fn is_mark(granted: &Right) -> bool {
    *granted == right(INJECTS_CA, "coder.com", "codercontrolplanes")
}

#[tokio::test]
async fn granted_minus_used_is_nothing_and_nothing_is_refused() {
    let cluster = Cluster::start(ClusterOptions { audit: true, ..Default::default() }).await;
    let installation = Installation::new(&cluster, "rights").await;
    let mut options = installation.operator("all").await;
    options.flags =
        ["--leaf-lifetime=2s", "--ca-propagation=1s", "--ca-retirement-margin=1s"].map(str::to_owned).into();
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    exercise(&cluster, &installation, operator.ports.webhooks, operator.ports.metrics).await;
    let gateway = gateway();
    kinds_that_come_later(&cluster, &installation.namespace, &gateway).await;
    let team = cluster.namespace("team").await;
    let handed_on = run_a_control_plane(&cluster, &installation.namespace, &team).await;

    // What may be handed on is used by being handed on, and else not at all.
    for (account, user, handed_on) in [
        (&installation.service_account, installation.user(), BTreeSet::new()),
        (&installation.grants_account, installation.grants_user(), handed_on),
    ] {
        let granted = granted(&cluster, &installation, account).await;
        assert!(granted.len() > 5, "{account}: {granted:?}");
        until("every granted right to be used", LIMIT, async || {
            let used = &used(&cluster, &user).0 | &handed_on;
            let idle: Vec<_> = granted
                .difference(&used)
                .filter(|right| !is_used_elsewhere(right) && !is_mark(right))
                .collect();
            holds(idle.is_empty(), format!("granted to {account} but never used: {idle:?}"))
        })
        .await;
        let (used, refused) = used(&cluster, &user);
        assert_eq!(refused, Vec::<String>::new(), "{account} tried what it may not do");
        assert_eq!(used.difference(&granted).collect::<Vec<_>>(), Vec::<&Right>::new(), "{account}");
        assert_eq!(used.intersection(&handed_on).collect::<Vec<_>>(), Vec::<&Right>::new(), "{account}");
    }
}

async fn account_is_changed(cluster: &Cluster, namespace: &str) {
    let words = format!("get serviceaccount coder -n {namespace} -o jsonpath={{.metadata.annotations.role}}");
    until("the account to be changed", LIMIT, async || {
        let role = cluster.kubectl(&words).await.expect_ok();
        holds(role == "r", role)
    })
    .await;
}

/// A provisioner and a workspace proxy of the control plane.
async fn apply_dependants(cluster: &Cluster, namespace: &str) {
    let provisioner = serde_json::json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": "builders", "namespace": namespace }, "spec": { "controlPlaneRef": { "name": "coder" } } });
    let mut proxy = provisioner.clone();
    (proxy["kind"], proxy["metadata"]["name"]) = ("CoderWorkspaceProxy".into(), "sydney".into());
    for object in [provisioner, proxy] {
        cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
    }
}

/// Makes the operator do everything it does for a control plane, and take all of it back again. Returns what coderd was
/// given in a namespace of its workspaces.
pub(crate) async fn run_a_control_plane(cluster: &Cluster, namespace: &str, team: &str) -> BTreeSet<Right> {
    let gateway = gateway();
    cluster
        .kubectl(&format!("label namespace {team} coder.com/workspaces-from={namespace}"))
        .await
        .expect_ok();
    let settings = format!("create configmap settings -n {namespace} --from-literal=A=1");
    cluster.kubectl(&settings).await.expect_ok();
    let apply = async |spec: serde_json::Value| {
        let manifest = serde_json::json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": namespace }, "spec": spec });
        let words = "apply --server-side --field-manager=git -f -";
        cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    };
    let count = async |kinds: &str, wanted: usize| {
        until(&format!("{wanted} of {kinds}"), LIMIT, async || {
            let found = cluster.kubectl(&format!("get {kinds} -n {namespace} -o name")).await.expect_ok();
            holds(found.lines().filter(|line| line.ends_with("/coder")).count() == wanted, found)
        })
        .await;
    };
    apply_dependants(cluster, namespace).await;
    let database = serde_json::json!({ "name": "CODER_PG_CONNECTION_URL",
        "value": "postgres://coder@nobody.invalid/coder" });
    let mut everything = serde_json::json!({
        "extraEnv": [database], "envFrom": [{ "configMapRef": { "name": "settings" } }], "podDisruptionBudget": {},
        "metrics": { "serviceMonitor": {} }, "rbac": { "workspaceNamespaces": [team] },
        "expose": { "ingress": { "host": "coder.example.com" } },
    });
    apply(everything.clone()).await;
    count("deployment,ingress,poddisruptionbudget,servicemonitor", 4).await;
    everything["serviceAccount"] = serde_json::json!({ "annotations": { "role": "r" } });
    apply(everything).await;
    account_is_changed(cluster, namespace).await;
    let handed_on = handed_on(cluster, team).await;
    // Nobody else writes it here: a rollout that is late, so that its pods are looked at.
    let late = r#"{"status":{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"late"}],"observedGeneration":9}}"#;
    let words = format!("patch deployment coder -n {namespace} --subresource=status --type=merge -p {late}");
    cluster.kubectl(&words).await.expect_ok();
    let wait = format!("wait ccp/coder -n {namespace} --for=condition=Stalled --timeout=30s");
    cluster.kubectl(&wait).await.expect_ok();
    let spec = serde_json::json!({ "extraEnv": [database], "expose": { "gateway": gateway }, "replicas": 0,
        "serviceAccount": { "name": "server" } });
    apply(spec).await;
    count("ingress,poddisruptionbudget,servicemonitor", 0).await;
    count("httproute", 1).await;
    // Nobody rolls out here, so we say that it is done: then the account that is no longer named goes.
    let rolled = serde_json::json!({ "status": { "observedGeneration": 99 } });
    let words =
        format!("patch deployment coder -n {namespace} --subresource=status --type=merge -p {rolled}");
    cluster.kubectl(&words).await.expect_ok();
    count("serviceaccount", 0).await;
    apply(serde_json::json!({})).await;
    count("httproute", 0).await;
    cluster.kubectl(&format!("delete ccp coder -n {namespace} --timeout=30s")).await.expect_ok();
    handed_on
}

/// A way in by the Gateway API.
fn gateway() -> serde_json::Value {
    serde_json::json!({ "host": "coder.example.com", "parentRefs": [{ "name": "edge" }] })
}

/// What coderd was given in a namespace, once it was.
async fn handed_on(cluster: &Cluster, team: &str) -> BTreeSet<Right> {
    until("the rights abroad", LIMIT, async || {
        let words = format!("get roles -n {team} -l coder.com/control-plane -o jsonpath={{.items[0].rules}}");
        let rules = cluster.kubectl(&words).await;
        holds(rules.ok, rules.stderr)?;
        Ok::<_, String>(rights_of(&serde_json::from_str(&rules.stdout).unwrap()))
    })
    .await
}

/// A control plane asks for an HTTPRoute before the cluster knows the kind: it is made when the kind comes, and followed
/// from then on. Three times in a row, faster than any timer would look.
async fn kinds_that_come_later(cluster: &Cluster, namespace: &str, gateway: &serde_json::Value) {
    let manifest = serde_json::json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "early", "namespace": namespace }, "spec": { "expose": { "gateway": gateway } } });
    cluster.kubectl_with_input("apply --server-side -f -", &manifest.to_string()).await.expect_ok();
    let wait = format!(
        "wait ccp/early -n {namespace} --for=jsonpath={{.status.conditions[?(@.type==\"Exposed\")].reason}}"
    );
    cluster.kubectl(&format!("{wait}=NoGatewayAPI --timeout=30s")).await.expect_ok();
    cluster.kubectl_with_input("apply --server-side -f -", &support::optional_kinds()).await.expect_ok();
    cluster.crds_established().await;
    cluster.forget_discovery();
    for round in 0..3 {
        until(&format!("the HTTPRoute to come, round {round}"), Duration::from_secs(9), async || {
            let found = cluster.kubectl(&format!("get httproute early -n {namespace} -o name")).await;
            holds(found.ok, found.stderr)
        })
        .await;
        cluster.kubectl(&format!("delete httproute early -n {namespace}")).await.expect_ok();
    }
    cluster.kubectl(&format!("delete ccp early -n {namespace} --timeout=30s")).await.expect_ok();
}

/// Makes the operator do everything it can do: inject into each kind of target, rotate, review a caller.
pub(crate) async fn exercise(cluster: &Cluster, installation: &Installation, webhooks: u16, metrics: u16) {
    let namespace = &installation.namespace;
    let service = serde_json::json!({ "namespace": namespace, "name": "hooks", "port": webhooks });
    let label = serde_json::json!({ "coder.com/inject-ca": "true" });
    let webhook = serde_json::json!({ "name": "none.example.com", "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "clientConfig": { "service": service },
        "rules": [{ "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["nothing"],
            "operations": ["CREATE"] }] });
    let configuration = |kind: &str| {
        serde_json::json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": { "name": namespace, "labels": label }, "webhooks": [webhook] })
    };
    let items = [
        configuration("MutatingWebhookConfiguration"),
        configuration("ValidatingWebhookConfiguration"),
        serde_json::json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1.none.example.com", "labels": label },
            "spec": { "group": "none.example.com", "version": "v1", "groupPriorityMinimum": 100,
                "versionPriority": 100, "service": service } }),
    ];
    let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items });
    cluster.kubectl_with_input("apply --server-side -f -", &list.to_string()).await.expect_ok();
    // Twice: an Event that happens again is patched, not created.
    for round in 0..2 {
        let ask = format!("annotate secret coder-k8s-ca -n {namespace} coder.com/rotate-ca={round}");
        cluster.kubectl(&ask).await.expect_ok();
        until("the rotation to begin", LIMIT, async || {
            let query =
                format!("get secret coder-k8s-ca -n {namespace} -o jsonpath={{.metadata.annotations}}");
            let annotations = cluster.kubectl(&query).await.expect_ok();
            holds(!annotations.contains("rotate-ca"), annotations)
        })
        .await;
    }
    cluster.kubectl(&format!("create serviceaccount caller -n {namespace}")).await.expect_ok();
    let token = cluster.token(namespace, "caller", &[]).await;
    let request = http::Request::get("/metrics").header("authorization", format!("Bearer {token}"));
    let ca = installation.ca().await;
    let name = format!("hooks.{namespace}.svc");
    let (status, _) = support::https::ask(metrics, &ca, &name, request, "").await.unwrap();
    assert_eq!(status, 403, "reviewed, and not allowed");
}
