//! The matrix itself: what goes wrong where, and the condition that must say so. It does nothing.

/// A call to coderd, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Whether coderd is up, on every reconcile.
    Healthz,
    /// Who coderd is, on every reconcile.
    BuildInfo,
    /// What it is licensed for, on every reconcile.
    Entitlements,
    /// Whether the token in use still stands, on every reconcile.
    Standing,
    /// Whether a new token works, before it is taken into use.
    Proof,
    /// Whether the license is there, on every reconcile.
    Licenses,
    /// Uploading the license.
    Upload,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    Timeout,
    Reset,
    Status(u16),
    HalfBody,
    MalformedJson,
}

/// A step in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Connecting and logging in.
    Connect,
    /// User, role and token in one transaction.
    Ensure,
    /// The end of that transaction.
    Commit,
    /// Deleting every token but the one in use.
    Revoke,
}

/// What goes wrong in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Refused,
    WrongPassword,
    TlsRefused,
    StatementTimeout,
    Reset,
    AnswerLost,
    PermissionDenied,
    MissingColumn,
}

/// Where the fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Coderd(Call, Wrong),
    Database(Step, Broken),
}

/// How it goes on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Tried again with growing pauses while it lasts.
    Retried,
    /// Looked at again when somebody acts, or after a while.
    Waits,
    /// Over with the next reconcile although the fault goes on: the call had taken effect.
    Over,
}

/// One cell: a fault and what must be said of it.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub fault: Fault,
    /// Type, status and reason of the condition.
    pub condition: (&'static str, &'static str, &'static str),
    /// What its message must contain.
    pub words: &'static str,
    pub then: Then,
}

/// Everything that goes wrong with a call.
pub const WRONGS: [Wrong; 10] = [
    Wrong::Timeout,
    Wrong::Reset,
    Wrong::Status(401),
    Wrong::Status(403),
    Wrong::Status(404),
    Wrong::Status(409),
    Wrong::Status(429),
    Wrong::Status(500),
    Wrong::HalfBody,
    Wrong::MalformedJson,
];

/// The words by which a message names what went wrong with a call.
pub fn words(wrong: Wrong) -> &'static str {
    match wrong {
        Wrong::Timeout => "no answer in time",
        Wrong::Reset | Wrong::HalfBody => "the connection ended before the answer was complete",
        Wrong::Status(401) => "(401)",
        Wrong::Status(403) => "(403)",
        Wrong::Status(404) => "(404)",
        Wrong::Status(409) => "(409)",
        Wrong::Status(429) => "too many requests (429)",
        Wrong::Status(_) => "coderd answered 500",
        Wrong::MalformedJson => "the answer is not what coderd sends",
    }
}

/// Before anybody has answered as coderd does it is not told what is there instead.
pub const NOBODY: &str = "nothing answers at its Service, or not as coderd does";

fn of_call(call: Call, wrong: Wrong) -> Cell {
    use Then::{Over, Retried, Waits};
    let final_word = matches!(wrong, Wrong::Status(401 | 403 | 404));
    let (condition, then) = match (call, wrong) {
        (Call::Healthz, _) => (("CoderdReachable", "False", "Unreachable"), Retried),
        // It is there all the same.
        (Call::BuildInfo, _) => (("CoderdReachable", "True", "Answered"), Retried),
        // Nothing depends on them: what was read before stays, and the message says so.
        (Call::Entitlements, _) => {
            (("CoderdReachable", "True", "Answered"), if final_word { Waits } else { Retried })
        }
        (Call::Standing | Call::Proof, Wrong::Status(401)) => {
            (("OperatorAccessReady", "False", "TokenRejected"), Retried)
        }
        // A token that worked is not given up because coderd would not say.
        (Call::Standing, _) => (("OperatorAccessReady", "True", "TokenProven"), Retried),
        (Call::Proof, _) => (("OperatorAccessReady", "False", "ProofFailed"), Retried),
        (Call::Licenses | Call::Upload, Wrong::Status(401)) => {
            (("LicenseApplied", "False", "Forbidden"), Retried)
        }
        (Call::Licenses | Call::Upload, Wrong::Status(403 | 404)) => {
            (("LicenseApplied", "False", "Forbidden"), Waits)
        }
        (Call::Upload, Wrong::HalfBody | Wrong::MalformedJson) => {
            (("LicenseApplied", "False", "Error"), Over)
        }
        (Call::Upload, _) => (("LicenseApplied", "False", "Error"), Retried),
        // Nor a license that is there.
        (Call::Licenses, _) => (("LicenseApplied", "True", "Applied"), Retried),
    };
    let words = match (call, wrong) {
        (Call::Healthz, _) => NOBODY,
        (Call::Standing | Call::Proof, Wrong::Status(401)) => "may name another database than coderd uses",
        _ => words(wrong),
    };
    Cell { fault: Fault::Coderd(call, wrong), condition, words, then }
}

fn of_step(step: Step, broken: Broken) -> Cell {
    use Then::{Retried, Waits};
    let (reason, words, then) = match broken {
        // Which of them it was is not for whoever chose the address.
        Broken::Refused | Broken::WrongPassword | Broken::TlsRefused => {
            ("DatabaseLoginFailed", "cannot log in to coderd's database", Retried)
        }
        Broken::StatementTimeout => ("DatabaseTimedOut", "did not answer in time", Retried),
        Broken::Reset | Broken::AnswerLost => {
            ("DatabaseUnreachable", "the connection to the database was lost", Retried)
        }
        Broken::PermissionDenied => {
            ("DatabasePermissionDenied", "may not read or write coderd's tables", Waits)
        }
        Broken::MissingColumn => ("DatabaseSchemaUnknown", "has a schema we do not know", Waits),
    };
    let condition = match step {
        // The token is in use by then.
        Step::Revoke => ("OperatorAccessReady", "True", "TokenProven"),
        _ => ("OperatorAccessReady", "False", reason),
    };
    Cell { fault: Fault::Database(step, broken), condition, words, then }
}

/// Every cell.
pub fn whole() -> Vec<Cell> {
    let calls = [
        Call::Healthz,
        Call::BuildInfo,
        Call::Entitlements,
        Call::Standing,
        Call::Proof,
        Call::Licenses,
        Call::Upload,
    ];
    let coderd = calls.into_iter().flat_map(|call| WRONGS.map(|wrong| of_call(call, wrong)));
    let inside = [Broken::StatementTimeout, Broken::Reset, Broken::PermissionDenied, Broken::MissingColumn];
    let database = [
        of_step(Step::Connect, Broken::Refused),
        of_step(Step::Connect, Broken::WrongPassword),
        of_step(Step::Connect, Broken::TlsRefused),
        of_step(Step::Commit, Broken::AnswerLost),
    ];
    let inside =
        [Step::Ensure, Step::Revoke].into_iter().flat_map(|step| inside.map(|one| of_step(step, one)));
    coderd.chain(database).chain(inside).collect()
}

/// A part with each call, each thing that goes wrong with one, and each step and fault of the database.
pub fn representative() -> Vec<Cell> {
    vec![
        of_call(Call::Healthz, Wrong::Timeout),
        of_call(Call::Healthz, Wrong::MalformedJson),
        of_call(Call::BuildInfo, Wrong::Status(429)),
        of_call(Call::Entitlements, Wrong::Status(500)),
        of_call(Call::Standing, Wrong::Status(401)),
        of_call(Call::Standing, Wrong::HalfBody),
        of_call(Call::Proof, Wrong::Reset),
        of_call(Call::Proof, Wrong::Status(404)),
        of_call(Call::Licenses, Wrong::Status(409)),
        of_call(Call::Licenses, Wrong::Status(429)),
        of_call(Call::Upload, Wrong::Status(403)),
        of_call(Call::Upload, Wrong::MalformedJson),
        of_step(Step::Connect, Broken::Refused),
        of_step(Step::Connect, Broken::WrongPassword),
        of_step(Step::Connect, Broken::TlsRefused),
        of_step(Step::Ensure, Broken::StatementTimeout),
        of_step(Step::Ensure, Broken::Reset),
        of_step(Step::Commit, Broken::AnswerLost),
        of_step(Step::Ensure, Broken::PermissionDenied),
        of_step(Step::Revoke, Broken::MissingColumn),
    ]
}

impl Cell {
    /// A name that can be part of a namespace's.
    pub fn name(&self) -> String {
        let words = match self.fault {
            Fault::Coderd(call, Wrong::Status(code)) => format!("{call:?}-{code}"),
            Fault::Coderd(call, wrong) => format!("{call:?}-{wrong:?}"),
            Fault::Database(step, broken) => format!("{step:?}-{broken:?}"),
        };
        words.to_lowercase()
    }
}
