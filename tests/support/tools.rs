//! Where the programs of the test cluster are: `KUBEBUILDER_ASSETS` first, then the build cache.
//! It never builds anything; `make cluster-tools` does, and the message says so.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// The build cache, as the build script names it: one definition of its key.
static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tools/build.sh");
    let said = Command::new("bash").args([script, "--where"]).output().expect("bash runs build.sh --where");
    PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())
});

/// What runs a program. All of them are written in Go and live for minutes: they collect garbage less often than they would
/// by themselves, since a suite has more memory than time.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    command.env("GOGC", "400");
    command
}

/// The path of a program, or a panic that names both ways to get it.
pub fn program(name: &str) -> PathBuf {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let places = assets.into_iter().chain([CACHE.clone()]);
    let found = places.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "the test cluster needs `{name}`, which is neither in KUBEBUILDER_ASSETS nor in {}.\n\
             Either run `make cluster-tools` (needs Go 1.26 or newer; about 11 minutes, once), \
             or export KUBEBUILDER_ASSETS=/folder/with/{name}",
            CACHE.display()
        )
    })
}
