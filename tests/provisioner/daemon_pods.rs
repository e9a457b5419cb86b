//! What daemons run with: an address that they can verify, an image that coderd accepts, and a rollout that replaces nobody by a
//! daemon that does not start.

use crate::one_double::{BINARY, OneDouble, reconcile};
use serde_json::{Value, json};
use support::cluster::REALLY_READY;
use support::cluster::pki::Ca;
use support::coderd::Role;
use support::https;
use support::objects::{condition, is_observed, is_ready, text};
use support::plain_http::Ask;
use support::test_env::TestEnv;

const DEPLOYMENT: &str = "provisioner-builders";

fn image(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/containers/0/image")
}

fn variable<'a>(deployment: &'a Value, name: &str) -> &'a Value {
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    variables.iter().find(|one| one["name"] == name).unwrap()
}

impl OneDouble {
    async fn deployment(&self, namespace: &str) -> Value {
        self.until_object("deployment", namespace, DEPLOYMENT, "there", Value::is_object).await
    }

    async fn daemon_pods(&self, namespace: &str) -> Vec<Value> {
        let list = self.get("pods", namespace, "").await.unwrap_or_default();
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let is_daemon = |pod: &Value| {
            text(pod, "/metadata/labels/app.kubernetes.io~1name") == "coder-provisioner"
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        all.into_iter().filter(|pod| is_daemon(pod)).collect()
    }
}

/// What the pods of a Deployment trust for their control plane, as their volume has it.
async fn trusted(env: &OneDouble, ns: &str, deployment: &Value) -> String {
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|one| one["name"] == "control-plane-certificates").unwrap();
    let mut trusted = String::new();
    for source in volume["projected"]["sources"].as_array().unwrap() {
        let secret = text(source, "/secret/name");
        for item in source["secret"]["items"].as_array().unwrap() {
            trusted += &env.plaintext(ns, secret, text(item, "/key")).await.unwrap_or_default();
        }
    }
    trusted
}

/// The Service is made anew, with another address: daemons are led there at once.
async fn follows_the_service(env: &OneDouble, ns: &str) {
    let replaced = env.get("service", ns, "coder").await.unwrap()["spec"]["clusterIP"].clone();
    env.cluster.kubectl(&format!("delete service coder -n {ns}")).await.expect_ok();
    env.until_object("deployment", ns, DEPLOYMENT, "led to the new Service", |live| {
        let ip = &live["spec"]["template"]["spec"]["hostAliases"][0]["ip"];
        ip.is_string() && *ip != replaced
    })
    .await;
}

/// What the control plane serves with, and an operator's token for it.
async fn serve(env: &OneDouble, ns: &str, authority: &Ca, names: &[&str]) {
    let pair = authority.server(names);
    let service = format!("coder.{ns}.svc.cluster.local");
    [service.as_str(), "coder.example.com"].iter().for_each(|host| env.coderd().present(host, &pair));
    let data = json!({ "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate });
    env.apply_secret(ns, "tls", &data).await;
    let token = env.coderd().token_for(&[Role::TemplateAdmin]);
    env.apply_secret(ns, "operator-token", &json!({ "token": token })).await;
}

/// To a control plane that they cannot be led to they do not move, and its key is not made: it would be in the Secret that those
/// that run are started again with.
async fn nobody_moves_where_they_cannot_be_led(env: &OneDouble, ns: &str, authority: &Ca) {
    let secret = async || env.get("secret", ns, "builders-provisioner-key").await.unwrap();
    let before = secret().await;
    assert!(!text(&before, "/metadata/annotations/coder.com~1provisioner-key-of").is_empty(), "{before}");
    let pair = authority.server(&["192.0.2.1"]);
    env.coderd().present(&format!("other.{ns}.svc.cluster.local"), &pair);
    let data = json!({ "tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate });
    env.apply_secret(ns, "other-tls", &data).await;
    let plane = json!({ "tls": { "secretNames": ["other-tls"] },
        "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    env.apply_control_plane(ns, "other", &plane).await;
    env.ready(ns, "other").await;
    env.apply_provisioner(ns, "builders", &json!({ "controlPlaneRef": { "name": "other" } })).await;
    let told = env.until_provisioner_reason(ns, "builders", "Stalled", "CertificateNameMissing").await;
    assert_eq!(told["status"]["key"]["pending"], Value::Null, "{}", told["status"]["key"]);
    assert_eq!(secret().await["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(env.keys(ns), [ns]);
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_verify_a_control_plane_by_the_public_name_of_its_certificate() {
    let builder = TestEnv::builder(BINARY).nodes(2).coderd_with_tls().flag("--verify-interval=10s");
    let env = OneDouble { env: builder.start().await };
    let ns = env.cluster.namespace("named").await;
    let service = format!("coder.{ns}.svc.cluster.local");
    let authority = Ca::new("company");
    let serve = async |names: &[&str]| serve(&env, &ns, &authority, names).await;
    serve(&["coder.example.com"]).await;
    let plane = json!({ "tls": { "secretNames": ["tls"] },
        "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    env.apply_control_plane(&ns, "coder", &plane).await;
    env.ready(&ns, "coder").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;

    let deployment = env.deployment(&ns).await;
    let url = text(variable(&deployment, "CODER_URL"), "/value").to_owned();
    assert_eq!(url, "https://coder.example.com", "without a port, by which coderd would not know itself");
    let address = env.get("service", &ns, "coder").await.unwrap()["spec"]["clusterIP"].clone();
    let aliases = &deployment["spec"]["template"]["spec"]["hostAliases"];
    assert_eq!(*aliases, json!([{ "ip": address, "hostnames": ["coder.example.com"] }]));
    let (port, trusted) = (env.coderd().tls_addr().port(), trusted(&env, &ns, &deployment).await);
    assert!(https::connect(port, &trusted, "coder.example.com").await.is_ok());
    let refused = https::connect(port, &trusted, &service).await.unwrap_err();
    assert!(refused.contains("handshake"), "{refused}");

    // A certificate for names that nobody can be asked by: told, and what runs stays.
    serve(&["*.example.org"]).await;
    let told = env.until_provisioner_reason(&ns, "builders", "Stalled", "CertificateNameMissing").await;
    let message = text(condition(&told, "Stalled"), "/message");
    assert!(message.contains(&format!("add {service}")), "{message}");
    let after = env.deployment(&ns).await;
    assert_eq!(after["metadata"]["generation"], deployment["metadata"]["generation"], "nobody was rolled");

    // One that is deleted to be issued anew, and comes back with the same CA, rolls nobody.
    env.cluster.kubectl(&format!("delete secret tls -n {ns}")).await.expect_ok();
    reconcile(&env, &ns, "without-certificate").await;
    serve(&["coder.example.com"]).await;
    env.provisioner_ready(&ns, "builders").await;
    let after = env.deployment(&ns).await;
    assert_eq!(after["metadata"]["generation"], deployment["metadata"]["generation"], "nobody was rolled");
    follows_the_service(&env, &ns).await;

    // With the name of the Service in it that is used, and no alias is left.
    serve(&["*.example.com", &service]).await;
    env.until_object("deployment", &ns, DEPLOYMENT, "the name of the Service", |live| {
        text(variable(live, "CODER_URL"), "/value") == format!("https://{service}:443")
            && live["spec"]["template"]["spec"]["hostAliases"].is_null()
    })
    .await;
    env.provisioner_ready(&ns, "builders").await;
    nobody_moves_where_they_cannot_be_led(&env, &ns, &authority).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_of_a_coderd_that_redirects_come_by_the_name_it_redirects_to() {
    let builder = TestEnv::builder(BINARY).nodes(2).coderd_with_tls().flag("--verify-interval=10s");
    let env = OneDouble { env: builder.start().await };
    let ns = env.cluster.namespace("redirected").await;
    let (service, public) = (format!("coder.{ns}.svc.cluster.local"), "coder.example.com");
    let authority = Ca::new("company");
    // The name of the Service is in it, and would be used if coderd let anybody in by it.
    serve(&env, &ns, &authority, &["example.com", &service, public]).await;
    env.coderd().redirect_to_access_url(Some("https://coder.example.com"));
    let variable_of = |name: &str, value: &str| json!({ "name": name, "value": value });
    let redirects = variable_of("CODER_REDIRECT_TO_ACCESS_URL", "true");
    let plane = |url: Value| {
        json!({ "tls": { "secretNames": ["tls"] }, "extraEnv": [url, redirects],
            "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } })
    };
    let url = variable_of("CODER_ACCESS_URL", "https://coder.example.com");
    env.apply_control_plane(&ns, "coder", &plane(url)).await;
    env.ready(&ns, "coder").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let deployment = env.deployment(&ns).await;
    let url = text(variable(&deployment, "CODER_URL"), "/value").to_owned();
    assert_eq!(url, "https://coder.example.com");
    let trusted = trusted(&env, &ns, &deployment).await;
    let asked = async |host: &str| {
        let ask = Ask::new("GET", "/api/v2/buildinfo").header("host", host);
        ask.send_over_tls(env.coderd().tls_addr(), &trusted, public).await.unwrap().status
    };
    assert_eq!(asked(url.strip_prefix("https://").unwrap()).await, 200, "as a daemon asks");
    assert_eq!((asked("coder.example.com:443").await, asked(&format!("{service}:443")).await), (307, 307));

    // What the spec does not say is seen: nobody comes in by another name, and that is told.
    let source = json!({ "configMapKeyRef": { "name": "settings", "key": "url", "optional": true } });
    let hidden = json!({ "name": "CODER_ACCESS_URL", "valueFrom": source });
    env.apply_control_plane(&ns, "coder", &plane(hidden)).await;
    let told = env.until_provisioner_reason(&ns, "builders", "Stalled", "CertificateNameMissing").await;
    let message = text(condition(&told, "Stalled"), "/message");
    assert!(message.contains("CODER_REDIRECT_TO_ACCESS_URL") && message.contains(public), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_are_upgraded_when_all_of_coderd_is() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("upgrade").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    let before = image(&env.deployment(&ns).await).to_owned();
    let plane = |more: Value| {
        let mut spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } },
            "image": "ghcr.io/coder/coder:v2.99.0" });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    // No node is there for the new coderd, and the old one goes on.
    env.apply_control_plane(&ns, "coder", &plane(json!({ "nodeSelector": { "nowhere": "yes" } }))).await;
    env.until_object("deployment", &ns, "coder", "asked for the new image", |live| {
        image(live).ends_with("v2.99.0")
            && live["status"]["observedGeneration"] == live["metadata"]["generation"]
    })
    .await;
    env.apply_provisioner(&ns, "builders", &json!({ "podLabels": { "looked": "yes" } })).await;
    let looked = env
        .until_object("deployment", &ns, DEPLOYMENT, "reconciled meanwhile", |live| {
            text(live, "/spec/template/metadata/labels/looked") == "yes"
        })
        .await;
    assert_eq!(image(&looked), before);
    env.until_provisioner(&ns, "builders", "ready with the old image", |object| {
        is_ready(object) && text(object, "/status/resolved/image") == before
    })
    .await;
    assert_eq!(image(&env.deployment(&ns).await), before);

    env.apply_control_plane(&ns, "coder", &plane(json!({}))).await;
    env.until_object("deployment", &ns, DEPLOYMENT, "the new image", |live| image(live).ends_with("v2.99.0"))
        .await;
    let plane = env.get("deployment", &ns, "coder").await.unwrap();
    assert_eq!(plane["status"]["updatedReplicas"], plane["status"]["availableReplicas"], "coderd came first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_fails_replaces_no_daemon() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("crash").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    let works = text(&env.daemon_pods(&ns).await[0], "/metadata/name").to_owned();

    env.apply_provisioner(&ns, "builders", &json!({ "podAnnotations": { REALLY_READY: "yes" } })).await;
    let is_new = |pod: &&Value| {
        let ready = condition(pod, "Ready")["status"] == "True";
        ready && pod["metadata"]["annotations"][REALLY_READY] == "yes"
    };
    let list = env
        .until_object("pods", &ns, "", "a new pod that is ready", |list| {
            list["items"].as_array().is_some_and(|all| all.iter().any(|pod| is_new(&pod)))
        })
        .await;
    let fresh = list["items"].as_array().unwrap().iter().find(|pod| is_new(pod)).unwrap();
    // It runs, and ends.
    let mut status = json!({ "conditions": fresh["status"]["conditions"],
        "containerStatuses": fresh["status"]["containerStatuses"] });
    for one in status["conditions"].as_array_mut().unwrap() {
        if one["type"] == "Ready" || one["type"] == "ContainersReady" {
            one["status"] = json!("False");
        }
    }
    let container = &mut status["containerStatuses"][0];
    container["ready"] = json!(false);
    container["restartCount"] = json!(1);
    container["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let name = text(fresh, "/metadata/name");
    let words = format!("patch pod {name} -n {ns} --subresource=status --type=merge --patch-file=/dev/stdin");
    env.cluster.kubectl_with_input(&words, &json!({ "status": status }).to_string()).await.expect_ok();

    env.until_object("deployment", &ns, DEPLOYMENT, "the failure noticed", |live| {
        let status = &live["status"];
        status["updatedReplicas"] == 1 && status["readyReplicas"] == 1 && status["unavailableReplicas"] == 1
    })
    .await;
    env.until_provisioner(&ns, "builders", "rolling out", |object| {
        condition(object, "Ready")["reason"] == "RollingOut" && is_observed(object)
    })
    .await;
    let left: Vec<String> =
        env.daemon_pods(&ns).await.iter().map(|pod| text(pod, "/metadata/name").to_owned()).collect();
    assert!(left.contains(&works), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_ends_with_one_key_wherever_the_address_comes_from() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("elsewhere").await;
    env.apply(
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": ns },
        "data": { "url": "https://coder.example.com" } }),
    )
    .await;
    let source = json!({ "configMapKeyRef": { "name": "settings", "key": "url" } });
    let spec = |tag: &str| json!({ "tags": { "environment": tag }, "extraEnv": [{ "name": "CODER_URL", "valueFrom": source }] });
    env.apply_provisioner(&ns, "builders", &spec("one")).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    assert_eq!(variable(&env.deployment(&ns).await, "CODER_URL")["valueFrom"], source);
    env.apply_provisioner(&ns, "builders", &spec("two")).await;
    env.until_keys(&ns, &["-2"]).await;
    env.until_provisioner(&ns, "builders", "ready with the second key alone", |object| {
        let key = &object["status"]["key"];
        is_ready(object) && key["current"]["generation"] == 2 && key["retiring"].is_null()
    })
    .await;
}
