//! Decides which spec counts where the pods that run are left as they are: what they were given, and not what is asked for.
//! Pure: it looks at the Deployment and the Service.

use crds::CoderControlPlaneSpec;
use crds::names::control_plane::{SecretVolume, secret_volume};
use crds::shared::{ServiceSpec, TlsSpec};
use crds::workload::{CertSecretSelector, CertsSpec};
use serde_json::{Value, from_value};

/// The spec as far as the pods that run have it, as long as their Deployment is left as it is: where the database is, what
/// they serve with and whom they trust, and the port of the Service in front of them.
pub(crate) fn in_force(
    spec: &CoderControlPlaneSpec,
    deployment: Option<&Value>,
    service: Option<&Value>,
) -> CoderControlPlaneSpec {
    let container = deployment.and_then(container);
    let of = |field: &str| container.map(|container| container[field].clone()).unwrap_or_default();
    let (served, trusted) =
        (mounted(deployment, SecretVolume::Tls), mounted(deployment, SecretVolume::CaCert));
    let secret_names: Vec<String> = served.into_iter().map(|(secret, _)| secret.to_owned()).collect();
    let key_of = |(secret, mount): (&str, &Value)| {
        let key = mount["subPath"].as_str()?.to_owned();
        Some(CertSecretSelector { name: secret.to_owned(), key })
    };
    let secrets: Vec<CertSecretSelector> = trusted.into_iter().filter_map(key_of).collect();
    let port = service.and_then(plain_port).or(spec.service.as_ref().and_then(|service| service.port));
    CoderControlPlaneSpec {
        extra_env: from_value(of("env")).unwrap_or_default(),
        env_from: from_value(of("envFrom")).unwrap_or_default(),
        tls: (!secret_names.is_empty()).then_some(TlsSpec { secret_names }),
        certs: (!secrets.is_empty()).then_some(CertsSpec { secrets }),
        service: port
            .map(|port| ServiceSpec { port: Some(port), ..spec.service.clone().unwrap_or_default() })
            .or_else(|| spec.service.clone()),
        ..spec.clone()
    }
}

/// The container of coderd in a Deployment.
pub(crate) fn container(deployment: &Value) -> Option<&Value> {
    let containers = deployment.pointer("/spec/template/spec/containers")?.as_array()?;
    containers.iter().find(|container| container["name"] == "coder")
}

/// The Secrets that coderd mounts as volumes of ours of this sort, each with its mount.
fn mounted(deployment: Option<&Value>, sort: SecretVolume) -> Vec<(&str, &Value)> {
    let volumes = items(deployment.and_then(|live| live.pointer("/spec/template/spec/volumes")));
    let secrets: Vec<&str> = volumes
        .filter_map(|volume| {
            let secret = volume.pointer("/secret/secretName")?.as_str()?;
            (volume["name"].as_str()? == secret_volume(sort, secret)).then_some(secret)
        })
        .collect();
    let mounts = items(deployment.and_then(container).and_then(|coder| coder.get("volumeMounts")));
    mounts
        .filter_map(|mount| {
            let is_it = |secret: &&&str| mount["name"] == secret_volume(sort, secret);
            Some((*secrets.iter().find(is_it)?, mount))
        })
        .collect()
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// The port of a Service that speaks plain HTTP.
fn plain_port(service: &Value) -> Option<i32> {
    let mut ports = service.pointer("/spec/ports")?.as_array()?.iter();
    i32::try_from(ports.find(|port| port["name"] == "http")?["port"].as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_database_is_the_one_of_the_pods_that_run() {
        let spec = |value: Value| from_value::<CoderControlPlaneSpec>(value).unwrap();
        let asked = spec(json!({ "image": "x", "extraEnv": [{ "name": "URL", "value": "evil" }],
            "envFrom": [{ "secretRef": { "name": "payroll" } }], "certs": { "secrets": [] } }));
        let deployment = json!({ "spec": { "template": { "spec": { "containers": [
            { "name": "coder", "env": [{ "name": "URL", "value": "good" }] }] } } } });
        let expected = spec(json!({ "image": "x", "extraEnv": [{ "name": "URL", "value": "good" }] }));
        assert_eq!(in_force(&asked, Some(&deployment), None), expected);
        assert_eq!(in_force(&asked, None, None), spec(json!({ "image": "x" })), "nothing runs");
    }
}
