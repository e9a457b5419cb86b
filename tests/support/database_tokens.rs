//! The tokens in a database of coderd, for a double that has none of its own: a real coderd would look there.
//! It reads; it never writes a row.

use crate::coderd::{Coderd, DatabaseToken, Role};
use crate::postgres::Postgres;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a double may lag behind the database it follows.
const LAG: Duration = Duration::from_millis(250);
const STATEMENT: &str = "SELECT k.id, encode(k.hashed_secret, 'hex'), u.id, 'owner' = ANY(u.rbac_roles), \
     greatest(0, extract(epoch FROM k.expires_at - now())::bigint) FROM api_keys k JOIN users u ON u.id = k.user_id \
     WHERE u.status = 'active'";

impl Postgres {
    /// The tokens of active users in a database; the error is psql's words.
    ///
    /// # Panics
    /// If a row is not of coderd's schema.
    pub fn coderd_tokens(&self, database: &str) -> Result<Vec<DatabaseToken>, String> {
        Ok(self.try_sql(database, STATEMENT)?.lines().map(row).collect())
    }

    /// The living tokens of the active user with this address.
    ///
    /// # Panics
    /// If the database does not answer, or a row is not of coderd's schema.
    pub fn living_coderd_tokens_of(&self, database: &str, email: &str) -> Vec<DatabaseToken> {
        let statement = format!("{STATEMENT} AND u.email = '{email}' AND k.expires_at > now()");
        self.sql(database, &statement).lines().map(row).collect()
    }
}

fn row(line: &str) -> DatabaseToken {
    let fields: Vec<&str> = line.split('|').collect();
    let [id, hash, user, owner, seconds] = fields[..] else { panic!("{line}") };
    let digits = (0..hash.len()).step_by(2).map(|at| &hash[at..at + 2]);
    let bytes = digits.map(|digits| u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
    DatabaseToken {
        id: id.to_owned(),
        hashed_secret: bytes.collect(),
        user: user.to_owned(),
        role: if owner == "t" { Role::Owner } else { Role::TemplateAdmin },
        lifetime: Duration::from_secs(seconds.parse().expect("whole seconds")),
    }
}

/// Keeps a double in step with a database until it is dropped.
#[derive(Debug)]
pub struct Following {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Begins.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn begin(coderd: Arc<Coderd>, postgres: Arc<Postgres>, database: String) -> Self {
        let (end, ended) = channel::<()>();
        let follow = move || {
            while ended.recv_timeout(LAG) == Err(RecvTimeoutError::Timeout) {
                // Ctrl-C in a terminal reaches psql too: then there is nothing to follow any more.
                if let Ok(tokens) = postgres.coderd_tokens(&database) {
                    coderd.follow_database(&tokens);
                }
            }
        };
        let thread = std::thread::Builder::new().name("follow-database".to_owned()).spawn(follow);
        Self { end: Some(end), thread: Some(thread.expect("a thread can be started")) }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its own message.
            drop(thread.join());
        }
    }
}
