//! What the children of a workspace proxy are, by what their authors say.

use super::consumed;
use super::fixtures::Proxy;
use crate::controller::children::ChildKind;
use serde_json::{Value, json};

fn names(container: &Value) -> Vec<&str> {
    container["env"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn the_container_starts_by_its_own_command_and_the_arguments_of_the_contract() {
    let container = Proxy::test().with("image", json!("coder:v1")).container();
    assert_eq!((&container["name"], &container["image"]), (&json!("workspace-proxy"), &json!("coder:v1")));
    assert_eq!(container["command"], json!(["coder"]));
    assert_eq!(container["args"], json!(["wsproxy", "server", "--http-address=0.0.0.0:3001"]));
    let more =
        Proxy::test().with("derpOnly", json!(true)).with("extraArgs", json!(["--verbose"])).container();
    let expected = json!(["wsproxy", "server", "--http-address=0.0.0.0:3001", "--derp-only", "--verbose"]);
    assert_eq!(more["args"], expected);
    assert_eq!(container["ports"], json!([{"name": "http", "containerPort": 3001, "protocol": "TCP"}]));
    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!((&probe["path"], &probe["port"]), (&json!("/healthz"), &json!("http")));
}

#[test]
fn the_environment_comes_in_a_fixed_order_and_what_the_spec_gives_wins() {
    let plain = Proxy::test().container();
    let expected = json!([
        {"name": "CODER_PRIMARY_ACCESS_URL", "value": "http://coder.ns.svc.cluster.local:80"},
        {"name": "CODER_PROXY_SESSION_TOKEN", "valueFrom": {"secretKeyRef": {"name": "eu-proxy-token", "key": "token"}}},
        {"name": "CODER_ACCESS_URL", "value": "http://wsproxy-eu.ns.svc.cluster.local"},
        {"name": "KUBE_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "CODER_DERP_SERVER_RELAY_URL", "value": "http://$(KUBE_POD_IP):3001"},
    ]);
    let first = plain["env"].as_array().unwrap()[..5].to_vec();
    assert_eq!(json!(first), expected);
    let given = Proxy::test()
        .of_tls_control_plane(&["coder-tls"])
        .with("wildcardAccessURL", json!("*.eu.example.com"))
        .with("tls", json!({"secretNames": ["own"]}))
        .with("extraEnv", json!([{"name": "CODER_ACCESS_URL", "value": "https://a"}]));
    let container = given.container();
    let names = names(&container);
    for name in ["CODER_WILDCARD_ACCESS_URL", "CODER_TLS_ENABLE", "CODER_TLS_ADDRESS", "SSL_CERT_DIR"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(names.iter().filter(|name| **name == "CODER_ACCESS_URL").count(), 1);
    assert_eq!(names.last(), Some(&"CODER_ACCESS_URL"));
}

#[test]
fn pods_have_an_account_without_a_token_and_roll_with_the_token_of_the_registration() {
    let pod = Proxy::test().pod();
    assert_eq!(
        (&pod["serviceAccountName"], &pod["automountServiceAccountToken"]),
        (&json!("eu-wsproxy"), &json!(false))
    );
    let annotations =
        |given: Proxy| given.deployment()["spec"]["template"]["metadata"]["annotations"].clone();
    assert_eq!(annotations(Proxy::test()), json!({"checksum/proxy-token": "abc"}));
    let tls = annotations(Proxy::test().of_tls_control_plane(&["a"]));
    assert_eq!(tls, json!({"checksum/proxy-token": "abc", "coder.com/trust-checksum": "0123abcd"}));
}

#[test]
fn pods_roll_with_what_the_spec_lets_them_read_but_for_their_token() {
    let read =
        |given: &Proxy| consumed(&given.complete()).into_iter().map(|one| one.name).collect::<Vec<_>>();
    assert_eq!(read(&Proxy::test().of_tls_control_plane(&["coder-tls"])), [""; 0]);
    let given = Proxy::test()
        .with("tls", json!({"secretNames": ["eu-tls"]}))
        .with("envFrom", json!([{"configMapRef": {"name": "settings"}}]));
    assert_eq!(read(&given), ["eu-tls", "settings"]);
    let brought = json!({"name": "mine", "key": "token"});
    let twice = json!([{"name": "T", "valueFrom": {"secretKeyRef": brought}}]);
    let given = Proxy::test()
        .with("controlPlaneRef", Value::Null)
        .with("primaryAccessURL", json!("https://coder.example.com"))
        .with("proxySessionTokenSecretRef", brought)
        .with("extraEnv", twice);
    assert_eq!(read(&given), [""; 0], "a token has its own checksum, whoever brings it");
    let template = Proxy::test().with_checksum("sum").deployment()["spec"]["template"].clone();
    assert_eq!(template["metadata"]["annotations"]["coder.com/checksum"], "sum");
}

#[test]
fn the_service_leads_to_the_port_of_the_contract() {
    let service = Proxy::test().children().serving.service.manifest;
    assert_eq!(service["metadata"]["name"], "wsproxy-eu");
    let port = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 3001});
    assert_eq!(service["spec"]["ports"], json!([port]));
}

#[test]
fn what_is_not_asked_for_is_not_there_and_a_deployment_waits_for_its_token() {
    let kinds = |given: &Proxy| given.children().all().map(|child| child.kind).collect::<Vec<_>>();
    let (account, deployment, service) =
        (ChildKind::ServiceAccount, ChildKind::Deployment, ChildKind::Service);
    assert_eq!(kinds(&Proxy::test()), [account, deployment, service]);
    assert_eq!(kinds(&Proxy::test().without_token()), [account, service]);
    let full = Proxy::test()
        .with("expose", json!({"ingress": {"host": "eu.example.com"}}))
        .with("podDisruptionBudget", json!({}))
        .with("metrics", json!({"serviceMonitor": {}}));
    assert_eq!(full.children().absent(), [ChildKind::HttpRoute]);
}
