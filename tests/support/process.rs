//! Child processes that die with us: on drop, on panic, on Ctrl-C and when we are killed.
//! A child is never left behind and its output is never mixed into ours.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

/// Outlives us in its own process group and reads our pipe: when the pipe closes, however we ended,
/// it kills what we started and removes the folders nobody asked to keep.
const REAPER: &str = r#"
pids=" "; folders=""
while read -r what value; do case $what in
  started) pids="$pids$value " ;;
  ended) case $pids in *" $value "*) pids="${pids%%" $value "*} ${pids#*" $value "}" ;; esac ;;
  folder) folders="$folders $value" ;;
esac; done
[ -z "${pids// /}" ] || kill -9 $pids 2>/dev/null
for folder in $folders; do [ -e "$folder/KEEP" ] || rm -rf "$folder"; done
"#;

/// Kept whole: the pipe is inside, and nobody waits for it, since it ends after us.
static REAPER_PROCESS: LazyLock<Mutex<Child>> = LazyLock::new(|| {
    let mut bash = Command::new("bash");
    let reaper = bash.args(["-c", REAPER]).stdin(Stdio::piped()).process_group(0).spawn();
    Mutex::new(reaper.expect("bash starts the reaper"))
});

fn tell_reaper(line: &str) {
    let mut reaper = REAPER_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let pipe = reaper.stdin.as_mut().expect("the reaper's stdin is a pipe");
    writeln!(pipe, "{line}").expect("the reaper reads");
}

static KEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<PathBuf>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for data and logs that goes when we end, unless a test failed: then it stays and its path is printed.
pub fn scratch_folder(purpose: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    // A kept folder of an earlier process may have had our number: the next one is as good.
    let folder = (0..1000).find_map(|_| {
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("coder-k8s-{}-{number}-{purpose}", std::process::id()));
        std::fs::create_dir(&folder).is_ok().then_some(folder)
    });
    let folder = folder.expect("the temporary folder is writable");
    tell_reaper(&format!("folder {}", folder.display()));
    kept().push(folder.clone());
    keep_logs_of_failures();
    folder
}

fn keep_logs_of_failures() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            default(panic);
            for folder in kept().iter() {
                // Best effort by nature: this runs while something else already failed.
                let _ = File::create(folder.join("KEEP"));
                eprintln!("logs of this failure are kept in {}", folder.display());
            }
        }));
    });
}

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; stdout and stderr go to `<folder>/<name>.log`.
    pub fn start(name: &str, folder: &Path, command: &mut Command) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output =
            File::options().create(true).append(true).open(&log).expect("the log file can be opened");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the log file can be shared"))
            .stderr(output)
            // Ctrl-C reaches us alone, so that we decide the order in which things stop.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        tell_reaper(&format!("started {}", child.id()));
        Self { name: name.to_owned(), child, log }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where its output goes.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it did.
    pub fn exit(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().expect("a child can be waited for");
        if ended.is_some() {
            // Its number may be another process's from now on.
            tell_reaper(&format!("ended {}", self.child.id()));
        }
        ended
    }

    /// An error with the end of the log if it is no longer running.
    pub fn check_running(&mut self) -> Result<(), String> {
        match self.exit() {
            None => Ok(()),
            Some(status) => {
                let log = self.log();
                let end: Vec<&str> = log.lines().rev().take(15).collect();
                let end: Vec<&str> = end.into_iter().rev().collect();
                Err(format!("{} ended with {status}; its last words:\n{}", self.name, end.join("\n")))
            }
        }
    }

    /// Sends a signal by name, for example `TERM`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{signal} {} failed", self.name);
    }

    /// Kills it at once and waits until it is gone.
    pub fn kill(&mut self) {
        // Already gone is what we want; both calls say so as an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
        tell_reaper(&format!("ended {}", self.child.id()));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
