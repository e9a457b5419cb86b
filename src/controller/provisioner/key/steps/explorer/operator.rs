//! The operator in the world: it sees, decides by the step function, and acts; killed in the middle where the world says so.

use super::super::super::record::{Key, Record, SecretPlace};
use super::super::super::seen::{Daemons, KeyFacts, Listed, Material, Seen, Sight};
use super::super::{Step, Unrecorded, unrecorded};
use super::world::{CoderKey, Content, GARBAGE, World, at, home, place, tags, uuid};
use super::{Decide, EndStep, Ending, ending};
use crds::names::provisioner::tags_hash;
use jiff::SignedDuration;
use std::collections::BTreeSet;
use std::rc::Rc;

/// How much coderd tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Everything.
    All,
    /// Its lists, and not whose plaintext something is.
    Lists,
    /// Nothing.
    None,
}

/// Where the operator is killed in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Killed {
    /// Nowhere.
    Not,
    /// A key was about to be made.
    BeforePost,
    /// A key was made, and its plaintext is lost.
    AfterPost,
    /// A key was asked for, and the request is still under way when nobody waits for it any more.
    UnderWay,
    /// Nowhere; but a request that was under way arrives between the look and this one.
    Overtaken,
}

/// What became of the world in a step.
pub(super) enum Done {
    /// This.
    World(World),
    /// Nothing was to be done, or could be.
    Nothing,
    /// An invariant was broken.
    Broken(String),
}

/// One step of the operator.
pub(super) fn step(world: &World, decide: Decide, answers: Answers, killed: Killed) -> (String, Done) {
    let (desired, record) = (world.desired(), &world.record);
    let materials: Vec<_> =
        seen_places(world).map(|number| (place(number), material(world, number, answers))).collect();
    let here = world.keys.iter().filter(|key| key.home == world.spec.home);
    let listed: Vec<Listed> = here.map(|key| listed(world, key)).collect();
    let retiring: Vec<Sight> = record.retiring.iter().map(|key| sight(world, key, answers)).collect();
    let pending = record.pending.as_ref().map(|key| sight(world, key, answers));
    let seen = Seen {
        has_finalizer: world.has_finalizer,
        desired: &desired,
        record,
        materials: &materials,
        immutable: &BTreeSet::new(),
        listed: (answers != Answers::None).then_some(&listed[..]),
        taken: &BTreeSet::new(),
        retiring: &retiring,
        pending_elsewhere: pending.as_ref(),
        rolled: world.is_rolled(),
        rolled_at: None,
        is_idle: false,
        patience: SignedDuration::from_mins(30),
        entitled: true,
        claimed: false,
        paused: false,
        may_roll: true,
        of_others: &BTreeSet::new(),
        now: at(world.hour),
    };
    if world.is_deleting {
        return end(world, &unrecorded(&seen), answers);
    }
    let step = decide(&seen);
    (format!("{step:?}"), act(world, step, killed))
}

/// The places the operator looks at: those that are recorded, or all of ours if nothing is, and the one that is asked for.
fn seen_places(world: &World) -> impl Iterator<Item = u8> {
    let (record, asked_for) = (world.record.clone(), world.spec.place);
    let is_empty = record.keys().next().is_none();
    let is_seen =
        move |number: &u8| is_empty || *number == asked_for || record.places.contains(&place(*number));
    [0, 1].into_iter().filter(is_seen)
}

fn facts(key: &CoderKey) -> KeyFacts {
    KeyFacts {
        id: uuid(key.id),
        organization: home(key.home).organization,
        name: key.name.clone(),
        tags_hash: tags_hash(&tags(key.tags)),
    }
}

fn listed(world: &World, key: &CoderKey) -> Listed {
    let pods = world.pods.iter().enumerate().filter(|(_, pod)| pod.plaintext == key.id);
    let daemons = Daemons::Seen(pods.map(|(number, _)| format!("pod-{number}")).collect());
    Listed { facts: facts(key), created_at: at(key.hour), daemons }
}

fn material(world: &World, number: u8, answers: Answers) -> Material {
    let Some(content) = world.content(number) else { return Material::Absent };
    match &content.mark {
        Some((at, name)) if *at != world.spec.home => return Material::Elsewhere(home(*at), name.clone()),
        _ => {}
    }
    if answers != Answers::All {
        return Material::Unproven;
    }
    match world.key_of(content.plaintext).filter(|key| key.home == world.spec.home) {
        Some(key) => Material::Is(facts(key)),
        None => Material::Rejected,
    }
}

fn sight(world: &World, key: &Key, answers: Answers) -> Sight {
    if answers == Answers::None {
        return Sight::Unreachable;
    }
    let found = world.key_of_name(World::home_of(key), &key.name);
    found.map_or(Sight::Absent, |found| Sight::Listed(listed(world, found)))
}

fn act(world: &World, step: Step, killed: Killed) -> Done {
    let mut next = world.clone();
    match step {
        Step::AddFinalizer => next.has_finalizer = true,
        Step::Record(record, _) => return recorded(next, *record),
        Step::Create => {
            if world.record.pending.is_none() {
                return Done::Broken("a key without an intent".to_owned());
            }
            next.create(killed);
        }
        Step::Move(from) => next.places[usize::from(world.spec.place)] = next.places[number(&from)].clone(),
        Step::Empty(place) => next.places[number(&place)] = None,
        Step::Delete(key) => return deleted(next, &key),
        Step::Wait(_) | Step::Rest => return Done::Nothing,
    }
    Done::World(next)
}

fn number(place: &SecretPlace) -> usize {
    usize::from(place.secret == "secret-1")
}

fn recorded(mut next: World, record: Record) -> Done {
    if record.number < next.record.number {
        return Done::Broken("a number was given twice".to_owned());
    }
    if record == *next.record {
        return Done::Broken("a write that changes nothing".to_owned());
    }
    // Whose plaintext is in our Secret is ours from now on.
    let kept: Vec<u8> = next.places.iter().flatten().map(|content| content.plaintext).collect();
    for key in next.keys.iter_mut().filter(|key| kept.contains(&key.id)) {
        key.is_ours |= record.keys().any(|one| one.id == Some(uuid(key.id)));
    }
    next.record = Rc::new(record);
    Done::World(next)
}

fn deleted(mut next: World, key: &Key) -> Done {
    let Some(found) = next.key_of_name(World::home_of(key), &key.name).cloned() else { return Done::Nothing };
    if !found.is_ours {
        return Done::Broken(format!("a key of others was deleted: {found:?}"));
    }
    if !next.is_deleting
        && next.pods.iter().any(|pod| Some(pod.template) == next.template && pod.plaintext == found.id)
    {
        return Done::Broken(format!("a key in use was deleted: {found:?}"));
    }
    next.keys.retain(|one| *one != found);
    Done::World(next)
}

impl World {
    /// The attempt is recorded, then coderd is asked, and whatever it answers is dealt with.
    fn create(&mut self, killed: Killed) {
        let before = self.record.pending.clone();
        self.record = Rc::new(self.record.attempting(at(self.hour)));
        let Some(pending) = self.record.pending.clone().filter(|_| killed != Killed::BeforePost) else {
            return;
        };
        let home = Self::home_of(&pending);
        if let Some(arrived) = self.arrived().filter(|_| killed == Killed::Overtaken) {
            *self = arrived;
        }
        if killed == Killed::UnderWay {
            self.under_way = Some((home, pending.name, self.spec.tags));
            return;
        }
        if self.key_of_name(home, &pending.name).is_some() {
            // It may be our own request of before that came first.
            let is_under_way = before.as_ref().is_some_and(|key| key.may_be_under_way(at(self.hour)));
            let after = match is_under_way {
                true => self.record.unattempted(before),
                false => self.record.forgetting_pending(),
            };
            self.record = Rc::new(after);
            return;
        }
        self.last_id += 1;
        let (id, hour, name) = (self.last_id, self.hour, pending.name.clone());
        self.keys.push(CoderKey { home, name: name.clone(), id, tags: self.spec.tags, hour, is_ours: true });
        self.keys.sort();
        if matches!(killed, Killed::Not | Killed::Overtaken) {
            self.places[usize::from(self.spec.place)] =
                Some(Content { plaintext: id, mark: Some((home, name)) });
        }
    }

    /// A request that was under way arrives: between a look that found the name free and the next request, say.
    pub(super) fn arrived(&self) -> Option<Self> {
        let (home, name, tags) = self.under_way.clone()?;
        let mut next = Self { under_way: None, ..self.clone() };
        if self.key_of_name(home, &name).is_none() {
            next.last_id += 1;
            // Nobody knows of one that no record announces any more.
            let is_asked_for = |key: &Key| key.attempted && key.id.is_none();
            let is_it = |key: &Key| Self::home_of(key) == home && key.name == name && is_asked_for(key);
            let is_ours = self.record.keys().any(is_it);
            next.keys.push(CoderKey { home, name, id: next.last_id, tags, hour: self.hour, is_ours });
            next.keys.sort();
        }
        Some(next)
    }

    /// The Deployment as the reconcile applies it: with what is proven, else as it runs.
    pub(super) fn applied(&self) -> Option<Self> {
        let content = self.content(self.spec.place)?;
        let current = self.record.current.as_ref()?;
        let key = self.key_of(content.plaintext).filter(|_| content.plaintext != GARBAGE)?;
        let is_proven = key.home == self.spec.home && current.id == Some(uuid(key.id));
        let template = super::world::Template { place: self.spec.place, plaintext: content.plaintext };
        (is_proven && !self.is_deleting && self.template != Some(template))
            .then(|| Self { template: Some(template), ..self.clone() })
    }
}

fn end(world: &World, unrecorded: &Unrecorded, answers: Answers) -> (String, Done) {
    let sights: Vec<Sight> = world.record.keys().map(|key| sight(world, key, answers)).collect();
    let (record, has_pods) = (&*world.record, !world.pods.is_empty() || world.template.is_some());
    let step = ending::next(&Ending { record, unrecorded, sights: &sights, has_pods, is_released: false });
    let told = format!("{step:?}");
    let mut next = world.clone();
    let done = match step {
        EndStep::Stop if world.template.is_some() => {
            next.template = None;
            Done::World(next)
        }
        EndStep::Stop | EndStep::Blocked => Done::Nothing,
        EndStep::Delete(key) => deleted(next, &key),
        EndStep::Record(record, _) => recorded(next, *record),
        EndStep::LetGo(_) => {
            (next.is_gone, next.template, next.places, next.pods) = (true, None, [None, None], Vec::new());
            Done::World(next)
        }
    };
    (told, done)
}
