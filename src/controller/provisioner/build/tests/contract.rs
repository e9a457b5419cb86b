//! Names, labels, command and environment that clusters hold already: a Deployment of the Go operator is taken over in place.

use super::super::fixtures::Provisioner;
use serde_json::json;

#[test]
fn children_have_the_names_that_clusters_hold() {
    let names = |given: Provisioner| -> Vec<(String, String)> {
        let children = given.children();
        let named = children.all().map(|child| (child.kind.as_str().to_owned(), child.name.clone()));
        named.collect()
    };
    let expected = [
        ("ServiceAccount", "builders-provisioner"),
        ("Role", "provisioner-builders"),
        ("RoleBinding", "provisioner-builders"),
        ("Deployment", "provisioner-builders"),
        ("PodDisruptionBudget", "provisioner-builders"),
    ];
    let given = Provisioner::test().with("podDisruptionBudget", json!({}));
    let expected = expected.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    assert_eq!(names(given), expected);
    let long = "a".repeat(60);
    assert!(names(Provisioner::test().named(&long)).iter().all(|(_, name)| name.contains("92b9e111")));
}

#[test]
fn the_selector_is_the_three_labels_whatever_the_pods_carry() {
    let given = Provisioner::test().with("podLabels", json!({"team": "a", "app.kubernetes.io/name": "mine"}));
    let deployment = given.deployment();
    let labels = json!({
        "app.kubernetes.io/name": "coder-provisioner",
        "app.kubernetes.io/instance": "builders",
        "app.kubernetes.io/managed-by": "coder-k8s",
    });
    assert_eq!(deployment["spec"]["selector"], json!({ "matchLabels": labels }));
    let mut carried = labels;
    carried["team"] = json!("a");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], carried);
}

#[test]
fn a_deployment_owns_how_many_there_are_and_when_one_counts_and_its_pods() {
    let deployment = Provisioner::test().with_everything().deployment();
    let fields: Vec<&String> = deployment["spec"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["minReadySeconds", "replicas", "selector", "template"]);
    assert_eq!(deployment["spec"]["minReadySeconds"], 30, "a start that fails replaces nobody");
    assert_eq!(Provisioner::test().deployment()["spec"]["replicas"], 1);
    assert_eq!(Provisioner::test().with("replicas", json!(0)).deployment()["spec"]["replicas"], 0);
}

#[test]
fn a_daemon_runs_coder_provisioner_start_with_what_the_spec_adds() {
    let container = Provisioner::test().with("extraArgs", json!(["--verbose", "--x"])).container();
    assert_eq!((&container["name"], &container["image"]), (&json!("provisioner"), &json!("coder:v1")));
    assert_eq!(container["command"], json!(["coder"]));
    assert_eq!(container["args"], json!(["provisioner", "start", "--verbose", "--x"]));
    for absent in ["ports", "readinessProbe", "livenessProbe", "startupProbe", "volumeMounts", "envFrom"] {
        assert!(container.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_build_has_ten_minutes_to_end_and_another_key_rolls_the_pods() {
    let given = Provisioner::test();
    assert_eq!(given.pod()["terminationGracePeriodSeconds"], 600);
    let patient = Provisioner::test().with("terminationGracePeriodSeconds", json!(3600));
    assert_eq!(patient.pod()["terminationGracePeriodSeconds"], 3600);
    let annotations = |given: &Provisioner| given.template()["metadata"]["annotations"].clone();
    assert_eq!(annotations(&given), json!({"checksum/provisioner-key": "abc"}));
    let theirs = json!({"example.com/a": "b", "checksum/provisioner-key": "mine"});
    let given = given.with("podAnnotations", theirs).with_key_checksum("new");
    assert_eq!(annotations(&given), json!({"example.com/a": "b", "checksum/provisioner-key": "new"}));
}
