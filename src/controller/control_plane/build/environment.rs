//! Decides the environment of coderd: what we set, in a fixed order, then what the spec gives, which wins.
//! Never reads a source of `envFrom`: whether one gives the access URL comes in as a value.

use k8s_openapi::api::core::v1::EnvVar;
use webhooks::defaults::ACCESS_URL;

use super::ResolvedControlPlane;
use crate::controller::children::last_by_key;
use crate::controller::workload::environment::variable;
use crate::controller::workload::{monitoring, ports, relay};

/// The environment of coderd.
pub(super) fn environment(plane: &ResolvedControlPlane) -> Vec<EnvVar> {
    let given = &plane.spec.extra_env;
    let mut environment = relay::environment(given, ports::HTTP).to_vec();
    environment.extend(plane.access_url.iter().map(|url| variable(ACCESS_URL, url)));
    environment.extend(plane.pods.certificates.environment());
    environment.extend(plane.pods.metrics.iter().flat_map(|_| monitoring::environment()));
    environment.extend(relay::others(given));
    last_by_key(environment, |variable| &variable.name)
}

/// Whether a source of `envFrom` with this prefix and these keys gives a variable. A prefix that is the whole name does
/// not: there is no key of no letters.
pub(crate) fn provides<'k>(
    name: &str,
    prefix: Option<&str>,
    keys: impl IntoIterator<Item = &'k str>,
) -> bool {
    let wanted = name.strip_prefix(prefix.unwrap_or_default()).filter(|key| !key.is_empty());
    wanted.is_some_and(|wanted| keys.into_iter().any(|key| key == wanted))
}

/// Whether a source of `envFrom` gives [`ACCESS_URL`].
pub(crate) fn provides_access_url<'k>(prefix: Option<&str>, keys: impl IntoIterator<Item = &'k str>) -> bool {
    provides(ACCESS_URL, prefix, keys)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::ControlPlane;
    use super::*;
    use serde_json::{Value, json};

    fn environment(given: &ControlPlane) -> Vec<Value> {
        given.container()["env"].as_array().unwrap().clone()
    }

    fn names(given: &ControlPlane) -> Vec<String> {
        environment(given).iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    }

    fn value(given: &ControlPlane, name: &str) -> Option<String> {
        let found = environment(given).into_iter().find(|entry| entry["name"] == name)?;
        Some(found["value"].as_str()?.to_owned())
    }

    #[test]
    fn a_silent_spec_gives_three_variables_in_this_order() {
        let expected = json!([
            {"name": "KUBE_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CODER_DERP_SERVER_RELAY_URL", "value": "http://$(KUBE_POD_IP):8080"},
            {"name": "CODER_ACCESS_URL", "value": "http://coder.ns.svc.cluster.local"},
        ]);
        assert_eq!(json!(environment(&ControlPlane::test())), expected);
    }

    #[test]
    fn everything_comes_in_its_place_and_what_the_spec_gives_last() {
        let given = ControlPlane::test()
            .with_tls(&["a", "b"])
            .with("metrics", json!({}))
            .with("extraEnv", json!([{"name": "Z", "value": "1"}, {"name": "A", "value": "2"}]));
        let expected = [
            "KUBE_POD_IP",
            "CODER_DERP_SERVER_RELAY_URL",
            "CODER_ACCESS_URL",
            "CODER_TLS_ENABLE",
            "CODER_TLS_ADDRESS",
            "CODER_TLS_CERT_FILE",
            "CODER_TLS_KEY_FILE",
            "CODER_PROMETHEUS_ENABLE",
            "CODER_PROMETHEUS_ADDRESS",
            "Z",
            "A",
        ];
        assert_eq!(names(&given), expected);
        let (a, b) = ("/etc/ssl/certs/coder/a", "/etc/ssl/certs/coder/b");
        assert_eq!(value(&given, "CODER_TLS_ENABLE").as_deref(), Some("true"));
        assert_eq!(value(&given, "CODER_TLS_ADDRESS").as_deref(), Some("0.0.0.0:8443"));
        assert_eq!(value(&given, "CODER_TLS_CERT_FILE"), Some(format!("{a}/tls.crt,{b}/tls.crt")));
        assert_eq!(value(&given, "CODER_TLS_KEY_FILE"), Some(format!("{a}/tls.key,{b}/tls.key")));
    }

    #[test]
    fn the_access_url_is_the_service_unless_somebody_else_gives_one() {
        let url = |given: &ControlPlane| value(given, "CODER_ACCESS_URL");
        let host = "coder.ns.svc.cluster.local";
        assert_eq!(url(&ControlPlane::test().on_port(8080)), Some(format!("http://{host}:8080")));
        assert_eq!(
            url(&ControlPlane::test().with_tls(&["a"]).on_port(8080)),
            Some(format!("https://{host}"))
        );
        assert_eq!(url(&ControlPlane::test().with("envUseClusterAccessURL", json!(false))), None);
        assert_eq!(url(&ControlPlane::test().with_access_url_from_env_from()), None);
        let own = json!([{"name": "CODER_ACCESS_URL", "value": "https://mine"}]);
        let given = ControlPlane::test().with("extraEnv", own);
        assert_eq!(url(&given).as_deref(), Some("https://mine"));
        assert_eq!(names(&given).iter().filter(|name| *name == "CODER_ACCESS_URL").count(), 1);
    }

    #[test]
    fn what_the_spec_gives_wins_and_no_name_is_there_twice() {
        let extra = json!([
            {"name": "A", "value": "1"},
            {"name": "CODER_TLS_ADDRESS", "value": "0.0.0.0:9443"},
            {"name": "KUBE_POD_IP", "value": "192.0.2.1"},
            {"name": "A", "value": "2"},
        ]);
        let given = ControlPlane::test().with_tls(&["a"]).with("extraEnv", extra);
        assert_eq!(value(&given, "CODER_TLS_ADDRESS").as_deref(), Some("0.0.0.0:9443"));
        assert_eq!(value(&given, "A").as_deref(), Some("2"));
        let names = names(&given);
        assert_eq!(names[0], "KUBE_POD_IP", "those after it refer to it");
        let unique: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn sources_are_passed_on() {
        let sources = json!([{"configMapRef": {"name": "a"}}, {"prefix": "P_", "secretRef": {"name": "b", "optional": true}}]);
        let given = ControlPlane::test().with("envFrom", sources.clone());
        assert_eq!(given.container()["envFrom"], sources);
    }

    #[test]
    fn a_source_gives_the_access_url_under_its_prefix() {
        for (prefix, keys, given) in [
            (None, &["CODER_ACCESS_URL"][..], true),
            (Some(""), &["CODER_ACCESS_URL"], true),
            (Some("CODER_"), &["OTHER", "ACCESS_URL"], true),
            (Some("CODER_"), &["CODER_ACCESS_URL"], false),
            (Some("CODER_ACCESS_URL"), &["", "CODER_ACCESS_URL"], false),
            (Some("X_"), &["CODER_ACCESS_URL"], false),
            (None, &[], false),
            (None, &["coder_access_url"], false),
        ] {
            assert_eq!(provides_access_url(prefix, keys.iter().copied()), given, "{prefix:?} {keys:?}");
        }
    }
}
