//! Every order in which the operator, the cluster, coderd and people can act on the keys of one provisioner, with up to two
//! faults among them: no order breaks an invariant, and from each state the undisturbed rest leads to one proven key.
//!
//! The world is what outlives the process. States are counted by hash, each once whatever they were reached from; the operator is
//! the step function itself.

mod moves;
mod operator;
mod world;

use super::super::ending::{self, EndStep, Ending};
use super::*;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;
use world::{Budget, World};

/// Decides; a wrong one is tried as well.
type Decide = fn(&Seen<'_>) -> Step;

/// What an exploration found.
struct Explored {
    /// Every state, by its hash.
    states: HashSet<u64>,
    /// The first broken invariant, and the moves that lead to it.
    broken: Option<String>,
}

/// A state that was reached: how, and what it leads to by itself.
struct Node {
    parent: usize,
    by: String,
    /// The states that are reached without another fault.
    onward: Vec<usize>,
    is_settled: bool,
}

/// Explores everything that can be reached from a world.
fn explore(start: World, decide: Decide) -> Explored {
    let mut ids: HashMap<World, usize> = HashMap::new();
    let mut nodes = vec![Node { parent: 0, by: "start".to_owned(), onward: Vec::new(), is_settled: false }];
    ids.insert(start.clone(), 0);
    let mut states = HashSet::from([hash(&start)]);
    let mut queue = vec![(0, start)];
    while let Some((id, world)) = queue.pop() {
        let moves = moves::all(&world, decide);
        nodes[id].is_settled = !moves.iter().any(|one| one.is_onward);
        if nodes[id].is_settled
            && let Err(broken) = world.check_settled()
        {
            return Explored { states, broken: Some(told(&nodes, id, &broken)) };
        }
        for one in moves {
            let next = match one.world {
                Ok(next) => next,
                Err(broken) => {
                    let broken = format!("{broken}, by: {}", one.by);
                    return Explored { states, broken: Some(told(&nodes, id, &broken)) };
                }
            };
            let known = nodes.len();
            let to = *ids.entry(next.clone()).or_insert(known);
            if to == known {
                nodes.push(Node { parent: id, by: one.by, onward: Vec::new(), is_settled: false });
                states.insert(hash(&next));
                queue.push((to, next));
            }
            if one.is_onward {
                nodes[id].onward.push(to);
            }
        }
    }
    let broken = stuck(&nodes).map(|id| told(&nodes, id, "it never comes to rest from here"));
    Explored { states, broken }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A state from which nothing leads to rest without another fault.
fn stuck(nodes: &[Node]) -> Option<usize> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        node.onward.iter().for_each(|to| before[*to].push(id));
    }
    let mut rests: Vec<bool> = nodes.iter().map(|node| node.is_settled).collect();
    let mut queue: Vec<usize> = (0..nodes.len()).filter(|id| rests[*id]).collect();
    while let Some(id) = queue.pop() {
        for from in &before[id] {
            if !std::mem::replace(&mut rests[*from], true) {
                queue.push(*from);
            }
        }
    }
    rests.iter().position(|rests| !rests)
}

/// What is broken, and the way there.
fn told(nodes: &[Node], id: usize, broken: &str) -> String {
    let (mut way, mut at) = (Vec::new(), id);
    while at != 0 {
        way.push(nodes[at].by.clone());
        at = nodes[at].parent;
    }
    way.reverse();
    format!("{broken}\n  after: {}", way.join("\n         "))
}

/// The worlds an exploration begins with, and what may happen in each.
fn starts() -> Vec<(&'static str, World)> {
    let fresh = |faults, changes| World::fresh(Budget { faults, changes });
    let taken_over = |faults, changes| World::of_the_older_operator(Budget { faults, changes });
    vec![
        ("a new object, two faults", fresh(2, 0)),
        ("a new object, one change and one fault", fresh(1, 1)),
        ("taken over, two faults", taken_over(2, 0)),
        ("taken over, one change and two faults", taken_over(2, 1)),
        ("taken over, two changes and one fault", taken_over(1, 2)),
    ]
}

#[test]
fn no_order_of_events_with_two_faults_breaks_an_invariant_or_gets_stuck() {
    let (mut all, began) = (HashSet::new(), Instant::now());
    for (name, start) in starts() {
        let Explored { states, broken } = explore(start, next);
        println!("{name}: {} states", states.len());
        assert_eq!(broken, None, "{name}");
        all.extend(states);
    }
    println!("{} distinct states in {:.1} s", all.len(), began.elapsed().as_secs_f64());
    assert!(all.len() >= 100_000, "{} states are too few to be every order", all.len());
}

#[test]
fn the_explorer_finds_what_is_wrong_in_a_step_function_that_is() {
    let wrong: [(&str, Decide, &str); 5] = [
        (
            "deletes before the rollout",
            |seen| next(&Seen { rolled: true, ..seen.clone() }),
            "in use was deleted",
        ),
        ("forgets what it was about to make", forgetful, "in coderd"),
        ("takes silence for a loss", hasty, ""),
        ("trusts a name", trusting, "of others was deleted"),
        ("never deletes", idle, ""),
    ];
    for (name, decide, expected) in wrong {
        let found = starts().into_iter().find_map(|(_, start)| explore(start, decide).broken);
        let found = found.unwrap_or_else(|| panic!("{name}: nothing was found"));
        assert!(found.contains(expected), "{name}: {found}");
    }
}

/// Records nothing of a key whose answer was lost.
fn forgetful(seen: &Seen<'_>) -> Step {
    match next(seen) {
        Step::Record(record, left)
            if seen.record.pending.is_some()
                && record.pending.is_none()
                && record.current == seen.record.current =>
        {
            Step::Record(Box::new(Record { retiring: seen.record.retiring.clone(), ..*record }), left)
        }
        step => step,
    }
}

/// Takes an answer that did not come for a "no".
fn hasty(seen: &Seen<'_>) -> Step {
    let is_unproven = seen.materials.iter().any(|(_, material)| *material == Material::Unproven);
    next(&Seen { materials: if is_unproven { &[] } else { seen.materials }, ..seen.clone() })
}

/// Takes every key of our name for ours.
fn trusting(seen: &Seen<'_>) -> Step {
    let taken = |name: &str| seen.listed.and_then(|listed| find(listed, name)).cloned();
    match next(seen) {
        Step::Record(record, left) if !left.is_empty() => match &left[0] {
            Left::Taken(name) if !seen.record.keys().any(|key| key.name == *name) => {
                let found = taken(name).expect("it is listed");
                let key = Key { id: Some(found.facts.id), used: false, ..seen.key(name, 0) };
                Step::record(Record { retiring: vec![key], ..*record })
            }
            _ => Step::Record(record, left),
        },
        step => step,
    }
}

/// Never deletes.
fn idle(seen: &Seen<'_>) -> Step {
    match next(seen) {
        Step::Delete(_) => Step::Rest,
        step => step,
    }
}
