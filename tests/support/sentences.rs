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
    if let Some(letter) = unseen(message) {
        return Some(format!("{letter:?} in: {message:?}"));
    }
    let dumped = DUMPED.iter().find(|dumped| message.contains(**dumped));
    dumped.map(|dumped| format!("{dumped:?} in: {message}"))
}

/// A character that commands a terminal or changes how others are shown, if there is one.
pub fn unseen(text: &str) -> Option<char> {
    let turns = |letter: char| matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().find(|letter| letter.is_control() || turns(*letter))
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
        assert_eq!(fault("the Deployment is being created"), None);
        assert!(fault("ApiError: no: Forbidden (Status { code: 403 })").is_some());
        assert!(fault(&"x".repeat(301)).is_some());
        assert!(fault("gone \u{1b}[2J").is_some() && fault("gone \u{202e}").is_some());
    }
}
