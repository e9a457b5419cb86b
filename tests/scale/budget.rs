//! The requests that control planes, provisioners and workspace proxies may cost, as `tests/budget.yaml` lists them, and what a run of control
//! planes really cost. A request that is not listed breaks the budget, and so does a row that nothing uses: the file says what is true.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use support::Fleet;
use support::audit::Request;
use support::installation::repository;

/// By `verb resource`, or by the route of a call.
pub type Rows<T> = BTreeMap<String, T>;

/// What is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    writes: Rows<usize>,
    writes_in_all: usize,
    reads: Rows<f64>,
    events: Rows<f64>,
    start: Rows<usize>,
    /// The same for a provisioner.
    pub provisioners: AttachedBudget,
    /// The same for a workspace proxy.
    pub workspace_proxies: AttachedBudget,
}

/// What is allowed for an object that is attached to a control plane.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachedBudget {
    pub writes: Rows<f64>,
    pub writes_in_all: usize,
    pub reads: Rows<f64>,
    pub events: Rows<f64>,
    pub calls: Rows<f64>,
    pub recheck_reads: Rows<f64>,
    pub recheck_calls: Rows<f64>,
}

/// What was asked.
#[derive(Debug, Default)]
pub struct Counted {
    /// Writes for the one control plane that took most of this sort.
    writes: Rows<usize>,
    /// Writes of all sorts for the one control plane that took most.
    writes_in_all: usize,
    /// Reads for a control plane, on average.
    reads: Rows<f64>,
    /// Events in the namespaces of the control planes, on average.
    events: Rows<f64>,
    /// What is for no control plane in particular.
    start: Rows<usize>,
}

impl Counted {
    /// Sorts requests by whom they were for. Leases are left out: they follow the clock, not the control planes.
    pub fn of(requests: &[Request], fleet: &Fleet) -> Self {
        let mut counted = Self::default();
        let mut writes: BTreeMap<&str, Rows<usize>> = BTreeMap::new();
        let share = 1.0 / fleet.members.len() as f64;
        for request in requests.iter().filter(|request| request.resource != "leases") {
            let is_for = |name: &String| request.name == *name || request.uri.contains(name.as_str());
            let member = fleet.members.iter().find(|(_, name)| is_for(name));
            let at_home = || fleet.members.iter().any(|(namespace, _)| *namespace == request.namespace);
            match member {
                // An Event that is created has no name yet, so its namespace tells.
                _ if request.resource == "events" && at_home() => {
                    *counted.events.entry(request.sort()).or_default() += share;
                }
                // Whether admission is disabled where it is.
                None if request.sort() == "get namespaces" && at_home() => {
                    *counted.reads.entry(request.sort()).or_default() += share;
                }
                Some(_) if request.is_read() => *counted.reads.entry(request.sort()).or_default() += share,
                Some((_, name)) => *writes.entry(name).or_default().entry(request.sort()).or_default() += 1,
                None => *counted.start.entry(request.sort()).or_default() += 1,
            }
        }
        for of_one in writes.values() {
            counted.writes_in_all = counted.writes_in_all.max(of_one.values().sum());
            for (sort, count) in of_one {
                let most = counted.writes.entry(sort.clone()).or_default();
                *most = (*most).max(*count);
            }
        }
        counted
    }
}

impl Budget {
    /// The file.
    pub fn read() -> Self {
        let text =
            std::fs::read_to_string(repository().join("tests/budget.yaml")).expect("the budget exists");
        serde_saphyr::from_str(&text).expect("the budget can be read")
    }

    /// Everything in which a run differs from what is allowed, a line each.
    pub fn broken_by(&self, counted: &Counted) -> Vec<String> {
        let whole =
            |rows: &Rows<usize>| rows.iter().map(|(sort, count)| (sort.clone(), *count as f64)).collect();
        let mut broken = Vec::new();
        if counted.writes_in_all > self.writes_in_all {
            broken
                .push(format!("{} writes in all, allowed are {}", counted.writes_in_all, self.writes_in_all));
        }
        for (part, allowed, used) in [
            ("writes", whole(&self.writes), whole(&counted.writes)),
            ("reads", self.reads.clone(), counted.reads.clone()),
            ("events", self.events.clone(), counted.events.clone()),
            ("start", whole(&self.start), whole(&counted.start)),
        ] {
            broken.extend(differences(part, &allowed, &used));
        }
        broken
    }
}

/// Everything in which the rows of a part differ from what is allowed, a line each.
pub fn differences(part: &str, allowed: &Rows<f64>, used: &Rows<f64>) -> Vec<String> {
    let unused = allowed.keys().filter(|sort| !used.contains_key(*sort));
    let unused = unused.map(|sort| format!("{part}: nothing uses `{sort}`; remove the row"));
    let above = used.iter().filter_map(|(sort, used)| match allowed.get(sort) {
        None => Some(format!("{part}: `{sort}` is not listed and was asked {used:.2} times")),
        Some(most) if used > most => {
            Some(format!("{part}: `{sort}` was asked {used:.2} times, allowed are {most}"))
        }
        Some(_) => None,
    });
    unused.chain(above).collect()
}

impl fmt::Display for Counted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "writes_in_all: {}", self.writes_in_all)?;
        for (part, rows) in [("writes", &self.writes), ("start", &self.start)] {
            writeln!(out, "{part}:")?;
            rows.iter().try_for_each(|(sort, count)| writeln!(out, "  {sort}: {count}"))?;
        }
        for (part, rows) in [("reads", &self.reads), ("events", &self.events)] {
            writeln!(out, "{part}:")?;
            rows.iter().try_for_each(|(sort, count)| writeln!(out, "  {sort}: {count:.2}"))?;
        }
        Ok(())
    }
}

#[test]
fn above_the_budget_beside_it_and_below_it_are_told_apart() {
    let rows = |rows: &[(&str, f64)]| rows.iter().map(|(sort, count)| ((*sort).to_owned(), *count)).collect();
    let allowed: Rows<f64> = rows(&[("get a", 2.0), ("get b", 1.0), ("get c", 1.0)]);
    let used: Rows<f64> = rows(&[("get a", 2.5), ("get b", 1.0), ("get d", 1.0)]);
    assert_eq!(
        differences("reads", &allowed, &used),
        [
            "reads: nothing uses `get c`; remove the row",
            "reads: `get a` was asked 2.50 times, allowed are 2",
            "reads: `get d` is not listed and was asked 1.00 times",
        ]
    );
}
