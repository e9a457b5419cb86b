//! Every call that a provisioner makes to coderd with everything that goes wrong with one, and what must be said of it. It
//! does nothing.

use super::{KIND, first};
use crate::attached::call::{Cell, Told, Tries, name};
use crate::attached::{HELD, Opening, Phase, limited, rejected, told, unanswered};
use crate::table::{Then, WRONGS, Wrong, words};
use serde_json::json;
use support::coderd::Role;

/// A call to coderd, told apart by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
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
    /// The keys there are, when the object goes.
    EndKeys,
    /// Deleting the key when the object goes.
    EndDelete,
}

const CALLS: [Call; 9] = [
    Call::Organization,
    Call::Keys,
    Call::Daemons,
    Call::Identify,
    Call::Jobs,
    Call::Create,
    Call::Delete,
    Call::EndKeys,
    Call::EndDelete,
];

const KEY: &str = "ProvisionerKeyReady";
const FAILED: (&str, &str) = (KEY, "ProvisionerKeyFailed");

/// How a message names a call.
fn operation(call: Call) -> &'static str {
    match call {
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
    let told = |condition, words| told(condition, operation(call), words);
    let told = match (call, wrong) {
        // Nothing depends on them.
        (Jobs, _) => Told::StillReady,
        // What worked a moment ago is not unready because it could not be asked now.
        (Keys | Daemons | Identify, Status(429)) => Told::StillReady,
        (Create | Delete, Status(429)) => limited(KEY),
        (Organization, Status(404)) => {
            let words = ["coderd has no organization default", "correct spec.organizationName"];
            Told::Condition(KEY, "OrganizationMissing", words)
        }
        (Organization, Status(429)) => told((KEY, "RateLimited"), words(wrong)),
        (Organization, _) => told(FAILED, words(wrong)),
        // It needs no token: whoever asks for one is not coderd.
        (Identify, Status(401)) => told(FAILED, words(wrong)),
        (Keys | Daemons | Create | Delete, Status(401)) => rejected(),
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
            unanswered(operation(call), words(wrong))
        }
        (Keys | Daemons | Identify | Create | Delete, _) => told(FAILED, words(wrong)),
        (EndKeys | EndDelete, _) => told(HELD, words(wrong)),
    };
    let then = match (call, wrong) {
        (Delete | EndDelete, Status(404) | HalfBody | MalformedJson) => Then::Over,
        (EndKeys | EndDelete, _) => Then::Retried,
        (Jobs, _) | (_, Status(401 | 403 | 404)) => Then::Waits,
        _ => Then::Retried,
    };
    let left = usize::from(matches!((call, wrong), (Delete | EndDelete, Status(404))));
    let tries = match (call, wrong) {
        // One number after the other.
        (Create, Status(409)) => Tries { least: 2, most: 12 },
        _ => Tries::ONE,
    };
    // Jobs are asked for in every reconcile only by whoever is shown them.
    let role = (call == Jobs).then_some(Role::Owner);
    let (name, route, phase) = (name(&format!("{call:?}"), wrong), call.route(), call.phase());
    Cell { name, route, wrong, told, then, left, tries, phase, role }
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
        Opening::Healthz.cell(Wrong::Reset, &KIND),
        Opening::BuildInfo.cell(Wrong::Status(500), &KIND),
        Opening::Token.cell(Wrong::Status(401), &KIND),
        Opening::Entitlements.cell(Wrong::MalformedJson, &KIND),
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
    fn route(self) -> &'static str {
        match self {
            Self::Organization => "GET /organizations/{org}",
            Self::Keys | Self::EndKeys => "GET /organizations/{org}/provisionerkeys",
            Self::Daemons => "GET /organizations/{org}/provisionerkeys/daemons",
            Self::Identify => "GET /provisionerkeys/{key}",
            Self::Jobs => "GET /organizations/{org}/provisionerjobs",
            Self::Create => "POST /organizations/{org}/provisionerkeys",
            Self::Delete | Self::EndDelete => "DELETE /organizations/{org}/provisionerkeys/{key}",
        }
    }

    fn phase(self) -> Phase {
        match self {
            Self::Create => Phase::Make,
            // Other tags are another key.
            Self::Delete => Phase::Apply(|| {
                let mut spec = first();
                spec["tags"] = json!({ "zone": "eu" });
                spec
            }),
            Self::EndKeys | Self::EndDelete => Phase::End,
            _ => Phase::Look,
        }
    }
}
