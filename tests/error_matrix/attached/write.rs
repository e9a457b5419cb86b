//! One cell of the writes: a fault between the operator and the API server, what was said of it, and that everything is as it
//! should be when it is over.

use super::Phase;
use super::subject::Subject;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::Fault;
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// The end of the path of a write that is only rehearsed.
pub const REHEARSED: &str = "?dryRun";

/// What goes wrong with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    Conflict,
    Forbidden,
    Outage,
    Timeout,
}

pub const WRONGS: [Wrong; 4] = [Wrong::Conflict, Wrong::Forbidden, Wrong::Outage, Wrong::Timeout];

/// Which of the requests that match suffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Struck {
    /// All, until it is over.
    All,
    /// The one of this number, counted from one.
    Only(usize),
    /// The one of this number and all that follow.
    From(usize),
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// A condition, by type, status and reason, with these words.
    Condition(&'static str, &'static str, &'static str, &'static str),
    /// The operator's log alone, in a line with this message, with these words: the status is what cannot be written.
    Log(&'static str, &'static str),
    /// Nothing: somebody else was faster, which is no failure.
    Nothing,
}

/// One cell: a fault and what must be said of it.
#[derive(Debug, Clone)]
pub struct Cell {
    /// A name that can be part of a namespace's.
    pub name: String,
    pub wrong: Wrong,
    pub told: Told,
    /// When it is made.
    pub phase: Phase,
    /// Method and the end of the path by which it is known.
    pub request: (&'static str, &'static str),
    pub struck: Struck,
    /// How often the fault strikes at least before it is over.
    pub tries: usize,
    /// The Secret that holds the plaintext in the end.
    pub secret: &'static str,
    /// What is not there any more in the end, by kind and name.
    pub gone: &'static [(&'static str, &'static str)],
}

/// A fault of one namespace at the proxy that all of them share.
#[derive(Clone, Default)]
struct Strike {
    over: Arc<AtomicBool>,
    matched: Arc<AtomicUsize>,
    hits: Arc<AtomicUsize>,
}

impl Strike {
    fn begin(subject: &Subject<'_>, cell: &Cell) -> Self {
        let fault = match cell.wrong {
            Wrong::Conflict => Fault::Answer(409),
            Wrong::Forbidden => Fault::Answer(403),
            Wrong::Outage => Fault::Answer(500),
            Wrong::Timeout => Fault::Hold,
        };
        let (strike, struck) = (Self::default(), cell.struck);
        let (method, path) = cell.request;
        let (path, rehearsed) = path.strip_suffix(REHEARSED).map_or((path, false), |path| (path, true));
        let path = format!("/namespaces/{}{path}", subject.plane.namespace);
        let this = strike.clone();
        subject.env.proxy().on(fault, move |asked, url| {
            let (url, query) = url.split_once('?').unwrap_or((url, ""));
            let is_it = asked == method && url.ends_with(&path) && query.contains("dryRun=") == rehearsed;
            is_it && this.strikes(struck)
        });
        strike
    }

    fn strikes(&self, struck: Struck) -> bool {
        if self.over.load(Ordering::SeqCst) {
            return false;
        }
        let number = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        let strikes = match struck {
            Struck::All => true,
            Struck::Only(only) => number == only,
            Struck::From(first) => number >= first,
        };
        self.hits.fetch_add(usize::from(strikes), Ordering::SeqCst);
        strikes
    }

    async fn has_hit(&self, what: &str, times: usize) {
        until(&format!("{what}: {times} tries"), LIMIT, async || {
            let hits = self.hits.load(Ordering::SeqCst);
            holds(hits >= times, format!("{hits}"))
        })
        .await;
    }
}

/// Runs a cell to its end.
pub async fn run(subject: Subject<'_>, cell: Cell) {
    let (name, followed, namespace) = (cell.name.clone(), subject.followed(), &subject.plane.namespace);
    subject.prepare(&subject.kind.role).await;
    if !cell.phase.is_first() {
        subject.apply(&(subject.kind.first)()).await;
        subject.until_well("well at first", 0).await;
    }
    let since = followed.seen(namespace);
    let strike = Strike::begin(&subject, &cell);
    cell.phase.provoke(&subject).await;
    is_told(&subject, &strike, &cell, since).await;
    strike.has_hit(&name, cell.tries).await;
    let healing = followed.seen(namespace);
    strike.over.store(true, Ordering::SeqCst);
    // What is refused is looked at within a minute; whoever mended it need not wait.
    followed.request_reconcile(namespace, "mended").await;
    if cell.phase.is_last() {
        return subject.has_gone(&name, 0).await;
    }
    subject.until_well("well again", healing).await;
    subject.has_its_own(&name, 0, cell.secret).await;
    is_complete(&subject, &cell).await;
}

async fn is_told(subject: &Subject<'_>, strike: &Strike, cell: &Cell, since: usize) {
    let (env, namespace, name) = (subject.env, &subject.plane.namespace, &cell.name);
    strike.has_hit(name, 1).await;
    match cell.told {
        Told::Condition(type_, status, reason, words) => {
            let told = |state: &Value| {
                let one = condition(state, type_);
                let is_said = one["message"].as_str().is_some_and(|message| message.contains(words));
                one["status"] == status && one["reason"] == reason && is_said
            };
            let what = format!("{type_} {status}/{reason} with {words:?}");
            let state = subject.followed().until(namespace, &what, since, told).await;
            assert!(!is_ready(&state), "{name}: {}", condition(&state, "Ready"));
        }
        Told::Log(message, words) => {
            until(&format!("{name}: the log to say {message:?} with {words:?}"), LIMIT, async || {
                let lines = env.logged(message).await;
                let mut here = lines.iter().map(Value::to_string).filter(|line| line.contains(namespace));
                holds(here.any(|line| line.contains(words)), format!("{} lines", lines.len()))
            })
            .await;
        }
        Told::Nothing => {
            let alarms = env.logged("reconcile failed; it is tried again").await;
            let alarm = alarms.iter().find(|line| line.to_string().contains(namespace));
            assert_eq!(alarm, None, "{name}: a conflict is no failure");
        }
    }
}

/// That every child is there, and nothing of what is no longer asked for.
async fn is_complete(subject: &Subject<'_>, cell: &Cell) {
    let namespace = &subject.plane.namespace;
    let wanted = subject.kind.children.iter().filter(|child| !cell.gone.contains(child));
    for ((kind, name), is_wanted) in
        wanted.map(|one| (one, true)).chain(cell.gone.iter().map(|one| (one, false)))
    {
        until(&format!("{namespace}: {kind} {name}, wanted: {is_wanted}"), LIMIT, async || {
            let child = subject.env.get(kind, namespace, name).await;
            holds(child.is_some() == is_wanted, format!("{}", child.is_some()))
        })
        .await;
    }
}
