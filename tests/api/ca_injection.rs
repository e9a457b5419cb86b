//! The policy on the operator's patches: of labelled webhook configurations and APIServices the caBundle,
//! and nothing else of any.
//! Each case is a request with the rights of the shipped service account, answered by the real API server.

use json_patch::Patch as JsonPatch;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, ServiceReference, ValidatingWebhook, WebhookClientConfig,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;
use support::installation::repository;
use support::wait::holds;
use support::{Cluster, Installation, until};

const LIMIT: Duration = Duration::from_secs(30);
const ALONE: &str = "the operator may change caBundle alone";
const LABELLED: &str = "labelled.injection.example.com";
const BARE: &str = "bare.injection.example.com";

/// A kind that carries a caBundle: where, and an object of it that nobody calls.
struct Kind {
    group: &'static str,
    kind: &'static str,
    bundle: &'static str,
    /// Everything else, each as the path and another value.
    forbidden: Vec<(&'static str, Value)>,
}

impl Kind {
    fn object(&self, name: &str, labels: &Value) -> Value {
        let mut object = json!({ "apiVersion": format!("{}/v1", self.group), "kind": self.kind,
            "metadata": { "name": self.name(name), "labels": labels } });
        if self.kind == "APIService" {
            object["spec"] = json!({ "group": name, "version": "v1", "groupPriorityMinimum": 100,
                "versionPriority": 100, "service": { "namespace": "default", "name": "nobody" } });
        } else {
            object["webhooks"] = json!([{ "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "service": { "namespace": "default", "name": "nobody" } },
                "rules": [{ "apiGroups": [name], "apiVersions": ["v1"], "resources": ["nothing"],
                    "operations": ["CREATE"] }] }]);
        }
        object
    }

    /// An APIService is called after its version and group.
    fn name(&self, name: &str) -> String {
        if self.kind == "APIService" { format!("v1.{name}") } else { name.to_owned() }
    }

    /// What a change is answered with; nothing is stored.
    async fn answer(&self, client: &Client, name: &str, path: &str, value: &Value) -> Result<(), String> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(self.group, "v1", self.kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let patch: JsonPatch =
            serde_json::from_value(json!([{ "op": "add", "path": path, "value": value }])).unwrap();
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let answer = api.patch(&self.name(name), &dry, &Patch::<()>::Json(patch)).await;
        answer.map(drop).map_err(|error| error.to_string())
    }
}

fn kinds() -> [Kind; 3] {
    let metadata = || {
        [
            ("/metadata/labels", json!({})),
            ("/metadata/annotations", json!({ "a": "b" })),
            ("/metadata/finalizers", json!(["example.com/hold"])),
        ]
    };
    let webhook = || {
        let fields = [
            ("/webhooks/0/failurePolicy", json!("Ignore")),
            ("/webhooks/0/clientConfig/service/name", json!("somebody")),
            ("/webhooks/0/clientConfig/service/path", json!("/other")),
            ("/webhooks/0/rules/0/resources", json!(["everything"])),
            ("/webhooks/0/timeoutSeconds", json!(1)),
            ("/webhooks/0/objectSelector", json!({ "matchLabels": { "a": "b" } })),
            ("/webhooks/0/matchConditions", json!([{ "name": "never", "expression": "false" }])),
            ("/webhooks/0/name", json!("other.example.com")),
            ("/webhooks", json!([])),
        ];
        fields.into_iter().chain(metadata()).collect()
    };
    let service = [
        ("/spec/service/name", json!("somebody")),
        ("/spec/service/port", json!(8443)),
        ("/spec/groupPriorityMinimum", json!(1000)),
        ("/spec/versionPriority", json!(1)),
        ("/spec/insecureSkipTLSVerify", json!(true)),
    ];
    let (group, bundle) = ("admissionregistration.k8s.io", "/webhooks/0/clientConfig/caBundle");
    [
        Kind { group, kind: "MutatingWebhookConfiguration", bundle, forbidden: webhook() },
        Kind { group, kind: "ValidatingWebhookConfiguration", bundle, forbidden: webhook() },
        Kind {
            group: "apiregistration.k8s.io",
            kind: "APIService",
            bundle: "/spec/caBundle",
            forbidden: service.into_iter().chain(metadata()).collect(),
        },
    ]
}

/// A certificate, as a caBundle has it.
async fn bundle(cluster: &Cluster) -> Value {
    let words = "get configmap extension-apiserver-authentication -n kube-system -o json";
    let read: Value = serde_json::from_str(&cluster.kubectl(words).await.expect_ok()).unwrap();
    let pem = read["data"]["requestheader-client-ca-file"].as_str().expect("the front proxy has a CA");
    serde_json::to_value(k8s_openapi::ByteString(pem.as_bytes().to_vec())).unwrap()
}

#[tokio::test]
async fn the_operator_changes_the_bundle_of_labelled_objects_and_nothing_else() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "ca-injection").await;
    let operator = cluster.client_as(&cluster.kubeconfig(), &installation.user()).await;
    let (administrator, bundle) = (cluster.client().await, bundle(cluster).await);
    let labels = json!({ "coder.com/inject-ca": "true" });
    for kind in kinds() {
        for object in [kind.object(LABELLED, &labels), kind.object(BARE, &json!({}))] {
            cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
        }
        // A policy counts a moment after it is stored.
        until("the policy to be in force", LIMIT, async || {
            let answer = kind.answer(&operator, BARE, kind.bundle, &bundle).await;
            let refused =
                answer.as_ref().is_err_and(|said| said.contains("labelled coder.com/inject-ca=true"));
            holds(refused, format!("{}: {answer:?}", kind.kind))
        })
        .await;
        assert_eq!(kind.answer(&operator, LABELLED, kind.bundle, &bundle).await, Ok(()), "{}", kind.kind);
        let refused = kind.answer(&operator, BARE, "/metadata/labels", &labels).await.unwrap_err();
        assert!(refused.contains("label the object"), "it labels what it wants to change: {refused}");
        for (path, value) in &kind.forbidden {
            let refused = kind.answer(&operator, LABELLED, path, value).await.expect_err(path);
            assert!(refused.contains(ALONE), "{} {path}: {refused}", kind.kind);
            let allowed = kind.answer(&administrator, LABELLED, path, value).await;
            assert!(
                !allowed.as_ref().is_err_and(|said| said.contains(ALONE)),
                "{} {path}: an administrator is limited: {allowed:?}",
                kind.kind
            );
        }
        for name in [LABELLED, BARE] {
            cluster.kubectl(&format!("delete {} {}", kind.kind, kind.name(name))).await.expect_ok();
        }
    }
}

/// Whether the operator is refused what it may not change, of an object that does not ask for its CA.
async fn is_limited(operator: &Client, kind: &Kind, name: &str, bundle: &Value) -> Result<(), String> {
    let answer = kind.answer(operator, name, kind.bundle, bundle).await;
    holds(answer.as_ref().is_err_and(|said| said.contains("label the object")), format!("{answer:?}"))
}

/// What others hold who patch webhook configurations and do not update them. None of it is any business of ours.
const OTHERS: [(&str, &[&str]); 3] = [
    ("nothing-else", &[]),
    // The manager of CloudNativePG 1.28 writes its own caBundle, and leads by a lease in whatever namespace it runs in.
    ("cnpg-manager", &["create,get,update leases.coordination.k8s.io", "get CONFIGURATIONS"]),
    // It may do everything with objects of ours, by a wildcard.
    ("administrator-of-coder", &["* codercontrolplanes.coder.com,coderprovisioners.coder.com"]),
];

#[tokio::test]
async fn an_account_that_does_not_inject_our_ca_is_not_limited() {
    const CONFIGURATIONS: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io,validatingwebhookconfigurations.admissionregistration.k8s.io";
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "ca-of-others").await;
    let namespace = &installation.namespace;
    let bundle = bundle(cluster).await;
    let operator = cluster.client_as(&cluster.kubeconfig(), &installation.user()).await;
    let mut others = Vec::new();
    for (account, rights) in OTHERS {
        for (number, right) in [&["patch CONFIGURATIONS"][..], rights].concat().into_iter().enumerate() {
            let (verbs, resources) = right.split_once(' ').unwrap();
            let resources = resources.replace("CONFIGURATIONS", CONFIGURATIONS);
            let role = format!("{namespace}-{account}-{number}");
            let words = format!("create clusterrole {role} --verb={verbs} --resource={resources}");
            cluster.kubectl(&words).await.expect_ok();
            let bind = format!("create clusterrolebinding {role} --clusterrole={role}");
            cluster.kubectl(&format!("{bind} --serviceaccount={namespace}:{account}")).await.expect_ok();
        }
        let user = format!("system:serviceaccount:{namespace}:{account}");
        others.push((account, cluster.client_as(&cluster.kubeconfig(), &user).await));
    }
    for kind in &kinds()[..2] {
        let name = "others.injection.example.com";
        let object = kind.object(name, &json!({}));
        cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
        let in_force = async || is_limited(&operator, kind, name, &bundle).await;
        until("the policy to be in force", LIMIT, in_force).await;
        for (account, other) in &others {
            // A binding counts a moment after it is stored.
            until("its own rights", LIMIT, async || {
                let answer = kind.answer(other, name, kind.bundle, &bundle).await;
                let limited = answer.as_ref().is_err_and(|said| said.contains("the operator"));
                assert!(!limited, "{account}: {answer:?}");
                answer
            })
            .await;
        }
        cluster.kubectl(&format!("delete {} {name}", kind.kind)).await.expect_ok();
    }
}

/// By way of its account for grants it may delete any RoleBinding, its own at home included: the policy must not depend on one.
#[tokio::test]
async fn the_operator_cannot_switch_the_policy_off_by_deleting_its_own_rolebinding() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "ca-switch").await;
    let (namespace, bundle) = (&installation.namespace, bundle(cluster).await);
    let kind = &kinds()[1];
    let name = "switch.injection.example.com";
    let object = kind.object(name, &json!({}));
    cluster.kubectl_with_input("apply --server-side -f -", &object.to_string()).await.expect_ok();
    let operator = cluster.client_as(&cluster.kubeconfig(), &installation.user()).await;
    let limited = async || is_limited(&operator, kind, name, &bundle).await;
    until("the policy to be in force", LIMIT, async || limited().await).await;
    let grants = installation.grants_user();
    let delete =
        format!("delete rolebinding --namespace={namespace} --as={grants} {namespace}-coder-k8s-operator");
    cluster.kubectl(&delete).await.expect_ok();
    let everywhere = format!("delete clusterrolebinding --as={grants} {namespace}-coder-k8s-operator");
    cluster.kubectl(&everywhere).await.expect_refused();
    let lease = format!(
        "auth can-i update leases.coordination.k8s.io/coder-k8s-authority.coder.com -n {namespace} --as={}",
        installation.user()
    );
    until("the RoleBinding to be gone", LIMIT, async || {
        let answer = cluster.kubectl(&lease).await.stdout;
        holds(answer.trim() == "no", answer)
    })
    .await;
    assert_eq!(limited().await, Ok(()));
    cluster.kubectl(&format!("delete {} {name}", kind.kind)).await.expect_ok();
}

/// The policy names each field, since CEL cannot take one out of an object: a field that a later API has and the policy
/// does not name would be the operator's to change. These values do not compile without it.
#[test]
fn the_policy_names_every_field_but_the_bundle() {
    let policy = std::fs::read_to_string(repository().join("kustomize/base/ca-injection.yaml")).unwrap();
    let text = || Some("text".to_owned());
    let (conditions, rules) = (Some(vec![MatchCondition::default()]), Some(Vec::new()));
    let called =
        WebhookClientConfig { ca_bundle: None, service: Some(ServiceReference::default()), url: text() };
    let mutating = MutatingWebhook {
        admission_review_versions: Vec::new(),
        client_config: called.clone(),
        failure_policy: text(),
        match_conditions: conditions.clone(),
        match_policy: text(),
        name: String::new(),
        namespace_selector: Some(Default::default()),
        object_selector: Some(Default::default()),
        reinvocation_policy: text(),
        rules: rules.clone(),
        side_effects: String::new(),
        timeout_seconds: Some(1),
    };
    let validating = ValidatingWebhook {
        admission_review_versions: Vec::new(),
        client_config: called.clone(),
        failure_policy: text(),
        match_conditions: conditions,
        match_policy: text(),
        name: String::new(),
        namespace_selector: Some(Default::default()),
        object_selector: Some(Default::default()),
        rules,
        side_effects: String::new(),
        timeout_seconds: Some(1),
    };
    let service = APIServiceSpec {
        ca_bundle: None,
        group: text(),
        group_priority_minimum: 1,
        insecure_skip_tls_verify: Some(false),
        service: Some(Default::default()),
        version: text(),
        version_priority: 1,
    };
    let values = [
        ("hook.", serde_json::to_value(mutating).unwrap()),
        ("hook.", serde_json::to_value(validating).unwrap()),
        ("hook.clientConfig.", serde_json::to_value(called).unwrap()),
        ("object.?spec.", serde_json::to_value(service).unwrap()),
    ];
    for (at, value) in values {
        let fields = value.as_object().unwrap().keys();
        // The name is what a webhook is found by; what is called is compared field by field.
        for field in fields.filter(|field| !["name", "clientConfig"].contains(&field.as_str())) {
            assert!(policy.contains(&format!("{at}?{field} == ")), "{at}{field} may be changed");
        }
    }
}
