//! What a fault of a call is to coderd's double, and how often a call that fails may be tried: pauses grow, and nobody is
//! asked before the time that coderd set.

use crate::table::Wrong;
use std::time::{Duration, Instant};
use support::coderd::{Coderd, Fault};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

/// What a 429 asks for.
const RETRY_AFTER: Duration = Duration::from_secs(3);
/// Reconciles that the test itself causes, and those that follow from what they write.
const CAUSED: u32 = 4;
/// How long tries are counted at least.
const WINDOW: Duration = Duration::from_secs(6);

/// The same in words of the double.
pub fn fault(wrong: Wrong) -> Fault {
    match wrong {
        Wrong::Timeout => Fault::hang(),
        Wrong::Reset => Fault::cut_before_processing(),
        Wrong::Status(429) => Fault::too_many_requests(RETRY_AFTER),
        Wrong::Status(code) => Fault::status(code),
        Wrong::HalfBody => Fault::half_body(),
        Wrong::MalformedJson => Fault::malformed_json(),
    }
}

/// Pauses double: in t seconds there are about log2(t) tries, besides those that the test caused.
pub async fn are_bounded(
    name: &str,
    coderd: &Coderd,
    began: Instant,
    per_pass: u32,
    tries: impl Fn() -> u32,
) {
    until(&format!("{name}: enough time to count"), LIMIT, async || {
        holds(began.elapsed() >= WINDOW, "not yet")
    })
    .await;
    let seconds = u32::try_from(began.elapsed().as_secs()).unwrap();
    let (allowed, tries) = (per_pass * (CAUSED + (seconds + 1).ilog2() + 1), tries());
    assert!(tries <= allowed, "{name}: {tries} tries in {seconds} s, {allowed} are allowed");
    let calls = coderd.calls();
    for refused in calls.iter().filter(|call| call.status() == Some(429)) {
        for next in calls.iter().filter(|call| call.index > refused.index) {
            let pause = next.at.since(refused.at);
            assert!(pause >= RETRY_AFTER, "{name}: {} came {pause:?} after a 429", next.route);
        }
    }
}
