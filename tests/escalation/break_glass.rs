//! A namespace whose label keeps the webhooks out: the shipped policy asks there whether the author may escalate roles.
//! It never needs the operator: the API server answers alone.

use super::tenant::{Desk, Tenant, Way, fresh, object};
use serde_json::{Value, json};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;
use webhooks::Kind::{self, ControlPlane, Provisioner, WorkspaceProxy};

/// Rights of somebody who runs whatever he likes in the namespace, but writes no Roles there.
const RUNNER: [&str; 5] = [
    "create,get,list,watch,update,patch,delete,deletecollection pods,persistentvolumeclaims,services",
    "create,get,list,watch,update,patch,delete,deletecollection deployments.apps",
    "create ingresses.networking.k8s.io",
    "get secrets",
    "create,update,patch roles,rolebindings.rbac.authorization.k8s.io",
];

/// What the policy says, or that it says nothing.
fn told(answer: Result<Value, kube::Error>) -> Result<String, String> {
    match answer {
        Err(kube::Error::Api(status)) if (status.code, status.reason.as_str()) == (403, "Forbidden") => {
            let whole =
                status.message.contains("(CODER0511)") && status.message.contains("coder.com/admission");
            holds(whole, format!("another denial: {}", status.message))?;
            Ok(status.message)
        }
        other => Err(format!("no denial but {other:?}")),
    }
}

/// The desk, once the policy is in force there.
async fn guarded(tenant: &Tenant) -> Desk<'_> {
    let desk = tenant.unguarded_desk().await;
    let nobody = desk.person(&[]).await;
    until("the policy to be in force", LIMIT, async || {
        told(desk.send(&nobody, Way::Create, true, &object(ControlPlane, "probe", &json!({}))).await)
            .map(drop)
    })
    .await;
    desk
}

/// The stored object with other fields of its spec.
fn with(stored: &Value, change: &Value) -> Value {
    let mut changed = stored.clone();
    for (field, value) in change.as_object().unwrap() {
        changed["spec"][field] = value.clone();
    }
    changed
}

#[tokio::test]
async fn with_the_webhooks_off_nobody_creates_who_may_not_escalate() {
    let desk = guarded(Tenant::shared().await).await;
    let (runner, trusted) =
        (desk.person(&RUNNER).await, desk.person(&["escalate roles.rbac.authorization.k8s.io"]).await);
    for kind in Kind::ALL {
        for way in [Way::Create, Way::Apply] {
            let made = object(kind, &fresh("unasked"), &json!({}));
            for dry_run in [true, false] {
                let message = told(desk.send(&runner, way, dry_run, &made).await).unwrap();
                assert!(message.contains(": spec: you may not escalate"), "{message}");
            }
            assert_eq!(desk.found(&made).await, None, "{kind:?} {way:?}");
        }
        let made = object(kind, &fresh("trusted"), &json!({}));
        desk.send(&trusted, Way::Apply, false, &made)
            .await
            .unwrap_or_else(|error| panic!("{kind:?}: {error}"));
    }
}

/// Kind and change of every door that admission keeps.
fn doors() -> Vec<(Kind, Value)> {
    [doors_of_control_planes_and_provisioners(), doors_of_workspace_proxies()].concat()
}

fn doors_of_control_planes_and_provisioners() -> Vec<(Kind, Value)> {
    let rule = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
    vec![
        (ControlPlane, json!({ "rbac": { "extraRules": [rule] } })),
        (ControlPlane, json!({ "rbac": { "workspaceNamespaces": ["kube-system"] } })),
        (ControlPlane, json!({ "serviceAccount": { "name": "robot" } })),
        (ControlPlane, json!({ "serviceAccount": { "annotations": { "eks.amazonaws.com/role-arn": "r" } } })),
        (ControlPlane, json!({ "image": "registry.example.com/mine:v2.36.1" })),
        (ControlPlane, json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] })),
        (ControlPlane, json!({ "volumes": [{ "name": "n", "hostPath": { "path": "/" } }] })),
        (ControlPlane, json!({ "securityContext": { "privileged": true } })),
        (ControlPlane, json!({ "podSecurityContext": { "runAsUser": 0 } })),
        (ControlPlane, json!({ "expose": { "ingress": { "host": "c.example.com" } } })),
        (ControlPlane, json!({ "service": { "type": "LoadBalancer" } })),
        (ControlPlane, json!({ "operatorAccess": { "tokenSecretRef": { "name": "payroll" } } })),
        (ControlPlane, json!({ "aggregation": {} })),
        (Provisioner, json!({ "image": "registry.example.com/mine:v2.36.1" })),
        (Provisioner, json!({ "bootstrap": { "credentialsSecretRef": { "name": "payroll" } } })),
        (Provisioner, json!({ "rbac": { "enableDeployments": true } })),
        (Provisioner, json!({ "rbac": { "extraRules": [rule] } })),
        (Provisioner, json!({ "controlPlaneRef": { "name": "other" } })),
        (Provisioner, json!({ "key": { "name": "of-others" } })),
        (Provisioner, json!({ "organizationName": "of-others" })),
        (Provisioner, json!({ "tags": { "environment": "production" } })),
        (Provisioner, json!({ "serviceAccount": { "name": "robot" } })),
        (
            Provisioner,
            json!({ "initContainers": [{ "name": "before", "image": "registry.example.com/mine:v1" }] }),
        ),
        (Provisioner, json!({ "volumes": [{ "name": "n", "hostPath": { "path": "/" } }] })),
        (Provisioner, json!({ "securityContext": { "privileged": true } })),
        (Provisioner, json!({ "podLabels": { "app": "of-others" } })),
        (Provisioner, json!({ "deletionPolicy": "Orphan" })),
        (Provisioner, json!({ "key": { "secretName": "payroll" } })),
    ]
}

fn doors_of_workspace_proxies() -> Vec<(Kind, Value)> {
    let mine = json!({ "coderURL": "https://mine.example.com", "credentialsSecretRef": { "name": "mine" } });
    vec![
        (WorkspaceProxy, json!({ "bootstrap": mine })),
        (WorkspaceProxy, json!({ "bootstrap": null, "controlPlaneRef": { "name": "of-others" } })),
        (
            WorkspaceProxy,
            json!({ "bootstrap": null, "primaryAccessURL": "https://mine.example.com",
            "proxySessionTokenSecretRef": { "name": "payroll" } }),
        ),
        (WorkspaceProxy, json!({ "image": "registry.example.com/mine:v2.36.1" })),
        (WorkspaceProxy, json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] })),
        (WorkspaceProxy, json!({ "volumes": [{ "name": "n", "hostPath": { "path": "/" } }] })),
        (WorkspaceProxy, json!({ "tls": { "secretNames": ["payroll"] } })),
        (
            WorkspaceProxy,
            json!({ "initContainers": [{ "name": "before", "image": "registry.example.com/mine:v1" }] }),
        ),
        (WorkspaceProxy, json!({ "podSecurityContext": { "runAsUser": 0 } })),
        (WorkspaceProxy, json!({ "wildcardAccessURL": "*.mine.example.com" })),
        (WorkspaceProxy, json!({ "derpOnly": true })),
        (WorkspaceProxy, json!({ "podLabels": { "app": "of-others" } })),
        (WorkspaceProxy, json!({ "deletionPolicy": "Orphan" })),
        (WorkspaceProxy, json!({ "service": { "type": "LoadBalancer" } })),
        (WorkspaceProxy, json!({ "primaryAccessURL": "https://mine.example.com" })),
        (WorkspaceProxy, json!({ "extraArgs": ["--verbose"] })),
        (WorkspaceProxy, json!({ "accessURL": "https://mine.example.com" })),
        (WorkspaceProxy, json!({ "expose": { "ingress": { "host": "p.example.com" } } })),
        (WorkspaceProxy, json!({ "securityContext": { "privileged": true } })),
        (WorkspaceProxy, json!({ "serviceAccount": { "name": "robot" } })),
    ]
}

#[tokio::test]
async fn with_the_webhooks_off_every_door_asks_for_escalate() {
    let desk = guarded(Tenant::shared().await).await;
    let (runner, trusted) =
        (desk.person(&RUNNER).await, desk.person(&["escalate roles.rbac.authorization.k8s.io @*"]).await);
    super::all(doors(), async |(kind, change)| {
        let tell = |problem: String| format!("{kind:?} {change}: {problem}");
        let stored = desk.stored(kind, &fresh("door"), &json!({})).await.map_err(tell)?;
        let changed = with(&stored, &change);
        let message = told(desk.send(&runner, Way::Update, false, &changed).await).map_err(tell)?;
        let is_named =
            |field: &String| [",", ":"].iter().any(|end| message.contains(&format!(" spec.{field}{end}")));
        holds(change.as_object().unwrap().keys().all(is_named), tell(format!("no field: {message}")))?;
        holds(desk.found(&stored).await.as_ref() == Some(&stored), tell("it changed".to_owned()))?;
        let sent = desk.send(&trusted, Way::Update, false, &changed).await;
        let opened = sent.map_err(|error| tell(error.to_string()))?;

        // Closing a door is a change of what runs as well; the same again is none.
        desk.send(&runner, Way::Update, false, &opened).await.map_err(|error| tell(error.to_string()))?;
        let mut closed = opened.clone();
        closed["spec"] = stored["spec"].clone();
        told(desk.send(&runner, Way::Update, false, &closed).await).map(drop).map_err(tell)
    })
    .await;
}

/// Who may grant everything at home grants nothing in the namespaces of others.
#[tokio::test]
async fn with_the_webhooks_off_rights_elsewhere_ask_for_escalate_everywhere() {
    let desk = guarded(Tenant::shared().await).await;
    let escalate = "escalate roles.rbac.authorization.k8s.io";
    let (owner, trusted) = (desk.person(&[escalate]).await, desk.person(&[&format!("{escalate} @*")]).await);
    let elsewhere = json!({ "rbac": { "workspaceNamespaces": ["team-a"] } });
    let told = |answer| {
        let message = told(answer).unwrap();
        assert!(
            message.contains("spec.rbac.workspaceNamespaces: ") && message.contains("all namespaces"),
            "{message}"
        );
    };
    for way in [Way::Create, Way::Apply] {
        let made = object(ControlPlane, &fresh("elsewhere"), &elsewhere);
        told(desk.send(&owner, way, false, &made).await);
        assert_eq!(desk.found(&made).await, None);
    }
    let stored = desk.stored(ControlPlane, &fresh("at-home"), &json!({})).await.unwrap();
    told(desk.send(&owner, Way::Update, false, &with(&stored, &elsewhere)).await);
    let opened = desk.send(&trusted, Way::Update, false, &with(&stored, &elsewhere)).await.unwrap();
    let mut widened = opened.clone();
    widened["spec"]["rbac"]["extraRules"] =
        json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }]);
    told(desk.send(&owner, Way::Update, false, &widened).await);
    let image = json!({ "image": "registry.example.com/other:v2.36.1" });
    let changed = desk.send(&owner, Way::Update, false, &with(&opened, &image)).await;
    let changed = changed.expect("the rights stay as they are");
    let home = json!({ "rbac": { "workspaceNamespaces": [stored["metadata"]["namespace"]], "enableDeployments": false } });
    desk.send(&owner, Way::Update, false, &with(&changed, &home)).await.expect("they end at home");
}

/// Else it could appear between the two evaluations of a request, so that neither asks.
#[tokio::test]
async fn the_label_that_switches_the_webhooks_off_asks_for_escalate() {
    let tenant = Tenant::shared().await;
    let (guarded, unguarded) = (tenant.desk().await, tenant.unguarded_desk().await);
    let writing = "create,update,patch namespaces,namespaces/status,namespaces/finalize @*";
    let escalate = "escalate roles.rbac.authorization.k8s.io";
    let labeller = guarded.person(&[writing]).await;
    let [trusted, elsewhere] =
        [guarded.person(&[writing, escalate]).await, unguarded.person(&[writing, escalate]).await];
    let label = "coder.com/admission";
    until("the policy to be in force", LIMIT, async || {
        told(guarded.try_label(&labeller, "", (label, Some("disabled"))).await).map(drop)
    })
    .await;
    for subresource in ["", "/status", "/finalize"] {
        for value in ["disabled", "enabled", ""] {
            let answer = guarded.try_label(&labeller, subresource, (label, Some(value))).await;
            told(answer).unwrap_or_else(|problem| panic!("set {value:?} by {subresource:?}: {problem}"));
        }
        for value in [None, Some("enabled")] {
            let answer = unguarded.try_label(&labeller, subresource, (label, value)).await;
            told(answer)
                .unwrap_or_else(|problem| panic!("changed to {value:?} by {subresource:?}: {problem}"));
        }
        for desk in [&guarded, &unguarded] {
            let answer = desk.try_label(&labeller, subresource, ("team", Some("a"))).await;
            answer.unwrap_or_else(|error| panic!("another label by {subresource:?}: {error}"));
        }
        let answer = guarded.try_label(&trusted, subresource, (label, Some("disabled"))).await;
        answer.unwrap_or_else(|error| panic!("set with the right by {subresource:?}: {error}"));
        told(guarded.try_label(&elsewhere, subresource, (label, Some("disabled"))).await).unwrap();
    }
    told(guarded.try_namespace(&labeller, &json!({ label: "disabled" })).await).unwrap();
    for labels in [json!({}), json!({ "team": "a" })] {
        guarded.try_namespace(&labeller, &labels).await.expect("the other labels are nobody's business");
    }
}

#[tokio::test]
async fn with_the_webhooks_off_annotations_that_act_ask_for_escalate() {
    let desk = guarded(Tenant::shared().await).await;
    let runner = desk.person(&RUNNER).await;
    let names = crds::well_known::annotation::ACTING;
    for (kind, name) in Kind::ALL.into_iter().flat_map(|kind| names.map(|name| (kind, name))) {
        let stored = desk.stored(kind, &fresh("acting"), &json!({})).await.unwrap();
        let mut marked = stored.clone();
        marked["metadata"]["annotations"] = json!({ name: "x" });
        let message = told(desk.send(&runner, Way::Update, false, &marked).await).unwrap();
        assert!(message.contains(": metadata.annotations: "), "{kind:?}: {message}");
        assert_eq!(desk.found(&stored).await, Some(stored));
    }
}

#[tokio::test]
async fn with_the_webhooks_off_what_runs_nothing_else_still_works() {
    let desk = guarded(Tenant::shared().await).await;
    let author = desk.person(&[]).await;
    let calm = json!({ "replicas": 2, "suspend": true, "resources": { "limits": { "memory": "1Gi" } } });
    let stored = desk.stored(ControlPlane, &fresh("calm"), &json!({})).await.unwrap();
    let mut changed = with(&stored, &calm);
    changed["metadata"]["labels"] = json!({ "team": "a" });
    changed["metadata"]["annotations"] = json!({ "coder.com/reconcile-at": "now" });
    let changed = desk.send(&author, Way::Update, false, &changed).await.expect("what runs stays as it is");
    let name = stored["metadata"]["name"].as_str().unwrap();
    desk.scale(&author, name, 5).await.expect("scaling asks nobody");
    assert_eq!(desk.found(&changed).await.unwrap()["spec"]["replicas"], 5);

    for kind in Kind::ALL {
        let held = desk.held_in_deletion(kind, &json!({})).await;
        let attack = with(&held, &json!({ "image": "registry.example.com/mine:v2.36.1" }));
        told(desk.send(&author, Way::Update, false, &attack).await).unwrap();
        let mut released = held;
        released["metadata"].as_object_mut().unwrap().remove("finalizers");
        desk.send(&author, Way::Update, false, &released).await.expect("the finalizer goes");
        assert_eq!(desk.found(&released).await, None, "{kind:?}");
    }
}
