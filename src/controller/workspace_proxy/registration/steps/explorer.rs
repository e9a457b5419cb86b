//! Every order in which the operator, coderd, the cluster and people can act on the registration of one proxy, with up to two faults
//! and changes among them: no order registers twice, regenerates needlessly or touches a proxy of others, and from each state the
//! undisturbed rest leads to one registration whose token is in the Secret.

mod world;

use super::super::seen::Desired;
use super::*;
use std::collections::HashMap;
use world::{Killed, World};

/// Decides; a wrong one is tried as well.
type Decide = fn(&Seen<'_>) -> Step;

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
                    moves.push((by, next.with_faults(faults), !is_fault));
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
