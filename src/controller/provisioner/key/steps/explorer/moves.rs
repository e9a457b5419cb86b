//! What can happen next in a world: steps of the operator and of the cluster, and, while the budget lasts, faults and changes.

use super::Decide;
use super::operator::{Answers, Done, Killed, step};
use super::world::{Budget, CoderKey, Content, GARBAGE, Pod, Spec, World, base};
use crds::names::provisioner::numbered_key;
use std::rc::Rc;

/// One thing that can happen.
pub(super) struct Move {
    pub by: String,
    /// What becomes of it, or which invariant it breaks.
    pub world: Result<World, String>,
    /// Whether it happens by itself sooner or later.
    pub is_onward: bool,
}

/// Everything that can happen.
pub(super) fn all(world: &World, decide: Decide) -> Vec<Move> {
    if world.is_gone {
        return Vec::new();
    }
    let mut moves = Vec::new();
    let (told, done) = step(world, decide, Answers::All, Killed::Not);
    moves.extend(moved(format!("operator: {told}"), done, true));
    if let Some(next) = world.arrived() {
        moves.push(Move { by: "a request arrives late".to_owned(), world: checked(next), is_onward: true });
    }
    for (by, next) in cluster(world) {
        moves.push(Move { by, world: checked(next), is_onward: true });
    }
    if let Some(faults) = world.budget.faults.checked_sub(1) {
        let poorer = World { budget: Budget { faults, ..world.budget }, ..world.clone() };
        for (answers, killed) in [
            (Answers::All, Killed::BeforePost),
            (Answers::All, Killed::AfterPost),
            (Answers::All, Killed::UnderWay),
            (Answers::All, Killed::Overtaken),
            (Answers::Lists, Killed::Not),
            (Answers::None, Killed::Not),
        ] {
            if killed == Killed::Overtaken && world.under_way.is_none() {
                continue;
            }
            let (told, done) = step(&poorer, decide, answers, killed);
            moves.extend(moved(
                format!("operator with {answers:?} answers, killed {killed:?}: {told}"),
                done,
                false,
            ));
        }
        moves.extend(faults_of_others(&poorer).into_iter().map(|(by, next)| disturbed(by, next)));
    }
    if let Some(changes) = world.budget.changes.checked_sub(1).filter(|_| !world.is_deleting) {
        let poorer = World { budget: Budget { changes, ..world.budget }, ..world.clone() };
        moves.extend(specs(&poorer).into_iter().map(|(by, next)| disturbed(by, next)));
    }
    moves
}

fn disturbed(by: String, next: World) -> Move {
    Move { by, world: checked(next), is_onward: false }
}

fn moved(by: String, done: Done, is_onward: bool) -> Option<Move> {
    let world = match done {
        Done::World(next) => checked(next),
        Done::Broken(why) => Err(why),
        Done::Nothing => return None,
    };
    Some(Move { by, world, is_onward })
}

fn checked(next: World) -> Result<World, String> {
    next.check().map(|()| next)
}

/// The Deployment is applied; pods of it start, and others stop once one has.
fn cluster(world: &World) -> Vec<(String, World)> {
    let mut moves = Vec::new();
    moves.extend(world.applied().map(|next| ("the Deployment is applied".to_owned(), next)));
    let Some(template) = world.template else {
        if !world.pods.is_empty() {
            moves.push(("the pods stop".to_owned(), World { pods: Vec::new(), ..world.clone() }));
        }
        return moves;
    };
    let has_new = world.pods.iter().any(|pod| pod.template == template);
    if let Some(content) = world.content(template.place).filter(|_| !has_new) {
        let mut next = world.clone();
        next.pods.push(Pod { template, plaintext: content.plaintext });
        next.pods.sort();
        moves.push(("a new pod starts".to_owned(), next));
    }
    if has_new && world.pods.iter().any(|pod| pod.template != template) {
        let mut next = world.clone();
        next.pods.retain(|pod| pod.template == template);
        moves.push(("the old pod stops".to_owned(), next));
    }
    for (index, pod) in world.pods.iter().enumerate() {
        let holds = world.content(pod.template.place).map(|content| content.plaintext);
        if let Some(plaintext) = holds.filter(|plaintext| *plaintext != pod.plaintext) {
            let mut next = world.clone();
            next.pods[index].plaintext = plaintext;
            next.pods.sort();
            moves.push((format!("pod {pod:?} restarts"), next));
        }
    }
    moves
}

/// What people and accidents do.
fn faults_of_others(world: &World) -> Vec<(String, World)> {
    let mut moves = Vec::new();
    for place in [0, 1] {
        if let Some(content) = world.content(place) {
            let with = |content: Option<Content>| {
                let mut next = world.clone();
                next.places[usize::from(place)] = content;
                next.without_proof()
            };
            moves.push((format!("Secret {place} is deleted"), with(None)));
            let garbage = Content { plaintext: GARBAGE, ..content.clone() };
            moves.push((format!("Secret {place} is overwritten"), with(Some(garbage))));
        }
    }
    for key in &world.keys {
        let mut next = world.clone();
        next.keys.retain(|one| one != key);
        moves.push((format!("{key:?} is deleted in coderd"), next));
    }
    moves.extend(world.taken().map(|next| ("somebody takes our next name".to_owned(), next)));
    moves.push(("status is lost".to_owned(), world.without_status()));
    if world.hour == 0 {
        moves.push(("an hour goes by".to_owned(), World { hour: 1, under_way: None, ..world.clone() }));
    }
    moves
}

impl World {
    /// Somebody makes a key with a name that ours has or could have next. What happens in the moment between our record of the
    /// attempt and the attempt itself cannot be told apart by anybody.
    fn taken(&self) -> Option<Self> {
        let numbers = [self.record.number, self.record.number + 1, 1];
        let names = numbers.map(|number| numbered_key(&base(self.spec.base), number));
        let is_free = |name: &String| self.key_of_name(self.spec.home, name).is_none();
        let is_attempted = self.record.pending.as_ref().is_some_and(|pending| pending.attempted);
        let name = names.into_iter().find(is_free).filter(|_| !is_attempted)?;
        let mut next = self.clone();
        next.last_id += 1;
        let (home, tags, hour) = (self.spec.home, self.spec.tags, self.hour);
        next.keys.push(CoderKey { home, name, id: next.last_id, tags, hour, is_ours: false });
        next.keys.sort();
        Some(next)
    }

    /// Nothing is recorded any more.
    fn without_status(&self) -> Self {
        Self { record: Rc::default(), former_name: false, ..self.clone() }.without_proof()
    }

    /// What is neither recorded nor proven by the Secret belongs to nobody from now on.
    fn without_proof(mut self) -> Self {
        let kept: Vec<u8> = self.places.iter().flatten().map(|content| content.plaintext).collect();
        let (spec, record, former_name) = (self.spec, self.record.clone(), self.is_of_the_older_operator());
        for key in &mut self.keys {
            let is_named = key.name.starts_with(&base(spec.base)) || former_name && key.name == base(0);
            let is_provable = kept.contains(&key.id) && key.home == spec.home && is_named;
            let is_recorded = record.keys().any(|one| Self::home_of(one) == key.home && one.name == key.name);
            key.is_ours &= is_provable || is_recorded;
        }
        self
    }
}

/// What the author of the object does.
fn specs(world: &World) -> Vec<(String, World)> {
    let spec = world.spec;
    let changed = [
        ("moves to the other control plane", Spec { home: 1 - spec.home, ..spec }),
        ("renames the key", Spec { base: 1 - spec.base, ..spec }),
        ("changes the tags", Spec { tags: 1 - spec.tags, ..spec }),
        ("renames the Secret", Spec { place: 1 - spec.place, ..spec }),
    ];
    let changed = changed.map(|(by, spec)| (by.to_owned(), World { spec, ..world.clone() }.without_proof()));
    let deleted = ("deletes the object".to_owned(), World { is_deleting: true, ..world.clone() });
    changed.into_iter().chain([deleted]).collect()
}
