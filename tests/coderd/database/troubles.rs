//! What may go wrong between the operator and a database: told apart, ended in time, and nothing left behind.
//! The databases are those of the suite.

use super::*;
use coder_k8s::coderd::database::State;

/// What whoever chose the address does not learn.
fn no_login(detail: Error) -> Error {
    Error::NoLogin(Box::new(detail))
}

#[tokio::test]
async fn a_wrong_password_is_told_without_it() {
    let name = SERVER.coderd_database(NEWEST);
    for text in [
        format!("postgres://postgres:hunter2@{HOST}/{name}?sslmode=disable"),
        format!("host={HOST} user=postgres dbname={name} sslmode=disable"),
        format!("host={HOST} user=nobody-known password=hunter2 dbname={name} sslmode=disable"),
    ] {
        let error = Database::connect(&url(&text), &resolve(&SERVER), Limits::default()).await.unwrap_err();
        assert_eq!(error, no_login(Error::WrongPassword));
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    // A server that has proven who it is may say what it likes.
    for mode in ["verify-ca", "verify-full"] {
        let text = format!("postgres://postgres:hunter2@{HOST}/{name}?sslmode={mode}");
        let known = url(&text).trusting(&*CA.certificate);
        let error = Database::connect(&known, &resolve(&SERVER), Limits::default()).await.unwrap_err();
        assert_eq!(error, Error::WrongPassword, "{mode}");
    }
    let missing = url(&SERVER.url("postgres", "no_such_database", "sslmode=disable"));
    let error = Database::connect(&missing, &resolve(&SERVER), Limits::default()).await.unwrap_err();
    assert_eq!(error, Error::Other(State::new("3D000")));
    assert!(!format!("{error} {missing:?}").contains(PASSWORD));
}

#[tokio::test]
async fn tls_is_used_and_checked_as_the_url_asks() {
    let name = SERVER.coderd_database(NEWEST);
    let ask = async |parameters: &str, ca: Option<&Ca>| {
        let url = url(&SERVER.url("postgres", &name, parameters));
        let url = ca.map_or(url.clone(), |ca| url.trusting(&*ca.certificate));
        let mut database = Database::connect(&url, &resolve(&SERVER), Limits::default()).await?;
        database.ensure_access(&request()).await.map(drop)
    };
    let other = Ca::new("other");
    for parameters in ["", "sslmode=require", "sslmode=prefer"] {
        assert_eq!(ask(parameters, None).await, Ok(()), "{parameters}");
    }
    for parameters in ["sslmode=verify-ca", "sslmode=verify-full"] {
        assert_eq!(ask(parameters, Some(&CA)).await, Ok(()), "{parameters}");
        for untrusted in [None, Some(&other)] {
            let error = ask(parameters, untrusted).await.unwrap_err();
            assert!(matches!(error.detail(), Error::TlsRefused(_)), "{parameters}: {error:?}");
            assert!(matches!(error, Error::NoLogin(_)), "{parameters}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_passes_verify_ca_only() {
    let server = Postgres::start_with_tls(&CA, &["elsewhere.example.com"]);
    let ask = async |mode: &str| {
        let url = url(&server.url("postgres", "postgres", mode)).trusting(&*CA.certificate);
        Database::connect(&url, &resolve(&server), Limits::default()).await.map(drop)
    };
    assert_eq!(ask("sslmode=verify-ca").await, Ok(()));
    let error = ask("sslmode=verify-full").await.unwrap_err();
    assert!(matches!(error.detail(), Error::TlsRefused(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_unless_the_url_allows_it() {
    let server = Postgres::start();
    let ask = async |mode: &str| {
        let url = url(&server.url("postgres", "postgres", mode));
        Database::connect(&url, &resolve(&server), Limits::default()).await.map(drop)
    };
    for refused in ["", "sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"] {
        let error = ask(refused).await.unwrap_err();
        assert!(matches!(error.detail(), Error::TlsRefused(_)), "{refused}: {error:?}");
    }
    assert_eq!(ask("sslmode=prefer").await, Ok(()));
    assert_eq!(ask("sslmode=disable").await, Ok(()));
    // A database that coderd has not migrated yet.
    let url = url(&server.url("postgres", "postgres", "sslmode=disable"));
    let mut database = Database::connect(&url, &resolve(&server), Limits::default()).await.unwrap();
    assert_eq!(database.ensure_access(&request()).await, Err(Error::NotMigrated));
}

/// Waits until `waiting` sessions of ours wait for a lock in this database.
async fn a_session_waits_for_a_lock(name: &str) {
    let question = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'coder-k8s' \
         AND wait_event_type = 'Lock'"
    );
    until("a session that waits", SOON, async || holds(SERVER.sql(name, &question) == "1", "none waits"))
        .await;
}

/// Somebody else holds this table for as long as the value lives.
async fn locked(name: &str, table: &str) -> support::process::Process {
    let holder = SERVER.background(
        name,
        &format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)"),
    );
    // Databases made from one template share the numbers of their tables.
    let question = format!(
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = '{name}' \
         AND relation = '{table}'::regclass AND mode = 'AccessExclusiveLock' AND granted"
    );
    until("the lock", SOON, async || holds(SERVER.sql(name, &question) == "1", "not held")).await;
    holder
}

fn unlock(name: &str) {
    SERVER.sql(
        "postgres",
        &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'psql'"),
    );
}

#[tokio::test]
async fn a_locked_table_ends_in_time_on_every_clock_and_leaves_nothing() {
    let name = SERVER.coderd_database(NEWEST);
    let _holder = locked(&name, "api_keys").await;
    let (short, long) = (Duration::from_millis(300), Duration::from_secs(60));
    let patient = Limits { connect: long, statement: long, lock: long, transaction: long };
    for limits in [
        Limits { lock: short, ..patient },
        Limits { statement: short, ..patient },
        Limits { transaction: short, ..patient },
    ] {
        let mut database = connect_as("postgres", &name, limits).await;
        assert_eq!(database.ensure_access(&request()).await, Err(Error::TimedOut), "{limits:?}");
    }
    assert_eq!(count(&name, "users"), "0");
    unlock(&name);
    connect(&name).await.ensure_access(&request()).await.unwrap();
}

#[tokio::test]
async fn a_connection_lost_inside_the_transaction_leaves_nothing() {
    let name = SERVER.coderd_database(NEWEST);
    let _holder = locked(&name, "api_keys").await;
    let long = Duration::from_secs(60);
    let patient = Limits { connect: long, statement: long, lock: long, transaction: long };
    let mut database = connect_as("postgres", &name, patient).await;
    let request = request();
    let (outcome, ()) = tokio::join!(database.ensure_access(&request), async {
        a_session_waits_for_a_lock(&name).await;
        SERVER.sql(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' \
                 AND application_name = 'coder-k8s'"
            ),
        );
    });
    assert_eq!(outcome, Err(Error::ConnectionLost));
    assert_eq!(
        database.ensure_access(&request).await,
        Err(Error::ConnectionLost),
        "the connection stays lost"
    );
    unlock(&name);
    assert_eq!((count(&name, "users"), count(&name, "api_keys")), ("0".to_owned(), "0".to_owned()));
    connect(&name).await.ensure_access(&request).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_and_closes_its_connection() {
    let name = SERVER.coderd_database(NEWEST);
    let _holder = locked(&name, "api_keys").await;
    let mut database =
        connect_as("postgres", &name, Limits { lock: SOON, statement: SOON, ..Limits::default() }).await;
    let request = request();
    tokio::select! {
        outcome = database.ensure_access(&request) => panic!("it waits: {outcome:?}"),
        () = a_session_waits_for_a_lock(&name) => {}
    }
    drop(database);
    unlock(&name);
    let question = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'coder-k8s'"
    );
    until("no session of ours", SOON, async || holds(SERVER.sql(&name, &question) == "0", "one is left"))
        .await;
    assert_eq!(count(&name, "users"), "0");
}

#[tokio::test]
async fn missing_rights_are_told_apart_from_a_missing_schema() {
    let name = SERVER.coderd_database(NEWEST);
    SERVER.role("reader");
    for grant in ["", "GRANT SELECT, UPDATE ON users TO reader"] {
        SERVER.sql(&name, grant);
        let mut database = connect_as("reader", &name, Limits::default()).await;
        assert_eq!(database.ensure_access(&request()).await, Err(Error::PermissionDenied), "{grant}");
    }
    assert_eq!(count(&name, "users"), "0");
}

#[tokio::test]
async fn a_schema_we_do_not_know_is_named_before_anything_is_written() {
    for (change, problem) in [
        ("ALTER TABLE api_keys RENAME scopes TO permissions", "api_keys.scopes is missing"),
        ("ALTER TABLE users RENAME rbac_roles TO roles", "users.rbac_roles is missing"),
        ("ALTER TYPE api_key_scope RENAME VALUE 'coder:all' TO 'all'", "api_key_scope.coder:all is missing"),
        ("ALTER TABLE users ADD tenant text NOT NULL", "a column of users that we do not know needs a value"),
    ] {
        let name = SERVER.coderd_database(NEWEST);
        SERVER.sql(&name, change);
        match connect(&name).await.ensure_access(&request()).await {
            Err(Error::UnsupportedSchema { problems }) => {
                assert!(problems.contains(&problem.to_owned()), "{change}: {problems:?}");
            }
            other => panic!("{change}: {other:?}"),
        }
        assert_eq!(count(&name, "users"), "0");
    }
}

#[tokio::test]
async fn another_schema_on_the_search_path_is_not_looked_at() {
    let name = SERVER.coderd_database(NEWEST);
    SERVER.sql(
        &name,
        &format!(
            "CREATE SCHEMA trap; CREATE TABLE trap.users (LIKE public.users); \
             ALTER DATABASE {name} SET search_path = trap, public"
        ),
    );
    connect(&name).await.ensure_access(&request()).await.unwrap();
    assert_eq!((count(&name, "trap.users"), count(&name, "public.users")), ("0".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn loopback_is_refused_unless_a_rule_leads_there() {
    let port = SERVER.port();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let url = url(&format!("postgres://postgres:x@{host}:{port}/postgres?sslmode=disable"));
        let error = Database::connect(&url, &Resolve::default(), Limits::default()).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{host}: {error:?}");
    }
}

#[tokio::test]
async fn a_silent_server_and_a_closed_port_are_told_apart_in_the_log_alone() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let led = Resolve::new(vec![format!("{HOST}={address}").parse().unwrap()]);
    let limits = Limits { connect: Duration::from_millis(300), ..Limits::default() };
    for mode in ["disable", "require"] {
        let url = url(&format!("postgres://u:p@{HOST}/c?sslmode={mode}"));
        let error = Database::connect(&url, &led, limits).await.unwrap_err();
        assert_eq!(error, no_login(Error::TimedOut), "{mode}");
    }
    drop(silent);
    let url = url(&format!("postgres://u:p@{HOST}/c"));
    let error = Database::connect(&url, &led, limits).await.unwrap_err();
    assert_eq!(error, no_login(Error::Unreachable));
    assert_eq!(error.to_string(), no_login(Error::TimedOut).to_string());
}

#[tokio::test]
async fn authorities_that_are_none_are_told_before_anybody_is_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let led = Resolve::new(vec![format!("{HOST}={}", listener.local_addr().unwrap()).parse().unwrap()]);
    let url = url(&format!("postgres://u:p@{HOST}/c?sslmode=verify-full")).trusting("nonsense");
    let error = Database::connect(&url, &led, Limits::default()).await.unwrap_err();
    assert!(matches!(error, Error::TlsRefused(_)), "{error:?}");
    assert!(error.to_string().contains("extra CA certificates"), "{error}");
}
