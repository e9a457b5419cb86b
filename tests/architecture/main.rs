//! The rules of the house that the compiler does not hold: who may import whom, which crates are used, what each file
//! opens with.

mod flags;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::installation::repository;

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The room of a file: the first folder or file below `src`.
fn room(file: &Path) -> String {
    let below = file.strip_prefix(repository().join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// The rooms a file's code names: after `crate::`, alone or in braces, or by climbing with `super`.
fn imports(file: &Path, text: &str) -> BTreeSet<String> {
    let depth = file.strip_prefix(repository().join("src")).unwrap().components().count();
    // `super` leads to the crate's root from a file as deep as that; `mod.rs` is one step higher.
    let steps = if file.ends_with("mod.rs") { depth - 1 } else { depth };
    let climb = "super::".repeat(steps.max(1));
    let mut rooms = BTreeSet::new();
    for start in ["crate::", climb.as_str()] {
        for rest in text.split(start).skip(1) {
            let group = rest.strip_prefix('{').map(|rest| rest.split('}').next().unwrap_or_default());
            let names = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
            rooms.extend(names.into_iter().map(first_word).filter(|name| !name.is_empty()));
        }
    }
    rooms
}

fn first_word(text: &str) -> String {
    text.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[test]
fn every_way_to_import_is_seen() {
    let file = repository().join("src/serving/leaf.rs");
    for text in ["use crate::app::main;", "use crate::{kubernetes, app};", "use super::super::app::Flags;"] {
        assert!(imports(&file, text).contains("app"), "{text}");
    }
    let deeper = repository().join("src/serving/authority/ca.rs");
    assert!(imports(&deeper, "use super::super::super::app;").contains("app"));
}

/// Why a file of `room` may not import `other`, if it may not.
fn forbidden(room: &str, other: &str) -> Option<&'static str> {
    match (room, other) {
        (room, "app") if !["app", "main"].contains(&room) => Some("nobody knows app"),
        ("controller", "aggregated") | ("aggregated", "controller") => Some("they never call each other"),
        ("lint", "controller") => Some("lint is given who prints children"),
        ("coderd", "kubernetes" | "serving" | "controller" | "aggregated" | "admission" | "mcp") => {
            Some("coderd stands alone")
        }
        ("kubernetes", "serving" | "controller" | "aggregated" | "admission" | "mcp" | "coderd") => {
            Some("kubernetes serves the others and knows none")
        }
        ("control_plane_access", "controller" | "aggregated" | "serving" | "admission" | "mcp" | "lint") => {
            Some("it serves reconcilers and the aggregated API and knows neither")
        }
        ("serving", "controller" | "aggregated" | "admission" | "mcp" | "coderd" | "lint") => {
            Some("serving knows no kind and no part")
        }
        _ => None,
    }
}

#[test]
fn imports_respect_the_directions_of_the_house() {
    let mut broken = Vec::new();
    for file in rust_files(&repository().join("src")) {
        let room = room(&file);
        for other in imports(&file, &std::fs::read_to_string(&file).unwrap()) {
            if let Some(reason) = forbidden(&room, &other) {
                broken.push(format!("{}: {room} imports {other}: {reason}", file.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(forbidden("serving", "app").is_some(), "the rule itself can fail");
}

#[test]
fn only_kubernetes_talks_to_the_api_server_and_serving_and_coderd_know_no_kind() {
    let mut broken = Vec::new();
    for file in rust_files(&repository().join("src")) {
        let (room, text) = (room(&file), std::fs::read_to_string(&file).unwrap());
        let mut forbid = |words: &[&str], reason: &str| {
            for word in words.iter().filter(|word| text.contains(**word)) {
                broken.push(format!("{}: {word}: {reason}", file.display()));
            }
        };
        if room != "kubernetes" {
            forbid(
                &[
                    "Api::all",
                    "Api::namespaced",
                    "Api::default_namespaced",
                    "kube::Client",
                    "Client::try_from",
                ],
                "only src/kubernetes talks to kube-apiserver",
            );
        }
        if room == "serving" || room == "coderd" {
            forbid(
                &["crds::", "CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy"],
                "no kind is known here",
            );
        }
        if room == "coderd" {
            forbid(&["k8s_openapi", "kube::"], "coderd knows no Kubernetes type");
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

/// The steps of the path that decide, in the folder of every kind.
const PURE_STEPS: [&str; 6] =
    ["observed.rs", "reasons.rs", "requeue.rs", "resolve.rs", "running_values.rs", "status.rs"];
/// Folders that only decide; `fixtures.rs` in them read samples.
const PURE_FOLDERS: [&str; 2] = ["src/controller/status", "src/controller/workload"];
/// What else only decides.
const PURE_FILES: [&str; 48] = [
    "src/kubernetes/lease/step.rs",
    "src/serving/authority/rotation.rs",
    "src/serving/injection.rs",
    "src/control_plane_access/credentials.rs",
    "src/control_plane_access/in_force.rs",
    "src/control_plane_access/operator_token.rs",
    "src/control_plane_access/plan.rs",
    "src/control_plane_access/service.rs",
    "src/control_plane_access/unreached.rs",
    "src/controller/finalizer.rs",
    "src/controller/identity.rs",
    "src/controller/object.rs",
    "src/controller/children/account_use.rs",
    "src/controller/children/cache/kept.rs",
    "src/controller/children/child.rs",
    "src/controller/children/drift.rs",
    "src/controller/children/helm.rs",
    "src/controller/children/lists.rs",
    "src/controller/children/metadata.rs",
    "src/controller/children/observed_versions.rs",
    "src/controller/children/permissions.rs",
    "src/controller/children/withheld.rs",
    "src/controller/runtime/schedule.rs",
    "src/controller/control_plane/access/record.rs",
    "src/controller/control_plane/access/steps.rs",
    "src/controller/control_plane/helm_release/step.rs",
    "src/controller/attached/address.rs",
    "src/controller/attached/attachment.rs",
    "src/controller/attached/certificates.rs",
    "src/controller/attached/followed_image.rs",
    "src/controller/attached/outside.rs",
    "src/controller/attached/pause.rs",
    "src/controller/attached/refusal.rs",
    "src/controller/attached/seal.rs",
    "src/controller/workspace_proxy/outside.rs",
    "src/controller/workspace_proxy/way.rs",
    "src/controller/workspace_proxy/registration/ending.rs",
    "src/controller/workspace_proxy/registration/mark.rs",
    "src/controller/workspace_proxy/registration/record.rs",
    "src/controller/workspace_proxy/registration/seen.rs",
    "src/controller/workspace_proxy/registration/steps.rs",
    "src/controller/workspace_proxy/registration/stored.rs",
    "src/controller/attached/claims.rs",
    "src/controller/provisioner/outside.rs",
    "src/controller/provisioner/key/ending.rs",
    "src/controller/provisioner/key/record.rs",
    "src/controller/provisioner/key/seen.rs",
    "src/controller/provisioner/key/steps.rs",
];

/// A clock, a file or a socket would be a hidden input of a decision.
const HIDDEN_INPUTS: [&str; 5] = ["Instant::now", "Timestamp::now", "SystemTime::now", ".await", "std::fs"];

/// The hidden inputs that the code of a file has, without its tests.
fn hidden_inputs(text: &str) -> Vec<&'static str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    HIDDEN_INPUTS.into_iter().filter(|word| code.contains(word)).collect()
}

#[test]
fn pure_steps_have_no_hidden_input() {
    assert_eq!(hidden_inputs("let now = Instant::now();"), ["Instant::now"], "the rule itself can fail");
    let controller = repository().join("src/controller");
    let kinds = KINDS.iter().map(|kind| controller.join(kind)).filter(|folder| folder.exists());
    let kinds: Vec<PathBuf> = kinds.collect();
    assert!(kinds.len() == 3, "{kinds:?}");
    let steps = kinds.iter().flat_map(|kind| PURE_STEPS.map(|step| kind.join(step)));
    let folders = PURE_FOLDERS.map(|folder| repository().join(folder));
    let folders = folders.into_iter().chain(kinds.iter().map(|kind| kind.join("build")));
    let inside = folders.flat_map(|folder| rust_files(&folder)).filter(|file| !file.ends_with("fixtures.rs"));
    let files = PURE_FILES.iter().map(|file| repository().join(file));
    for file in steps.chain(inside).chain(files) {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{} is gone", file.display()));
        assert_eq!(hidden_inputs(&text), Vec::<&str>::new(), "{}", file.display());
    }
}

/// Rooms of the controller that every kind uses.
const SHARED: [&str; 12] = [
    "attached",
    "checksum_key.rs",
    "children",
    "finalizer.rs",
    "identity.rs",
    "object.rs",
    "object_writer.rs",
    "references.rs",
    "render.rs",
    "runtime",
    "status",
    "workload",
];
/// One folder a kind.
const KINDS: [&str; 3] = ["control_plane", "provisioner", "workspace_proxy"];

#[test]
fn kinds_never_import_each_other_and_shared_rooms_import_no_kind() {
    let controller = repository().join("src/controller");
    for entry in std::fs::read_dir(&controller).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let known = SHARED.contains(&name.as_str()) || KINDS.contains(&name.as_str()) || name == "mod.rs";
        assert!(known, "{name} is neither a kind nor a shared room");
    }
    for file in rust_files(&controller) {
        let below = file.strip_prefix(&controller).unwrap();
        let room = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        // Both put the kinds together, by name.
        if ["mod.rs", "render.rs"].contains(&room.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for other in KINDS.iter().filter(|other| **other != room) {
            let imports = [format!("controller::{other}"), format!("super::{other}::")];
            assert!(!imports.iter().any(|path| text.contains(path)), "{} imports {other}", file.display());
        }
    }
}

/// The inside of every `select!` of a text, without comments.
fn selects(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let code: String = lines.collect();
    let inside = |block: &str| {
        let mut open = 1;
        let within = |letter: &char| {
            open += i32::from(*letter == '{') - i32::from(*letter == '}');
            open > 0
        };
        block.chars().take_while(within).collect()
    };
    code.split("select! {").skip(1).map(inside).collect()
}

#[test]
fn no_error_shows_a_value_as_rust_would_print_it() {
    for file in rust_files(&repository().join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for error in text.split("#[error(").skip(1).filter_map(|rest| rest.split(")]\n").next()) {
            assert!(!error.contains(":?}") && !error.contains("{{"), "{}: {error}", file.display());
            let words = error.split(['{', '}']).step_by(2).map(str::len).sum::<usize>();
            assert!(words <= 250, "{}: too long for a condition: {error}", file.display());
        }
    }
}

#[test]
fn whoever_waits_for_the_end_looks_at_it_first() {
    let mut found = 0;
    for file in rust_files(&repository().join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for select in selects(&text).iter().filter(|select| select.contains(".cancelled()")) {
            found += 1;
            let first = select.split("=>").next().unwrap();
            let looks = first.starts_with("biased;") && first.contains(".cancelled()");
            assert!(looks, "{}: a fair choice may do one more round: {select}", file.display());
        }
    }
    assert!(found >= 10, "only {found} were found");
}

#[test]
fn every_module_opens_by_saying_what_it_is() {
    for folder in ["src", "crds/src", "webhooks/src", "tests/support"] {
        for file in rust_files(&repository().join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.starts_with("//! "), "{} has no opening sentence", file.display());
        }
    }
}

#[test]
fn every_crate_denies_unwrap_expect_panic_and_printing_outside_tests() {
    for root in ["src/lib.rs", "src/main.rs", "crds/src/lib.rs", "webhooks/src/lib.rs"] {
        let text = std::fs::read_to_string(repository().join(root)).unwrap();
        for lint in ["unwrap_used", "expect_used", "panic", "print_stdout", "print_stderr"] {
            assert!(text.contains(&format!("clippy::{lint}")), "{root} does not deny {lint}");
        }
    }
}

/// `cargo tree` of a member, one `name` a line.
fn tree(package: &str) -> BTreeSet<String> {
    let words = ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}", "--locked"];
    let output = Command::new(env!("CARGO")).args(words).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn the_crds_and_webhooks_crates_have_no_runtime_and_no_client() {
    let crds = tree("crds");
    assert!(crds.contains("k8s-openapi"), "the tree was read");
    assert!(!crds.contains("tokio") && !crds.contains("kube-client"), "{crds:?}");
    let webhooks = tree("webhooks");
    assert!(webhooks.contains("crds"), "the tree was read");
    assert!(!webhooks.contains("tokio") && !webhooks.contains("kube-client"), "{webhooks:?}");
    for root in ["src/lib.rs", "webhooks/src/lib.rs"] {
        let text = std::fs::read_to_string(repository().join(root)).unwrap();
        assert!(text.contains("#![deny(unreachable_pub)]"), "{root}: what no other crate uses is pub(crate)");
    }
}

#[test]
fn there_is_one_tls_provider() {
    let all = tree("coder-k8s");
    assert!(all.contains("ring"));
    for other in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
        assert!(!all.contains(other), "{other} is in the tree");
    }
}

/// Required crates, and whether something in the repository uses them already.
const REQUIRED: [(&str, bool); 11] = [
    ("kube", true),
    ("k8s-openapi", true),
    ("tokio", true),
    ("axum", true),
    ("rustls", true),
    ("rcgen", true),
    ("json-patch", true),
    ("serde", true),
    ("schemars", true),
    ("jsonschema", true),
    ("tracing", true),
];

#[test]
fn required_crates_are_direct_and_used_by_the_time_their_issue_is_done() {
    let members = ["Cargo.toml", "crds/Cargo.toml", "webhooks/Cargo.toml"];
    let direct: BTreeSet<String> = members.iter().flat_map(|file| direct_dependencies(file)).collect();
    let code: String = ["src", "crds/src", "webhooks/src"]
        .iter()
        .flat_map(|folder| rust_files(&repository().join(folder)))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    for (name, due) in REQUIRED {
        let used = code.contains(&format!("{}::", name.replace('-', "_")));
        assert_eq!((direct.contains(name), used), (due, due), "{name}: (direct dependency, used)");
    }
}

/// The names under `[dependencies]` of a manifest.
fn direct_dependencies(manifest: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(manifest)).unwrap();
    let section = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
