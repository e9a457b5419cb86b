//! One cell of the writes: a fault between the operator and the API server, what was said of it, and that everything is as it
//! should be when it is over.

use super::subject::{SECRET, Subject};
use super::writes::{Cell, Phase, Struck, Told, Wrong};
use crate::env::{MatrixEnv, Plane};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use support::Fault;
use support::coderd::Role;
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// A fault of one namespace at the proxy that all of them share.
#[derive(Clone, Default)]
struct Strike {
    over: Arc<AtomicBool>,
    matched: Arc<AtomicUsize>,
    hits: Arc<AtomicUsize>,
}

impl Strike {
    fn begin(env: &MatrixEnv, plane: &Plane, cell: Cell) -> Self {
        let fault = match cell.wrong {
            Wrong::Conflict => Fault::Answer(409),
            Wrong::Forbidden => Fault::Answer(403),
            Wrong::Outage => Fault::Answer(500),
            Wrong::Timeout => Fault::Hold,
        };
        let (strike, struck) = (Self::default(), cell.write.struck());
        let (method, path) = cell.write.request();
        let path = format!("/namespaces/{}{path}", plane.namespace);
        let this = strike.clone();
        env.proxy().on(fault, move |asked, url| {
            let is_it = asked == method && url.split('?').next().is_some_and(|url| url.ends_with(&path));
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
pub async fn run(env: &MatrixEnv, plane: &Plane, cell: Cell) {
    let (subject, name) = (Subject { env, plane }, cell.name());
    let namespace = &plane.namespace;
    subject.prepare(Role::TemplateAdmin).await;
    let phase = cell.write.phase();
    if phase != Phase::Make {
        subject.apply(&first()).await;
        subject.until_well("well at first", 0).await;
    }
    let since = env.provisioners.seen(namespace);
    let strike = Strike::begin(env, plane, cell);
    provoke(&subject, phase).await;
    is_told(&subject, &strike, cell, since).await;
    strike.has_hit(&name, cell.tries()).await;
    let healing = env.provisioners.seen(namespace);
    strike.over.store(true, Ordering::SeqCst);
    // What is refused is looked at within a minute; whoever mended it need not wait.
    env.provisioners.request_reconcile(namespace, "mended").await;
    if phase == Phase::End {
        return subject.has_gone(&name, 0).await;
    }
    subject.until_well("well again", healing).await;
    let secret = if phase == Phase::Move { "moved" } else { SECRET };
    subject.has_its_key(&name, 0, secret).await;
    is_complete(&subject, phase).await;
}

/// The spec that it has before anything changes.
fn first() -> Value {
    json!({ "podDisruptionBudget": { "minAvailable": 1 } })
}

async fn provoke(subject: &Subject<'_>, phase: Phase) {
    let with = |field: &str, value: Value| {
        let mut spec = first();
        spec[field] = value;
        spec
    };
    match phase {
        Phase::Make => subject.apply(&first()).await,
        Phase::Rotate => subject.apply(&with("tags", json!({ "zone": "eu" }))).await,
        Phase::Move => subject.apply(&with("key", json!({ "secretName": "moved" }))).await,
        Phase::Annotate => {
            subject.apply(&with("serviceAccount", json!({ "annotations": { "example.com/a": "b" } }))).await;
        }
        Phase::Shrink => subject.apply(&json!({})).await,
        Phase::End => subject.env.provisioners.delete(&subject.plane.namespace).await,
    }
}

async fn is_told(subject: &Subject<'_>, strike: &Strike, cell: Cell, since: usize) {
    let (env, namespace, name) = (subject.env, &subject.plane.namespace, cell.name());
    strike.has_hit(&name, 1).await;
    match cell.told {
        Told::Condition(type_, status, reason, words) => {
            let told = |state: &Value| {
                let one = condition(state, type_);
                let is_said = one["message"].as_str().is_some_and(|message| message.contains(words));
                one["status"] == status && one["reason"] == reason && is_said
            };
            let what = format!("{type_} {status}/{reason} with {words:?}");
            let state = env.provisioners.until(namespace, &what, since, told).await;
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
async fn is_complete(subject: &Subject<'_>, phase: Phase) {
    let namespace = &subject.plane.namespace;
    for (kind, name) in CHILDREN {
        let is_wanted = phase != Phase::Shrink || kind != "poddisruptionbudget";
        until(&format!("{namespace}: {kind} {name}, wanted: {is_wanted}"), LIMIT, async || {
            let child = subject.env.get(kind, namespace, name).await;
            holds(child.is_some() == is_wanted, format!("{}", child.is_some()))
        })
        .await;
    }
    if phase == Phase::Move {
        let former = subject.env.get("secret", namespace, SECRET).await;
        assert_eq!(former, None, "{namespace}: the former Secret is there");
    }
}

/// Every child of a provisioner but its Secret.
const CHILDREN: [(&str, &str); 5] = [
    ("serviceaccount", "builders-provisioner"),
    ("role", "provisioner-builders"),
    ("rolebinding", "provisioner-builders"),
    ("poddisruptionbudget", "provisioner-builders"),
    ("deployment", "provisioner-builders"),
];
