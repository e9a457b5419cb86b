//! A real PostgreSQL for tests, with coderd's real schema; it dies with the test process.
//! It starts the server as an ordinary user, since PostgreSQL refuses root, and never touches another cluster's files.

use crate::cluster::pki::Ca;
use crate::ports;
use crate::process::{Process, scratch_folder};
use crate::tools;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The password of the superuser `postgres`, and of every role that [`Postgres::role`] makes.
pub const PASSWORD: &str = "cnry+postgres/password=";
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Where the server's programs are, installed first if that is possible.
static PROGRAMS: LazyLock<PathBuf> = LazyLock::new(|| {
    installed().unwrap_or_else(|| {
        let tried = if we_are_root() { install() } else { "only root can install it here".to_owned() };
        installed().unwrap_or_else(|| {
            panic!(
                "database tests need PostgreSQL 13 or newer: put `initdb`, `postgres` and `psql` on PATH or install the \
                 Debian package `postgresql` (apt-get install postgresql); {tried}"
            )
        })
    })
});

/// Installs the package and returns what came of it, for whoever finds that it did not help.
fn install() -> String {
    eprintln!("--> installing PostgreSQL with apt-get (about a minute, once)");
    let script = "apt-get update -q && mkdir -p /etc/postgresql-common && \
         echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf && \
         apt-get install -y -q --no-install-recommends postgresql";
    match Command::new("bash").args(["-c", script]).env("DEBIAN_FRONTEND", "noninteractive").output() {
        Ok(done) => format!("apt-get ended with {}: {}", done.status, String::from_utf8_lossy(&done.stderr)),
        Err(error) => format!("bash did not start: {error}"),
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut packaged: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    packaged.sort();
    let complete = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    on_path.into_iter().chain(packaged.into_iter().rev()).find(complete)
}

fn we_are_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

/// Whom the server runs as: us, or somebody harmless if we are root.
#[derive(Debug, Clone, Copy)]
struct Runner(Option<(u32, u32)>);

impl Runner {
    fn choose() -> Self {
        if !we_are_root() {
            return Self(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let ids = |name: &str| {
            let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
            let fields: Vec<&str> = line.split(':').collect();
            Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
        };
        Self(Some(ids("postgres").or_else(|| ids("nobody")).unwrap_or((65_534, 65_534))))
    }

    fn command(self, program: &Path) -> Command {
        let Some((user, group)) = self.0 else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
        command.arg(program);
        command
    }

    fn own(self, path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).expect("root may give files away");
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    _server: Process,
}

/// The host name by which tests call the server; `--resolve` leads it to loopback.
pub const HOST: &str = "db.team.svc.cluster.local";

impl Postgres {
    /// Whether this machine has the programs; nothing is installed to make it true.
    pub fn is_installed() -> bool {
        installed().is_some()
    }

    /// A server without TLS.
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// A server with a certificate of this authority for these names.
    pub fn start_with_tls(ca: &Ca, names: &[&str]) -> Self {
        Self::start_with(Some((ca, names)))
    }

    fn start_with(tls: Option<(&Ca, &[&str])>) -> Self {
        let (runner, folder) = (Runner::choose(), scratch_folder("postgres"));
        runner.own(&folder, 0o700);
        let data = folder.join("data");
        let password = folder.join("password");
        std::fs::write(&password, PASSWORD).expect("the folder is writable");
        runner.own(&password, 0o600);
        let mut initdb = runner.command(&PROGRAMS.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--auth-local=trust",
        ]);
        initdb.arg("--auth-host=scram-sha-256").arg("--pwfile").arg(&password).arg("-D").arg(&data);
        let made = initdb.current_dir("/").output().expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));

        let [port] = ports::free();
        let mut server = runner.command(&PROGRAMS.join("postgres"));
        server.current_dir("/").arg("-D").arg(&data).arg("-p").arg(port.to_string());
        server.arg("-k").arg(&folder).args(["-h", "127.0.0.1"]);
        for setting in ["fsync=off", "full_page_writes=off", "synchronous_commit=off", "max_connections=60"] {
            server.args(["-c", setting]);
        }
        if let Some((ca, names)) = tls {
            let pair = ca.server(names);
            for (name, content) in [("server.crt", pair.certificate), ("server.key", pair.key)] {
                let path = data.join(name);
                std::fs::write(&path, content).expect("the folder is writable");
                runner.own(&path, 0o600);
            }
            server.args(["-c", "ssl=on"]);
        }
        let server = Process::start("postgres", &folder, &mut server);
        let mut postgres = Self { folder, port, _server: server };
        postgres.wait();
        postgres
    }

    fn wait(&mut self) {
        let deadline = Instant::now() + STARTS_WITHIN;
        while let Err(reason) = self.try_sql("postgres", "SELECT 1") {
            self._server.check_running().unwrap_or_else(|end| panic!("{end}"));
            assert!(Instant::now() < deadline, "PostgreSQL does not answer: {reason}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The rule that leads [`HOST`] to this server.
    pub fn resolve_rule(&self) -> String {
        self.resolve_rule_for(HOST)
    }

    /// The rule that leads another host name to this server.
    pub fn resolve_rule_for(&self, host: &str) -> String {
        format!("{host}={}", ports::loopback(self.port))
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database for this user, as coderd would be given it.
    pub fn url(&self, user: &str, database: &str, parameters: &str) -> String {
        self.url_at(HOST, user, database, parameters)
    }

    /// The same under another host name.
    pub fn url_at(&self, host: &str, user: &str, database: &str, parameters: &str) -> String {
        let password = PASSWORD.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        format!("postgres://{user}:{password}@{host}/{database}?{parameters}")
    }

    /// The URL of a database for the superuser, for a program on this machine that knows no `--resolve`.
    pub fn loopback_url(&self, database: &str) -> String {
        self.url_at(&ports::loopback(self.port).to_string(), "postgres", database, "sslmode=disable")
    }

    /// A new database with nothing in it.
    pub fn empty_database(&self) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("empty_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Runs statements as superuser; the values of the rows, one a line, divided by `|`.
    ///
    /// # Panics
    /// If a statement fails.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The same; the error is psql's words.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let output =
            self.psql(database).args(["-c", statements]).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn psql(&self, database: &str) -> Command {
        let beside = PROGRAMS.join("psql");
        let mut psql = Command::new(if beside.is_file() { beside } else { PathBuf::from("psql") });
        psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database]);
        psql.arg("-h").arg(&self.folder).arg("-p").arg(self.port.to_string()).current_dir("/");
        psql
    }

    /// A session of the superuser that runs these statements in the background, for example to hold a lock; it ends
    /// when it is dropped or terminated.
    pub fn background(&self, database: &str, statements: &str) -> Process {
        let mut psql = self.psql(database);
        Process::start("psql", &self.folder, psql.args(["-c", statements]))
    }

    /// A new database with the schema of that release of coderd.
    ///
    /// # Panics
    /// If `make cluster-tools` has not fetched the schema.
    pub fn coderd_database(&self, release: &str) -> String {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let template = format!("schema_{}", release.replace('.', "_"));
        self.with_template(release, &template);
        let name = format!("coder_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        name
    }

    fn with_template(&self, release: &str, template: &str) {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = self.sql("postgres", &format!("SELECT 1 FROM pg_database WHERE datname = '{template}'"));
        if known == "1" {
            return;
        }
        let dump = tools::program(&format!("coderd-schema-{release}.sql"));
        self.sql("postgres", &format!("CREATE DATABASE {template}"));
        let mut load = self.psql(template);
        load.env("PGOPTIONS", "-c check_function_bodies=off").arg("-f").arg(&dump);
        let loaded = load.output().expect("psql runs");
        assert!(loaded.status.success(), "{}: {}", dump.display(), String::from_utf8_lossy(&loaded.stderr));
    }

    /// A role that may log in with [`PASSWORD`].
    pub fn role(&self, name: &str) {
        self.sql("postgres", &format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'"));
    }
}
