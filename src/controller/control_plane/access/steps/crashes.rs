//! A kill after every effect of every step, in memory: whatever was lost, the next passes end with one token that works.
//! The world is what outlives the process: the Secret, the database, the finalizer.

use super::*;
use std::collections::BTreeMap;

const ROLE: Role = Role::Owner;
const FORMER: &str = "former";

/// What outlives a crash.
#[derive(Clone)]
struct World {
    now: Timestamp,
    has_finalizer: bool,
    secret: Option<Record>,
    /// The user in the database, and its tokens with their end.
    user: Option<Uuid>,
    tokens: BTreeMap<String, Timestamp>,
    /// Whether the Secret of the older operator is there; its token is among the tokens.
    former: bool,
}

/// How often something outside was changed; at the limit the process is gone.
struct Fuse {
    left: usize,
    burnt: usize,
}

struct Killed;

impl Fuse {
    /// Before each effect: none more after the kill.
    fn burn(&mut self) -> Result<(), Killed> {
        self.left = self.left.checked_sub(1).ok_or(Killed)?;
        self.burnt += 1;
        Ok(())
    }
}

impl World {
    fn fresh() -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let tokens = BTreeMap::from([(FORMER.to_owned(), now + SignedDuration::from_hours(8760))]);
        Self { now, has_finalizer: false, secret: None, user: None, tokens, former: true }
    }

    fn knows(&self, kept: &Kept) -> bool {
        self.tokens.get(kept.token.id()).is_some_and(|end| *end > self.now)
    }

    fn standing(&self) -> Standing {
        match self.secret.as_ref().and_then(|record| record.current.as_ref()) {
            None => Standing::Unknown,
            Some(current) if self.knows(current) => Standing::Accepted,
            Some(_) => Standing::Rejected,
        }
    }

    fn step(&self) -> Step {
        next(&Seen {
            has_finalizer: self.has_finalizer,
            record: self.secret.as_ref(),
            standing: self.standing(),
            role: ROLE,
            now: self.now,
        })
    }

    /// Passes until nothing is left to do, or the process is killed.
    fn run(&mut self, fuse: &mut Fuse) -> Result<(), Killed> {
        for _ in 0..30 {
            if self.step() == Step::Rest {
                return Ok(());
            }
            self.act(fuse)?;
        }
        panic!("it never comes to rest: {:?}", self.secret)
    }

    fn act(&mut self, fuse: &mut Fuse) -> Result<(), Killed> {
        let step = self.step();
        let before = self.secret.clone();
        let record = match step {
            Step::AddFinalizer => {
                fuse.burn()?;
                self.has_finalizer = true;
                return Ok(());
            }
            Step::Rest => return Ok(()),
            Step::Prepare => {
                assert!(self.has_finalizer, "nothing is made for an object that can vanish");
                let (user, token) = (Uuid::random().unwrap(), NewToken::generate().unwrap());
                Record::prepared(before.as_ref(), user, token)
            }
            Step::Ensure(which) => self.ensure(before.unwrap(), which, fuse)?,
            Step::Prove => match before.as_ref().and_then(|record| record.next.as_ref()) {
                Some(next) if self.knows(next) => before.unwrap().promoted(),
                _ => before.unwrap().doubted(),
            },
            Step::Revoke => {
                fuse.burn()?;
                let id = before.as_ref().unwrap().current.as_ref().unwrap().token.id().to_owned();
                self.tokens.retain(|token, _| *token == id || token == FORMER);
                before.unwrap().revoked()
            }
            Step::ClearFormer => {
                fuse.burn()?;
                self.tokens.remove(FORMER);
                fuse.burn()?;
                self.former = false;
                before.unwrap().cleared()
            }
        };
        fuse.burn()?;
        self.secret = Some(record);
        Ok(())
    }

    fn ensure(&mut self, record: Record, which: Which, fuse: &mut Fuse) -> Result<Record, Killed> {
        let kept = record.kept(which).unwrap();
        fuse.burn()?;
        let user = *self.user.get_or_insert(record.user_id);
        let end = *self.tokens.entry(kept.token.id().to_owned()).or_insert(self.now + LIFETIME);
        Ok(record.ensured(which, user, ROLE, end))
    }

    fn check(&self, context: &str) {
        let record = self.secret.as_ref().unwrap();
        let current = record.current.as_ref().unwrap();
        assert!(self.knows(current), "{context}: the plaintext we have works");
        let live: Vec<&String> = self.tokens.keys().collect();
        assert_eq!(live, [current.token.id()], "{context}: no other token is left");
        assert!(!self.former, "{context}");
        assert_eq!(Some(record.user_id), self.user, "{context}: one user, and we know it");
        assert_eq!(record.role, Some(ROLE), "{context}");
    }
}

/// Runs a story from a world, killed after each number of effects, and lets it go on later.
fn enumerate(world: &World, later: SignedDuration, meanwhile: impl Fn(&mut World)) -> usize {
    let mut fuse = Fuse { left: usize::MAX, burnt: 0 };
    assert!(world.clone().run(&mut fuse).is_ok());
    for kill in 0..=fuse.burnt {
        let mut world = world.clone();
        let _ = world.run(&mut Fuse { left: kill, burnt: 0 });
        world.now += later;
        meanwhile(&mut world);
        assert!(world.run(&mut Fuse { left: usize::MAX, burnt: 0 }).is_ok());
        world.check(&format!("killed after effect {kill}"));
    }
    fuse.burnt
}

fn settled() -> World {
    let mut world = World::fresh();
    assert!(world.run(&mut Fuse { left: usize::MAX, burnt: 0 }).is_ok());
    world
}

#[test]
fn the_first_token_survives_a_kill_anywhere() {
    for hours in [0, 11, 13, 25, 50] {
        let effects = enumerate(&World::fresh(), SignedDuration::from_hours(hours), |_| {});
        assert!(effects >= 9, "{effects} effects are too few to be all of them");
    }
}

#[test]
fn a_renewal_survives_a_kill_anywhere_and_never_leaves_without_a_token() {
    let mut world = settled();
    world.now += SignedDuration::from_hours(12);
    for hours in [0, 5, 13, 30] {
        enumerate(&world, SignedDuration::from_hours(hours), |_| {});
    }
    // While it goes on the token of before works until the new one is proven.
    for _ in 0..10 {
        let record = world.secret.as_ref().unwrap();
        assert!(usable(record, world.standing(), world.now).is_some());
        assert!(world.act(&mut Fuse { left: usize::MAX, burnt: 0 }).is_ok());
    }
    world.check("at the end");
}

#[test]
fn a_lost_secret_and_a_restored_database_are_made_good() {
    enumerate(&World::fresh(), SignedDuration::ZERO, |world| world.secret = None);
    let without_tokens = |world: &mut World| {
        world.tokens.clear();
    };
    enumerate(&World::fresh(), SignedDuration::ZERO, without_tokens);
    let mut world = settled();
    world.now += SignedDuration::from_hours(12);
    enumerate(&world, SignedDuration::ZERO, |world| world.secret = None);
    enumerate(&world, SignedDuration::ZERO, |world| world.tokens.clear());
    enumerate(&world, SignedDuration::ZERO, |world| {
        world.tokens.clear();
        world.user = None;
    });
}
