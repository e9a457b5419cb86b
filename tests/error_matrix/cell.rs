//! One cell from a healthy control plane through its fault and back: what was said, how often coderd was asked, and that
//! no token was lost on the way.

use crate::env::{MatrixEnv, Plane};
use crate::table::{Broken, Call, Cell, Fault, Step, Then, Wrong};
use crate::tries;
use coder_k8s::coderd::client::Limits;
use coder_k8s::coderd::{Client, Endpoint, Resolve};
use coder_k8s::confidential::Confidential;
use serde_json::{Value, json};
use std::time::Instant;
use support::coderd::{FaultHandle, Occurrence, license_with};
use support::database_proxy::DatabaseFault;
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// A running cell.
struct Run<'a> {
    env: &'a MatrixEnv,
    plane: &'a Plane,
    cell: Cell,
}

/// Runs a cell to its end.
pub async fn run(env: &MatrixEnv, plane: &Plane, cell: Cell) {
    let run = Run { env, plane, cell };
    run.prepare().await;
    let before = env.token(&plane.namespace).await;
    let since = env.control_planes.seen(&plane.namespace);
    let began = Instant::now();
    let fault = run.inject();
    run.provoke().await;
    run.is_told(since).await;
    run.is_tried_again(fault.as_ref(), began).await;
    run.is_bounded(fault.as_ref(), began).await;
    let healing = env.control_planes.seen(&plane.namespace);
    run.heal();
    run.is_healed(healing).await;
    run.lost_nothing(before).await;
}

impl Run<'_> {
    fn role(&self) -> String {
        format!("role_{}", self.plane.namespace.replace('-', "_"))
    }

    fn with_license(&self) -> bool {
        matches!(self.cell.fault, Fault::Coderd(Call::Licenses | Call::Upload, _))
    }

    /// Whether the fault strikes while access is made, not later.
    fn strikes_the_making(&self) -> bool {
        matches!(self.cell.fault, Fault::Coderd(Call::Proof, _) | Fault::Database(..))
    }

    fn spec(&self, access: bool, license: bool) -> Value {
        let mut spec = json!({ "operatorAccess": { "disabled": !access }, "extraEnv": [{ "name":
            "CODER_PG_CONNECTION_URL", "valueFrom": { "secretKeyRef": { "name": "db", "key": "url" } } }] });
        if license {
            spec["licenseSecretRef"] = json!({ "name": "license" });
        }
        spec
    }

    /// A control plane that has everything but what the fault is to strike.
    async fn prepare(&self) {
        let (env, namespace) = (self.env, &self.plane.namespace);
        let user = self.database_user();
        let sslmode = match self.cell.fault {
            Fault::Database(_, Broken::TlsRefused) => "require",
            _ => "disable",
        };
        env.secret(namespace, "db", &json!({ "url": self.plane.url(&env.postgres, &user, sslmode) })).await;
        let jwt =
            license_with(&json!({ "jti": "6f1f6a3e-0000-4000-8000-000000000001", "exp": 4_000_000_000_i64 }));
        env.secret(namespace, "license", &json!({ "license": jwt })).await;
        let license = self.with_license() && !matches!(self.cell.fault, Fault::Coderd(Call::Upload, _));
        let access = !self.strikes_the_making();
        env.control_planes.apply(namespace, &self.spec(access, license)).await;
        env.control_planes
            .until(namespace, "healthy at first", 0, |state| is_well(state, access, license))
            .await;
    }

    /// Who logs in to the database: somebody of its own where the fault is about that.
    fn database_user(&self) -> String {
        let own = match self.cell.fault {
            Fault::Database(_, Broken::WrongPassword) => "SUPERUSER",
            Fault::Database(Step::Ensure, Broken::PermissionDenied) => "NOSUPERUSER",
            _ => return "postgres".to_owned(),
        };
        self.env.postgres.role(&self.role());
        self.env.postgres.sql("postgres", &format!("ALTER ROLE {} {own}", self.role()));
        self.role()
    }

    fn inject(&self) -> Option<FaultHandle> {
        match self.cell.fault {
            Fault::Coderd(call, wrong) => {
                Some(self.plane.coderd.inject(route(call), Occurrence::Every, tries::fault(wrong)))
            }
            Fault::Database(step, broken) => {
                self.break_database(step, broken);
                None
            }
        }
    }

    fn break_database(&self, step: Step, broken: Broken) {
        let sql = |statement: &str| drop(self.env.postgres.sql(&self.plane.database, statement));
        let proxy = &self.plane.proxy;
        let revoking = step == Step::Revoke;
        match broken {
            // It is closed from the beginning; that it is without rights, too.
            Broken::Refused => {}
            Broken::PermissionDenied if !revoking => {}
            Broken::TlsRefused => proxy.inject(DatabaseFault::NoTls),
            Broken::WrongPassword => sql(&format!("ALTER ROLE {} PASSWORD 'another'", self.role())),
            Broken::Reset if revoking => proxy.inject(DatabaseFault::ResetAt("DELETE FROM api_keys k USING")),
            Broken::Reset => proxy.inject(DatabaseFault::ResetAt("INSERT INTO api_keys")),
            Broken::AnswerLost => proxy.inject(DatabaseFault::AnswerLostAt("COMMIT")),
            Broken::MissingColumn if !revoking => {
                sql("ALTER TABLE api_keys RENAME COLUMN token_name TO gone")
            }
            Broken::StatementTimeout if !revoking => {
                sql(&trap("INSERT", "users", "%", "PERFORM pg_sleep(8)"))
            }
            // A revocation is told apart from what precedes it in the same reconcile by its words.
            Broken::StatementTimeout => sql(&trap("DELETE", "api_keys", REVOCATION, "PERFORM pg_sleep(8)")),
            Broken::PermissionDenied => {
                sql(&trap("DELETE", "api_keys", REVOCATION, "RAISE EXCEPTION USING ERRCODE = '42501'"));
            }
            Broken::MissingColumn => {
                sql(&trap("DELETE", "api_keys", REVOCATION, "RAISE EXCEPTION USING ERRCODE = '42703'"));
            }
        }
    }

    /// Makes the operator run into the fault.
    async fn provoke(&self) {
        let namespace = &self.plane.namespace;
        if self.strikes_the_making() || matches!(self.cell.fault, Fault::Coderd(Call::Upload, _)) {
            self.env.control_planes.apply(namespace, &self.spec(true, self.with_license())).await;
        } else {
            self.env.control_planes.request_reconcile(namespace, "fault").await;
        }
    }

    /// The condition says what is wrong.
    async fn is_told(&self, since: usize) {
        let (about, status, reason) = self.cell.condition;
        let told = |state: &Value| {
            let one = condition(state, about);
            one["status"] == status
                && one["reason"] == reason
                && one["message"].as_str().unwrap_or_default().contains(self.cell.words)
        };
        let what = format!("{about} {status}/{reason} with {:?}", self.cell.words);
        let state = self.env.control_planes.until(&self.plane.namespace, &what, since, told).await;
        let ready = condition(&state, "Ready");
        assert_eq!(ready["status"] == "True", self.is_harmless(), "{}: {ready}", self.cell.name());
    }

    /// Whether the control plane is ready all the same.
    fn is_harmless(&self) -> bool {
        let (about, status, _) = self.cell.condition;
        about == "OperatorAccessReady" || status == "True"
    }

    /// What passes by itself is tried again, and not before the time that coderd asked for.
    async fn is_tried_again(&self, fault: Option<&FaultHandle>, began: Instant) {
        if self.cell.then != Then::Retried {
            return;
        }
        if matches!(self.cell.fault, Fault::Coderd(_, Wrong::Status(429))) {
            // Whoever asks meanwhile does not shorten it.
            self.env.control_planes.request_reconcile(&self.plane.namespace, "impatient").await;
            let handled = |state: &Value| state["status"]["lastHandledReconcileAt"] == "impatient";
            let state = self
                .env
                .control_planes
                .until(&self.plane.namespace, "the poke to be handled", 0, handled)
                .await;
            let ready = condition(&state, "Ready");
            assert_eq!(ready["status"] == "True", self.is_harmless(), "{}, poked: {ready}", self.cell.name());
        }
        if self.cell.fault == Fault::Database(Step::Connect, Broken::Refused) {
            // Nobody counts connections that nobody accepts.
            return;
        }
        until(&format!("{}: another try", self.plane.namespace), LIMIT, async || {
            let tries = self.tries(fault, began);
            holds(tries >= 2 * per_pass(self.cell.fault), format!("{tries} tries"))
        })
        .await;
    }

    fn tries(&self, fault: Option<&FaultHandle>, began: Instant) -> u32 {
        let count = match fault {
            Some(fault) => fault.hits(),
            None => self.plane.proxy.sessions().iter().filter(|at| **at >= began).count() as u64,
        };
        u32::try_from(count).unwrap()
    }

    async fn is_bounded(&self, fault: Option<&FaultHandle>, began: Instant) {
        let tries = || self.tries(fault, began);
        tries::are_bounded(&self.cell.name(), &self.plane.coderd, began, per_pass(self.cell.fault), tries)
            .await;
    }

    fn heal(&self) {
        self.plane.coderd.clear_faults();
        self.plane.proxy.heal();
        let sql = |statement: &str| drop(self.env.postgres.sql(&self.plane.database, statement));
        match self.cell.fault {
            Fault::Database(_, Broken::WrongPassword) => {
                let password = support::postgres::PASSWORD;
                sql(&format!("ALTER ROLE {} PASSWORD '{password}'", self.role()));
            }
            Fault::Database(Step::Ensure, Broken::PermissionDenied) => {
                sql(&format!("ALTER ROLE {} SUPERUSER", self.role()));
            }
            Fault::Database(Step::Ensure, Broken::MissingColumn) => {
                sql("ALTER TABLE api_keys RENAME COLUMN gone TO token_name");
            }
            Fault::Database(
                step,
                Broken::StatementTimeout | Broken::PermissionDenied | Broken::MissingColumn,
            ) => {
                sql(&format!(
                    "DROP TRIGGER trap ON {}",
                    if step == Step::Revoke { "api_keys" } else { "users" }
                ));
            }
            _ => {}
        }
    }

    async fn is_healed(&self, since: usize) {
        let (env, namespace) = (self.env, &self.plane.namespace);
        if self.cell.then == Then::Waits {
            // Within a minute it is looked at anyway; whoever mended it need not wait.
            env.control_planes.request_reconcile(namespace, "mended").await;
        }
        let well = |state: &Value| is_well(state, true, self.with_license());
        if self.cell.fault == Fault::Database(Step::Connect, Broken::TlsRefused) {
            until(&format!("{namespace}: a token over TLS"), LIMIT, async || {
                self.plane.follow(&env.postgres);
                holds(env.token(namespace).await.is_some(), "none yet")
            })
            .await;
        }
        // What was over by itself may have been so before the fault was.
        let since = if self.cell.then == Then::Over { since.saturating_sub(1) } else { since };
        env.control_planes.until(namespace, "healthy again", since, well).await;
    }

    async fn lost_nothing(&self, before: Option<String>) {
        let (env, plane, name) = (self.env, self.plane, self.cell.name());
        let token = env.token(&plane.namespace).await.unwrap_or_else(|| panic!("{name}: no token is kept"));
        let rejected = matches!(self.cell.fault, Fault::Coderd(Call::Standing, Wrong::Status(401)));
        if let Some(before) = before.filter(|_| !rejected) {
            assert_eq!(token, before, "{name}: a token that worked was given up");
        }
        let live = until(&format!("{name}: one living token"), LIMIT, async || {
            let live = plane.tokens(&env.postgres);
            holds(live.len() == 1, format!("{} tokens", live.len())).map(|()| live)
        })
        .await;
        assert_eq!(live[0].id, token.split('-').next().unwrap(), "{name}: it is the one that is kept");
        plane.follow(&env.postgres);
        let secret = token.clone();
        let endpoint = Endpoint::parse("http://coder.test").unwrap();
        let resolve = Resolve::new(vec![format!("coder.test={}", plane.coderd.addr()).parse().unwrap()]);
        let client = Client::new(endpoint, Some(Confidential::new(token)), &resolve, Limits::default());
        client.unwrap().me().await.unwrap_or_else(|error| panic!("{name}: the kept token: {error}"));
        let visible = env.visible(&plane.namespace).await;
        for secret in [support::postgres::PASSWORD, secret.as_str()] {
            assert!(!visible.contains(secret), "{name}: a secret is told");
        }
        assert_eq!(plane.coderd.licenses().len(), usize::from(self.with_license()), "{name}: licenses");
    }
}

/// A pattern of the statement that revokes.
const REVOCATION: &str = "%k USING users%";

/// Statements that make others of this kind on this table do something else first.
fn trap(verb: &str, table: &str, pattern: &str, action: &str) -> String {
    format!(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF current_query() LIKE '{pattern}' \
         THEN {action}; END IF; RETURN NULL; END $$; \
         CREATE TRIGGER trap BEFORE {verb} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION trap()"
    )
}

fn route(call: Call) -> &'static str {
    match call {
        Call::Healthz => "GET /healthz",
        Call::BuildInfo => "GET /buildinfo",
        Call::Entitlements => "GET /entitlements",
        Call::Standing | Call::Proof => "GET /users/me",
        Call::Licenses => "GET /licenses",
        Call::Upload => "POST /licenses",
    }
}

/// How often a reconcile meets the fault at most.
fn per_pass(fault: Fault) -> u32 {
    match fault {
        // The token in use is refused, then the one that was made instead.
        Fault::Coderd(Call::Standing, Wrong::Status(401)) => 2,
        _ => 1,
    }
}

/// Whether everything that was asked for is in place and nothing is left to be said.
fn is_well(state: &Value, access: bool, license: bool) -> bool {
    let is = |about: &str, reason: &str, words: &str| {
        let one = condition(state, about);
        one["reason"] == reason && one["message"].as_str().is_some_and(|message| message.ends_with(words))
    };
    state["status"]["observedGeneration"] == state["metadata"]["generation"]
        && condition(state, "Ready")["status"] == "True"
        && is("CoderdReachable", "Answered", " answers")
        && (!access || is("OperatorAccessReady", "TokenProven", "works and renews itself"))
        && (!license || is("LicenseApplied", "Applied", ""))
}
