//! Every call that a workspace proxy makes to coderd with everything that goes wrong with one, and what must be said of it. It
//! does nothing.

use super::{KIND, first};
use crate::attached::call::{Cell, Told, Tries, name};
use crate::attached::{HELD, Opening, Phase, limited, rejected, told, unanswered};
use crate::table::{Then, WRONGS, Wrong, words};
use serde_json::json;

/// A call to coderd besides those that every reconcile begins with, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// What coderd has of this name and id, on every reconcile.
    Show,
    /// Whether the token in the Secret is valid, on every reconcile.
    Verify,
    /// Whether another proxy has the name in another case, before it is registered.
    List,
    /// Registering it.
    Register,
    /// Giving it another display name.
    Change,
    /// Replacing its token.
    Replace,
    /// What coderd has, when the object goes.
    EndShow,
    /// Removing it when the object goes.
    EndDelete,
}

const CALLS: [Call; 8] = [
    Call::Show,
    Call::Verify,
    Call::List,
    Call::Register,
    Call::Change,
    Call::Replace,
    Call::EndShow,
    Call::EndDelete,
];

const REGISTERED: &str = "ProxyRegistered";
const FAILED: (&str, &str) = (REGISTERED, "RegistrationFailed");
/// A name that is taken although coderd shows nobody who has it.
const TAKEN: Told = Told::Condition(
    REGISTERED,
    "ProxyNameConflict",
    ["the name eu is not free in coderd", "spec.registration.proxyName"],
);

impl Call {
    fn route(self) -> &'static str {
        match self {
            Self::Show | Self::EndShow => "GET /workspaceproxies/{proxy}",
            Self::Verify => "GET /workspaceagents/connection",
            Self::List => "GET /workspaceproxies",
            Self::Register => "POST /workspaceproxies",
            Self::Change | Self::Replace => "PATCH /workspaceproxies/{proxy}",
            Self::EndDelete => "DELETE /workspaceproxies/{proxy}",
        }
    }

    /// How a message names it.
    fn operation(self) -> &'static str {
        match self {
            Self::Show | Self::List | Self::EndShow => "reading a workspace proxy failed",
            Self::Verify => "asking coderd whether a workspace proxy's token is valid failed",
            Self::Register => "registering a workspace proxy failed",
            Self::Change => "changing a workspace proxy failed",
            Self::Replace => "replacing the token of a workspace proxy failed",
            Self::EndDelete => "deleting a workspace proxy failed",
        }
    }

    fn phase(self) -> Phase {
        match self {
            Self::Show | Self::Verify => Phase::Look,
            Self::List | Self::Register => Phase::Make,
            Self::Change => Phase::Apply(|| {
                let mut spec = first();
                spec["registration"] = json!({ "displayName": "Europe" });
                spec
            }),
            Self::Replace => Phase::Annotate("coder.com/rotate-token", "2026-11"),
            Self::EndShow | Self::EndDelete => Phase::End,
        }
    }
}

/// A cell.
pub fn of(call: Call, wrong: Wrong) -> Cell {
    use Call::*;
    use Wrong::{HalfBody, MalformedJson, Reset, Status, Timeout};
    let operation = call.operation();
    let failed = |words| told(FAILED, operation, words);
    let told = match (call, wrong) {
        // What worked a moment ago is not unready because it could not be asked now.
        (Show | Verify, Status(429)) => Told::StillReady,
        (Replace, Status(429)) => Told::StillReady,
        (List | Register | Change, Status(429)) => limited(REGISTERED),
        // It needs no token: whoever asks for one is not coderd.
        (Verify, Status(401)) => failed(words(wrong)),
        (Show | List | Register | Change | Replace, Status(401)) => rejected(),
        // It is shown among all of them.
        (Show, Status(404)) => Told::StillReady,
        (Change, Status(409)) => TAKEN,
        // Somebody was faster, whom coderd does not show: there is nobody to name, and it is tried again.
        (Register, Status(409)) => Told::Condition(FAILED.0, FAILED.1, ["another is made after a while"; 2]),
        // coderd tells a name that another has with a 500.
        (Replace, Status(409)) => failed("it conflicts with what coderd has"),
        // coderd denies it with a 500: a 403 is of somebody in between.
        (Register, Status(403)) => failed("the token's user may not do this"),
        (EndDelete, Status(403)) => told(HELD, operation, "the token's user may not do this"),
        // coderd says it of who may read a proxy and no more.
        (EndDelete, Status(404)) => told(HELD, operation, "the token's user may not do this"),
        // It is shown among all of them, and deleted.
        (EndShow, Status(404)) => Told::Done,
        // Whatever else is in the answer, it is gone.
        (EndDelete, MalformedJson) => Told::Done,
        (Show | Verify | List | Register | Change | Replace, Timeout | Reset | HalfBody) => {
            unanswered(operation, words(wrong))
        }
        (Show | Verify | List | Register | Change | Replace, _) => failed(words(wrong)),
        (EndShow | EndDelete, _) => told(HELD, operation, words(wrong)),
    };
    let then = match (call, wrong) {
        (EndShow, Status(404)) | (EndDelete, HalfBody | MalformedJson) => Then::Over,
        // It was registered, and its token is replaced, which is another call; or it has the name that it should have.
        (Register | Change, HalfBody | MalformedJson) => Then::Over,
        (EndShow | EndDelete, _) => Then::Retried,
        (Change, Status(409)) => Then::Waits,
        (_, Status(401 | 403 | 404)) => Then::Waits,
        _ => Then::Retried,
    };
    let (name, route, phase) = (name(&format!("{call:?}"), wrong), call.route(), call.phase());
    Cell { name, route, wrong, told, then, left: 0, tries: Tries::ONE, phase, role: None }
}

/// Every cell.
pub fn whole() -> Vec<Cell> {
    // One wrong after the other: calls that time out are spread.
    let of_wrong = |wrong| {
        let openings = Opening::ALL.into_iter().map(move |call| call.cell(wrong, &KIND));
        openings.chain(CALLS.into_iter().map(move |call| of(call, wrong)))
    };
    WRONGS.into_iter().flat_map(of_wrong).collect()
}

/// A part with each call and each thing that goes wrong with one.
pub fn representative() -> Vec<Cell> {
    vec![
        Opening::Entitlements.cell(Wrong::Status(404), &KIND),
        of(Call::Show, Wrong::Status(429)),
        of(Call::Show, Wrong::Status(404)),
        of(Call::Verify, Wrong::Status(401)),
        of(Call::Register, Wrong::HalfBody),
        of(Call::Register, Wrong::Status(409)),
        of(Call::Change, Wrong::Status(500)),
        of(Call::Replace, Wrong::MalformedJson),
        of(Call::EndShow, Wrong::Reset),
        of(Call::EndDelete, Wrong::Status(404)),
    ]
}
