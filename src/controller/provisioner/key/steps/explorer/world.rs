//! What outlives the process, small enough to be kept a hundred thousand times: numbers stand for names, ids and plaintexts.

use super::super::super::record::{Home, Key, Record, SecretPlace};
use super::super::super::seen::Desired;
use crate::coderd::Uuid;
use crds::names::provisioner::tags_hash;
use jiff::{SignedDuration, Timestamp};
use std::rc::Rc;

/// What may still go wrong and be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub faults: u8,
    pub changes: u8,
}

/// What the object asks for: one of two of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Spec {
    pub home: u8,
    pub base: u8,
    pub tags: u8,
    pub place: u8,
}

/// A key in a coderd; its plaintext has the same number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CoderKey {
    pub home: u8,
    pub name: String,
    pub id: u8,
    pub tags: u8,
    pub hour: u8,
    pub is_ours: bool,
}

/// What a place holds: a plaintext, by its number, and the key it is marked as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub plaintext: u8,
    pub mark: Option<(u8, String)>,
}

/// What pods are started from: a place, and what was in it when the Deployment was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Template {
    pub place: u8,
    pub plaintext: u8,
}

/// A pod, and the plaintext it was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Pod {
    pub template: Template,
    pub plaintext: u8,
}

/// A plaintext that no coderd knows.
pub(super) const GARBAGE: u8 = 0;

/// Everything there is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub budget: Budget,
    pub spec: Spec,
    pub has_finalizer: bool,
    pub is_deleting: bool,
    pub is_gone: bool,
    pub record: Rc<Record>,
    pub keys: Vec<CoderKey>,
    pub places: [Option<Content>; 2],
    pub template: Option<Template>,
    pub pods: Vec<Pod>,
    pub last_id: u8,
    pub hour: u8,
    /// A request to make a key that is still under way: home, name and tags.
    pub under_way: Option<(u8, String, u8)>,
    /// The name of the key in a status of the older operator.
    pub former_name: bool,
}

/// A base long enough that nothing else has it.
pub(super) fn base(number: u8) -> String {
    ["builders", "other"][usize::from(number)].to_owned()
}

pub(super) fn tags(number: u8) -> std::collections::BTreeMap<String, String> {
    [("environment".to_owned(), ["on-prem", "cloud"][usize::from(number)].to_owned())].into()
}

pub(super) fn uuid(number: u8) -> Uuid {
    format!("00000000-0000-4000-8000-0000000000{number:02x}").parse().unwrap()
}

pub(super) fn home(number: u8) -> Home {
    Home {
        control_plane: format!("uid-{number}"),
        deployment: format!("deployment-{number}"),
        organization: uuid(200 + number),
    }
}

pub(super) fn place(number: u8) -> SecretPlace {
    SecretPlace { secret: format!("secret-{number}"), data_key: "key".to_owned() }
}

pub(super) fn at(hour: u8) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_hours(i64::from(hour))
}

impl World {
    /// An object that was just created.
    pub(super) fn fresh(budget: Budget) -> Self {
        Self {
            budget,
            spec: Spec { home: 0, base: 0, tags: 0, place: 0 },
            has_finalizer: false,
            is_deleting: false,
            is_gone: false,
            record: Rc::default(),
            keys: Vec::new(),
            places: [None, None],
            template: None,
            pods: Vec::new(),
            last_id: 0,
            hour: 0,
            under_way: None,
            former_name: false,
        }
    }

    /// What the older operator left: a key, its Secret without a mark, pods, and no record.
    pub(super) fn of_the_older_operator(budget: Budget) -> Self {
        let template = Template { place: 0, plaintext: 1 };
        Self {
            has_finalizer: true,
            keys: vec![CoderKey { home: 0, name: base(0), id: 1, tags: 0, hour: 0, is_ours: true }],
            places: [Some(Content { plaintext: 1, mark: None }), None],
            template: Some(template),
            pods: vec![Pod { template, plaintext: 1 }],
            last_id: 1,
            former_name: true,
            ..Self::fresh(budget)
        }
    }

    pub(super) fn desired(&self) -> Desired {
        let Spec { home: at, base: named, tags: tagged, place: kept } = self.spec;
        Desired {
            home: home(at),
            base: base(named),
            tags: tags(tagged),
            tags_hash: tags_hash(&tags(tagged)),
            place: place(kept),
            adopt: None,
            former_name: self.is_of_the_older_operator().then(|| base(0)),
        }
    }

    /// Whether its status has a name of a key and no record.
    pub(super) fn is_of_the_older_operator(&self) -> bool {
        self.former_name && *self.record == Record::default()
    }

    pub(super) fn content(&self, place: u8) -> Option<&Content> {
        self.places[usize::from(place)].as_ref()
    }

    pub(super) fn key_of(&self, plaintext: u8) -> Option<&CoderKey> {
        self.keys.iter().find(|key| key.id == plaintext)
    }

    pub(super) fn key_of_name(&self, home: u8, name: &str) -> Option<&CoderKey> {
        self.keys.iter().find(|key| key.home == home && key.name == name)
    }

    /// The home of a recorded key, as a number.
    pub(super) fn home_of(key: &Key) -> u8 {
        u8::from(key.home == home(1))
    }

    /// Whether every pod was started from the template of now with what the asked place holds.
    pub(super) fn is_rolled(&self) -> bool {
        let holds = self.content(self.spec.place).map(|content| content.plaintext);
        let Some(template) = self.template else { return false };
        template.place == self.spec.place
            && Some(template.plaintext) == holds
            && !self.pods.is_empty()
            && self.pods.iter().all(|pod| pod.template == template)
    }

    /// What must hold at any time.
    pub(super) fn check(&self) -> Result<(), String> {
        for home in [0, 1] {
            let ours = self.keys.iter().filter(|key| key.is_ours && key.home == home).count();
            if ours > super::super::MOST_KEYS {
                return Err(format!("{ours} keys of ours in coderd {home}"));
            }
        }
        Ok(())
    }

    /// What must hold when nothing is left to do.
    pub(super) fn check_settled(&self) -> Result<(), String> {
        let ours: Vec<&CoderKey> = self.keys.iter().filter(|key| key.is_ours).collect();
        if self.is_gone {
            return if ours.is_empty() { Ok(()) } else { Err(format!("left in coderd: {ours:?}")) };
        }
        let [key] = ours[..] else {
            return Err(format!("not one key in coderd: {ours:?} {:?}", self.record));
        };
        let Some(current) = &self.record.current else { return Err("no key is recorded".to_owned()) };
        let holds = self.content(self.spec.place).map(|content| content.plaintext);
        let other = self.content(1 - self.spec.place);
        let runs = self.pods.iter().all(|pod| pod.plaintext == key.id) && !self.pods.is_empty();
        let recorded = self.record.pending.is_none() && self.record.retiring.is_empty();
        let is_right =
            current.id == Some(uuid(key.id)) && current.name == key.name && key.home == self.spec.home;
        let is_asked_for = key.tags == self.spec.tags && key.name.starts_with(&base(self.spec.base));
        if holds == Some(key.id) && other.is_none() && runs && recorded && is_right && is_asked_for {
            return Ok(());
        }
        Err(format!("settled wrongly: {self:?}"))
    }
}
