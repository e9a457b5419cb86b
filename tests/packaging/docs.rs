//! Every command in the documentation is run: `make` targets exist, and each `kubectl` line works against a cluster with
//! the shipped manifests and a running operator.

mod helm_release;
mod installing;
mod kustomizations;
mod migration;
mod provisioner;
mod reasons;
mod walk;
mod workspace_proxy;

use crds::well_known::{annotation, label};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use support::installation::repository;
use support::process::Process;
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);

fn pages() -> Vec<PathBuf> {
    let mut pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|page| repository().join(page))
        .to_vec();
    let folders =
        ["docs", "docs/decisions"].map(|folder| std::fs::read_dir(repository().join(folder)).unwrap());
    let docs = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    pages.extend(docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    pages.sort();
    pages
}

/// The lines of every `sh` block of a text.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn makefile() -> String {
    std::fs::read_to_string(repository().join("Makefile")).unwrap()
}

/// Whether a `make` line names a target.
fn is_target(makefile: &str, line: &str) -> bool {
    let target = line.split_whitespace().nth(1).unwrap();
    makefile.contains(&format!("\n{target}:"))
}

#[tokio::test]
async fn every_command_in_the_docs_works() {
    let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
    let installation = Installation::shipped(&cluster).await;
    let mut operator = Operator::start(BINARY, &installation.operator("all").await).await;
    operator.ready(LIMIT).await;
    installation.admit(operator.ports.webhooks, &[]).await;
    cluster.kubectl("create namespace coder").await.expect_ok();
    let makefile = makefile();
    let mut count = 0;
    // Their commands build on each other: tests/packaging/docs/ runs them in their order.
    const WALKED: [&str; 5] = [
        "README.md",
        "docs/gitops.md",
        "docs/migration.md",
        "docs/provisioner.md",
        "docs/workspace-proxy.md",
    ];
    let walked = |page: &PathBuf| WALKED.iter().any(|walked| page.ends_with(walked));
    for page in pages().into_iter().filter(|page| !walked(page)) {
        for line in commands(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            let place = format!("{}: {line}", page.display());
            match line.split_whitespace().next() {
                Some("make") => assert!(is_target(&makefile, &line), "{place}: no such target"),
                Some("kubectl") => {
                    let words = line.trim_start_matches("kubectl ");
                    let folder = format!(" {}/kustomize", repository().display());
                    let words = words.replace(" kustomize", &folder);
                    let answer = cluster.kubectl(&words).await;
                    assert!(answer.ok, "{place}: {}", answer.stderr);
                }
                // tests/packaging/lint.rs runs every one of these.
                Some("coder-k8s") => assert!(page.ends_with("docs/lint.md"), "{place}"),
                _ => panic!("{place}: say in tests/packaging/docs.rs how this line is tested"),
            }
        }
    }
    assert!(count > 10, "only {count} commands were found");
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.starts_with("http") {
                continue;
            }
            let target = page.parent().unwrap().join(link.split('#').next().unwrap());
            assert!(target.exists(), "{}: {link} does not exist", page.display());
        }
    }
}

#[test]
fn every_decision_is_in_the_index_and_fits_on_a_page() {
    let folder = repository().join("docs/decisions");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let pages = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for page in pages.filter(|page| !page.ends_with("README.md")) {
        let name = page.file_name().unwrap().display().to_string();
        assert!(index.contains(&format!("]({name})")), "{name} is not in the index");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.lines().count() <= 50, "{name} is longer than a page");
        for part in ["**Decided:**", "**Why**", "**What it costs:**", "**Must stay true:**"] {
            assert!(text.contains(part), "{name} has no {part}");
        }
    }
}

#[test]
fn every_mark_that_people_set_on_a_control_plane_or_a_namespace_is_explained() {
    let page = std::fs::read_to_string(repository().join("docs/control-plane.md")).unwrap();
    let annotations = [
        annotation::RECONCILE_AT,
        annotation::RELEASE_EXTERNAL,
        annotation::ALLOW_DOWNGRADE,
        annotation::ADOPT_HELM_RELEASE,
    ];
    for name in annotations.into_iter().chain([label::WORKSPACES_FROM]) {
        assert!(page.contains(&format!("`{name}")), "{name} is explained nowhere");
    }
}

#[test]
fn no_page_holds_a_place_for_something_to_come() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for word in ["FIRST_RUN", "SECOND_RUN", "to be measured", "TODO", "TBD"] {
            assert!(!text.contains(word), "{}: {word}", page.display());
        }
    }
}

#[test]
fn help_has_one_line_for_every_target() {
    let output = Command::new("make").arg("help").current_dir(repository()).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for target in makefile().lines().filter_map(|line| line.strip_prefix(".PHONY: ")) {
        assert_eq!(help.matches(&format!("make {target} ")).count(), 1, "{target} in:\n{help}");
    }
}

/// Processes whose command line names a folder of `owner`, which everything the harness starts does.
fn left_by(owner: u32) -> Vec<String> {
    let folder = format!("coder-k8s-{owner}-");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let bytes = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
        line.contains(&folder).then_some(line)
    });
    processes.collect()
}

/// How long `make run` may take until it has shown everything: a rotation waits for daemons to end.
const SHOWN_WITHIN: Duration = Duration::from_secs(240);

/// Runs what `make run` runs until it says this.
async fn make_run_until(said: &str) -> Process {
    let mut cargo = Command::new(env!("CARGO"));
    // Together with a suite, so that it has the features of one, and without what cargo told us of our package, which the build
    // script of ring takes for a change: otherwise most dependencies would be built again, now and in the next run.
    cargo.args("build --locked --quiet --workspace --test packaging --bin local-cluster".split(' '));
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    assert!(cargo.current_dir(repository()).status().unwrap().success());
    let folder = support::process::scratch_folder("make-run");
    let mut command = Command::new(PathBuf::from(BINARY).with_file_name("local-cluster"));
    command.arg(BINARY).arg("--publish").arg(folder.join("published"));
    let mut run = Process::start("local-cluster", &folder, &mut command);
    until("make run to be up", SHOWN_WITHIN, async || {
        run.check_running()?;
        holds(run.log().contains(said), run.log())
    })
    .await;
    run
}

/// Ends a run that is up, and waits until nothing of it is left.
async fn leaves_nothing_behind(mut run: Process, signal: &str) {
    assert!(
        left_by(run.id()).len() >= 5,
        "etcd, API server, controller manager, scheduler, kwok: {:?}",
        left_by(run.id())
    );
    run.signal(signal);
    until("everything to end", LIMIT, async || {
        holds(run.exit().is_some() && left_by(run.id()).is_empty(), format!("{:?}", left_by(run.id())))
    })
    .await;
}

#[tokio::test]
async fn make_run_shows_a_system_and_ctrl_c_leaves_nothing_running() {
    let run = make_run_until("Ctrl-C stops everything").await;
    let shown = run.log();
    for said in [
        "codercontrolplane.coder.com/coder condition met",
        "denied the request",
        "ghcr.io/coder/coder:v",
        "coderprovisioner.coder.com/builders condition met",
        "coderprovisioner.coder.com/builders patched",
        "KeyCreated",
        "KeyDeleted",
        "coderworkspaceproxy.coder.com/sydney condition met",
    ] {
        assert!(shown.contains(said), "{said} is not in:\n{shown}");
    }
    let recorded: Vec<&str> = shown.lines().filter(|line| line.starts_with("{\"current\"")).collect();
    assert_eq!(recorded.len(), 3, "two keys and a registration: {recorded:?}");
    for (record, name) in recorded.iter().zip(["builders", "builders-2", "sydney"]) {
        assert!(record.contains(&format!(r#""name":"{name}""#)), "{recorded:?}");
    }
    leaves_nothing_behind(run, "INT").await;
}

#[tokio::test]
async fn even_a_killed_make_run_leaves_nothing_running() {
    leaves_nothing_behind(make_run_until("--> ready after").await, "KILL").await;
}
