//! Every call that a provisioner makes to coderd with everything that goes wrong with one, and what must be said of it. It
//! does nothing.

use crate::table::{NOBODY, Then, WRONGS, Wrong, words};

/// A call to coderd, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Whether coderd is up, on every reconcile.
    Healthz,
    /// Who coderd is, and which deployment, on every reconcile.
    BuildInfo,
    /// Whether the token works, on every reconcile.
    Token,
    /// Whether the license covers provisioners, on every reconcile.
    Entitlements,
    /// The organization of the key, on every reconcile.
    Organization,
    /// The keys there are, on every reconcile.
    Keys,
    /// Their daemons, on every reconcile.
    Daemons,
    /// Which key the Secret holds, on every reconcile.
    Identify,
    /// The builds that wait, on every reconcile.
    Jobs,
    /// Making the first key.
    Create,
    /// Deleting the key that another one replaces.
    Delete,
    /// Whether coderd is up, when the object goes.
    EndHealthz,
    /// The keys there are, when the object goes.
    EndKeys,
    /// Deleting the key when the object goes.
    EndDelete,
}

const CALLS: [Call; 14] = [
    Call::Healthz,
    Call::BuildInfo,
    Call::Token,
    Call::Entitlements,
    Call::Organization,
    Call::Keys,
    Call::Daemons,
    Call::Identify,
    Call::Jobs,
    Call::Create,
    Call::Delete,
    Call::EndHealthz,
    Call::EndKeys,
    Call::EndDelete,
];

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// This condition, by type and reason, is False and its message has all of these words.
    Condition(&'static str, &'static str, [&'static str; 2]),
    /// Nothing: what worked goes on, and is ready.
    StillReady,
    /// Nothing: the call had taken effect, or it does not matter how it ended.
    Done,
    /// An Event of this reason.
    Event(&'static str),
}

/// One cell: a fault and what must be said of it.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub call: Call,
    pub wrong: Wrong,
    pub told: Told,
    pub then: Then,
    /// Keys that stay in coderd besides the one in use: those that it says are not there, and lists.
    pub left: usize,
}

const UNANSWERED: (&str, &str) = ("ControlPlaneReady", "ControlPlaneUnavailable");
const REJECTED: (&str, &str) = ("OperatorAccessReady", "OperatorAccessNotReady");
const UNENTITLED: &str = "ExternalProvisionersEntitled";
const KEY: &str = "ProvisionerKeyReady";
const FAILED: (&str, &str) = (KEY, "ProvisionerKeyFailed");
const HELD: (&str, &str) = ("CleanedUp", "CleanupFailed");
/// coderd is not asked for anything before the time that it set, whatever it was asked when it set it.
const LIMITED: Told = Told::Condition(KEY, "RateLimited", ["coderd is rate limiting the operator", "(429)"]);

/// How a message names a call.
fn operation(call: Call) -> &'static str {
    match call {
        Call::Healthz | Call::EndHealthz => "asking whether coderd is up failed",
        Call::BuildInfo => "reading coderd's version failed",
        Call::Token => "asking coderd who the token belongs to failed",
        Call::Entitlements => "reading coderd's entitlements failed",
        Call::Organization => "reading an organization failed",
        Call::Keys | Call::EndKeys => "listing provisioner keys failed",
        Call::Daemons => "listing the daemons of provisioner keys failed",
        Call::Identify => "asking coderd which provisioner key a Secret holds failed",
        Call::Jobs => "listing pending provisioner jobs failed",
        Call::Create => "creating a provisioner key failed",
        Call::Delete | Call::EndDelete => "deleting a provisioner key failed",
    }
}

/// A cell.
pub fn of(call: Call, wrong: Wrong) -> Cell {
    use Call::*;
    use Wrong::{HalfBody, MalformedJson, Reset, Status, Timeout};
    let told = |(type_, reason), words| Told::Condition(type_, reason, [operation(call), words]);
    let told = match (call, wrong) {
        // Nothing depends on them.
        (Jobs, _) => Told::StillReady,
        (Healthz, _) => told(UNANSWERED, NOBODY),
        (EndHealthz, _) => told(HELD, NOBODY),
        // What worked a moment ago is not unready because it could not be asked now.
        (BuildInfo | Token | Entitlements | Keys | Daemons | Identify, Status(429)) => Told::StillReady,
        (Create | Delete, Status(429)) => LIMITED,
        (BuildInfo, _) => told(UNANSWERED, words(wrong)),
        (Entitlements, Status(404)) => Told::Condition(
            UNENTITLED,
            "NotSupported",
            ["this build of coderd (open source) has no external provisioners"; 2],
        ),
        (Entitlements, Status(401 | 403)) => told((UNENTITLED, "Forbidden"), words(wrong)),
        (Entitlements, _) => told((UNENTITLED, "EntitlementsQueryFailed"), words(wrong)),
        (Organization, Status(404)) => {
            let words = ["coderd has no organization default", "correct spec.organizationName"];
            Told::Condition(KEY, "OrganizationMissing", words)
        }
        (Organization, Status(429)) => told((KEY, "RateLimited"), words(wrong)),
        (Organization, _) => told(FAILED, words(wrong)),
        // It needs no token: whoever asks for one is not coderd.
        (Identify, Status(401)) => told(FAILED, words(wrong)),
        (Token | Keys | Daemons | Create | Delete, Status(401)) => {
            let words = ["coderd does not accept the token", "into Secret operator-token"];
            Told::Condition(REJECTED.0, REJECTED.1, words)
        }
        (Token, _) => told(UNANSWERED, words(wrong)),
        // A name that is taken although coderd does not list it: the next number is tried, and the next.
        (Create, Status(409)) => Told::Event("KeyNameTaken"),
        // coderd denies both with a 500: a 403 is of somebody in between.
        (Create | Delete, Status(403)) => told(FAILED, "the token's user may not do this"),
        (EndDelete, Status(403)) => told(HELD, "the token's user may not do this"),
        // It says that the key is not there and lists it all the same: asking again changes nothing.
        (Delete | EndDelete, Status(404)) => Told::Event("KeyLeftBehind"),
        // The answer to it has no body that could be wrong.
        (Delete | EndDelete, HalfBody | MalformedJson) => Told::Done,
        (Keys | Daemons | Identify | Create | Delete, Timeout | Reset | HalfBody) => {
            told(UNANSWERED, words(wrong))
        }
        (Keys | Daemons | Identify | Create | Delete, _) => told(FAILED, words(wrong)),
        (EndKeys | EndDelete, _) => told(HELD, words(wrong)),
    };
    let then = match (call, wrong) {
        (Delete | EndDelete, Status(404) | HalfBody | MalformedJson) => Then::Over,
        (EndHealthz | EndKeys | EndDelete, _) => Then::Retried,
        (Jobs, _) | (_, Status(401 | 403 | 404)) => Then::Waits,
        _ => Then::Retried,
    };
    let left = usize::from(matches!((call, wrong), (Delete | EndDelete, Status(404))));
    Cell { call, wrong, told, then, left }
}

/// Every cell.
pub fn whole() -> Vec<Cell> {
    // One wrong after the other: calls that time out are spread.
    WRONGS.into_iter().flat_map(|wrong| CALLS.map(|call| of(call, wrong))).collect()
}

/// A part with each call and each thing that goes wrong with one.
pub fn representative() -> Vec<Cell> {
    vec![
        of(Call::Healthz, Wrong::Reset),
        of(Call::BuildInfo, Wrong::Status(500)),
        of(Call::Token, Wrong::Status(401)),
        of(Call::Entitlements, Wrong::MalformedJson),
        of(Call::Organization, Wrong::Status(404)),
        of(Call::Keys, Wrong::Status(429)),
        of(Call::Daemons, Wrong::Timeout),
        of(Call::Identify, Wrong::Status(401)),
        of(Call::Jobs, Wrong::Status(403)),
        of(Call::Create, Wrong::HalfBody),
        of(Call::Create, Wrong::Status(409)),
        of(Call::Delete, Wrong::Status(500)),
        of(Call::EndKeys, Wrong::Status(403)),
        of(Call::EndDelete, Wrong::MalformedJson),
    ]
}

impl Call {
    /// Whether the object is going when it is made.
    pub fn is_of_the_end(self) -> bool {
        matches!(self, Self::EndHealthz | Self::EndKeys | Self::EndDelete)
    }
}

impl Cell {
    /// A name that can be part of a namespace's.
    pub fn name(&self) -> String {
        let words = match self.wrong {
            Wrong::Status(code) => format!("{:?}-{code}", self.call),
            wrong => format!("{:?}-{wrong:?}", self.call),
        };
        words.to_lowercase()
    }
}
