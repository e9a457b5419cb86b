//! Tests of what is asked for which change, and of how answers become a decision.
//! They never meet a cluster: the answers are given by the test.

mod pods;

use serde_json::{Value, json};

use super::*;

const NS: &str = "coder";

fn control_plane(spec: Value) -> Value {
    json!({"metadata": {"name": "cp"}, "spec": spec})
}

fn proxy(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Field and questions of everything that is required.
fn asked(kind: Kind, old: Option<&Value>, new: &Value) -> Vec<(String, Vec<String>)> {
    let words = |checks: &[AccessCheck]| checks.iter().map(AccessCheck::in_words).collect::<Vec<_>>();
    required_access(old, new, NS, kind)
        .into_iter()
        .map(|access| {
            (access.field, words(&access.alternatives).into_iter().chain(words(&access.all_of)).collect())
        })
        .collect()
}

/// Runs an inquiry against a person who holds exactly what `holds` says.
fn inquired(required: Vec<Access>, holds: impl Fn(&AccessCheck) -> bool) -> (Vec<Cause>, usize) {
    let mut inquiry = Inquiry::new(required);
    let mut count = 0;
    loop {
        let questions = inquiry.questions();
        if questions.is_empty() {
            return (inquiry.causes(), count);
        }
        for question in questions {
            count += 1;
            let held = holds(&question);
            inquiry.record(question, held);
        }
    }
}

use crate::review::Cause;

fn denied(
    kind: Kind,
    old: Option<&Value>,
    new: &Value,
    holds: impl Fn(&AccessCheck) -> bool,
) -> Vec<&'static str> {
    inquired(required_access(old, new, NS, kind), holds).0.iter().map(|cause| cause.code).collect()
}

#[test]
fn nothing_special_asks_for_nothing() {
    for (kind, object) in [
        (
            Kind::ControlPlane,
            control_plane(json!({"serviceAccount": {"name": "cp"}, "rbac": {"workspaceNamespaces": [NS]}})),
        ),
        (Kind::Provisioner, json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": "cp"}}})),
        (Kind::ControlPlane, json!({})),
        (Kind::ControlPlane, json!([])),
    ] {
        assert_eq!(asked(kind, None, &object), []);
    }
}

#[test]
fn every_reference_is_asked_for_once_and_pods_are_enough() {
    let object = control_plane(json!({
        "licenseSecretRef": {"name": "l"},
        "operatorAccess": {"tokenSecretRef": {"name": "t"}},
        "imagePullSecrets": [{"name": "i"}],
        "tls": {"secretNames": ["tls"]},
        "certs": {"secrets": [{"name": "ca", "key": "ca.crt"}]},
        "expose": {"ingress": {"host": "h", "tls": {"secretName": "x", "wildcardSecretName": "y"}}},
        "envFrom": [{"secretRef": {"name": "e"}}, {"configMapRef": {"name": "c"}}],
        "extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
        "volumes": [
            {"name": "1", "secret": {"secretName": "v"}},
            {"name": "2", "configMap": {"name": "w"}},
            {"name": "3", "projected": {"sources": [{"secret": {"name": "ps"}}, {"configMap": {"name": "pc"}}]}},
        ],
    }));
    let required = required_access(None, &object, NS, Kind::ControlPlane);
    assert_eq!(required.len(), 15);
    assert!(required.iter().all(|access| access.code == "CODER0505"));
    let (causes, count) = inquired(required.clone(), |check| check.resource == "pods");
    assert_eq!((causes.len(), count), (0, 1), "one answer settles all");
    let (causes, count) = inquired(required.clone(), |check| check.verb == "get");
    assert_eq!((causes.len(), count), (0, 16));
    let (causes, _) = inquired(required, |_| false);
    assert_eq!(causes.len(), 15);
    assert_eq!(
        causes[0].line(),
        "spec.licenseSecretRef.name: you may not get secrets \"l\" in namespace coder; ask somebody who may get it, or may create pods in this namespace, to apply it (CODER0505)"
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&object), &object), []);
}

#[test]
fn another_key_of_a_secret_is_new_and_a_key_of_a_whole_one_is_not() {
    let key = |key: &str| control_plane(json!({"licenseSecretRef": {"name": "s", "key": key}}));
    assert_eq!(asked(Kind::ControlPlane, Some(&key("a")), &key("b")).len(), 1);
    let whole = control_plane(json!({"envFrom": [{"secretRef": {"name": "s"}}]}));
    assert_eq!(asked(Kind::ControlPlane, Some(&whole), &key("b")), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&key("b")), &whole).len(), 1);
}

#[test]
fn a_key_that_goes_without_saying_is_that_key_and_not_the_whole_secret() {
    let shown = |key: &str| json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}]);
    let key = |key: Value| json!({"spec": {"key": key}});
    let named = |name: &str| key(json!({"secretName": "s", "secretKey": name}));
    let silent = key(json!({"secretName": "s"}));
    assert_eq!(asked(Kind::Provisioner, Some(&silent), &named("key")), []);
    assert_eq!(asked(Kind::Provisioner, Some(&named("key")), &silent), []);
    assert_eq!(asked(Kind::Provisioner, Some(&silent), &named("other")).len(), 1);
    for (name, count) in [("key", 0), ("other", 1)] {
        let both = json!({"spec": {"key": {"secretName": "s"}, "extraEnv": shown(name)}});
        assert_eq!(asked(Kind::Provisioner, Some(&silent), &both).len(), count, "{name}");
    }
    let license = |reference: Value| control_plane(json!({"licenseSecretRef": reference}));
    let silent = license(json!({"name": "s"}));
    let named = |key: &str| license(json!({"name": "s", "key": key}));
    assert_eq!(asked(Kind::ControlPlane, Some(&silent), &named("license")), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&silent), &named("token")).len(), 1);
    let session = |reference: Value| {
        proxy(json!({"primaryAccessURL": "https://a", "proxySessionTokenSecretRef": reference}))
    };
    let silent = session(json!({"name": "s"}));
    assert_eq!(
        asked(Kind::WorkspaceProxy, Some(&silent), &session(json!({"name": "s", "key": "token"}))),
        []
    );
    for (name, count) in [("token", 0), ("other", 1)] {
        let env = proxy(json!({"extraEnv": shown(name)}));
        assert_eq!(asked(Kind::WorkspaceProxy, Some(&silent), &env).len(), count, "{name}");
    }
}

#[test]
fn only_what_pods_see_counts_as_shown_to_pods() {
    let secret = json!({"name": "s"});
    let shown = control_plane(json!({"envFrom": [{"secretRef": secret}]}));
    let one = control_plane(
        json!({"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]}),
    );
    for other in [
        json!({"imagePullSecrets": [secret]}),
        json!({"expose": {"ingress": {"host": "h", "tls": {"secretName": "s"}}}}),
        json!({"operatorAccess": {"tokenSecretRef": secret}}),
    ] {
        let other = control_plane(other);
        assert_eq!(asked(Kind::ControlPlane, Some(&other), &other), []);
        assert_eq!(asked(Kind::ControlPlane, Some(&other), &shown).len(), 1, "{other}");
        assert_eq!(asked(Kind::ControlPlane, Some(&other), &one).len(), 1, "{other}");
        assert_eq!(asked(Kind::ControlPlane, Some(&shown), &other), [], "pods see it all: {other}");
    }
    let boot = proxy(json!({"bootstrap": {"coderURL": "https://a", "credentialsSecretRef": secret}}));
    let mut both = boot.clone();
    both["spec"]["extraEnv"] = one["spec"]["extraEnv"].clone();
    assert_eq!(denied(Kind::WorkspaceProxy, Some(&boot), &both, |_| false), ["CODER0505"]);
}

#[test]
fn a_secret_that_is_sent_away_needs_get_and_a_new_address_asks_again() {
    let to =
        |url: &str| proxy(json!({"bootstrap": {"coderURL": url, "credentialsSecretRef": {"name": "s"}}}));
    let questions = asked(Kind::WorkspaceProxy, None, &to("https://a"));
    assert_eq!(
        questions,
        [(
            "spec.bootstrap.credentialsSecretRef.name".to_owned(),
            vec!["get secrets \"s\" in namespace coder".to_owned()]
        )]
    );
    assert_eq!(
        denied(Kind::WorkspaceProxy, None, &to("https://a"), |check| check.resource == "pods"),
        ["CODER0506"]
    );
    assert_eq!(asked(Kind::WorkspaceProxy, Some(&to("https://a")), &to("https://a")), []);
    assert_eq!(
        denied(Kind::WorkspaceProxy, Some(&to("https://a")), &to("https://b"), |_| false),
        ["CODER0506"]
    );
    let session =
        |url: &str| proxy(json!({"primaryAccessURL": url, "proxySessionTokenSecretRef": {"name": "s"}}));
    assert_eq!(
        denied(Kind::WorkspaceProxy, Some(&session("https://a")), &session("https://b"), |_| false),
        ["CODER0506"]
    );
    let known =
        proxy(json!({"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}));
    assert_eq!(denied(Kind::WorkspaceProxy, Some(&known), &to("https://a"), |_| false), ["CODER0506"]);
}

#[test]
fn an_account_of_somebody_else_needs_its_token_or_pods() {
    let named = |name: &str| control_plane(json!({"serviceAccount": {"name": name}}));
    assert_eq!(
        asked(Kind::ControlPlane, None, &named("robot")),
        [(
            "spec.serviceAccount.name".to_owned(),
            vec![
                "create pods in namespace coder".to_owned(),
                "create serviceaccounts/token \"robot\" in namespace coder".to_owned()
            ]
        )]
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&named("robot")), &named("robot")), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&named("robot")), &named("other")).len(), 1);
    assert_eq!(asked(Kind::ControlPlane, None, &named("cp")), [], "the derived name");
    let borrowed = control_plane(json!({"serviceAccount": {"disableCreate": true}}));
    assert_eq!(asked(Kind::ControlPlane, None, &borrowed)[0].0, "spec.serviceAccount.disableCreate");
}

fn rules(rules: Value) -> Value {
    control_plane(json!({"rbac": {"extraRules": rules}}))
}

#[test]
fn a_rule_is_asked_for_verb_by_verb_after_escalate_and_bind() {
    let object = rules(
        json!([{"apiGroups": ["", "apps"], "resources": ["secrets", "pods/exec"], "verbs": ["get", "list"]}]),
    );
    let required = required_access(None, &object, NS, Kind::ControlPlane);
    assert_eq!((required.len(), required[0].all_of.len()), (1, 8));
    for verb in ["escalate", "bind"] {
        assert_eq!(denied(Kind::ControlPlane, None, &object, |check| check.verb == verb), [""; 0]);
    }
    assert_eq!(
        denied(Kind::ControlPlane, None, &object, |check| ["get", "list"].contains(&check.verb.as_str())),
        [""; 0]
    );
    let (causes, _) = inquired(required, |check| check.verb == "get");
    assert_eq!(
        causes[0].line(),
        "spec.rbac.extraRules[0]: you may not list pods/exec in namespace coder; ask somebody who holds these rights in each workspace namespace to apply it (CODER0502)"
    );
}

#[test]
fn only_what_is_added_is_asked_for() {
    let old = rules(json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list"]}]));
    let split = rules(
        json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}, {"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]),
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&old), &split), []);
    let more =
        rules(json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}]));
    let required = required_access(Some(&old), &more, NS, Kind::ControlPlane);
    assert_eq!(required[0].all_of.iter().map(|check| check.verb.as_str()).collect::<Vec<_>>(), ["watch"]);
    let narrow = rules(
        json!([{"apiGroups": [""], "resources": ["services"], "verbs": ["get"], "resourceNames": ["a"]}]),
    );
    assert_eq!(asked(Kind::ControlPlane, Some(&old), &narrow), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&narrow), &old).len(), 1, "a name less is a right more");
}

#[test]
fn a_namespace_is_asked_for_everything_coderd_gets_there() {
    let spec = |namespaces: Value| {
        control_plane(
            json!({"rbac": {"workspaceNamespaces": namespaces, "extraRules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]}}),
        )
    };
    let (one, two) = (spec(json!(["a"])), spec(json!(["a", "b", "a", NS])));
    let required = required_access(Some(&one), &two, NS, Kind::ControlPlane);
    assert_eq!(required.iter().map(|access| access.all_of.len()).sum::<usize>(), 25);
    assert!(
        required
            .iter()
            .all(|access| access.field == "spec.rbac.workspaceNamespaces[1]" && access.code == "CODER0503")
    );
    assert!(required.iter().flat_map(|access| &access.all_of).all(|check| check.namespace == "b"));
    assert_eq!(
        denied(Kind::ControlPlane, Some(&one), &two, |check| check.verb == "escalate"
            && check.namespace == "a"),
        ["CODER0503"; 4]
    );
    assert_eq!(
        denied(Kind::ControlPlane, Some(&one), &two, |check| check.verb != "deletecollection"),
        [""; 0]
    );
}

#[test]
fn turning_rights_on_asks_where_they_reach_others() {
    let spec = |rbac: Value| control_plane(json!({ "rbac": rbac }));
    let off = spec(
        json!({"workspacePerms": false, "workspaceNamespaces": ["a"], "extraRules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    );
    assert_eq!(asked(Kind::ControlPlane, None, &off), [], "no Role is written");
    let on = spec(
        json!({"workspacePerms": true, "workspaceNamespaces": ["a"], "extraRules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    );
    let fields: Vec<String> =
        asked(Kind::ControlPlane, Some(&off), &on).into_iter().map(|(field, _)| field).collect();
    let (rules, perms) = ("spec.rbac.extraRules[0]", "spec.rbac.workspacePerms");
    assert_eq!(fields, [rules, rules, perms, perms, "spec.rbac.enableDeployments"]);
}

#[test]
fn a_stored_rule_of_any_size_is_not_asked_again_and_neither_is_a_part_of_it() {
    let words = |count: usize| (0..count).map(|n| format!("r{n}")).collect::<Vec<_>>();
    let rule = |count| json!({"apiGroups": ["x"], "resources": words(count), "verbs": words(40)});
    let of =
        |count, image: &str| control_plane(json!({"image": image, "rbac": {"extraRules": [rule(count)]}}));
    assert_eq!(required_access(Some(&of(60, "a:1")), &of(60, "a:2"), NS, Kind::ControlPlane), []);
    assert_eq!(required_access(Some(&of(60, "a:1")), &of(30, "a:1"), NS, Kind::ControlPlane), []);
    let [grown] =
        required_access(Some(&of(60, "a:1")), &of(61, "a:1"), NS, Kind::ControlPlane).try_into().unwrap();
    assert!(grown.too_many, "{grown:?}");
}

#[test]
fn too_many_questions_end_in_a_request_to_split() {
    let namespaces: Vec<String> = (0..30).map(|number| format!("team-{number}")).collect();
    let object = control_plane(json!({"rbac": {"workspaceNamespaces": namespaces}}));
    let required = required_access(None, &object, NS, Kind::ControlPlane);
    let (causes, count) = inquired(required.clone(), |check| check.verb == "escalate");
    assert_eq!((causes.len(), count), (0, 30), "whoever may escalate is asked once a namespace");
    let (causes, count) = inquired(required, |check| !["escalate", "bind"].contains(&check.verb.as_str()));
    assert_eq!(count, QUESTIONS);
    assert_eq!(causes.last().unwrap().code, "CODER0508");
    assert!(causes.last().unwrap().message.contains("split the change"));
}

#[test]
fn an_enormous_rule_costs_nothing_and_needs_escalate() {
    let words: Vec<String> = (0..2_000).map(|number| format!("w{number}")).collect();
    let object = rules(json!([{"apiGroups": words, "resources": words, "verbs": words}]));
    let required = required_access(None, &object, NS, Kind::ControlPlane);
    assert_eq!(required[0].all_of, []);
    let (causes, count) = inquired(required, |check| !["escalate", "bind"].contains(&check.verb.as_str()));
    assert_eq!(count, 2, "what cannot be asked to the end is not begun");
    assert_eq!(
        causes.iter().map(|cause| (cause.code, cause.field.as_str())).collect::<Vec<_>>(),
        [("CODER0508", "spec.rbac.extraRules[0]")]
    );
    assert!(causes[0].message.contains("split the change"));
    assert_eq!(denied(Kind::ControlPlane, None, &object, |_| false), ["CODER0508"]);
    assert_eq!(denied(Kind::ControlPlane, None, &object, |check| check.verb == "bind"), [""; 0]);
}

#[test]
fn a_rule_that_is_too_large_is_passed_in_parts() {
    let rule = |count: usize| {
        let words: Vec<String> = (0..count).map(|number| format!("w{number}")).collect();
        rules(json!([{"apiGroups": [""], "resources": words, "verbs": ["get"]}]))
    };
    let holds = |check: &AccessCheck| check.verb == "get";
    assert_eq!(denied(Kind::ControlPlane, None, &rule(60), holds), ["CODER0508"]);
    assert_eq!(denied(Kind::ControlPlane, None, &rule(30), holds), [""; 0]);
    assert_eq!(denied(Kind::ControlPlane, Some(&rule(30)), &rule(60), holds), [""; 0]);
    assert_eq!(denied(Kind::ControlPlane, Some(&rule(30)), &rule(60), |_| false), ["CODER0502"]);
}

#[test]
fn the_table_names_every_code_that_is_asked_for() {
    let codes: Vec<&str> = TABLE.iter().map(|line| line.code).collect();
    assert_eq!(codes, ["CODER0502", "CODER0503", "CODER0504", "CODER0505", "CODER0506", "CODER0507"]);
    assert!(codes.iter().all(|code| crate::rules::by_code(code).is_some()));
}
