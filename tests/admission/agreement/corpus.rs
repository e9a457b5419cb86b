//! What the live webhooks say to every object of the lint corpus beside what lint says, file by file.
//! It never decides which findings are lint's own: the rule table does, by the layers of each code.

use super::layers::{Answer, Desk, Place};
use super::{AT_ONCE, shared};
use coder_k8s::lint;
use futures::{StreamExt, stream};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::installation::repository;
use support::process::scratch_folder;
use support::wait::holds;
use webhooks::Kind;
use webhooks::rules::{Layer, Rule, Severity, When, by_code};

/// Manifests that are compared at least.
const MANIFESTS: usize = 200;
/// A variable whose value lint cannot know.
const OPEN: &str = "CODER0603";

/// What lint found in a file.
#[derive(Debug, Default)]
struct Found {
    /// Codes of errors that the webhooks have, too.
    codes: BTreeSet<String>,
    /// Fields of which lint says more than the webhooks can: what its own codes are about, and open variables.
    better: BTreeSet<String>,
    /// Whether there is an error at all.
    error: bool,
}

/// The files of the corpus without their suppressions: a cluster does not know them.
fn unsuppressed(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            unsuppressed(&path, &copy);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(copy, text.replace("# coder-lint:", "# once:")).unwrap();
        }
    }
}

/// What lint says, file by file. A tree is looked at as a whole, and never together with anything else.
fn linted(folder: &Path) -> BTreeMap<PathBuf, Found> {
    let mut found = BTreeMap::new();
    let trees = std::fs::read_dir(folder.join("trees")).unwrap();
    let trees = trees.map(|entry| Path::new("trees").join(entry.unwrap().file_name()));
    for part in [PathBuf::from("good"), PathBuf::from("bad")].into_iter().chain(trees) {
        lint_part(folder, &part, &mut found);
    }
    found
}

fn lint_part(folder: &Path, part: &Path, found: &mut BTreeMap<PathBuf, Found>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coder-k8s"));
    let output = command.args(["lint", "--format=json"]).arg(part).current_dir(folder).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for finding in report["findings"].as_array().unwrap() {
        let [file, field, code] =
            ["file", "field", "code"].map(|key| finding[key].as_str().unwrap().to_owned());
        let found = found.entry(PathBuf::from(file)).or_default();
        let error = finding["severity"] == "error";
        found.error |= error;
        match by_code(&code).filter(|rule| rule.lives_in(Layer::Webhook)) {
            Some(_) if code == OPEN => drop(found.better.insert(field)),
            Some(_) if error => drop(found.codes.insert(code)),
            Some(_) => {}
            None => drop(found.better.insert(field)),
        }
    }
}

/// Files that kustomizations list as patches: a cluster never sees them as they are.
fn patches(sources: &[lint::Source]) -> BTreeSet<PathBuf> {
    let kustomizations = sources.iter().filter(|source| source.is_kustomization());
    let listed = kustomizations.flat_map(|source| {
        let place = source.path.as_deref().and_then(Path::parent).unwrap();
        let value = source.stream.documents[0].root.to_value();
        let patches = value["patches"].as_array().cloned().unwrap_or_default();
        patches.into_iter().filter_map(move |patch| Some(place.join(patch["path"].as_str()?)))
    });
    listed.collect()
}

/// Every object of our kinds that would reach a cluster, with its file.
fn objects(folder: &Path) -> Vec<(PathBuf, Kind, Value)> {
    let loaded = lint::load(&[folder.to_owned()], &mut std::io::empty());
    assert!(loaded.unreadable.is_empty(), "{:?}", loaded.unreadable);
    let (mut objects, patches) = (Vec::new(), patches(&loaded.sources));
    for source in loaded.sources.iter().filter(|source| !patches.contains(source.path.as_ref().unwrap())) {
        let file = source.path.as_deref().unwrap().strip_prefix(folder).unwrap();
        for document in source.stream.documents.iter().filter(|document| document.is_sendable()) {
            let value = document.root.to_value();
            let listed = value["items"].as_array().cloned();
            for object in listed.unwrap_or_else(|| vec![value]) {
                let ours = object["apiVersion"] == "coder.com/v1alpha1";
                if let Some(kind) = object["kind"].as_str().and_then(Kind::from_name).filter(|_| ours) {
                    objects.push((file.to_owned(), kind, object));
                }
            }
        }
    }
    objects
}

/// What the live webhooks say to an object: the fields and codes of a denial, or nothing where others refused it.
async fn asked(desk: &Desk, kind: Kind, mut object: Value) -> Result<BTreeSet<(String, String)>, String> {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    match desk.created(Place::Webhooks, kind, &object, true).await {
        Answer::Allowed => Ok(BTreeSet::new()),
        Answer::Refused { status: 403, causes, .. } if !causes.is_empty() => Ok(causes),
        Answer::Refused { status, message, .. } => Err(format!("{status}: {message}")),
    }
}

/// Whether a rule refuses a new object for what is in it, live and in lint.
fn refuses(rule: &&'static Rule) -> bool {
    let both = rule.lives_in(Layer::Webhook) && rule.lives_in(Layer::Lint);
    both && rule.severity == Severity::Deny && rule.when != When::Change
}

#[tokio::test]
async fn lint_says_to_every_manifest_of_the_corpus_what_the_live_webhooks_say() {
    let (layers, _) = shared().await;
    let desk = layers.desk().await;
    let folder = scratch_folder("corpus");
    unsuppressed(&repository().join("tests/lint-corpus"), &folder);
    let found = linted(&folder);
    let asked = stream::iter(objects(&folder)).map(|(file, kind, object)| {
        let desk = &desk;
        async move { (file, asked(desk, kind, object).await) }
    });
    let mut live: BTreeMap<PathBuf, Vec<_>> = BTreeMap::new();
    for (file, answer) in asked.buffer_unordered(AT_ONCE / 4).collect::<Vec<_>>().await {
        live.entry(file).or_default().push(answer);
    }
    let (mut wrong, mut refused, mut exact, mut codes) = (Vec::new(), 0, 0, BTreeSet::new());
    for (file, answers) in &live {
        let none = Found::default();
        let found = found.get(file).unwrap_or(&none);
        let causes: BTreeSet<&(String, String)> = answers.iter().flatten().flatten().collect();
        let kept = causes.iter().filter(|(field, _)| !found.better.contains(field));
        let told: BTreeSet<String> = kept.map(|(_, code)| code.clone()).collect();
        let unread = answers.iter().filter_map(|answer| answer.as_ref().err()).collect::<Vec<_>>();
        // What the API server refuses before it asks a webhook, lint must refuse for a reason of its own.
        let agree = told == found.codes && (unread.is_empty() || found.error || !found.better.is_empty());
        let said = format!("{}: live {causes:?} {unread:?}, lint {found:?}", file.display());
        wrong.extend(holds(agree, said).err());
        refused += usize::from(!causes.is_empty());
        exact += usize::from(found.better.is_empty() && unread.is_empty());
        codes.extend(told);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), live.len(), wrong.join("\n"));
    println!("{} manifests, {refused} refused, {exact} compared whole, {} codes", live.len(), codes.len());
    assert!(live.len() >= MANIFESTS, "only {} manifests", live.len());
    assert!(refused >= 80 && live.len() - refused >= 50, "{refused} of {} are refused", live.len());
    let silent: Vec<&str> = webhooks::rules::rules().filter(refuses).map(|rule| rule.code).collect();
    let silent: Vec<&&str> = silent.iter().filter(|code| !codes.contains(**code)).collect();
    assert!(silent.is_empty(), "no manifest is refused for {silent:?}");
    assert!(exact >= MANIFESTS, "only {exact} manifests are compared whole");
}
