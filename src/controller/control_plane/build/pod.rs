//! Decides the pods of coderd: one container `coder`, with its arguments, environment, ports and probes.
//! Never sets a command: the entry point of the image is `coder server`.

use super::ResolvedControlPlane;
use super::environment::environment;
use crate::controller::workload::pods::Pods;
use crate::controller::workload::{monitoring, ports};
use crds::well_known::annotation;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};

/// The container of coderd in its pods.
const CONTAINER: &str = "coder";

/// The template of the pods.
pub(super) fn template(plane: &ResolvedControlPlane) -> PodTemplateSpec {
    pods(plane).template(container(plane), &[(annotation::CHECKSUM, plane.consumed_checksum.as_deref())])
}

/// The same without metadata.
pub(super) fn spec(plane: &ResolvedControlPlane) -> PodSpec {
    pods(plane).spec(container(plane))
}

fn pods(plane: &ResolvedControlPlane) -> Pods<'_> {
    Pods {
        owner: &plane.owner,
        settings: &plane.pods,
        fields: plane.spec.pod_fields(),
        volumes: Vec::new(),
        mounts: Vec::new(),
        aliases: Vec::new(),
    }
}

/// The container of coderd.
fn container(plane: &ResolvedControlPlane) -> Container {
    let mut args = vec![format!("--http-address=0.0.0.0:{}", ports::HTTP)];
    args.extend(plane.spec.extra_args.iter().cloned());
    let mut ports = vec![ports::port("http", ports::HTTP)];
    ports.extend(plane.pods.certificates.serve_tls().then(|| ports::port("https", ports::HTTPS)));
    ports.extend(plane.pods.metrics.iter().map(|_| monitoring::port()));
    Container {
        name: CONTAINER.to_owned(),
        image: Some(plane.image.clone()),
        args: Some(args),
        env: Some(environment(plane)),
        ports: Some(ports),
        readiness_probe: plane.probes.readiness.clone(),
        liveness_probe: plane.probes.liveness.clone(),
        startup_probe: plane.probes.startup.clone(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::ControlPlane;
    use serde_json::{Value, json};

    fn template(given: &ControlPlane) -> Value {
        given.children().deployment.manifest["spec"]["template"].clone()
    }

    #[test]
    fn the_container_has_the_image_the_arguments_and_no_command() {
        let given = ControlPlane::test()
            .with("image", json!("registry.example.com/coder:v1"))
            .with("extraArgs", json!(["--verbose", "--x"]));
        let container = given.container();
        assert_eq!(container["name"], "coder");
        assert_eq!(container["image"], "registry.example.com/coder:v1");
        assert_eq!(container["args"], json!(["--http-address=0.0.0.0:8080", "--verbose", "--x"]));
        assert!(container.get("command").is_none());
        assert_eq!(ControlPlane::test().container()["image"], crds::well_known::default::IMAGE);
    }

    #[test]
    fn the_ports_are_http_and_with_tls_https() {
        let port =
            |name: &str, number: i32| json!({"name": name, "containerPort": number, "protocol": "TCP"});
        assert_eq!(ControlPlane::test().container()["ports"], json!([port("http", 8080)]));
        let tls = ControlPlane::test().with_tls(&["a"]).with("metrics", json!({}));
        let expected = json!([port("http", 8080), port("https", 8443), port("prometheus", 2112)]);
        assert_eq!(tls.container()["ports"], expected);
    }

    #[test]
    fn labels_and_annotations_of_the_spec_are_added_and_ours_win() {
        let given = ControlPlane::test()
            .with("podLabels", json!({"team": "a", "app.kubernetes.io/instance": "other"}))
            .with("podAnnotations", json!({"example.com/a": "b", "coder.com/checksum": "mine"}));
        let metadata = template(&given)["metadata"].clone();
        assert_eq!(metadata["labels"]["team"], "a");
        assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], "coder");
        assert_eq!(metadata["annotations"], json!({"example.com/a": "b"}));
        let rolled = template(&given.with_checksum("abc"));
        assert_eq!(
            rolled["metadata"]["annotations"],
            json!({"example.com/a": "b", "coder.com/checksum": "abc"})
        );
        assert!(template(&ControlPlane::test())["metadata"].get("annotations").is_none());
        let only = template(&ControlPlane::test().with_checksum("abc"));
        assert_eq!(only["metadata"]["annotations"], json!({"coder.com/checksum": "abc"}));
    }

    #[test]
    fn pods_keep_apart_unless_the_spec_says_where_they_run() {
        let pod = ControlPlane::test().pod();
        let term = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["podAffinityTerm"]["topologyKey"], "kubernetes.io/hostname");
        let selector = &ControlPlane::test().children().deployment.manifest["spec"]["selector"];
        assert_eq!(&term["podAffinityTerm"]["labelSelector"], selector);
        for affinity in [json!({}), json!({"nodeAffinity": {}})] {
            let pod = ControlPlane::test().with("affinity", affinity.clone()).pod();
            assert_eq!(pod["affinity"], affinity);
        }
    }

    #[test]
    fn what_the_spec_says_about_the_pod_is_passed_on() {
        for (field, value) in [
            ("imagePullSecrets", json!([{"name": "a"}])),
            ("nodeSelector", json!({"kubernetes.io/arch": "amd64"})),
            ("tolerations", json!([{"key": "a", "operator": "Exists"}])),
            (
                "topologySpreadConstraints",
                json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]),
            ),
            ("hostAliases", json!([{"ip": "192.0.2.1", "hostnames": ["git"]}])),
            ("priorityClassName", json!("high")),
            ("terminationGracePeriodSeconds", json!(5)),
        ] {
            let pod = ControlPlane::test().with(field, value.clone()).pod();
            assert_eq!(pod[field], value);
            if field != "terminationGracePeriodSeconds" {
                assert!(ControlPlane::test().pod().get(field).is_none(), "{field}");
            }
        }
        assert_eq!(ControlPlane::test().pod()["terminationGracePeriodSeconds"], 60);
        for (field, value) in [
            ("resources", json!({"requests": {"cpu": "1"}})),
            ("lifecycle", json!({"preStop": {"sleep": {"seconds": 5}}})),
        ] {
            let container = ControlPlane::test().with(field, value.clone()).container();
            assert_eq!(container[field], value);
            assert!(ControlPlane::test().container().get(field).is_none(), "{field}");
        }
    }

    #[test]
    fn containers_that_run_before_keep_their_order() {
        let containers =
            json!([{"name": "b", "image": "x"}, {"name": "a", "image": "y", "restartPolicy": "Always"}]);
        let pod = ControlPlane::test().with("initContainers", containers).pod();
        assert_eq!(pod["initContainers"][0]["name"], "b");
        assert_eq!(pod["initContainers"][1]["restartPolicy"], "Always");
        assert!(ControlPlane::test().pod().get("initContainers").is_none());
    }
}
