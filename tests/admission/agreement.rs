//! Every layer says the same: the definitions' CEL, the policies and the webhooks, each alone on a real API server,
//! against the pure rules; and the pure rules against themselves. `AGREEMENT=full` tries ten times as many objects.

mod corpus;
mod layers;

use futures::{StreamExt, stream};
use layers::{Answer, Desk, Layers, Place};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use support::process::scratch_folder;
use support::wait::holds;
use tokio::sync::OnceCell;
use webhooks::generate::Generator;
use webhooks::render::held_by;
use webhooks::rules::{Layer, by_code as rule};
use webhooks::{
    Config, Kind, Operation, Verdict, defaulted, required_access, resolved, unknown_fields, validate,
};

/// Objects tried at the same time.
const AT_ONCE: usize = 16;
/// Objects the pure rules are tried on.
const PURE: u64 = 100_000;
/// New objects that fit the schema, and others, that every layer is tried on.
const FITTING: usize = 1_150;
const MISFITS: usize = 250;
/// Stored objects that are changed.
const OLDER: usize = 400;

fn times() -> usize {
    if std::env::var("AGREEMENT").is_ok_and(|value| value == "full") { 10 } else { 1 }
}

fn causes(verdict: &Verdict) -> BTreeSet<(String, String)> {
    verdict.causes.iter().map(|cause| (cause.field.clone(), cause.code.to_owned())).collect()
}

/// What a layer that stands alone must refuse for.
fn held(layer: Layer, kind: Kind, verdict: &Verdict) -> BTreeSet<String> {
    let held = verdict.causes.iter().filter(|cause| held_by(layer, kind, cause));
    held.map(|cause| cause.code.to_owned()).collect()
}

/// The object as the API server understands it: a null is nothing, and nothing is an empty spec where the schema has
/// that as a default. A provisioner cannot have it: something is required in its spec.
fn received(kind: Kind, mut object: Value) -> Value {
    if object["spec"].is_null() {
        let fields = object.as_object_mut().unwrap();
        match kind {
            Kind::Provisioner => fields.remove("spec"),
            Kind::ControlPlane | Kind::WorkspaceProxy => fields.insert("spec".to_owned(), json!({})),
        };
    }
    object
}

/// A kind with an object of it: as it is generated, or with one more thing wrong.
fn sample(generator: &mut Generator, number: u64) -> (Kind, Value) {
    let kind = generator.kind();
    let object = generator.object(kind);
    (kind, if number.is_multiple_of(5) { generator.mutated(&object) } else { object })
}

/// What must hold for the pure rules alone: for every object one of several properties.
fn agrees_with_itself(kind: Kind, object: &Value, config: &Config, property: u64) -> Result<(), String> {
    let created = validate(kind, object, Operation::Create);
    let told = causes(&created);
    match property % 4 {
        0 => {
            let complete = defaulted(kind, object, None, config);
            let after = causes(&validate(kind, &complete, Operation::Create));
            // What a stored object is silent about stays so when it is changed.
            let kept = defaulted(kind, object, Some(object), config);
            let asked = required_access(Some(object), &kept, "coder", kind);
            holds(asked.is_empty(), format!("defaults ask for rights: {asked:?}"))?;
            holds(told == after, format!("defaults change {told:?} to {after:?}"))
        }
        1 => {
            let kept = validate(kind, object, Operation::Update(object));
            holds(kept.allowed(), format!("unchanged it is refused: {:?}", kept.denial()))
        }
        2 => {
            let stored = causes(&validate(kind, object, Operation::Reconcile));
            holds(stored.is_subset(&told), format!("stored it is worse: {stored:?}"))
        }
        _ => {
            let whole = validate(kind, &resolved(kind, object, config), Operation::Create);
            holds(
                !created.allowed() || whole.allowed(),
                format!("complete it is refused: {:?}", whole.denial()),
            )
        }
    }
}

#[test]
fn the_pure_rules_agree_with_themselves_on_a_hundred_thousand_objects() {
    let (workers, config) = (4, Config::default());
    let count = PURE * u64::try_from(times()).unwrap();
    let work = |seed: u64| {
        let mut generator = Generator::new(1_000 + seed);
        let mut wrong = Vec::new();
        for number in 0..count / workers {
            let (kind, object) = sample(&mut generator, number);
            let result = agrees_with_itself(kind, &object, &config, number);
            wrong.extend(result.err().map(|problem| format!("{problem}\n  {object}")));
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|seed| scope.spawn(move || work(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} objects:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

/// A stored object and the spec somebody wants instead.
struct Older {
    name: String,
    kind: Kind,
    spec: Value,
    changed: Vec<Value>,
}

/// The layers in force, and objects in each of their namespaces that were stored before.
async fn shared() -> &'static (Layers, Vec<Older>) {
    static SHARED: OnceCell<(Layers, Vec<Older>)> = OnceCell::const_new();
    let start = async || {
        let layers = Layers::bare().await;
        let desk = layers.desk().await;
        let older = stream::iter(older()).map(|older| store(&desk, older)).buffer_unordered(AT_ONCE);
        let older = older.filter_map(async |older| older).collect().await;
        layers.enforce().await;
        (layers, older)
    };
    SHARED.get_or_init(start).await
}

fn older() -> Vec<Older> {
    let mut generator = Generator::new(7);
    let one = |number| {
        let kind = generator.kind();
        let spec = generator.object(kind)["spec"].clone();
        let changed = (0..6)
            .map(|way| {
                let other = generator.object(kind)["spec"].clone();
                let once = generator.mutated(&spec);
                if way % 3 == 0 { other } else { generator.mutated(&once) }
            })
            .collect();
        Older { name: format!("older-{number}"), kind, spec, changed }
    };
    (0..OLDER * times()).map(one).chain([versions()]).collect()
}

/// Changes of the version, which chance rarely makes: back, on, to something else, and to silence.
fn versions() -> Older {
    let image = |tag: &str| json!({ "image": format!("ghcr.io/coder/coder:{tag}"), "replicas": 2 });
    let changed = ["v2.35.0", "v2.36.0-rc.1", "v2.36.2", "latest"].map(image).to_vec();
    let silent = vec![json!({}), json!({ "replicas": 3 })];
    Older {
        name: "versions".to_owned(),
        kind: Kind::ControlPlane,
        spec: image("v2.36.1"),
        changed: [changed, silent].concat(),
    }
}

/// Stores an object in every place; one that the schema refuses is not stored anywhere.
async fn store(desk: &Desk, older: Older) -> Option<Older> {
    let object =
        json!({ "apiVersion": "coder.com/v1alpha1", "metadata": { "name": older.name }, "spec": older.spec });
    for place in Place::ALL {
        if !desk.created(place, older.kind, &object, false).await.allowed() {
            return None;
        }
    }
    Some(older)
}

/// How often a layer refused for which rule.
type Counts = BTreeMap<String, usize>;

/// Compares what the layers say with the pure verdict: of the object as it is, and as the webhook completes it.
fn compare(
    kind: Kind,
    answers: &[Answer; 4],
    plain: &Verdict,
    complete: &Verdict,
) -> Result<Vec<String>, String> {
    let [schema, cel, policies, webhooks] = answers;
    let told = match webhooks {
        Answer::Allowed => BTreeSet::new(),
        Answer::Refused { status: 403, causes, .. } => causes.clone(),
        other => return Err(format!("the webhooks fail: {other:?}")),
    };
    let pure = causes(complete);
    holds(told == pure, format!("the webhooks say {told:?}, the rules {pure:?}: {webhooks:?}"))?;
    let mut reasons: Vec<String> = told.iter().map(|(_, code)| format!("webhooks {code}")).collect();
    if let Answer::Refused { message, .. } = schema {
        holds(!plain.allowed(), format!("only the schema refuses: {message}"))?;
        return Ok(reasons);
    }
    let in_schema = held(Layer::Schema, kind, plain);
    holds(in_schema.is_empty(), format!("the schema does not know of {in_schema:?}"))?;
    for (name, layer, answer) in [("CEL", Layer::Cel, cel), ("policies", Layer::Policy, policies)] {
        let (told, pure) = (answer.codes(), held(layer, kind, plain));
        // A message of a policy is cut where Kubernetes would drop it whole.
        let cut = matches!(answer, Answer::Refused { message, .. } if message.ends_with(" ..."));
        let same = if cut { told.is_subset(&pure) } else { told == pure };
        holds(same, format!("{name} say {told:?}, the rules {pure:?}: {answer:?}"))?;
        holds(told.is_empty() == answer.allowed(), format!("{name} refuse without a code: {answer:?}"))?;
        reasons.extend(told.into_iter().map(|code| format!("{name} {code}")));
    }
    reasons.push("all".to_owned());
    Ok(reasons)
}

/// Tells what was compared, or what went wrong.
fn summary(results: Vec<Result<Vec<String>, String>>) -> Counts {
    let count = results.len();
    let mut counts = Counts::new();
    let mut wrong = Vec::new();
    for result in results {
        match result {
            Ok(reasons) => reasons.into_iter().for_each(|reason| *counts.entry(reason).or_default() += 1),
            Err(problem) => wrong.push(problem),
        }
    }
    let shown = wrong.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {count}:\n{shown}", wrong.len());
    println!("{count} objects, refused: {counts:?}");
    counts
}

/// How many different rules a layer refused for.
fn rules_of(counts: &Counts, layer: &str) -> usize {
    counts.keys().filter(|reason| reason.starts_with(layer)).count()
}

/// Whether any object of Kubernetes could have that name.
fn is_a_name(metadata: &Value) -> bool {
    let given = metadata["name"].as_str().filter(|name| !name.is_empty());
    let name =
        given.map_or_else(|| format!("{}0", metadata["generateName"].as_str().unwrap()), str::to_owned);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let labels = name.split('.').map(str::as_bytes);
    let is_label = |label: &[u8]| {
        let ends = label.first().zip(label.last()).is_some_and(|(first, last)| plain(*first) && plain(*last));
        ends && label.iter().all(|byte| plain(*byte) || *byte == b'-')
    };
    labels.into_iter().all(is_label)
}

/// New objects, most of which the schema takes.
fn samples() -> Vec<(Kind, Value)> {
    let mut generator = Generator::new(11);
    let (mut fitting, mut misfits) = (Vec::new(), Vec::new());
    let (wanted, unwanted) = (FITTING * times(), MISFITS * times());
    for number in 0.. {
        if fitting.len() == wanted {
            break;
        }
        let (kind, mut object) = sample(&mut generator, number);
        let named = |key: &str| object["metadata"][key].as_str().is_some_and(|name| !name.is_empty());
        let readable = object["metadata"].as_object().is_some_and(|map| map.values().all(Value::is_string));
        // The API server reads these before anybody else does.
        if !readable || !(named("name") || named("generateName")) || object["kind"] != kind.name() {
            continue;
        }
        object["apiVersion"] = json!("coder.com/v1alpha1");
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let verdict = validate(kind, &received(kind, object.clone()), Operation::Create);
        let fits = held(Layer::Schema, kind, &verdict).is_empty() && is_a_name(&object["metadata"]);
        if fits {
            fitting.push((kind, object));
        } else if misfits.len() < unwanted {
            misfits.push((kind, object));
        }
    }
    fitting.append(&mut misfits);
    fitting
}

#[tokio::test]
async fn every_layer_alone_refuses_new_objects_as_the_rules_do() {
    let (layers, older) = shared().await;
    let (desk, config) = (layers.desk().await, Config::default());
    let one = async |(kind, object): (Kind, Value)| {
        let answers = Place::ALL.map(|place| desk.created(place, kind, &object, true));
        let [schema, cel, policies, webhooks] = answers;
        let answers = tokio::join!(schema, cel, policies, webhooks).into();
        let meant = received(kind, object.clone());
        let plain = validate(kind, &meant, Operation::Create);
        let complete = validate(kind, &defaulted(kind, &meant, None, &config), Operation::Create);
        compare(kind, &answers, &plain, &complete).map_err(|problem| format!("{problem}\n  {object}"))
    };
    let results = stream::iter(samples()).map(one).buffer_unordered(AT_ONCE / 4).collect().await;
    let counts = summary(results);
    assert!(counts["all"] >= 1_000, "too few objects reach every layer: {counts:?}");
    for (layer, rules) in [("webhooks", 25), ("policies", 20), ("CEL", 15)] {
        assert!(rules_of(&counts, layer) >= rules, "{layer} held only a few rules: {counts:?}");
    }
    for place in Place::ALL {
        assert_eq!(desk.stored(place).await, older.len(), "a dry run stores nothing");
    }
}

#[tokio::test]
async fn every_layer_alone_holds_stored_objects_to_what_got_worse() {
    let (layers, older) = shared().await;
    let desk = layers.desk().await;
    let results = stream::iter(older).map(|older| changed(&desk, older)).buffer_unordered(AT_ONCE / 4);
    let results: Vec<Vec<_>> = results.collect().await;
    let counts = summary(results.into_iter().flatten().collect());
    assert!(counts["all"] >= 200, "too few changes reach every layer: {counts:?}");
    assert!(counts["webhooks CODER0221"] >= 2, "no change goes back to a lower version: {counts:?}");
}

/// What every place says to the changes of a stored object, compared.
async fn changed(desk: &Desk, older: &Older) -> Vec<Result<Vec<String>, String>> {
    let (kind, config) = (older.kind, Config::default());
    let [schema, cel, policies, webhooks] = Place::ALL.map(|place| desk.found(place, kind, &older.name));
    let stored: [Value; 4] = tokio::join!(schema, cel, policies, webhooks).into();
    let mut results = Vec::new();
    // What stays as it is reaches no layer but the definitions, and what is unknown reaches none.
    let known = |spec: &&Value| unknown_fields(kind, &json!({ "spec": spec })).is_empty();
    for spec in older.changed.iter().filter(|spec| **spec != older.spec).filter(known) {
        let new = |old: &Value| {
            let mut new = old.clone();
            new["spec"] = spec.clone();
            new
        };
        let sent = |number: usize| desk.updated(Place::ALL[number], kind, new(&stored[number]));
        let answers = tokio::join!(sent(0), sent(1), sent(2), sent(3)).into();
        let (old, new) = (&stored[0], received(kind, new(&stored[0])));
        let plain = validate(kind, &new, Operation::Update(old));
        let complete = validate(kind, &defaulted(kind, &new, Some(old), &config), Operation::Update(old));
        let compared = compare(kind, &answers, &plain, &complete);
        results.push(
            compared.map_err(|problem| format!("{problem}\n  {} {} -> {spec}", kind.name(), older.spec)),
        );
    }
    results
}

#[test]
fn lint_refuses_new_objects_as_the_rules_do() {
    let folder = scratch_folder("lint");
    let samples = samples();
    for (number, (_, object)) in samples.iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.json")), object.to_string()).unwrap();
    }
    let mut lint = Command::new(env!("CARGO_BIN_EXE_coder-k8s"));
    let output = lint.args(["lint", "--format=json", "."]).current_dir(&folder).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut findings: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap() {
        let [file, field, code] = ["file", "field", "code"].map(|key| finding[key].as_str().unwrap());
        let file = file.rsplit('/').next().unwrap().trim_end_matches(".json");
        let advice = finding["severity"] == "warning" && rule(code).is_some();
        if !advice {
            findings.entry(file.parse().unwrap()).or_default().push((field.to_owned(), code.to_owned()));
        }
    }
    let one = |(number, (kind, object)): (usize, &(Kind, Value))| {
        let complete = defaulted(*kind, object, None, &Config::default());
        let pure = causes(&validate(*kind, &complete, Operation::Create));
        let found = findings.remove(&number).unwrap_or_default();
        let (told, others): (BTreeSet<_>, BTreeSet<_>) =
            found.into_iter().partition(|(_, code)| rule(code).is_some());
        // Lint may say it better, for example of a value that was meant as a text; and it does not know what a
        // placeholder will be.
        let open = object.to_string().contains("${");
        let better = |(field, _): &(String, String)| others.iter().any(|(other, _)| field == other);
        let silent: Vec<_> = pure.difference(&told).filter(|cause| !open && !better(cause)).collect();
        let wrong = format!("lint says {told:?} and {others:?}, the rules {pure:?}\n  {object}");
        holds(silent.is_empty() && told.is_subset(&pure), wrong)?;
        Ok(told.into_iter().map(|(_, code)| format!("lint {code}")).collect())
    };
    let counts = summary(samples.iter().enumerate().map(one).collect());
    assert!(samples.len() >= 1_000 && rules_of(&counts, "lint") >= 25, "{counts:?}");
}
