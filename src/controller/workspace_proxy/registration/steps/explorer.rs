//! Every order in which the operator, coderd, the cluster and people can act on the registration of one proxy, with up to two faults
//! and changes among them: no order registers twice, regenerates needlessly or touches a proxy of others, and from each state the
//! undisturbed rest leads to one registration whose token is in the Secret.
//!
//! The world is what outlives the process; the operator is the step function itself.

use super::super::record::Home;
use super::super::seen::Desired;
use super::*;
use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};

/// Decides; a wrong one is tried as well.
type Decide = fn(&Seen<'_>) -> Step;

/// A proxy in one of the two coderds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Proxy {
    coderd: u8,
    id: u8,
    name: u8,
    /// Which token of it is valid.
    token: u8,
    is_ours: bool,
}

/// What the Secret holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Held {
    coderd: u8,
    id: u8,
    token: u8,
    rotation: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    record: Record,
    secret: Option<Held>,
    proxies: Vec<Proxy>,
    /// What pods run with.
    pods: Option<(u8, u8, u8)>,
    coderd: u8,
    name: u8,
    rotate: Option<String>,
    last_id: u8,
    last_token: u8,
    faults: u8,
    changes: u8,
}

fn uuid(id: u8) -> Uuid {
    format!("00000000-0000-4000-8000-0000000000{id:02x}").parse().unwrap()
}

fn home(coderd: u8) -> Home {
    Home { control_plane: Some(format!("u{coderd}")), deployment: format!("d{coderd}") }
}

fn coderd_of(one: &Registration) -> u8 {
    one.home.deployment.as_bytes()[1] - b'0'
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn name(number: u8) -> String {
    format!("eu-{number}")
}

/// Where the operator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Not,
    /// After coderd did what it was asked for, before the answer was kept.
    AfterEffect,
}

impl Proxy {
    /// Whether it is the one of a registration: of its id, or as it was asked for.
    fn is(&self, one: &Registration) -> bool {
        let is_it = match one.id {
            Some(id) => uuid(self.id) == id,
            None => self.is_ours && name(self.name) == one.name && one.attempted,
        };
        is_it && self.coderd == coderd_of(one)
    }
}

impl World {
    fn fresh(faults: u8, changes: u8) -> Self {
        Self {
            record: Record::default(),
            secret: None,
            proxies: Vec::new(),
            pods: None,
            coderd: 0,
            name: 0,
            rotate: None,
            last_id: 0,
            last_token: 0,
            faults,
            changes,
        }
    }

    /// As the older operator left it: registered, with a token in the Secret, and nothing recorded.
    fn taken_over(faults: u8, changes: u8) -> Self {
        let held = Held { coderd: 0, id: 1, token: 1, rotation: None };
        let proxy = Proxy { coderd: 0, id: 1, name: 0, token: 1, is_ours: true };
        let (secret, proxies) = (Some(held), vec![proxy]);
        Self {
            secret,
            proxies,
            last_id: 1,
            last_token: 1,
            pods: Some((0, 1, 1)),
            ..Self::fresh(faults, changes)
        }
    }

    fn desired(&self) -> Desired {
        Desired {
            home: home(self.coderd),
            name: name(self.name),
            display_name: "d".to_owned(),
            icon: "i".to_owned(),
            place: SecretPlace { secret: "s".to_owned(), data_key: "token".to_owned() },
            adopt: None,
            rotate: self.rotate.clone(),
        }
    }

    fn is_valid(&self, held: &Held) -> bool {
        self.proxies.iter().any(|one| (one.coderd, one.id, one.token) == (held.coderd, held.id, held.token))
    }

    fn material(&self) -> Material {
        match &self.secret {
            None => Material::Absent,
            Some(held) if held.coderd != self.coderd => Material::Elsewhere(home(held.coderd)),
            Some(held) if self.is_valid(held) => Material::Is(uuid(held.id), held.rotation.clone()),
            Some(_) => Material::Rejected,
        }
    }

    fn find(&self, coderd: u8, id: Uuid) -> Option<usize> {
        self.proxies.iter().position(|one| one.coderd == coderd && uuid(one.id) == id)
    }

    fn sight(&self, one: &Registration) -> Sight {
        if self.proxies.iter().any(|proxy| proxy.is(one)) { Sight::There } else { Sight::Absent }
    }

    fn decide(&self, decide: Decide, is_silent: bool) -> Step {
        let (desired, material, of_others) = (self.desired(), self.material(), BTreeSet::new());
        let proxies: Vec<ProxyFacts> = self
            .proxies
            .iter()
            .filter(|one| one.coderd == self.coderd)
            .map(|one| ProxyFacts {
                id: uuid(one.id),
                name: name(one.name),
                display_name: "d".to_owned(),
                icon: "i".to_owned(),
                // Those of others were there before.
                created_at: if one.is_ours { now() } else { Timestamp::UNIX_EPOCH },
            })
            .collect();
        let retiring: Vec<Sight> = self.record.retiring.iter().map(|one| self.sight(one)).collect();
        let pending = self.record.pending.as_ref().filter(|one| coderd_of(one) != self.coderd);
        let pending_elsewhere = pending.map(|one| self.sight(one));
        let held = self.secret.as_ref().map(|held| (held.coderd, held.id, held.token));
        let silent = Material::Unproven;
        let is_shown = matches!(material, Material::Is(..) | Material::Rejected);
        decide(&Seen {
            has_finalizer: true,
            desired: &desired,
            record: &self.record,
            material: if is_silent && is_shown { &silent } else { &material },
            is_immutable: false,
            former: None,
            proxies: if is_silent { None } else { Some(&proxies) },
            retiring: &retiring,
            pending_elsewhere: pending_elsewhere.as_ref(),
            rolled: held.is_some() && self.pods == held,
            may_roll: true,
            entitled: true,
            claimed: false,
            paused: false,
            of_others: &of_others,
            now: now(),
        })
    }

    /// What the creation of what is pending makes of the world.
    fn created(&self, killed: Killed) -> Result<Self, String> {
        let pending = self.record.pending.clone().ok_or("made what is not recorded")?;
        let mut next = Self { record: self.record.attempting(now()), ..self.clone() };
        let wanted = (0..3).find(|number| name(*number) == pending.name).unwrap();
        if self.proxies.iter().any(|one| one.coderd == self.coderd && one.name == wanted) {
            next.record = next.record.forgetting_pending();
            return Ok(next);
        }
        (next.last_id, next.last_token) = (self.last_id + 1, self.last_token + 1);
        let (coderd, id, token) = (self.coderd, next.last_id, next.last_token);
        next.proxies.push(Proxy { coderd, id, name: wanted, token, is_ours: true });
        if killed == Killed::Not {
            next.secret = Some(Held { coderd, id, token, rotation: self.rotate.clone() });
        }
        Ok(next)
    }

    /// What one step of the operator makes of the world; none if it does nothing.
    fn step(&self, decide: Decide, is_silent: bool, killed: Killed) -> Result<Option<Self>, String> {
        let mut next = self.clone();
        let rotation = self.rotate.clone();
        match self.decide(decide, is_silent) {
            Step::AddFinalizer | Step::Rest | Step::Wait(_) | Step::Copy(_) | Step::Empty(_) => {
                return Ok(None);
            }
            Step::Record(record, _) => next = Self { record: *record, ..next }.with_proof(),
            Step::Create => next = self.created(killed)?,
            Step::Regenerate(id) => {
                let at = self.find(self.coderd, id).ok_or("a token of nobody was replaced")?;
                if !self.proxies[at].is_ours {
                    return Err("a token of others was replaced".to_owned());
                }
                let is_asked = self.rotate.is_some() && self.rotate != self.record.rotated_for;
                let held =
                    self.secret.as_ref().filter(|held| uuid(held.id) == id && held.coderd == self.coderd);
                if held.is_some_and(|held| self.is_valid(held) && (!is_asked || held.rotation == self.rotate))
                {
                    return Err("a token that works was replaced for nothing".to_owned());
                }
                next.last_token += 1;
                next.proxies[at].token = next.last_token;
                if killed == Killed::Not {
                    let (coderd, id, token) = (self.coderd, self.proxies[at].id, next.last_token);
                    next.secret = Some(Held { coderd, id, token, rotation });
                }
            }
            Step::Update(id) => {
                let at = self.find(self.coderd, id).ok_or("nobody was renamed")?;
                let is_taken = |one: &Proxy| one.coderd == self.coderd && one.name == self.name;
                if self.proxies.iter().any(is_taken) || !self.proxies[at].is_ours {
                    return Err("a name of others was taken".to_owned());
                }
                next.proxies[at].name = self.name;
            }
            Step::Delete(one) => {
                let found = self.proxies.iter().find(|proxy| proxy.is(&one));
                if found.is_some_and(|found| !found.is_ours) {
                    return Err("a proxy of others was deleted".to_owned());
                }
                if found.is_some_and(|found| self.pods == Some((found.coderd, found.id, found.token))) {
                    return Err("a registration that pods use was deleted".to_owned());
                }
                next.proxies.retain(|proxy| !proxy.is(&one));
                if killed == Killed::Not {
                    next.record = self.record.without(&one);
                }
            }
        }
        next.proxies.sort();
        Ok(Some(next))
    }

    /// What a settled world must be.
    fn check_settled(&self) -> Result<(), String> {
        let is_taken =
            self.proxies.iter().any(|one| !one.is_ours && one.coderd == self.coderd && one.name == self.name);
        let ours: Vec<&Proxy> = self.proxies.iter().filter(|one| one.is_ours).collect();
        let works =
            self.secret.as_ref().is_some_and(|held| held.coderd == self.coderd && self.is_valid(held));
        let is_here = ours.iter().all(|one| one.coderd == self.coderd && (one.name == self.name || is_taken));
        match () {
            // Somebody else has the name: what was there before stays.
            () if is_taken && ours.len() <= 1 => Ok(()),
            () if ours.len() != 1 || !is_here => Err(format!("not one registration: {ours:?}")),
            () if !works => Err("the Secret holds no token that works".to_owned()),
            () if self.rotate.is_some() && self.record.rotated_for != self.rotate => {
                Err("the token was not replaced".to_owned())
            }
            () => Ok(()),
        }
    }

    /// Everything else that can happen: by itself, or as a fault or change while the budget lasts.
    fn others(&self) -> Vec<(&'static str, Self, bool)> {
        let mut all = Vec::new();
        let held = self.secret.as_ref().map(|held| (held.coderd, held.id, held.token));
        // Pods are rolled to a token that is proven.
        let is_proven = self.record.pending.is_none() && self.record.current.is_some();
        if is_proven && held.is_some() && self.pods != held {
            all.push(("pods roll", Self { pods: held, ..self.clone() }, true));
        }
        if let Some(faults) = self.faults.checked_sub(1) {
            let poorer = Self { faults, ..self.clone() };
            if self.secret.is_some() {
                all.push((
                    "the Secret is deleted",
                    Self { secret: None, ..poorer.clone() }.without_proof(),
                    false,
                ));
            }
            all.push((
                "status is lost",
                Self { record: Record::default(), ..poorer.clone() }.without_proof(),
                false,
            ));
            for index in 0..self.proxies.len() {
                let mut next = poorer.clone();
                next.proxies.remove(index);
                all.push(("somebody deletes a proxy", next, false));
            }
            let is_attempted = self.record.pending.as_ref().is_some_and(|one| one.attempted);
            let is_free = !self.proxies.iter().any(|one| one.coderd == self.coderd && one.name == self.name);
            if is_free && !is_attempted {
                let mut next = poorer;
                (next.last_id, next.last_token) = (self.last_id + 1, self.last_token + 1);
                let (coderd, id, token) = (self.coderd, next.last_id, next.last_token);
                next.proxies.push(Proxy { coderd, id, name: self.name, token, is_ours: false });
                next.proxies.sort();
                all.push(("somebody takes our name", next, false));
            }
        }
        if let Some(changes) = self.changes.checked_sub(1) {
            let poorer = Self { changes, ..self.clone() };
            all.push(("renamed", Self { name: 1 - self.name, ..poorer.clone() }, false));
            all.push(("moved", Self { coderd: 1 - self.coderd, ..poorer.clone() }.without_proof(), false));
            let value = Some(format!("{changes}"));
            all.push(("rotated", Self { rotate: value, ..poorer }, false));
        }
        all
    }

    /// What the Secret proves, and is recorded, is ours again.
    fn with_proof(mut self) -> Self {
        let (record, secret) = (self.record.clone(), self.secret.clone());
        for proxy in &mut self.proxies {
            let held = secret.as_ref().map(|held| (held.coderd, held.id, held.token));
            let is_held = held == Some((proxy.coderd, proxy.id, proxy.token));
            proxy.is_ours |=
                is_held && record.current.as_ref().is_some_and(|one| one.id == Some(uuid(proxy.id)));
        }
        self
    }

    /// What is neither recorded nor proven by the Secret belongs to nobody from now on.
    fn without_proof(mut self) -> Self {
        let (record, secret, coderd) = (self.record.clone(), self.secret.clone(), self.coderd);
        for proxy in &mut self.proxies {
            let is_recorded = record.registrations().any(|one| {
                coderd_of(one) == proxy.coderd
                    && one.id.map_or(one.attempted && one.name == name(proxy.name), |id| id == uuid(proxy.id))
            });
            let is_proven = secret.as_ref().is_some_and(|held| {
                held.coderd == coderd
                    && (held.coderd, held.id, held.token) == (proxy.coderd, proxy.id, proxy.token)
            });
            proxy.is_ours &= is_recorded || is_proven;
        }
        self
    }
}

/// Explores everything that can be reached; returns how many states there are, or what is broken and how it came to that.
fn explore(start: World, decide: Decide) -> Result<usize, String> {
    let mut ids = HashMap::from([(start.clone(), 0)]);
    let (mut came, mut onward, mut settled) = (vec![(0, "start".to_owned())], vec![Vec::new()], vec![false]);
    let mut queue = vec![(0, start)];
    let told = |came: &[(usize, String)], mut at: usize, broken: &str| {
        let mut way = Vec::new();
        while at != 0 {
            way.push(came[at].1.clone());
            at = came[at].0;
        }
        way.reverse();
        format!("{broken}\n after: {}", way.join("\n        "))
    };
    while let Some((id, world)) = queue.pop() {
        let mut moves = Vec::new();
        for (is_silent, killed) in [(false, Killed::Not), (true, Killed::Not), (false, Killed::AfterEffect)] {
            let is_fault = is_silent || killed != Killed::Not;
            if is_fault && world.faults == 0 {
                continue;
            }
            let by = format!("{:?} silent: {is_silent}, killed: {killed:?}", world.decide(decide, is_silent));
            match world.step(decide, is_silent, killed) {
                Ok(Some(next)) => {
                    let faults = world.faults - u8::from(is_fault);
                    moves.push((by, World { faults, ..next }, !is_fault));
                }
                Ok(None) => {}
                Err(broken) => return Err(told(&came, id, &format!("{broken}, by {by}"))),
            }
        }
        moves
            .extend(world.others().into_iter().map(|(by, next, is_onward)| (by.to_owned(), next, is_onward)));
        settled[id] = !moves.iter().any(|(_, _, is_onward)| *is_onward);
        if settled[id]
            && let Err(broken) = world.check_settled()
        {
            return Err(told(&came, id, &format!("{broken}: {world:?}")));
        }
        for (by, next, is_onward) in moves {
            let known = ids.len();
            let to = *ids.entry(next.clone()).or_insert(known);
            if to == known {
                came.push((id, by));
                onward.push(Vec::new());
                settled.push(false);
                queue.push((to, next));
            }
            if is_onward {
                onward[id].push(to);
            }
        }
    }
    stuck(&onward, settled)
        .map_or(Ok(ids.len()), |at| Err(told(&came, at, "it never comes to rest from here")))
}

/// A state from which nothing leads to rest without another fault.
fn stuck(onward: &[Vec<usize>], mut rests: Vec<bool>) -> Option<usize> {
    let mut before = vec![Vec::new(); onward.len()];
    for (from, all) in onward.iter().enumerate() {
        all.iter().for_each(|to: &usize| before[*to].push(from));
    }
    let mut queue: Vec<usize> = (0..onward.len()).filter(|at| rests[*at]).collect();
    while let Some(at) = queue.pop() {
        for from in &before[at] {
            if !std::mem::replace(&mut rests[*from], true) {
                queue.push(*from);
            }
        }
    }
    rests.iter().position(|rests| !rests)
}

fn starts() -> [(&'static str, World); 4] {
    [
        ("a new object, two faults and a change", World::fresh(2, 1)),
        ("a new object, one fault and two changes", World::fresh(1, 2)),
        ("taken over, two faults and a change", World::taken_over(2, 1)),
        ("taken over, one fault and two changes", World::taken_over(1, 2)),
    ]
}

#[test]
fn no_order_of_events_breaks_an_invariant_or_gets_stuck() {
    let mut states = 0;
    for (what, start) in starts() {
        match explore(start, next) {
            Ok(count) => states += count,
            Err(broken) => panic!("{what}: {broken}"),
        }
    }
    assert!(states >= 1_000, "{states} states are too few to be every order");
}

#[test]
fn the_explorer_finds_what_is_wrong_in_a_step_function_that_is() {
    let wrong: [(&str, Decide); 4] = [
        ("takes silence for a loss", |seen| {
            let lost = Material::Absent;
            let material = if *seen.material == Material::Unproven { &lost } else { seen.material };
            next(&Seen { material, proxies: Some(seen.proxies.unwrap_or_default()), ..seen.clone() })
        }),
        ("deletes before the rollout", |seen| next(&Seen { rolled: true, ..seen.clone() })),
        ("takes over whatever has the name", |seen| match next(seen) {
            Step::Wait(Wait::NameTaken) => {
                let adopt = Some(seen.desired.name.clone());
                next(&Seen { desired: &Desired { adopt, ..seen.desired.clone() }, ..seen.clone() })
            }
            step => step,
        }),
        ("never deletes", |seen| match next(seen) {
            Step::Delete(_) => Step::Rest,
            step => step,
        }),
    ];
    for (what, decide) in wrong {
        assert!(starts().into_iter().any(|(_, start)| explore(start, decide).is_err()), "{what}");
    }
}
