//! `coder-k8s lint`, `render` and `explain` as they are run: over a corpus of good and bad manifests whose first lines say
//! what is to be found, in every format, with every exit code.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::installation::repository;
use webhooks::rules::{Layer, When};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs the binary in a folder, with something on standard input.
fn run_in(folder: &Path, words: &[&str], input: &str) -> Run {
    let mut child = Command::new(BINARY)
        .args(words)
        .current_dir(folder)
        .env_remove("CODER_K8S_DEFAULT_IMAGE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(words: &[&str], input: &str) -> Run {
    run_in(&repository(), words, input)
}

fn corpus() -> PathBuf {
    repository().join("tests/lint-corpus")
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The codes a file's first line names; none for `clean` and for JSON, which has no comments.
fn expected(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap();
    match text.lines().next().and_then(|line| line.strip_prefix("# expect: ")) {
        Some("clean") => BTreeSet::new(),
        Some(codes) => codes.split_whitespace().map(str::to_owned).collect(),
        None => {
            assert!(
                file.extension().is_some_and(|ending| ending == "json"),
                "{}: no expectation",
                file.display()
            );
            BTreeSet::new()
        }
    }
}

/// The codes found in each file of a JSON report.
fn found(run: &Run) -> BTreeMap<PathBuf, BTreeSet<String>> {
    let report: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
    let mut found: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        assert!(finding["line"].as_u64() >= Some(1) && finding["column"].as_u64() >= Some(1), "{finding}");
        assert!(!text("message").is_empty() && !text("help").is_empty(), "{finding}");
        found.entry(text("file").into()).or_default().insert(text("code"));
    }
    found
}

fn compare(run: &Run, files: &[PathBuf]) {
    let found = found(run);
    for file in files {
        let here = found.get(file).cloned().unwrap_or_default();
        assert_eq!(here, expected(file), "{}", file.display());
    }
    let known: BTreeSet<&PathBuf> = files.iter().collect();
    assert!(found.keys().all(|file| known.contains(file)), "{found:?}");
}

#[test]
fn every_manifest_of_the_corpus_gets_the_verdict_its_first_line_names() {
    for (folder, code) in [("good", 0), ("bad", 1)] {
        let files = files_below(&corpus().join(folder));
        assert!(files.len() >= 20, "{folder} has {} files", files.len());
        let paths: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
        let run = run(&[&["lint", "--format=json"], &paths[..]].concat(), "");
        assert_eq!(run.code, code, "{}", run.stderr);
        compare(&run, &files);
    }
    assert!(files_below(&corpus()).len() >= 250);
}

#[test]
fn every_tree_of_the_corpus_gets_the_verdicts_its_files_name() {
    for entry in std::fs::read_dir(corpus().join("trees")).unwrap() {
        let tree = entry.unwrap().path();
        let run = run(&["lint", "--format=json", tree.to_str().unwrap()], "");
        compare(&run, &files_below(&tree));
    }
}

/// Rules about a change are left out: a file has no past.
#[test]
fn every_code_is_shown_by_a_manifest_of_the_corpus() {
    let shown: BTreeSet<String> = files_below(&corpus()).iter().flat_map(|file| expected(file)).collect();
    let lives = |rule: &&webhooks::rules::Rule| rule.lives_in(Layer::Lint) && rule.when != When::Change;
    let rules = webhooks::rules::rules().filter(lives).map(|rule| rule.code.to_owned());
    let own = (701..=713).chain(801..=808).map(|number| format!("CODER0{number}"));
    let missing: Vec<String> = rules.chain(own).filter(|code| !shown.contains(code)).collect();
    assert!(missing.is_empty(), "no manifest shows {missing:?}");
}

#[test]
fn every_bad_manifest_is_told_with_its_line_and_a_caret() {
    let files = files_below(&corpus().join("bad"));
    let paths: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let run = run(&[&["lint"], &paths[..]].concat(), "");
    assert!(!run.stdout.contains('\u{1b}'), "no colours without a terminal");
    let carets = run.stdout.lines().filter(|line| line.trim_end().ends_with('^')).count();
    let places = run.stdout.lines().filter(|line| line.trim_start().starts_with("--> ")).count();
    assert_eq!(carets, places);
    assert!(places >= files.len(), "{places} findings in {} files", files.len());
}

#[test]
fn the_shipped_manifests_have_no_errors() {
    for folder in ["kustomize", "crds", "webhooks", "policies"] {
        let run = run_in(&repository().join(folder), &["lint", "--format=json", "."], "");
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(
            (run.code, &report["summary"]["errors"]),
            (0, &Value::from(0)),
            "{folder}: {}",
            run.stdout
        );
    }
    let run = run(&["lint", "kustomize/samples"], "");
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.ends_with("in 11 objects of 12 files\n"), "{}", run.stdout);
}

const BAD: &str = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata:\n  name: coder\nspec:\n  image: a:v1\n  replicas: -1\n";
const WARNED: &str = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata:\n  name: coder\n";

#[test]
fn exit_codes() {
    let code = |words: &[&str], input: &str| run(words, input).code;
    assert_eq!(code(&["lint", "-"], &BAD.replace("-1", "1")), 0);
    assert_eq!(code(&["lint", "-"], ""), 0);
    assert_eq!(code(&["lint", "-"], WARNED), 0);
    assert_eq!(code(&["lint", "--strict", "-"], WARNED), 1);
    assert_eq!(code(&["lint", "-"], BAD), 1);
    assert_eq!(code(&["lint", "-"], "a: [\n"), 1);
    assert_eq!(code(&["lint", "no/such/file.yaml"], ""), 2);
    assert_eq!(code(&["lint", "--format=xml", "-"], ""), 2);
    assert_eq!(code(&["explain", "CODER0101"], ""), 0);
    assert_eq!(code(&["explain", "CODER9999"], ""), 2);
    assert_eq!(code(&["explain"], ""), 2);
    assert_eq!(code(&["render", "-"], BAD), 0);
    assert_eq!(code(&["render", "-"], "a: 1\n"), 2);
    assert_eq!(code(&["render", "-"], "a: [\n"), 2);
    assert_eq!(code(&["render", "--children", "-"], WARNED), 0);
    assert_eq!(code(&["render", "--children", "-"], "a: 1\n"), 2);
}

#[test]
fn text_shows_the_line_and_points_at_the_value() {
    let run = run(&["lint", "-"], BAD);
    let expected = "\
error[CODER0204]: spec.replicas: -1 is less than 0
 --> <stdin>:7:13
  |
7 |   replicas: -1
  |             ^^
  = in: CoderControlPlane coder
  = help: use 0 to stop it, 1 or more to run it

1 error, 0 warnings in 1 object of 1 file
";
    assert_eq!(run.stdout, expected);
}

#[test]
fn github_gets_one_command_a_finding() {
    let run = run(&["lint", "--format=github", "-"], BAD);
    let first = run.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("::error file=<stdin>,line=7,col=13,title=CODER0204::spec.replicas: -1 is"),
        "{first}"
    );
}

#[test]
fn json_is_one_document_with_stable_fields() {
    let run = run(&["lint", "--format=json", "-"], BAD);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&report), ["findings", "summary", "version"]);
    assert_eq!(
        keys(&report["findings"][0]),
        ["code", "column", "field", "file", "help", "line", "message", "object", "severity"]
    );
    assert_eq!(keys(&report["summary"]), ["errors", "files", "objects", "suppressed", "warnings"]);
}

/// The schema is that of OASIS, as the crate serde-sarif carries it.
#[test]
fn sarif_is_valid_and_leads_to_the_page_of_each_rule() {
    let schema =
        std::fs::read_to_string(repository().join("tests/packaging/sarif-schema-2.1.0.json")).unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    // A stray bracket: no regular expression of ECMAScript. We say nothing about languages.
    for definition in ["run", "toolComponent"] {
        let language = &mut schema["definitions"][definition]["properties"]["language"];
        language.as_object_mut().unwrap().remove("pattern");
    }
    let schema = jsonschema::validator_for(&schema).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/rules.md")).unwrap();
    let bad = run(&["lint", "--format=sarif", "tests/lint-corpus/bad"], "");
    assert_eq!(bad.code, 1);
    let empty = run(&["lint", "--format=sarif", "kustomize/samples/codercontrolplane-minimal.yaml"], "");
    for text in [&bad.stdout, &empty.stdout] {
        let document: Value = serde_json::from_str(text).unwrap();
        let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
    }
    let document: Value = serde_json::from_str(&bad.stdout).unwrap();
    let rules = document["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.len() > 50, "{} rules", rules.len());
    for rule in rules {
        let (_, anchor) = rule["helpUri"].as_str().unwrap().split_once("docs/rules.md#").unwrap();
        assert!(
            page.contains(&format!("<a id=\"{anchor}\"></a>\n\n### {}:", rule["id"].as_str().unwrap())),
            "{rule}"
        );
    }
    let json: Value =
        serde_json::from_str(&run(&["lint", "--format=json", "tests/lint-corpus/bad"], "").stdout).unwrap();
    let told: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (&finding["code"], &finding["line"]))
        .collect();
    let results = document["runs"][0]["results"].as_array().unwrap();
    let place = |result: &'_ Value| result["locations"][0]["physicalLocation"].clone();
    assert!(results.iter().all(|result| {
        repository().join(place(result)["artifactLocation"]["uri"].as_str().unwrap()).is_file()
    }));
    let lines: Vec<Value> =
        results.iter().map(|result| place(result)["region"]["startLine"].clone()).collect();
    let scanned: Vec<_> =
        results.iter().zip(&lines).map(|(result, line)| (&result["ruleId"], line)).collect();
    assert_eq!(scanned, told, "one result a finding, at its line");
}

#[test]
fn what_kustomize_rendered_leads_back_to_its_file() {
    let rendered = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata:\n  annotations:\n    config.kubernetes.io/origin: |\n      path: source/coder.yaml\n  name: coder\n  namespace: prod\nspec:\n  image: ghcr.io/coder/coder:v2.36.1\n  replicas: -1\n  service:\n    port: 70000\n";
    let built = corpus().join("trees/rendered");
    let run = run(&["lint", "--format=json", "--built", built.to_str().unwrap(), "-"], rendered);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let places: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["file"].as_str().unwrap().to_owned(), finding["code"].as_str().unwrap()))
        .collect();
    let source = built.join("source/coder.yaml").display().to_string();
    // The port was set by a patch: the source does not hold it.
    assert_eq!(places, [(source, "CODER0204"), ("<stdin>".to_owned(), "CODER0205")]);
}

#[test]
fn render_prints_what_would_be_stored() {
    let run = run(&["render", "-"], WARNED);
    let (stored, comments) = run.stdout.split_once("# In force").unwrap();
    for line in
        ["  image: ghcr.io/coder/coder:v2.36.1", "  replicas: 1", "    port: 80", "    type: ClusterIP"]
    {
        assert!(stored.contains(line), "{line} is not in\n{stored}");
    }
    assert!(comments.contains("#   serviceAccountName: coder"), "{comments}");
    let again = rendered_again(stored);
    assert_eq!(again.split_once("# In force").unwrap().0, stored, "what is stored gets no further default");
}

fn rendered_again(text: &str) -> String {
    run(&["render", "-"], text).stdout
}

#[test]
fn render_takes_the_image_of_the_operator_and_can_write_every_default() {
    let image = run(&["render", "--default-image=registry/coder:v1", "-"], WARNED);
    assert!(
        image.stdout.contains("  image: \"registry/coder:v1\"")
            || image.stdout.contains("  image: registry/coder:v1")
    );
    let resolved = run(&["render", "--resolved", "-"], WARNED);
    assert!(resolved.stdout.contains("serviceAccount:"), "{}", resolved.stdout);
    let children = run(&["render", "--children", "-"], WARNED);
    assert!(children.stdout.contains("kind: Deployment\n"), "{}", children.stdout);
    assert!(children.stdout.contains("kind: Service\n"), "{}", children.stdout);
    let sample = "kustomize/samples/coderprovisioner-minimal.yaml";
    let provisioner = run(&["render", "--children", sample], "");
    assert!(provisioner.stdout.contains("kind: ServiceAccount\n"), "{}", provisioner.stdout);
}

#[test]
fn render_takes_the_domain_of_the_cluster_and_lint_knows_the_flag() {
    let object = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata: {name: coder, namespace: prod}\nspec: {image: \"a:v1\"}\n";
    let domain = "--cluster-domain=corp.example";
    let stored = run(&["render", domain, "-"], object).stdout;
    assert!(stored.contains("accessURL: http://coder.prod.svc.corp.example\n"), "{stored}");
    let children = run(&["render", "--children", domain, "-"], object).stdout;
    assert!(children.contains("value: http://coder.prod.svc.corp.example\n"), "{children}");
    assert!(!children.contains("cluster.local"), "{children}");
    let usual = run(&["render", "--children", "-"], object).stdout;
    assert!(usual.contains("value: http://coder.prod.svc.cluster.local\n"), "{usual}");
    assert_eq!(run(&["lint", domain, "-"], object).code, 0);
}

#[test]
fn explain_knows_every_code_it_suggests() {
    let run_one = run(&["explain", "coder0702"], "");
    assert!(run_one.stdout.starts_with("### CODER0702: A key is given once\n"), "{}", run_one.stdout);
    let unknown = run(&["explain", "CODER0799"], "");
    let near: Vec<&str> = unknown.stderr.lines().skip(1).map(str::trim).collect();
    assert_eq!(near.len(), 5, "{}", unknown.stderr);
    for line in near {
        let code = line.split(':').next().unwrap();
        assert_eq!(run(&["explain", code], "").code, 0, "{code}");
    }
}

#[test]
fn the_page_about_lint_names_every_code_of_its_own() {
    let page = std::fs::read_to_string(repository().join("docs/lint.md")).unwrap();
    for number in (701..=713).chain(801..=808) {
        let code = format!("CODER0{number}");
        assert_eq!(run(&["explain", &code], "").code, 0, "{code}");
        assert!(page.contains(&code), "{code} is not in docs/lint.md");
    }
}

/// The lines of every `sh` block of the page, run as they are in the root of the repository.
#[test]
fn every_command_of_the_page_works() {
    let page = std::fs::read_to_string(repository().join("docs/lint.md")).unwrap();
    let mut count = 0;
    for block in page.split("```sh\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            let words: Vec<&str> = line.strip_prefix("coder-k8s ").expect(line).split_whitespace().collect();
            assert_eq!(run(&words, "").code, 0, "{line}");
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} commands");
}

#[test]
fn the_hook_runs_lint_on_manifests() {
    let text = std::fs::read_to_string(repository().join(".pre-commit-hooks.yaml")).unwrap();
    let hooks: Value = serde_saphyr::from_str(&text).unwrap();
    let entries: Vec<_> =
        hooks.as_array().unwrap().iter().map(|hook| hook["entry"].as_str().unwrap()).collect();
    assert!(entries.iter().all(|entry| entry.starts_with("coder-k8s lint")), "{entries:?}");
}

#[test]
fn mutated_manifests_end_with_a_verdict() {
    let seeds = files_below(&corpus()).into_iter().map(|file| std::fs::read(file).unwrap());
    let seeds: Vec<Vec<u8>> = seeds.filter(|seed| (8..4096).contains(&seed.len())).collect();
    let mut random = fastrand::Rng::with_seed(11);
    for format in ["text", "json", "github", "sarif"] {
        let folder = support::process::scratch_folder("lint-mutations");
        for (index, seed) in seeds.iter().enumerate() {
            let mut bytes = seed.clone();
            for _ in 0..random.usize(1..8) {
                let place = random.usize(..bytes.len());
                match random.u8(..3) {
                    0 => bytes[place] = random.u8(..128),
                    1 => drop(bytes.remove(place)),
                    _ => bytes.insert(place, *random.choice(b"-:[]{}\n\t\"' &*!|>#$%").unwrap()),
                }
            }
            std::fs::write(folder.join(format!("{index}.yaml")), bytes).unwrap();
        }
        let run = run(&["lint", "--format", format, folder.to_str().unwrap()], "");
        assert!(
            [1, 2].contains(&run.code) && !run.stderr.contains("panicked"),
            "{}: {}",
            run.code,
            run.stderr
        );
    }
}
