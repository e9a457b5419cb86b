//! The same for what is attached to a control plane, a provisioner or a workspace proxy: every call to coderd, and every write to
//! the API server, that its life takes. Whatever goes wrong is told, nothing is lost by it, and one of it is in coderd when it is
//! over. What the cells of a kind are is for its table to say.

pub mod call;
pub mod subject;
pub mod write;

use crate::env::{MatrixEnv, Plane};
use crate::table::{NOBODY, Then, Wrong, words};
use call::Told;
use serde_json::Value;
use subject::{Subject, SubjectKind};

/// A cell of either table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// Between the operator and coderd.
    Call(call::Cell),
    /// Between the operator and the API server.
    Write(write::Cell),
}

impl Cell {
    /// A name that can be part of a namespace's.
    pub fn name(&self) -> String {
        match self {
            Self::Call(cell) => cell.name.clone(),
            Self::Write(cell) => cell.name.clone(),
        }
    }
}

/// Runs a cell to its end.
pub async fn run(kind: &'static SubjectKind, env: &MatrixEnv, plane: &Plane, cell: Cell) {
    let subject = Subject { kind, env, plane };
    match cell {
        Cell::Call(cell) => call::run(subject, cell).await,
        Cell::Write(cell) => write::run(subject, cell).await,
    }
}

/// What the subject goes through when a fault strikes.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    /// It is made.
    Make,
    /// It is looked at.
    Look,
    /// Its spec becomes this.
    Apply(fn() -> Value),
    /// It gets this annotation.
    Annotate(&'static str, &'static str),
    /// It is deleted.
    End,
}

impl Phase {
    /// Whether there is nothing before it.
    fn is_first(self) -> bool {
        matches!(self, Self::Make)
    }

    /// Whether nothing is left after it.
    pub fn is_last(self) -> bool {
        matches!(self, Self::End)
    }

    async fn provoke(self, subject: &Subject<'_>) {
        let (followed, namespace) = (subject.followed(), &subject.plane.namespace);
        match self {
            Self::Make => subject.apply(&(subject.kind.first)()).await,
            Self::Look => followed.request_reconcile(namespace, "fault").await,
            Self::Apply(spec) => subject.apply(&spec()).await,
            Self::Annotate(name, value) => followed.annotate(namespace, name, value).await,
            Self::End => followed.delete(namespace).await,
        }
    }
}

const UNANSWERED: (&str, &str) = ("ControlPlaneReady", "ControlPlaneUnavailable");
pub const HELD: (&str, &str) = ("CleanedUp", "CleanupFailed");

/// A condition that is told with what was being done and these words.
pub fn told(
    (type_, reason): (&'static str, &'static str),
    operation: &'static str,
    words: &'static str,
) -> Told {
    Told::Condition(type_, reason, [operation, words])
}

/// That coderd does not answer, or not as it does.
pub fn unanswered(operation: &'static str, words: &'static str) -> Told {
    told(UNANSWERED, operation, words)
}

/// That coderd does not accept the operator's token.
pub fn rejected() -> Told {
    let words = ["coderd does not accept the token", "into Secret operator-token"];
    Told::Condition("OperatorAccessReady", "OperatorAccessNotReady", words)
}

/// That coderd is not asked for anything before the time that it set, whatever it was asked when it set it.
pub fn limited(type_: &'static str) -> Told {
    Told::Condition(type_, "RateLimited", ["coderd is rate limiting the operator", "(429)"])
}

/// A call that every reconcile begins with, of whatever kind, and what is said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Whether coderd is up.
    Healthz,
    /// Who coderd is, and which deployment.
    BuildInfo,
    /// Whether the token works.
    Token,
    /// Whether the license covers it.
    Entitlements,
    /// Whether coderd is up, when the object goes.
    EndHealthz,
}

impl Opening {
    pub const ALL: [Self; 5] =
        [Self::Healthz, Self::BuildInfo, Self::Token, Self::Entitlements, Self::EndHealthz];

    fn route(self) -> &'static str {
        match self {
            Self::Healthz | Self::EndHealthz => "GET /healthz",
            Self::BuildInfo => "GET /buildinfo",
            Self::Token => "GET /users/me",
            Self::Entitlements => "GET /entitlements",
        }
    }

    fn operation(self) -> &'static str {
        match self {
            Self::Healthz | Self::EndHealthz => "asking whether coderd is up failed",
            Self::BuildInfo => "reading coderd's version failed",
            Self::Token => "asking coderd who the token belongs to failed",
            Self::Entitlements => "reading coderd's entitlements failed",
        }
    }

    fn told(self, wrong: Wrong, kind: &SubjectKind) -> Told {
        let (operation, entitled) = (self.operation(), kind.entitled);
        match (self, wrong) {
            (Self::Healthz, _) => unanswered(operation, NOBODY),
            (Self::EndHealthz, _) => told(HELD, operation, NOBODY),
            // What worked a moment ago is not unready because it could not be asked now.
            (_, Wrong::Status(429)) => Told::StillReady,
            (Self::BuildInfo, _) => unanswered(operation, words(wrong)),
            (Self::Token, Wrong::Status(401)) => rejected(),
            (Self::Token, _) => unanswered(operation, words(wrong)),
            (Self::Entitlements, Wrong::Status(404)) => {
                Told::Condition(entitled, "NotSupported", [kind.unsupported; 2])
            }
            (Self::Entitlements, Wrong::Status(401 | 403)) => {
                told((entitled, "Forbidden"), operation, words(wrong))
            }
            (Self::Entitlements, _) => told((entitled, "EntitlementsQueryFailed"), operation, words(wrong)),
        }
    }

    /// The cell of such a call.
    pub fn cell(self, wrong: Wrong, kind: &SubjectKind) -> call::Cell {
        let phase = if self == Self::EndHealthz { Phase::End } else { Phase::Look };
        let then = match wrong {
            Wrong::Status(401 | 403 | 404) if self != Self::EndHealthz => Then::Waits,
            _ => Then::Retried,
        };
        // When the object goes: with the credentials of the spec, and with the operator's own, which an earlier spec may have had.
        let most = if self == Self::EndHealthz { 2 } else { 1 };
        let tries = call::Tries { least: 1, most };
        let (name, route) = (call::name(&format!("{self:?}"), wrong), self.route());
        let told = self.told(wrong, kind);
        call::Cell { name, route, wrong, told, then, left: 0, tries, phase, role: None }
    }
}
