//! Shows what is found in sets of files that are held in memory.
//! Never touches the file system.

use super::sources::Arrival;
use super::*;
use std::path::PathBuf;

const CONTROL_PLANE: &str = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder}\nspec: {image: \"ghcr.io/coder/coder:v2.36.1\"}\n";
const OPERATOR: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: coder-k8s}\nspec: {template: {spec: {containers: [{name: a, image: \"x/coder-k8s:0.1.0\"}]}}}\n";

fn settings() -> Settings {
    Settings::default()
}

fn loaded(files: &[(&str, &str)]) -> Loaded {
    let mut loaded = Loaded::default();
    for (name, text) in files {
        let (path, arrival) = match *name {
            "-" => (None, Arrival::Rendered),
            name => (Some(PathBuf::from(name)), Arrival::Found),
        };
        loaded.sources.push(Source::new((*name).to_owned(), path, arrival, (*text).to_owned()));
    }
    loaded
}

/// `file:line code`, of every finding.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let report = check(&loaded(files), &settings(), Path::new("."));
    report.findings.iter().map(|found| format!("{}:{} {}", found.file, found.line, found.code)).collect()
}

fn with(text: &str, more: &str) -> String {
    format!("{text}---\n{more}")
}

#[test]
fn a_good_object_is_clean() {
    assert_eq!(found(&[("a.yaml", CONTROL_PLANE)]), [] as [String; 0]);
    assert_eq!(found(&[("-", CONTROL_PLANE)]), [] as [String; 0]);
}

#[test]
fn a_text_without_quotes_is_one_finding_and_not_two() {
    let text = format!("{}extra", CONTROL_PLANE).replace(
        "spec: {image: \"ghcr.io/coder/coder:v2.36.1\"}\nextra",
        "spec:\n  image: ghcr.io/coder/coder:v2.36.1\n  extraEnv:\n  - name: A\n    value: yes\n  - name: B\n    value: 0644\n",
    );
    assert_eq!(found(&[("a.yaml", &text)]), ["a.yaml:8 CODER0704", "a.yaml:10 CODER0704"]);
}

#[test]
fn a_key_of_more_than_forty_characters_is_one_finding_at_its_own_line() {
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder}\nspec:\n  image: a:v1\n  nodeSelector:\n    node-role.example.com/a-name-that-goes-on-and-on-and-on: true\n  podLabels:\n    example.com/another-name-that-goes-on-and-on-and-on: ${LEFT}\n";
    assert_eq!(found(&[("a.yaml", text)]), ["a.yaml:7 CODER0704", "a.yaml:9 CODER0603"]);
}

#[test]
fn octal_numbers_are_for_file_modes() {
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder}\nspec:\n  image: a:v1\n  service:\n    port: 0443\n  volumes:\n  - name: a\n    secret: {secretName: a, defaultMode: 0640}\n";
    assert_eq!(found(&[("a.yaml", text)]), ["a.yaml:7 CODER0705"]);
}

#[test]
fn a_placeholder_is_a_warning_and_hides_what_it_would_be_refused_for() {
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder}\nspec:\n  image: a:v1\n  replicas: ${REPLICAS}\n";
    assert_eq!(found(&[("a.yaml", text)]), ["a.yaml:6 CODER0603"]);
}

/// A name, a namespace and a label are refused for what they are, which is hidden, so that the variable must be told.
#[test]
fn a_placeholder_is_told_wherever_an_author_writes() {
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata:\n  name: ${NAME}\n  namespace: ${SPACE}\n  labels:\n    team: ${TEAM}\nspec:\n  image: ${IMAGE}\n";
    let lines = [4, 5, 7, 9].map(|line| format!("a.yaml:{line} CODER0603"));
    assert_eq!(found(&[("a.yaml", text)]), lines);
}

#[test]
fn a_placeholder_that_flux_replaces_is_none() {
    let object = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder}\nspec:\n  image: ${REGISTRY}/coder:${VERSION:=v2.36.1}\n  replicas: ${REPLICAS}\n";
    let files = |more: &str, object: &str| {
        let flux = flux("objects", &format!("  path: ./apps\n  dependsOn: [{{name: operator}}]\n{more}"));
        found(&[("r/clusters/objects.yaml", &flux), ("r/apps/coder.yaml", object)])
    };
    let (fifth, sixth) = ("r/apps/coder.yaml:5 CODER0603", "r/apps/coder.yaml:6 CODER0603");
    assert_eq!(files("", object), [fifth, sixth]);
    assert_eq!(files("  postBuild: {substitute: {REGISTRY: ghcr.io/coder}}\n", object), [sixth]);
    let all = "  postBuild: {substitute: {REGISTRY: ghcr.io/coder, REPLICAS: \"2\"}}\n";
    assert_eq!(files(all, object), [] as [String; 0]);
    let from = "  postBuild: {substituteFrom: [{kind: ConfigMap, name: settings}]}\n";
    assert_eq!(files(from, object), [] as [String; 0]);
    let off = object.replace(
        "{name: coder}",
        "{name: coder, labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}}",
    );
    assert_eq!(files(all, &off), [fifth, sixth]);
    // Another tree is not replaced by it.
    let flux = flux("objects", &format!("  path: ./apps\n{all}"));
    assert_eq!(found(&[("r/clusters/objects.yaml", &flux), ("r/other/coder.yaml", object)]).len(), 2);
}

#[test]
fn a_long_finding_is_told_whole() {
    let key = "a".repeat(300);
    let text = format!(
        "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {{name: coder}}\nspec:\n  image: a:v1\n  serviceAccount:\n    annotations:\n      {key}: x ${{LEFT}}\n"
    );
    let report = check(&loaded(&[("a.yaml", &text)]), &settings(), Path::new("."));
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!(finding.field, format!("spec.serviceAccount.annotations.{key}"));
    assert_eq!(
        (finding.message.as_str(), finding.help.as_str()),
        ("still contains ${...}", "set the variable or write the value")
    );
    let mut shown = Vec::new();
    report::write(&report, Format::Text, false, &mut shown).unwrap();
    assert!(String::from_utf8(shown).unwrap().contains(&format!("{key}: still contains")));
}

#[test]
fn patches_are_no_objects() {
    let patch =
        "apiVersion: coder.com/v1alpha1\nkind: CoderProvisioner\nmetadata: {name: b}\nspec:\n  replica: 2\n";
    let kustomization = "resources: [base.yaml]\npatches:\n- path: patch.yaml\n";
    let files =
        [("o/kustomization.yaml", kustomization), ("o/patch.yaml", patch), ("o/base.yaml", CONTROL_PLANE)];
    assert_eq!(found(&files), ["o/patch.yaml:5 CODER0712"]);
}

#[test]
fn operator_and_objects_are_apart() {
    let both = with(CONTROL_PLANE, OPERATOR);
    assert_eq!(found(&[("-", &both)]), ["-:2 CODER0804"]);
    let together = "resources:\n- coder.yaml\n- ../operator\n";
    let files = [
        ("all/kustomization.yaml", together),
        ("all/coder.yaml", CONTROL_PLANE),
        ("operator/kustomization.yaml", "resources: [operator.yaml]\n"),
        ("operator/operator.yaml", OPERATOR),
    ];
    assert_eq!(found(&files), ["all/kustomization.yaml:1 CODER0804"]);
    let remote = "resources:\n- coder.yaml\n- https://github.com/x/coder-k8s//kustomize/base?ref=v1\n";
    assert_eq!(found(&[("a/kustomization.yaml", remote), ("a/coder.yaml", CONTROL_PLANE)]).len(), 1);
    let files = [("all/coder.yaml", CONTROL_PLANE), ("operator/operator.yaml", OPERATOR)];
    assert_eq!(found(&files), [] as [String; 0]);
}

fn flux(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}}}\nspec:\n{more}"
    )
}

#[test]
fn flux_waits_for_the_operator_and_never_forces() {
    let objects = flux("objects", "  path: ./apps/coder\n  force: true\n");
    let operator = flux("operator", "  path: ./apps/operator\n");
    let files = |objects: &str| {
        let files = [
            ("r/clusters/a/objects.yaml", objects),
            ("r/clusters/a/operator.yaml", &operator),
            ("r/apps/coder/coder.yaml", CONTROL_PLANE),
            ("r/apps/operator/operator.yaml", OPERATOR),
        ];
        found(&files)
    };
    let expected = ["r/clusters/a/objects.yaml:4 CODER0805", "r/clusters/a/objects.yaml:6 CODER0801"];
    assert_eq!(files(&objects), expected);
    let other = flux("objects", "  path: ./apps/coder\n  dependsOn: [{name: network}]\n");
    assert_eq!(files(&other), ["r/clusters/a/objects.yaml:6 CODER0805"]);
    let good = flux("objects", "  path: ./apps/coder\n  dependsOn: [{name: operator}]\n");
    assert_eq!(files(&good), [] as [String; 0]);
}

#[test]
fn argo_does_not_replace() {
    let application = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  source: {path: coder}\n  syncPolicy:\n    syncOptions:\n    - ServerSideApply=true\n    - Replace=true\n";
    let files = [("app.yaml", application), ("coder/coder.yaml", CONTROL_PLANE)];
    assert_eq!(found(&files), ["app.yaml:9 CODER0803"]);
    assert_eq!(found(&[("app.yaml", application)]), [] as [String; 0]);
}

#[test]
fn bundles_stay_out_of_git() {
    let webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks:\n- name: a\n  clientConfig:\n    caBundle: Cg==\n  rules: [{apiGroups: [GROUP]}]\n";
    assert_eq!(found(&[("a.yaml", &webhook.replace("GROUP", "coder.com"))]), ["a.yaml:7 CODER0802"]);
    assert_eq!(found(&[("a.yaml", &webhook.replace("GROUP", "example.com"))]), [] as [String; 0]);
    let service = "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: a}\nspec:\n  group: aggregation.coder.com\n  caBundle: \"\"\n";
    assert_eq!(found(&[("a.yaml", service)]), ["a.yaml:6 CODER0802"]);
}

fn provisioner(more: &str) -> String {
    format!(
        "apiVersion: coder.com/v1alpha1\nkind: CoderProvisioner\nmetadata: {{name: b}}\nspec:\n  controlPlaneRef: {{name: coder}}\n{more}"
    )
}

fn secret(name: &str, more: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n{more}")
}

#[test]
fn references_are_looked_for_where_such_things_are_kept() {
    let object = provisioner("  bootstrap: {credentialsSecretRef: {name: admin}}\n");
    assert_eq!(found(&[("a.yaml", &object)]), [] as [String; 0]);
    let other = with(&object, &secret("other", "stringData: {a: b}\n"));
    assert_eq!(found(&[("a.yaml", &other)]), ["a.yaml:6 CODER0806"]);
    let there = with(&object, &secret("admin", "stringData: {a: b}\n"));
    assert_eq!(found(&[("a.yaml", &there)]), [] as [String; 0]);
    let kustomization = "resources: [a.yaml, other.yaml]\nsecretGenerator: [{name: admin}]\n";
    let files = [
        ("kustomization.yaml", kustomization),
        ("a.yaml", &object),
        ("other.yaml", &secret("x", "data: {a: Yg==}\n")),
    ];
    assert_eq!(found(&files), [] as [String; 0]);
    let wrong = with(&provisioner("").replace("{name: coder}", "{name: codre}"), CONTROL_PLANE);
    assert_eq!(found(&[("-", &wrong)]), ["-:5 CODER0806"]);
    let hashed = with(&object, &secret("admin-5f4gk2hh9b", "stringData: {a: b}\n"));
    let report = check(&loaded(&[("-", &hashed)]), &settings(), Path::new("."));
    assert!(report.findings[0].help.contains("admin-5f4gk2hh9b"), "{report:?}");
}

#[test]
fn two_objects_make_no_child_of_one_name() {
    let proxy = "apiVersion: coder.com/v1alpha1\nkind: CoderWorkspaceProxy\nmetadata: {name: eu}\nspec: {image: \"a:v1\", primaryAccessURL: \"https://a.example.com\", proxySessionTokenSecretRef: {name: t}}\n";
    let control_plane = CONTROL_PLANE.replace("name: coder", "name: wsproxy-eu");
    assert_eq!(found(&[("a.yaml", &with(&control_plane, proxy))]), ["a.yaml:8 CODER0807"]);
    assert_eq!(found(&[("a.yaml", &control_plane), ("b.yaml", proxy)]), [] as [String; 0]);
    let kustomization = ("kustomization.yaml", "resources: [a.yaml, b.yaml]\n");
    assert_eq!(
        found(&[("a.yaml", &control_plane), ("b.yaml", proxy), kustomization]),
        ["b.yaml:3 CODER0807"]
    );
    assert_eq!(found(&[("a.yaml", &with(CONTROL_PLANE, CONTROL_PLANE))]), ["a.yaml:8 CODER0807"]);
    let elsewhere = CONTROL_PLANE.replace("name: coder", "name: coder, namespace: other");
    assert_eq!(found(&[("a.yaml", &with(CONTROL_PLANE, &elsewhere))]), [] as [String; 0]);
}

#[test]
fn git_keeps_no_empty_secret_for_the_operator_to_fill() {
    let empty = with(&provisioner(""), &secret("b-provisioner-key", "type: Opaque\n"));
    assert_eq!(found(&[("a.yaml", &empty)]), ["a.yaml:9 CODER0808"]);
    let blank = with(&provisioner(""), &secret("b-provisioner-key", "stringData: {key: \"\"}\n"));
    assert_eq!(found(&[("a.yaml", &blank)]), ["a.yaml:9 CODER0808"]);
    let filled = with(&provisioner(""), &secret("b-provisioner-key", "stringData: {key: abc}\n"));
    assert_eq!(found(&[("a.yaml", &filled)]), [] as [String; 0]);
    assert_eq!(found(&[("a.yaml", &secret("coder-k8s-ca", ""))]), ["a.yaml:3 CODER0808"]);
}

#[test]
fn files_of_others_are_left_alone() {
    let helm = "{{- if .Values.x }}\na: {{ b }}\n{{- end }}\n";
    let workflow = "on: push\non: pull\nkind: Foo\n";
    assert_eq!(found(&[("templates/a.yaml", helm), ("b.yaml", workflow)]), [] as [String; 0]);
    let ours = format!("{helm}# apiVersion: coder.com/v1alpha1\n");
    assert_eq!(found(&[("a.yaml", &ours)]).len(), 1);
}

#[test]
fn a_huge_heap_of_mistakes_is_told_in_bounded_time() {
    let many = |line: &dyn Fn(usize) -> String| (0..60_000).map(line).collect::<String>();
    let unknown = CONTROL_PLANE.replace("spec: {image", "spec:\n  image: x\n  a: {image")
        + &many(&|n| format!("  x{n}: 1\n"));
    let twice = format!("{CONTROL_PLANE}{}", many(&|_| "a: 1\n".to_owned()));
    let suppressed = format!("{CONTROL_PLANE}{}", many(&|_| "# coder-lint: disable=CODER1\n".to_owned()));
    for text in [unknown, twice, suppressed] {
        let count = found(&[("a.yaml", &text)]).len();
        assert!((100..500).contains(&count), "{count}");
    }
}

#[test]
fn no_mutation_of_a_set_makes_it_panic() {
    let seed =
        [CONTROL_PLANE, &provisioner("  tags: {a: b}\n"), OPERATOR, &flux("a", "  path: ./\n")].join("---\n");
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..400 {
        let mut bytes = seed.clone().into_bytes();
        for _ in 0..random.usize(1..8) {
            let place = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[place] = random.u8(..),
                1 => drop(bytes.remove(place)),
                _ => bytes.insert(place, *random.choice(b"-:[]{}\n\"' &*!|>#$").unwrap()),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let loaded = loaded(&[("-", &text), ("a/kustomization.yaml", &text)]);
        let report = check(&loaded, &settings(), Path::new("."));
        for format in [Format::Text, Format::Json, Format::Github] {
            report::write(&report, format, true, &mut std::io::sink()).unwrap();
        }
    }
}

/// `field: message; help`, of every finding of a code.
fn told(code: &str, text: &str) -> Vec<String> {
    let report = check(&loaded(&[("a.yaml", text)]), &settings(), Path::new("."));
    let found = report.findings.iter().filter(|found| found.code == code);
    found.map(|found| format!("{}: {}; {}", found.field, found.message, found.help)).collect()
}

fn provisioner_named(name: &str, key: &str) -> String {
    format!(
        "apiVersion: coder.com/v1alpha1\nkind: CoderProvisioner\nmetadata: {{name: {name}}}\nspec:\n  controlPlaneRef: {{name: coder}}\n  key: {key}\n"
    )
}

#[test]
fn every_claim_that_two_objects_share_is_told_at_the_field_that_makes_it() {
    let one = provisioner_named("one", "{name: shared, secretName: kept}");
    let two = provisioner_named("two", "{name: SHARED, secretName: kept}");
    assert_eq!(
        told("CODER0807", &with(&one, &two)),
        [
            "spec.key.name: the provisioner key \"SHARED\" in coderd is also asked for by CoderProvisioner one at a.yaml:1; \
             give one of the two another spec.key.name",
            "spec.key.secretName: the Secret kept is also made by CoderProvisioner one at a.yaml:1; \
             give one of the two another spec.key.secretName",
        ]
    );
    let twice = told("CODER0807", &with(&one, &one));
    assert_eq!(
        twice,
        ["metadata.name: CoderProvisioner one is also given at a.yaml:1; rename one of the two"]
    );
}

#[test]
fn what_was_probably_meant_is_named() {
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderProvisioner\nmetadata: {name: a}\nspec:\n  controlPlaneref: {name: coder}\n  organisationName: x\n  somethingElse: 1\n";
    let helps: Vec<String> =
        told("CODER0712", text).iter().map(|told| told.rsplit("; ").next().unwrap().to_owned()).collect();
    let general = codes::UNKNOWN_FIELD.fix;
    assert_eq!(helps, ["did you mean controlPlaneRef?", "did you mean organizationName?", general]);
    for (kind, meant) in [("CoderProxy", "CoderWorkspaceProxy"), ("CoderControlplane", "CoderControlPlane")] {
        let text = format!("apiVersion: coder.com/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\n");
        assert!(told("CODER0711", &text)[0].ends_with(&format!("did you mean {meant}?")), "{kind}");
    }
    let other = "apiVersion: coder.com/v1alpha1\nkind: Coder\nmetadata: {name: a}\n";
    assert!(told("CODER0711", other)[0].contains("one of CoderControlPlane"));
}
