//! Decides which fault a request suffers, and what an error of the API server or of coderd looks like.
//! It never forwards anything.

use serde_json::{Value, json};
use std::time::Duration;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is forwarded after this time.
    Delay(Duration),
    /// It is forwarded when [`super::FaultProxy::release`] is called.
    Hold,
    /// The connection is closed before anything is forwarded.
    CutBefore,
    /// It is forwarded and takes effect, but the answer is lost.
    CutAfter,
    /// It is answered with this status, and the reason that goes with it, and never forwarded.
    Answer(u16),
}

type Matches = Box<dyn Fn(&str, &str) -> bool + Send>;

struct Rule {
    matches: Matches,
    fault: Fault,
    /// How often it still applies; none means always.
    left: Option<usize>,
}

/// The rules in force, the oldest first.
#[derive(Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    pub(super) fn add(&mut self, fault: Fault, times: Option<usize>, matches: Matches) {
        self.0.push(Rule { matches, fault, left: times });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What this request suffers: the first rule that matches and is not used up.
    pub(super) fn fault(&mut self, method: &str, path: &str) -> Option<Fault> {
        let applies = |rule: &&mut Rule| rule.left != Some(0) && (rule.matches)(method, path);
        let rule = self.0.iter_mut().find(applies)?;
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.fault.clone())
    }
}

/// What the API server calls a failure with this code: clients tell a conflict from an outage by the reason.
fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}

/// A failure as the API server tells it.
pub(super) fn status(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "answered by the fault proxy", "reason": reason(code) })
}

/// A failure as coderd tells it.
pub(super) fn coderd_error() -> Value {
    json!({ "message": "answered by the fault proxy" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_says_that_it_is_one() {
        assert_eq!(
            (status(409)["code"].as_u64(), status(409)["reason"].as_str()),
            (Some(409), Some("Conflict"))
        );
        assert_eq!(status(410)["reason"], "Expired");
        assert_eq!(status(500)["reason"], "InternalError");
    }

    #[test]
    fn a_rule_applies_as_often_as_it_says() {
        let mut rules = Rules::default();
        rules.add(Fault::Answer(409), Some(1), Box::new(|method, _| method == "PATCH"));
        rules.add(Fault::CutBefore, None, Box::new(|_, path| path.contains("secrets")));
        assert!(rules.fault("GET", "/pods").is_none());
        assert!(matches!(rules.fault("PATCH", "/secrets"), Some(Fault::Answer(409))));
        assert!(matches!(rules.fault("PATCH", "/secrets"), Some(Fault::CutBefore)), "the first is used up");
        assert!(rules.fault("PATCH", "/pods").is_none());
    }
}
