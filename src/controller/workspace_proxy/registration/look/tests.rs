//! What follows from what is known before anybody is asked.

use super::*;

fn id() -> Uuid {
    "00000000-0000-4000-8000-000000000001".parse().unwrap()
}

fn registration(home: Home, brought: bool) -> Registration {
    let since = Timestamp::UNIX_EPOCH;
    Registration { home, name: "eu".to_owned(), id: Some(id()), since, attempted: true, brought }
}

#[test]
fn what_the_spec_brings_credentials_for_is_awaited_and_not_given_up() {
    let one = |brought| registration(Home::behind("u".to_owned(), "d".to_owned()), brought);
    assert!(!is_without_credentials(&one(true), true, true), "its coderd is away for a moment");
    assert!(is_without_credentials(&one(true), true, false), "no spec leads there any more");
    assert!(!is_without_credentials(&one(true), false, false), "the operator has a token there");
    assert!(!is_without_credentials(&one(false), true, false), "the operator may have one again");
}
