//! `make bench-lint`: `coder-k8s lint` beside kubeconform, as processes, on the same folder of 1,000 manifests, taking
//! turns. Both must say that they read all of them and that all are good, or nothing is reported.
//!
//!   cargo run --release -p support --bin bench-lint -- target/release/coder-k8s KUBECONFORM

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use support::figures::{Figure, report};
use support::installation::repository;
use support::process::scratch_folder;

const MANIFESTS: usize = 1_000;
const ROUNDS: usize = 21;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [ours, theirs] = &words[..] else {
        panic!("usage: bench-lint PATH-OF-CODER-K8S PATH-OF-KUBECONFORM")
    };
    let folder = scratch_folder("bench-lint");
    let (manifests, schemas) = (folder.join("manifests"), folder.join("schemas"));
    write_schemas(&schemas);
    let bytes = write_manifests(&manifests);
    println!("--> {MANIFESTS} manifests, {} kB, {ROUNDS} rounds", bytes / 1000);
    let few = folder.join("few");
    std::fs::create_dir_all(&few).expect("a writable folder");
    std::fs::copy(manifests.join("0000.yaml"), few.join("0000.yaml")).expect("the first manifest");
    let place = format!("{}/{{{{.ResourceKind}}}}_{{{{.ResourceAPIVersion}}}}.json", schemas.display());
    let lint = |folder: &Path| {
        let mut command = Command::new(ours);
        command.arg("lint").arg(folder).env_remove("CODER_K8S_DEFAULT_IMAGE");
        command
    };
    let kubeconform = |folder: &Path| {
        let mut command = Command::new(theirs);
        command.args(["-summary", "-strict", "-schema-location", &place]).arg(folder);
        command
    };
    let lint_read = |output: &Output, count: usize| {
        let text = String::from_utf8_lossy(&output.stdout);
        let plural = if count == 1 { "1 object of 1 file" } else { "1000 objects of 1000 files" };
        assert!(
            output.status.success() && text.contains(&format!("0 errors, 0 warnings in {plural}")),
            "{text}"
        );
    };
    let kubeconform_read = |output: &Output, count: usize| {
        let text = String::from_utf8_lossy(&output.stdout);
        let all = format!("Valid: {count}, Invalid: 0, Errors: 0, Skipped: 0");
        assert!(output.status.success() && text.contains(&all), "{text}");
    };
    both_refuse(&folder, &lint, &kubeconform);
    let mut times: [Vec<f64>; 4] = Default::default();
    // The first round of each warms the page cache and does not count.
    for round in 0..=ROUNDS {
        let measured = [
            timed(lint(&manifests), |output| lint_read(output, MANIFESTS)),
            timed(kubeconform(&manifests), |output| kubeconform_read(output, MANIFESTS)),
            timed(lint(&few), |output| lint_read(output, 1)),
            timed(kubeconform(&few), |output| kubeconform_read(output, 1)),
        ];
        for (times, time) in times.iter_mut().zip(measured).filter(|_| round > 0) {
            times.push(time);
        }
    }
    let [all, all_theirs, one, one_theirs] = times.map(median);
    report(
        "bench-lint",
        &[
            Figure::against("lint of 1,000 manifests", all, "ms", all_theirs, 1.0),
            Figure::against("lint of 1 manifest", one, "ms", one_theirs, 1.0),
        ],
    );
}

/// Milliseconds from start to exit.
fn timed(mut command: Command, check: impl Fn(&Output)) -> f64 {
    let began = Instant::now();
    let output = command.output().expect("a program that starts");
    let time = began.elapsed().as_secs_f64() * 1000.0;
    check(&output);
    time
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One bad manifest, refused by both: the schemas are really in use.
fn both_refuse(folder: &Path, lint: &dyn Fn(&Path) -> Command, kubeconform: &dyn Fn(&Path) -> Command) {
    let bad = folder.join("bad");
    std::fs::create_dir_all(&bad).expect("a writable folder");
    let text = "apiVersion: coder.com/v1alpha1\nkind: CoderControlPlane\nmetadata:\n  name: coder\nspec:\n  image: a:v1\n  replicas: two\n";
    std::fs::write(bad.join("bad.yaml"), text).expect("a writable folder");
    for mut command in [lint(&bad), kubeconform(&bad)] {
        let output = command.output().expect("a program that starts");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The good manifests of the corpus that hold one object of ours, over and over under other names.
fn write_manifests(folder: &Path) -> usize {
    std::fs::create_dir_all(folder).expect("a writable folder");
    let mut seeds = Vec::new();
    for file in sorted(&repository().join("tests/lint-corpus/good"), "yaml") {
        let text = std::fs::read_to_string(file).expect("a text");
        // Suppressions are no business of kubeconform, which also takes a null for a value where the API server drops it.
        let usable = text.lines().next() == Some("# expect: clean")
            && !text.contains("coder-lint:")
            && !text.contains("null");
        if let (true, Ok(objects)) = (usable, serde_saphyr::from_multiple::<Value>(&text))
            && let [object] = &objects[..]
            && object["apiVersion"] == "coder.com/v1alpha1"
        {
            seeds.push(object.clone());
        }
    }
    assert!(seeds.len() >= 15, "only {} manifests of the corpus can be used", seeds.len());
    let mut bytes = 0;
    for (number, seed) in seeds.iter().cycle().take(MANIFESTS).enumerate() {
        let mut object = seed.clone();
        object["metadata"]["name"] = json!(format!("n{number}"));
        object["metadata"]["namespace"] = json!(format!("space-{number}"));
        let text = serde_saphyr::to_string(&object).expect("an object is YAML");
        bytes += text.len();
        std::fs::write(folder.join(format!("{number:04}.yaml")), text).expect("a writable folder");
    }
    bytes
}

/// The shipped schemas as kubeconform wants them: one JSON file a kind, unknown fields refused as ours are.
fn write_schemas(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a writable folder");
    let files = sorted(&repository().join("crds"), "yaml").into_iter();
    let texts = files.map(|file| std::fs::read_to_string(file).expect("a text"));
    let definitions = texts.filter_map(|text| serde_saphyr::from_str::<Value>(&text).ok());
    let mut count = 0;
    for definition in definitions.filter(|found| found["kind"] == "CustomResourceDefinition") {
        let kind = definition["spec"]["names"]["kind"].as_str().expect("a kind").to_lowercase();
        let version = &definition["spec"]["versions"][0];
        let name = version["name"].as_str().expect("a version");
        let mut schema = strict(&version["schema"]["openAPIV3Schema"]);
        // Every object has these; a definition does not repeat them.
        for (field, of) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            schema["properties"][field] = json!({ "type": of });
        }
        std::fs::write(folder.join(format!("{kind}_{name}.json")), schema.to_string())
            .expect("a writable folder");
        count += 1;
    }
    assert_eq!(count, 3, "a schema for each kind");
}

/// A schema of a definition as JSON Schema. What only Kubernetes knows is left out.
fn strict(schema: &Value) -> Value {
    let Value::Object(given) = schema else { return schema.clone() };
    let mut result = Map::new();
    for (key, value) in given {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                Value::Object(fields.iter().map(|(name, field)| (name.clone(), strict(field))).collect())
            }
            ("items" | "additionalProperties", inner) => strict(inner),
            (key, _)
                if key.starts_with("x-kubernetes")
                    || ["nullable", "description", "format"].contains(&key) =>
            {
                continue;
            }
            (_, value) => value.clone(),
        };
        result.insert(key.clone(), value);
    }
    if given.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        result.insert("type".to_owned(), json!(["integer", "string"]));
    }
    let open = given.contains_key("x-kubernetes-preserve-unknown-fields")
        || given.contains_key("additionalProperties");
    if given.contains_key("properties") && !open {
        result.insert("additionalProperties".to_owned(), json!(false));
    }
    Value::Object(result)
}

fn sorted(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|own| own == ending)).collect();
    files.sort();
    files
}
