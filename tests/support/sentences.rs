//! Whether what the operator says to people is written for people: conditions and Events, wherever a test sees them.
//! It never judges what is said, only how.

use serde_json::Value;

/// Characters of a message.
const LONGEST: usize = 300;
/// What a person should never have to read.
const DUMPED: [&str; 6] = ["{", "Some(", "ErrorResponse", "ApiError", "ServiceError", "Status {"];

/// What is wrong with a message, if something is.
pub fn fault(message: &str) -> Option<String> {
    let length = message.chars().count();
    if length > LONGEST {
        return Some(format!("{length} characters: {message}"));
    }
    let dumped = DUMPED.iter().find(|dumped| message.contains(**dumped));
    dumped.map(|dumped| format!("{dumped:?} in: {message}"))
}

/// Fails on a condition of an object that is not a sentence.
#[track_caller]
pub fn check_conditions(object: &Value) {
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        check(condition, "message");
    }
}

/// Fails on an Event that is not a sentence.
#[track_caller]
pub fn check_event(event: &Value) {
    check(event, "note");
}

#[track_caller]
fn check(said: &Value, field: &str) {
    if let Some(fault) = said[field].as_str().and_then(fault) {
        panic!("{} is not a sentence for people: {fault}", said["reason"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_and_novels_are_found() {
        assert_eq!(fault("the Deployment is being made"), None);
        assert!(fault("ApiError: no: Forbidden (Status { code: 403 })").is_some());
        assert!(fault(&"x".repeat(301)).is_some());
    }
}
