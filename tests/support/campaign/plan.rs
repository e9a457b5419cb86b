//! Decides from recordings of undisturbed runs at which writes an operator is killed.
//! It never runs anything; that a plan was reached at all is for whoever runs it to say.

use crate::fault_proxy::{CrashTiming, Point};
use std::collections::BTreeMap;
use std::fmt;

/// One death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The workload that runs.
    pub workload: &'static str,
    /// The write.
    pub point: Point,
    /// And when, seen from it.
    pub timing: CrashTiming,
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}, {}", self.workload, self.point, self.timing)
    }
}

/// What follows from the recordings of a workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Planned {
    /// What is run.
    pub plans: Vec<Plan>,
    /// Writes that some recordings have and others do not: nobody can rely on them being reached.
    pub left_out: Vec<Point>,
}

/// Three plans for every write that all recordings have.
///
/// How often a status is written depends on how a rollout is seen: two changes of a Deployment that come together cost one
/// write, else two. A point that only some of the recordings have would be a plan that is not reached, through nobody's
/// fault; so that each kind of write is planned up to the smallest number of times that it was seen.
pub fn plans(workload: &'static str, recordings: &[Vec<Point>]) -> Planned {
    let mut seen: BTreeMap<&Point, usize> = BTreeMap::new();
    let mut order: Vec<&Point> = Vec::new();
    for point in recordings.iter().flatten() {
        let times = seen.entry(point).or_default();
        *times += 1;
        if *times == 1 {
            order.push(point);
        }
    }
    let (always, sometimes): (Vec<&Point>, Vec<&Point>) =
        order.into_iter().partition(|point| seen[point] == recordings.len());
    let plan = |point: &Point, timing| Plan { workload, point: point.clone(), timing };
    let plans =
        always.into_iter().flat_map(|point| CrashTiming::ALL.map(|timing| plan(point, timing))).collect();
    Planned { plans, left_out: sometimes.into_iter().cloned().collect() }
}

/// A handful of many: the first and the last, and others as far apart as they can be, one timing after the other.
pub fn representative(plans: Vec<Plan>, count: usize) -> Vec<Plan> {
    let (total, timings) = (plans.len(), CrashTiming::ALL.len());
    if total <= count || count < 2 {
        return plans.into_iter().take(count.max(1)).collect();
    }
    // Plans lie together by the point they are of: the points are chosen, and then a timing of each.
    let at = |number: usize| number * (total / timings - 1) / (count - 1) * timings + number % timings;
    (0..count).map(|number| plans[at(number)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(mutation: &str, occurrence: usize) -> Point {
        Point { mutation: mutation.to_owned(), after: None, occurrence }
    }

    #[test]
    fn each_write_is_planned_three_times_and_only_as_often_as_every_recording_has_it() {
        let first = vec![point("role", 1), point("status", 1), point("status", 2), point("status", 3)];
        let second = vec![point("status", 1), point("role", 1), point("status", 2)];
        let planned = plans("creation", &[first, second]);
        assert_eq!(planned.left_out, [point("status", 3)]);
        assert_eq!(planned.plans.len(), 9);
        assert_eq!(planned.plans[0].to_string(), "creation: role #1, killed before forwarding");
        assert_eq!(planned.plans[8].to_string(), "creation: status #2, killed after the answer");
    }

    #[test]
    fn a_handful_has_the_ends_and_every_way() {
        for points in [3, 4, 8, 9] {
            let recording: Vec<Point> = (1..=points).map(|number| point("status", number)).collect();
            let all = plans("creation", &[recording]).plans;
            for count in [3, 5] {
                let some = representative(all.clone(), count);
                assert_eq!((some.len(), &some[0].point), (count, &all[0].point));
                assert_eq!(some.last().map(|plan| &plan.point), all.last().map(|plan| &plan.point));
                for timing in CrashTiming::ALL {
                    assert!(some.iter().any(|plan| plan.timing == timing), "{timing} of {points} points");
                }
            }
            assert_eq!(representative(all[..2].to_vec(), 5), all[..2]);
        }
    }
}
