//! One cell from a provisioner that is well through its fault and back: what was said, how often coderd was asked, and that
//! there is one key when it is over.

use super::subject::{SECRET, Subject};
use super::table::{Call, Cell, Told};
use crate::env::{MatrixEnv, Plane};
use crate::table::{Then, Wrong};
use crate::tries;
use serde_json::{Value, json};
use std::time::Instant;
use support::coderd::{FaultHandle, Occurrence, Role};
use support::objects::{condition, is_ready};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// A running cell.
struct Run<'a> {
    subject: Subject<'a>,
    cell: Cell,
}

/// Runs a cell to its end.
pub async fn run(env: &MatrixEnv, plane: &Plane, cell: Cell) {
    let run = Run { subject: Subject { env, plane }, cell };
    // Jobs are asked for in every reconcile only by whoever is shown them.
    let role = if cell.call == Call::Jobs { Role::Owner } else { Role::TemplateAdmin };
    run.subject.prepare(role).await;
    if cell.call != Call::Create {
        run.subject.apply(&json!({})).await;
        run.subject.until_well("well at first", 0).await;
    }
    let since = env.provisioners.seen(&plane.namespace);
    let fault = plane.coderd.inject(route(cell.call), Occurrence::Every, tries::fault(cell.wrong));
    let began = Instant::now();
    run.provoke().await;
    run.is_told(&fault, since).await;
    run.is_tried_again(&fault).await;
    let tries = || u32::try_from(fault.hits()).unwrap();
    tries::are_bounded(&cell.name(), &plane.coderd, began, per_pass(cell), tries).await;
    let healing = env.provisioners.seen(&plane.namespace);
    plane.coderd.clear_faults();
    run.is_healed(healing).await;
}

impl Run<'_> {
    /// Makes the operator run into the fault.
    async fn provoke(&self) {
        let (provisioners, namespace) = (&self.subject.env.provisioners, &self.subject.plane.namespace);
        match self.cell.call {
            Call::Create => self.subject.apply(&json!({})).await,
            // Other tags are another key.
            Call::Delete => self.subject.apply(&json!({ "tags": { "zone": "eu" } })).await,
            call if call.is_of_the_end() => provisioners.delete(namespace).await,
            _ => provisioners.request_reconcile(namespace, "fault").await,
        }
    }

    /// What is wrong is said, and where nothing is to be said the fault has struck all the same.
    async fn is_told(&self, fault: &FaultHandle, since: usize) {
        fault.reached(LIMIT).await;
        match self.cell.told {
            Told::Condition(type_, reason, words) => self.is_false(type_, reason, words, since).await,
            Told::StillReady => self.is_still_ready(),
            Told::Event(reason) => self.subject.until_event(reason).await,
            Told::Done => {}
        }
    }

    async fn is_false(&self, type_: &str, reason: &str, words: [&str; 2], since: usize) {
        let (env, namespace) = (self.subject.env, &self.subject.plane.namespace);
        let told = |state: &Value| {
            let one = condition(state, type_);
            let message = one["message"].as_str().unwrap_or_default();
            one["status"] == "False"
                && one["reason"] == reason
                && words.iter().all(|words| message.contains(words))
        };
        let what = format!("{type_} False/{reason} with {words:?}");
        let state = env.provisioners.until(namespace, &what, since, told).await;
        assert!(!is_ready(&state), "{}: {}", self.cell.name(), condition(&state, "Ready"));
    }

    fn is_still_ready(&self) {
        let state = self.subject.now();
        assert!(is_ready(&state), "{}: {}", self.cell.name(), state["status"]);
    }

    /// What passes by itself is tried again, and not before the time that coderd asked for.
    async fn is_tried_again(&self, fault: &FaultHandle) {
        if self.cell.then != Then::Retried {
            return;
        }
        if self.cell.wrong == Wrong::Status(429) {
            // Whoever asks meanwhile does not shorten it.
            let (env, namespace) = (self.subject.env, &self.subject.plane.namespace);
            env.provisioners.request_reconcile(namespace, "impatient").await;
        }
        let tries = 2 * u64::from(least(self.cell));
        until(&format!("{}: another try", self.cell.name()), LIMIT, async || {
            holds(fault.hits() >= tries, format!("{} tries", fault.hits()))
        })
        .await;
        if self.cell.told == Told::StillReady {
            self.is_still_ready();
        }
    }

    async fn is_healed(&self, since: usize) {
        let (subject, name) = (&self.subject, self.cell.name());
        if self.cell.then == Then::Waits {
            // Within a minute it is looked at anyway; whoever mended it need not wait.
            subject.env.provisioners.request_reconcile(&subject.plane.namespace, "mended").await;
        }
        if self.cell.call.is_of_the_end() {
            return subject.has_gone(&name, self.cell.left).await;
        }
        // What was over by itself may have been so before the fault was.
        let is_quiet = self.cell.then == Then::Over || self.cell.told == Told::StillReady;
        let since = if is_quiet { since.saturating_sub(1) } else { since };
        subject.until_well("well again", since).await;
        subject.has_its_key(&name, self.cell.left, SECRET).await;
    }
}

fn route(call: Call) -> &'static str {
    match call {
        Call::Healthz | Call::EndHealthz => "GET /healthz",
        Call::BuildInfo => "GET /buildinfo",
        Call::Token => "GET /users/me",
        Call::Entitlements => "GET /entitlements",
        Call::Organization => "GET /organizations/{org}",
        Call::Keys | Call::EndKeys => "GET /organizations/{org}/provisionerkeys",
        Call::Daemons => "GET /organizations/{org}/provisionerkeys/daemons",
        Call::Identify => "GET /provisionerkeys/{key}",
        Call::Jobs => "GET /organizations/{org}/provisionerjobs",
        Call::Create => "POST /organizations/{org}/provisionerkeys",
        Call::Delete | Call::EndDelete => "DELETE /organizations/{org}/provisionerkeys/{key}",
    }
}

/// How often a reconcile meets the fault at least, if it is met at all.
fn least(cell: Cell) -> u32 {
    match (cell.call, cell.wrong) {
        // One number after the other.
        (Call::Create, Wrong::Status(409)) => 2,
        _ => 1,
    }
}

/// How often a reconcile meets the fault at most.
fn per_pass(cell: Cell) -> u32 {
    match (cell.call, cell.wrong) {
        (Call::Create, Wrong::Status(409)) => 12,
        // With the credentials of the spec, and with the operator's own, which an earlier spec may have had.
        (Call::EndHealthz, _) => 2,
        _ => 1,
    }
}
