//! Tests of the defaults: what is written, what stays, what is computed.
//! They never look at rules.

use serde_json::{Value, json};

use super::*;

fn patched(kind: Kind, object: &Value) -> Value {
    defaulted(kind, object, None, &Config::default()).into_owned()
}

#[test]
fn silence_is_filled_and_parents_are_made() {
    for object in [json!({}), json!({"spec": {}}), json!({"spec": {"service": {}}})] {
        let image = default::IMAGE;
        let expected =
            json!({"spec": {"image": image, "replicas": 1, "service": {"type": "ClusterIP", "port": 80}}});
        assert_eq!(patched(Kind::ControlPlane, &object), expected);
        assert_eq!(patched(Kind::WorkspaceProxy, &object), expected);
    }
    assert_eq!(patched(Kind::Provisioner, &json!({})), json!({"spec": {"replicas": 1}}));
}

#[test]
fn a_proxy_of_a_control_plane_gets_no_image_and_any_other_does() {
    let config = Config::default();
    let old = json!({"spec": {"image": "coder:v1", "replicas": 2}});
    let image = |spec: Value, old: Option<&Value>| {
        let object = json!({ "spec": spec });
        defaulted(Kind::WorkspaceProxy, &object, old, &config)["spec"].get("image").cloned()
    };
    let following = json!({"controlPlaneRef": {"name": "coder"}});
    assert_eq!([image(following.clone(), None), image(following.clone(), Some(&old))], [None, None]);
    let chosen = json!({"controlPlaneRef": {"name": "coder"}, "image": "coder:v2"});
    assert_eq!(image(chosen, Some(&old)), Some(json!("coder:v2")));
    for other in [json!({}), json!({"controlPlaneRef": null}), json!({"bootstrap": {}})] {
        assert_eq!(image(other.clone(), None), Some(json!(default::IMAGE)), "{other}");
        assert_eq!(image(other, Some(&old)), Some(json!("coder:v1")));
    }
    let following = json!({"metadata": {"name": "p"}, "spec": following});
    assert!(resolved(Kind::WorkspaceProxy, &following, &config)["spec"].get("image").is_none());
    let left = json!({"spec": {"controlPlaneRef": {"name": "coder"}}});
    assert_eq!(image(json!({"bootstrap": {}}), Some(&left)), None, "what runs is in the Deployment");
}

#[test]
fn nothing_that_is_there_is_touched() {
    for spec in [
        json!({"image": "", "replicas": null, "service": null}),
        json!({"image": null, "replicas": 0, "service": {"type": "", "port": null}}),
        json!({"image": 3, "replicas": "x", "service": [1]}),
        json!("text"),
        json!(null),
    ] {
        let object = json!({ "spec": spec });
        assert_eq!(patched(Kind::ControlPlane, &object), object);
    }
    for object in [json!(null), json!([]), json!("x"), json!(1)] {
        assert_eq!(patched(Kind::ControlPlane, &object), object);
    }
}

#[test]
fn an_update_keeps_image_and_replicas_and_returns_the_service_to_its_defaults() {
    let config = Config::default();
    let service = json!({"type": "ClusterIP", "port": 80});
    let old =
        json!({"spec": {"image": "coder:v1", "replicas": 0, "service": {"type": "NodePort", "port": 1}}});
    let after = |kind, old: &Value| defaulted(kind, &json!({"spec": {}}), Some(old), &config)["spec"].clone();
    for kind in [Kind::ControlPlane, Kind::WorkspaceProxy] {
        assert_eq!(after(kind, &old), json!({"image": "coder:v1", "replicas": 0, "service": service}));
        for silent in [json!({}), json!(null), json!({"spec": {"image": "", "replicas": null}})] {
            assert_eq!(after(kind, &silent), json!({ "service": service }), "absent stays absent");
        }
    }
    assert_eq!(after(Kind::Provisioner, &old), json!({"replicas": 0}), "its image follows the control plane");
    let given = json!({"spec": {"image": "coder:v2", "replicas": 5, "service": service}});
    assert_eq!(*defaulted(Kind::ControlPlane, &given, Some(&old), &config), given);
}

#[test]
fn the_patch_is_the_same_each_time_and_adds_parents_first() {
    let config = Config { default_image: "registry.example.com/coder:v1".to_owned(), ..Config::default() };
    let patch = defaults(Kind::ControlPlane, &json!({"metadata": {}}), None, &config);
    let text = serde_json::to_string(&patch).unwrap();
    assert_eq!(
        text,
        r#"[{"op":"add","path":"/spec","value":{}},{"op":"add","path":"/spec/image","value":"registry.example.com/coder:v1"},{"op":"add","path":"/spec/replicas","value":1},{"op":"add","path":"/spec/service","value":{}},{"op":"add","path":"/spec/service/port","value":80},{"op":"add","path":"/spec/service/type","value":"ClusterIP"}]"#
    );
}

#[test]
fn defaults_that_follow_from_a_name_wait_for_it() {
    let config = Config::default();
    let waiting = resolved(Kind::Provisioner, &json!({"metadata": {"generateName": "b-"}}), &config);
    assert_eq!(waiting["spec"]["key"], json!({"secretKey": "key"}));
    let named = resolved(
        Kind::Provisioner,
        &json!({"metadata": {"name": "b"}, "spec": {"key": {"name": ""}}}),
        &config,
    );
    assert_eq!(
        named["spec"]["key"],
        json!({"name": "b", "secretName": "b-provisioner-key", "secretKey": "key"})
    );
    assert_eq!(named["spec"]["organizationName"], "default");
    assert!(named["spec"].get("image").is_none(), "a provisioner follows its control plane");
}

#[test]
fn a_proxy_takes_its_address_from_the_registration() {
    let object = json!({"metadata": {"name": "p"}, "spec": {"bootstrap": {"coderURL": "https://c", "credentialsSecretRef": {"name": "s"}}}});
    let complete = resolved(Kind::WorkspaceProxy, &object, &Config::default());
    assert_eq!(complete["spec"]["primaryAccessURL"], "https://c");
    assert_eq!(complete["spec"]["bootstrap"]["generatedTokenSecretName"], "p-proxy-token");
    assert_eq!(complete["spec"]["bootstrap"]["credentialsSecretRef"]["key"], "token");
    let summary = status_resolved(Kind::WorkspaceProxy, &object, &Config::default());
    assert_eq!(summary["tokenSecretName"], "p-proxy-token");
    assert_eq!(summary["proxyName"], "p");
}

#[test]
fn a_proxy_of_a_control_plane_is_named_where_it_is_registered() {
    let config = Config::default();
    let complete = |spec: Value| {
        let object = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec});
        let summary = status_resolved(Kind::WorkspaceProxy, &object, &config);
        let typed: crds::workspace_proxy::ResolvedWorkspaceProxy =
            serde_json::from_value(summary.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), summary, "no field is lost");
        (resolved(Kind::WorkspaceProxy, &object, &config)["spec"].clone(), typed)
    };
    let (spec, summary) = complete(json!({"controlPlaneRef": {"name": "coder"}}));
    let registration = json!({"proxyName": "p", "displayName": "p", "icon": default::PROXY_ICON, "tokenSecretName": "p-proxy-token"});
    assert_eq!(spec["registration"], registration);
    assert_eq!((spec.get("bootstrap"), spec.get("primaryAccessURL")), (None, None), "that is not known here");
    assert_eq!(spec["accessURL"], "http://wsproxy-p.ns.svc.cluster.local");
    assert_eq!(spec["serviceAccount"]["name"], "p-wsproxy");
    assert_eq!(spec["terminationGracePeriodSeconds"], 60);
    assert_eq!(spec["readinessProbe"]["enabled"], true);
    assert_eq!(spec["livenessProbe"]["enabled"], false);
    assert_eq!(summary.token_secret_name.as_deref(), Some("p-proxy-token"));
    assert_eq!(summary.service_account_name.as_deref(), Some("p-wsproxy"));
    assert_eq!(summary.access_url.as_deref(), Some("http://wsproxy-p.ns.svc.cluster.local"));
    let chosen =
        json!({"controlPlaneRef": {"name": "coder"}, "registration": {"proxyName": "eu", "icon": ""}});
    let (spec, summary) = complete(chosen);
    assert_eq!(spec["registration"]["displayName"], "eu");
    assert_eq!(spec["registration"]["icon"], default::PROXY_ICON);
    assert_eq!(summary.proxy_name.as_deref(), Some("eu"));
    let given = json!({"primaryAccessURL": "https://c", "proxySessionTokenSecretRef": {"name": "s"}});
    let (spec, summary) = complete(given);
    assert_eq!((spec.get("registration"), summary.proxy_name), (None, None));
    assert_eq!(summary.token_secret_name.as_deref(), Some("s"));
}

#[test]
fn the_summary_has_the_shape_of_the_status_and_the_address_of_the_service() {
    let config = Config::default();
    let url = |spec: Value| {
        let object = json!({"metadata": {"name": "coder", "namespace": "ns"}, "spec": spec});
        let summary = status_resolved(Kind::ControlPlane, &object, &config);
        let typed: crds::control_plane::ResolvedControlPlane =
            serde_json::from_value(summary.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), summary, "no field is lost");
        typed.access_url
    };
    assert_eq!(url(json!({})).as_deref(), Some("http://coder.ns.svc.cluster.local"));
    assert_eq!(
        url(json!({"service": {"port": 8080}})).as_deref(),
        Some("http://coder.ns.svc.cluster.local:8080")
    );
    assert_eq!(
        url(json!({"tls": {"secretNames": ["a"]}})).as_deref(),
        Some("https://coder.ns.svc.cluster.local")
    );
    assert_eq!(url(json!({"envUseClusterAccessURL": false})), None);
    assert_eq!(url(json!({"extraEnv": [{"name": "CODER_ACCESS_URL", "value": "x"}]})), None);
    let object = json!({"metadata": {"name": "b"}, "spec": {"controlPlaneRef": {"name": "coder"}}});
    let summary = status_resolved(Kind::Provisioner, &object, &config);
    let typed: crds::provisioner::ResolvedProvisioner = serde_json::from_value(summary.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), summary);
    assert_eq!(typed.termination_grace_period_seconds, Some(600));
    assert_eq!(typed.service_account_name.as_deref(), Some("b-provisioner"));
    assert_eq!(typed.image, None, "it follows its control plane");
}

#[test]
fn coderd_gets_hours_to_start_and_one_minute_to_stop() {
    let complete = resolved(Kind::ControlPlane, &json!({"metadata": {"name": "c"}}), &Config::default());
    assert_eq!(complete["spec"]["startupProbe"]["enabled"], false, "nothing restarts it");
    assert_eq!(complete["spec"]["terminationGracePeriodSeconds"], 60);
    assert_eq!(complete["spec"]["readinessProbe"]["failureThreshold"], 3);
    let watched = json!({"metadata": {"name": "c"}, "spec": {"livenessProbe": {"enabled": true}}});
    let watched = resolved(Kind::ControlPlane, &watched, &Config::default());
    let probe = &watched["spec"]["startupProbe"];
    assert_eq!(probe["enabled"], true);
    assert!(
        probe["periodSeconds"].as_i64().unwrap() * probe["failureThreshold"].as_i64().unwrap() >= 6 * 3600
    );
    let given = json!({"metadata": {"name": "c"}, "spec": {"startupProbe": {"failureThreshold": 5}}});
    let complete = resolved(Kind::ControlPlane, &given, &Config::default());
    assert_eq!(complete["spec"]["startupProbe"]["failureThreshold"], 5);
    assert_eq!(complete["spec"]["startupProbe"]["enabled"], true);
}

#[test]
fn what_is_given_is_on_and_what_is_not_stays_away() {
    for (kind, monitor) in [
        (Kind::ControlPlane, "serviceMonitor"),
        (Kind::Provisioner, "podMonitor"),
        (Kind::WorkspaceProxy, "serviceMonitor"),
    ] {
        only_what_is_given_is_on(monitor, |spec| {
            resolved(kind, &json!({"metadata": {"name": "c"}, "spec": spec}), &Config::default())
        });
    }
}

fn only_what_is_given_is_on(monitor: &str, complete: impl Fn(Value) -> Value) {
    let silent = complete(json!({"replicas": 3}));
    assert!(silent["spec"].get("podDisruptionBudget").is_none(), "also with several replicas");
    assert!(silent["spec"].get("metrics").is_none());
    let given = complete(json!({"podDisruptionBudget": {}, "metrics": {monitor: {}}}));
    assert_eq!(given["spec"]["podDisruptionBudget"], json!({"enabled": true, "maxUnavailable": 1}));
    assert_eq!(given["spec"]["metrics"], json!({"enabled": true, monitor: {"enabled": true}}));
    let chosen = complete(json!({"podDisruptionBudget": {"minAvailable": "50%"}, "metrics": {}}));
    assert_eq!(chosen["spec"]["podDisruptionBudget"], json!({"enabled": true, "minAvailable": "50%"}));
    assert_eq!(chosen["spec"]["metrics"], json!({"enabled": true}));
    let off = complete(json!({"podDisruptionBudget": {"enabled": false}, "metrics": {"enabled": false}}));
    assert_eq!(off["spec"]["podDisruptionBudget"]["enabled"], false);
    assert_eq!(off["spec"]["metrics"]["enabled"], false);
}
