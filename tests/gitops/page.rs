//! The written way out, as its page has it. It runs the commands in their order; what must be left is for the test to say.

use crate::site::Site;
use support::installation::repository;

const PAGE: &str = "docs/migration.md";

/// The commands below a heading, up to the next one.
fn section(heading: &str) -> Vec<String> {
    let page = std::fs::read_to_string(repository().join(PAGE)).expect("a page");
    let (_, rest) =
        page.split_once(&format!("# {heading}\n")).unwrap_or_else(|| panic!("{heading} in {PAGE}"));
    let section = rest.split("\n#").next().unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// Runs a section. The operator's process ends when its Deployment is about to go.
pub async fn follow(site: &mut Site, heading: &str) {
    let lines = section(heading);
    assert!(!lines.is_empty(), "{heading} has no commands");
    let mut runs = true;
    for line in lines {
        let words = line.strip_prefix("kubectl ").expect("only kubectl is called here").replace('\'', "");
        if runs && words.contains("delete") && words.contains("coder-k8s-operator") {
            site.stop_operator().await;
            runs = false;
        }
        let answer = site.cluster.kubectl(&words).await;
        assert!(answer.ok, "{words}: {}", answer.stderr);
        println!("{heading}: kubectl {words}");
    }
    assert!(!runs, "{heading} leaves the operator");
}
