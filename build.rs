//! Tells the binary which commit and profile it was built from.

use std::process::Command;

fn main() {
    let git = |words: &[&str]| {
        let said = Command::new("git").args(words).output().ok().filter(|said| said.status.success())?;
        Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|text| !text.is_empty())
    };
    // Outside a checkout, as in a release tarball, the commit may come from the environment.
    let commit = std::env::var("CODER_K8S_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let profile = std::env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=BUILD_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo::rustc-env=BUILD_PROFILE={profile}");
    println!("cargo::rerun-if-env-changed=CODER_K8S_COMMIT");
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
