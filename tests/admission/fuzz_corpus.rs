//! Replays the stored corpus of the fuzz targets: what once broke the reading of AdmissionReviews or manifests, and
//! what `make fuzz` starts from. Never looks for new inputs.

#[path = "../fuzz/lint.rs"]
mod lint;
#[path = "../fuzz/review.rs"]
mod review;

use std::panic::catch_unwind;
use std::path::PathBuf;
use support::installation::repository;

/// Bytes of both corpora; they are part of every clone.
const MOST: usize = 1024 * 1024;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = repository().join("tests/fuzz/corpus").join(target);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// Every file that breaks a property, after all of them were run.
fn broken(target: &str, least: usize, property: fn(&[u8])) -> Vec<PathBuf> {
    let files = corpus(target);
    assert!(files.len() >= least, "{target} has {} files", files.len());
    let run = |(path, bytes): (PathBuf, Vec<u8>)| catch_unwind(|| property(&bytes)).err().map(|_| path);
    files.into_iter().filter_map(run).collect()
}

#[test]
fn every_stored_review_is_answered() {
    assert_eq!(broken("review", 40, review::holds), Vec::<PathBuf>::new());
}

#[test]
fn every_stored_manifest_is_judged() {
    assert_eq!(broken("lint", 60, lint::holds), Vec::<PathBuf>::new());
}

/// A corpus of files that are all refused at the door would prove nothing.
#[test]
fn the_corpus_reaches_what_it_is_for() {
    let read = |(_, bytes): &(PathBuf, Vec<u8>)| webhooks::admission_review::read(bytes).ok();
    let requests: Vec<_> = corpus("review").iter().filter_map(read).collect();
    for kind in webhooks::Kind::ALL {
        let decided = |allowed: bool| {
            let of_kind = requests.iter().filter(|request| request.kind == kind);
            of_kind.filter(|request| webhooks::admit::validate(request).allowed() == allowed).count()
        };
        assert!(decided(true) > 0 && decided(false) > 0, "{}", kind.name());
    }
    let text = |(_, bytes): (PathBuf, Vec<u8>)| String::from_utf8(bytes).ok();
    let ours = corpus("lint").into_iter().filter_map(text).filter(|text| text.contains("coder.com/v1alpha1"));
    assert!(ours.count() >= 20);
}

#[test]
fn the_corpus_stays_small() {
    let all: Vec<_> = ["review", "lint"].into_iter().flat_map(corpus).collect();
    assert!(all.len() < 300, "{} files", all.len());
    assert!(all.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < MOST);
}

#[test]
fn a_broken_property_is_noticed() {
    let broken = broken("lint", 1, |bytes| assert!(bytes.is_empty(), "this panic is part of the test"));
    assert!(broken.len() >= 60);
}
