//! The world that the explorer works on: what outlives the process, what the operator makes of it by the step function, and everything
//! else that can happen to it. Every move says what it breaks.

use super::super::super::others::OfOthers;
use super::super::super::record::Home;
use super::super::super::seen::{Desired, Sight};
use super::super::*;
use super::Decide;
use jiff::Timestamp;

/// A proxy in one of the two coderds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Proxy {
    coderd: u8,
    id: u8,
    name: u8,
    /// Which token of it is valid.
    token: u8,
    is_ours: bool,
    /// Whether it still says that we are making it.
    is_fresh: bool,
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
pub(super) struct World {
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
    pub(super) faults: u8,
    changes: u8,
}

fn uuid(id: u8) -> Uuid {
    format!("00000000-0000-4000-8000-0000000000{id:02x}").parse().unwrap()
}

fn home(coderd: u8) -> Home {
    Home::behind(format!("u{coderd}"), format!("d{coderd}"))
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

/// What a proxy that we are making says.
const ORIGIN: &str = "uid";

/// Where the operator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Killed {
    Not,
    /// After coderd did what it was asked for, before the answer was kept.
    AfterEffect,
}

impl Proxy {
    /// Whether it is the one of a registration: of its id, or as it was asked for.
    fn is(&self, one: &Registration) -> bool {
        let is_it = match one.id {
            Some(id) => uuid(self.id) == id,
            None => self.is_fresh && name(self.name) == one.name && one.attempted,
        };
        is_it && self.coderd == coderd_of(one)
    }
}

impl World {
    pub(super) fn fresh(faults: u8, changes: u8) -> Self {
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
    pub(super) fn taken_over(faults: u8, changes: u8) -> Self {
        let held = Held { coderd: 0, id: 1, token: 1, rotation: None };
        let proxy = Proxy { coderd: 0, id: 1, name: 0, token: 1, is_ours: true, is_fresh: false };
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
            brought: false,
            home: home(self.coderd),
            name: name(self.name),
            display_name: "d".to_owned(),
            icon: "i".to_owned(),
            origin: ORIGIN.to_owned(),
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
            Some(held) => Material::Ended(uuid(held.id)),
        }
    }

    fn find(&self, coderd: u8, id: Uuid) -> Option<usize> {
        self.proxies.iter().position(|one| one.coderd == coderd && uuid(one.id) == id)
    }

    fn sight(&self, one: &Registration) -> Sight {
        if self.proxies.iter().any(|proxy| proxy.is(one)) { Sight::There } else { Sight::Absent }
    }

    pub(super) fn decide(&self, decide: Decide, is_silent: bool) -> Step {
        let (desired, material, of_others) = (self.desired(), self.material(), OfOthers::default());
        let proxies: Vec<ProxyFacts> = self
            .proxies
            .iter()
            .filter(|one| one.coderd == self.coderd)
            .map(|one| ProxyFacts {
                id: uuid(one.id),
                name: name(one.name),
                display_name: "d".to_owned(),
                icon: if one.is_fresh { format!("i#{ORIGIN}") } else { "i".to_owned() },
            })
            .collect();
        let retiring: Vec<Sight> = self.record.retiring.iter().map(|one| self.sight(one)).collect();
        let pending = self.record.pending.as_ref().filter(|one| coderd_of(one) != self.coderd);
        let pending_elsewhere = pending.map(|one| self.sight(one));
        let held = self.secret.as_ref().map(|held| (held.coderd, held.id, held.token));
        let silent = Material::Unproven;
        let is_shown = matches!(material, Material::Is(..) | Material::Ended(_));
        decide(&Seen {
            has_finalizer: true,
            desired: &desired,
            record: &self.record,
            material: if is_silent && is_shown { &silent } else { &material },
            is_immutable: false,
            is_proven_here: false,
            former: None,
            proxies: if is_silent { None } else { Some(&proxies) },
            retiring: &retiring,
            pending_elsewhere: pending_elsewhere.as_ref(),
            rolled: held.is_some() && self.pods == held,
            may_roll: true,
            admission_disabled: false,
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
            next.record = next.record.unattempted(self.record.pending.clone());
            return Ok(next);
        }
        (next.last_id, next.last_token) = (self.last_id + 1, self.last_token + 1);
        let (coderd, id, token) = (self.coderd, next.last_id, next.last_token);
        next.proxies.push(Proxy { coderd, id, name: wanted, token, is_ours: true, is_fresh: true });
        if killed == Killed::Not {
            next.secret = Some(Held { coderd, id, token, rotation: self.rotate.clone() });
        }
        Ok(next)
    }

    /// What one step of the operator makes of the world; none if it does nothing.
    pub(super) fn step(
        &self,
        decide: Decide,
        is_silent: bool,
        killed: Killed,
    ) -> Result<Option<Self>, String> {
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
                (next.proxies[at].token, next.proxies[at].is_fresh) = (next.last_token, false);
                if killed == Killed::Not {
                    let (coderd, id, token) = (self.coderd, self.proxies[at].id, next.last_token);
                    next.secret = Some(Held { coderd, id, token, rotation });
                }
            }
            Step::Update(id) => {
                let at = self.find(self.coderd, id).ok_or("nobody was renamed")?;
                let is_taken =
                    |one: &Proxy| one.coderd == self.coderd && one.name == self.name && uuid(one.id) != id;
                if self.proxies.iter().any(is_taken) || !self.proxies[at].is_ours {
                    return Err("a name of others was taken".to_owned());
                }
                (next.proxies[at].name, next.proxies[at].is_fresh) = (self.name, false);
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

    pub(super) fn with_faults(self, faults: u8) -> Self {
        Self { faults, ..self }
    }

    /// What a settled world must be.
    pub(super) fn check_settled(&self) -> Result<(), String> {
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
            () if ours.iter().any(|one| one.is_fresh) => Err("it still says who makes it".to_owned()),
            () if !works => Err("the Secret holds no token that works".to_owned()),
            () if self.rotate.is_some() && self.record.rotated_for != self.rotate => {
                Err("the token was not replaced".to_owned())
            }
            () => Ok(()),
        }
    }

    /// Everything else that can happen: by itself, or as a fault or change while the budget lasts.
    pub(super) fn others(&self) -> Vec<(&'static str, Self, bool)> {
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
            let is_free = !self.proxies.iter().any(|one| one.coderd == self.coderd && one.name == self.name);
            for index in 0..self.proxies.len() {
                let mut next = poorer.clone();
                (next.last_token, next.proxies[index].token) = (self.last_token + 1, self.last_token + 1);
                all.push(("somebody replaces a token", next.without_proof(), false));
            }
            if is_free {
                let mut next = poorer;
                (next.last_id, next.last_token) = (self.last_id + 1, self.last_token + 1);
                let (coderd, id, token) = (self.coderd, next.last_id, next.last_token);
                next.proxies.push(Proxy {
                    coderd,
                    id,
                    name: self.name,
                    token,
                    is_ours: false,
                    is_fresh: false,
                });
                next.proxies.sort();
                all.push(("somebody takes our name", next, false));
            }
        }
        if let Some(changes) = self.changes.checked_sub(1) {
            let poorer = Self { changes, ..self.clone() };
            all.push(("renamed", Self { name: 1 - self.name, ..poorer.clone() }.without_proof(), false));
            all.push(("moved", Self { coderd: 1 - self.coderd, ..poorer.clone() }.without_proof(), false));
            let value = Some(format!("{changes}"));
            all.push(("rotated", Self { rotate: value, ..poorer }, false));
        }
        all
    }

    /// What the Secret proves, or it says itself, and is recorded, is ours again.
    fn with_proof(mut self) -> Self {
        let (record, secret) = (self.record.clone(), self.secret.clone());
        for proxy in &mut self.proxies {
            let held = secret.as_ref().map(|held| (held.coderd, held.id, held.token));
            let is_held = held == Some((proxy.coderd, proxy.id, proxy.token));
            let is_it = |one: &Registration| one.id == Some(uuid(proxy.id)) && coderd_of(one) == proxy.coderd;
            let is_made = proxy.is_fresh && record.registrations().any(is_it);
            proxy.is_ours |= is_made || is_held && record.current.as_ref().is_some_and(is_it);
        }
        self
    }

    /// What is neither recorded, nor proven by the Secret or by what it says itself under the name that is asked for, belongs to
    /// nobody from now on.
    fn without_proof(mut self) -> Self {
        let (record, secret, coderd) = (self.record.clone(), self.secret.clone(), self.coderd);
        let name = self.name;
        for proxy in &mut self.proxies {
            let is_recorded = record.registrations().any(|one| {
                coderd_of(one) == proxy.coderd && one.id.map_or(proxy.is(one), |id| id == uuid(proxy.id))
            });
            let is_proven = secret.as_ref().is_some_and(|held| {
                held.coderd == coderd
                    && (held.coderd, held.id, held.token) == (proxy.coderd, proxy.id, proxy.token)
            });
            let is_asked_for = proxy.coderd == coderd && proxy.name == name;
            proxy.is_ours &= is_recorded || is_asked_for && (is_proven || proxy.is_fresh);
        }
        self
    }
}
