//! What one step depends on, put together by sentences. It decides nothing: what must come of it is said by the tests.

use super::super::super::record::Home;
use super::super::super::seen::{Daemons, Desired, KeyFacts, Tags};
use super::super::*;
use crate::coderd::Uuid;
use crds::names::provisioner::tags_hash;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// What one step depends on, put together by sentences.
pub(super) struct Case {
    pub(super) desired: Desired,
    pub(super) record: Record,
    pub(super) materials: Vec<(SecretPlace, Material)>,
    pub(super) listed: Vec<Listed>,
    pub(super) entitled: bool,
    pub(super) claimed: bool,
    pub(super) paused: bool,
    pub(super) may_roll: bool,
    pub(super) retiring: Option<Sight>,
    pub(super) pending_elsewhere: Option<Sight>,
    pub(super) rolled: bool,
    pub(super) rolled_at: Option<Timestamp>,
    pub(super) is_idle: bool,
    pub(super) patience: SignedDuration,
    pub(super) immutable: BTreeSet<String>,
    pub(super) of_others: BTreeSet<Uuid>,
    pub(super) taken: BTreeSet<u64>,
}

pub(super) fn daemons(number: usize) -> Daemons {
    Daemons::Seen((0..number).map(|number| format!("pod-{number}")).collect())
}

pub(super) fn uuid(number: u8) -> Uuid {
    format!("00000000-0000-4000-8000-0000000000{number:02x}").parse().unwrap()
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(super) fn listed(number: u8, name: &str) -> Listed {
    let tags_hash = tags_hash(&Tags::new());
    let facts = KeyFacts { id: uuid(number), organization: uuid(200), name: name.to_owned(), tags_hash };
    Listed { facts, created_at: now(), daemons: daemons(0) }
}

impl Case {
    /// Other tags are asked for.
    pub(super) fn tagged(&mut self) {
        self.desired.tags = Tags::from([("a".to_owned(), "b".to_owned())]);
        self.desired.tags_hash = tags_hash(&self.desired.tags);
    }

    pub(super) fn new(base: &str) -> Self {
        let home =
            Home { control_plane: "u".to_owned(), deployment: "d".to_owned(), organization: uuid(200) };
        let desired = Desired {
            home,
            base: base.to_owned(),
            tags: Tags::new(),
            tags_hash: tags_hash(&Tags::new()),
            place: SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() },
            adopt: None,
            former_name: None,
        };
        let (materials, listed) = (Vec::new(), Vec::new());
        Self {
            desired,
            record: Record::default(),
            materials,
            listed,
            entitled: true,
            claimed: false,
            paused: false,
            may_roll: true,
            retiring: None,
            pending_elsewhere: None,
            rolled: true,
            rolled_at: None,
            is_idle: false,
            patience: SignedDuration::from_mins(30),
            immutable: BTreeSet::new(),
            of_others: BTreeSet::new(),
            taken: BTreeSet::new(),
        }
    }

    /// With a key that works and is in use.
    pub(super) fn using(base: &str, name: &str) -> Self {
        let mut case = Self::new(base);
        let found = Listed { daemons: daemons(1), ..listed(1, name) };
        let key = Key { id: Some(uuid(1)), used: true, ..case.seen(|seen| seen.key(name, 1)) };
        case.record.current = Some(key);
        case.record.number = 1;
        case.record.places = vec![case.desired.place.clone()];
        case.materials = vec![(case.desired.place.clone(), Material::Is(found.facts.clone()))];
        case.listed = vec![found];
        case
    }

    pub(super) fn seen<T>(&self, of: impl Fn(&Seen<'_>) -> T) -> T {
        let in_list =
            |key: &Key| find(&self.listed, &key.name).map_or(Sight::Absent, |one| Sight::Listed(one.clone()));
        let sight = |key: &Key| self.retiring.clone().unwrap_or_else(|| in_list(key));
        let retiring: Vec<Sight> = self.record.retiring.iter().map(sight).collect();
        of(&Seen {
            has_finalizer: true,
            desired: &self.desired,
            record: &self.record,
            materials: &self.materials,
            immutable: &self.immutable,
            listed: Some(&self.listed),
            taken: &self.taken,
            retiring: &retiring,
            pending_elsewhere: self.pending_elsewhere.as_ref(),
            rolled: self.rolled,
            rolled_at: self.rolled_at,
            is_idle: self.is_idle,
            patience: self.patience,
            entitled: self.entitled,
            claimed: self.claimed,
            paused: self.paused,
            may_roll: self.may_roll,
            of_others: &self.of_others,
            now: now(),
        })
    }

    pub(super) fn next(&self) -> Step {
        self.seen(next)
    }

    /// The name of the key that is to be made next, and what is told of others.
    pub(super) fn intends(&self) -> (String, Vec<Left>) {
        match self.next() {
            Step::Record(record, left) => (record.pending.expect("a key is intended").name, left),
            step => panic!("{step:?}"),
        }
    }
}
