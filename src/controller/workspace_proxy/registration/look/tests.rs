//! What follows from what is known before anybody is asked.

use super::*;
use crate::coderd::client::ProxyHealth;

fn id() -> Uuid {
    "00000000-0000-4000-8000-000000000001".parse().unwrap()
}

fn registration(home: Home, brought: bool) -> Registration {
    let since = Timestamp::UNIX_EPOCH;
    Registration { home, name: "eu".to_owned(), id: Some(id()), since, attempted: true, brought }
}

fn desired(home: Home) -> Desired {
    Desired {
        home,
        brought: true,
        name: "eu".to_owned(),
        display_name: "Europe".to_owned(),
        icon: "/globe.png".to_owned(),
        origin: "uid-1".to_owned(),
        place: place("eu-proxy-token"),
        adopt: None,
        rotate: None,
    }
}

fn place(secret: &str) -> SecretPlace {
    SecretPlace { secret: secret.to_owned(), data_key: "token".to_owned() }
}

fn proxy(name: &str) -> WorkspaceProxy {
    WorkspaceProxy {
        id: id(),
        name: name.to_owned(),
        display_name: String::new(),
        icon: String::new(),
        created_at: Timestamp::UNIX_EPOCH,
        health: ProxyHealth::default(),
        version: None,
        access_url: None,
    }
}

#[test]
fn what_the_spec_brings_credentials_for_is_awaited_and_not_given_up() {
    let one = |brought| registration(Home::behind("u".to_owned(), "d".to_owned()), brought);
    assert!(!is_without_credentials(&one(true), true, true), "its coderd is away for a moment");
    assert!(is_without_credentials(&one(true), true, false), "no spec leads there any more");
    assert!(!is_without_credentials(&one(true), false, false), "the operator has a token there");
    assert!(!is_without_credentials(&one(false), true, false), "the operator may have one again");
}

#[test]
fn a_name_is_told_with_the_way_out_where_only_the_id_of_a_former_coderd_has_it() {
    let at = |host: &str| Home::at(format!("https://{host}:443"), "d".to_owned());
    let taken = |host: &str| {
        let record = Record { current: Some(registration(at("old.example.com"), true)), ..Record::default() };
        taken(&[proxy("EU")], &record, &desired(at(host)), &OfOthers::default())
    };
    assert_eq!(taken("new.example.com").as_deref(), Some("EU"));
    assert_eq!(taken("old.example.com"), None, "it is the one in use");
}

#[test]
fn a_token_is_looked_for_where_pods_read_it_so_far_as_well() {
    let (asked_for, former) = (place("new"), place("old"));
    assert_eq!(places(&asked_for, Some(&former)), [asked_for.clone(), former]);
    assert_eq!(places(&asked_for, Some(&asked_for)), std::slice::from_ref(&asked_for), "once");
    assert_eq!(places(&asked_for, None), [asked_for]);
}

#[test]
fn a_token_that_was_marked_before_addresses_were_is_shown_where_its_registration_is_recorded() {
    let at = |host: &str| Home::at(format!("https://{host}:443"), "d".to_owned());
    let (mark, here) = (Mark::read(&format!("/d/{}", id())).unwrap(), at("coder.example.com"));
    assert!(mark.home.is_unlocated());
    let current = registration(here.clone(), true);
    assert_eq!(marked(Some(&mark), Some(&current)), Some(&here));
    assert!(!at("evil.example.com").is_reached_as(&here), "and at no other host");
    let others = Registration { id: None, ..current.clone() };
    for unknown in [None, Some(&others)] {
        let home = marked(Some(&mark), unknown).unwrap();
        assert!(home.is_unlocated() && here.is_reached_as(home), "the status was lost");
        assert!(!Home { deployment: "other".to_owned(), ..here.clone() }.is_reached_as(home));
    }
    let moved = Mark { home: at("old.example.com"), ..mark };
    assert_eq!(marked(Some(&moved), Some(&current)), Some(&moved.home), "a mark that says where is believed");
    assert_eq!(marked(None, Some(&current)), Some(&here));
}
